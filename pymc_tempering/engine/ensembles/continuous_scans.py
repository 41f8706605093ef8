"""Whole scans of Gibbs continuous tempering with a coupled target replica.

One scan is the composite

1. z given beta, by one Hamiltonian transition;
2. y at beta = 1, by another;
3. exchange z and y with probability ``min(1, w(z) / w(y))``, ``w = p(beta = 1 | .)``;
4. replace z by a draw z' from the base with probability ``min(1, N(delta(z')) / N(delta(z)))``;
5. beta given z, drawn exactly.

Steps 3 and 4 are moves with beta integrated out, so 5 has to follow them at once, accepted or not.
"""

import numpy as np

from pymc_tempering.engine.ensembles.beta import draw_beta, exchange_probability, piece_masses
from pymc_tempering.engine.ensembles.pair_moves import (
    EXCHANGE,
    MOVE,
    REFERENCE_DRAW,
    Bias,
    Pair,
    PairLog,
    exchange,
    move,
    move_target,
    scale_at,
    visit_reference,
)
from pymc_tempering.engine.explorers.adaptation import Adaptation
from pymc_tempering.engine.move import Explorer
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas, draw_from_reference
from pymc_tempering.engine.tally import count_reference_draw
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

__all__ = ["continuous_scans", "exchange_marginally", "redraw_beta", "try_reference"]


@compiled
def exchange_marginally(
    bias: Bias,
    pair: Pair,
    delta: FloatArray,
    log_masses: FloatArray,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Exchange z and y with beta integrated out, or leave them."""
    z, y = pair.holder[0], pair.holder[1]
    target_total = piece_masses(delta[y], bias.betas, bias.bias, log_masses)
    total = piece_masses(delta[z], bias.betas, bias.bias, log_masses)
    probability = exchange_probability(delta[z], total, delta[y], target_total)
    log.sums[EXCHANGE] += probability
    if rng.random() < probability:
        exchange(pair, log.counts[0])


@compiled
def try_reference(
    path: Path,
    bias: Bias,
    pair: Pair,
    replicas: Replicas,
    draw: FloatArray,
    log_masses: FloatArray,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Replace z by a draw from the reference, or leave it."""
    holder, delta = pair.holder, replicas.delta
    spare = holder[2]
    bad_gradient = draw_from_reference(path, replicas, spare, draw, rng)
    count_reference_draw(log.counts[0], delta[spare], bad_gradient)
    total = piece_masses(delta[holder[0]], bias.betas, bias.bias, log_masses)
    log_ratio = piece_masses(delta[spare], bias.betas, bias.bias, log_masses) - total
    probability = 1.0 if log_ratio >= 0.0 else np.exp(log_ratio)
    log.sums[REFERENCE_DRAW] += probability
    if rng.random() < probability:
        holder[0], holder[2] = spare, holder[0]
        pair.last_end[spare] = pair.last_end[holder[2]]
        visit_reference(pair, spare, log.counts[0])


@compiled
def redraw_beta(
    bias: Bias,
    pair: Pair,
    delta: FloatArray,
    log_masses: FloatArray,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Draw beta given z exactly; below the first grid point z counts as at the reference."""
    z = pair.holder[0]
    total = piece_masses(delta[z], bias.betas, bias.bias, log_masses)
    pair.beta[0] = draw_beta(delta[z], bias.betas, bias.bias, log_masses, total, rng)
    if pair.beta[0] < bias.grid[1]:
        visit_reference(pair, z, log.counts[0])


@compiled
def continuous_scans(
    path: Path,
    explorer: Explorer,
    bias: Bias,
    pair: Pair,
    replicas: Replicas,
    adaptation: Adaptation,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Run as many scans as the log has entries, in place, with three replicas.

    Scales adapt by grid point and are log-linear between them.
    """
    grid, delta = bias.grid, replicas.delta
    holder, beta = pair.holder, pair.beta
    log_masses = np.empty(bias.betas.shape[0] - 1)
    for scan in range(log.delta.shape[0]):
        scale, nearest = scale_at(beta[0], grid, adaptation.scales)
        at_beta = (beta[0], scale, nearest)
        log.sums[MOVE] += move(
            path, explorer, at_beta, replicas, holder[0], adaptation, log.counts, rng
        )
        move_target(path, explorer, pair, replicas, adaptation, log, rng)
        exchange_marginally(bias, pair, delta, log_masses, log, rng)
        try_reference(path, bias, pair, replicas, log.reference_draws[scan], log_masses, log, rng)
        redraw_beta(bias, pair, delta, log_masses, log, rng)
        log.delta[scan] = delta[holder[0]]
        log.target_delta[scan] = delta[holder[1]]
        log.beta[scan] = beta[0]
