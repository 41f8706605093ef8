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
    TARGET_MOVE,
    Bias,
    Pair,
    PairLog,
    exchange,
    move,
    scale_at,
    visit_reference,
)
from pymc_tempering.engine.explorers.adaptation import Adaptation
from pymc_tempering.engine.move import Explorer
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas, draw_from_reference
from pymc_tempering.engine.tally import count_reference_draw
from pymc_tempering.jit import compiled

__all__ = ["continuous_scans"]


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
    """Run as many scans as the log has entries, in place.

    Parameters
    ----------
    path : Path
    explorer : Explorer
    bias : Bias
        With the knots of c.
    pair : Pair
    replicas : Replicas
        Three.
    adaptation : Adaptation
        By grid point; scales are log-linear between them.
    log : PairLog
    rng : numpy.random.Generator
    """
    knots, c, grid = bias.betas, bias.bias, bias.grid
    holder, beta, delta, sums = pair.holder, pair.beta, replicas.delta, log.sums
    last = grid.shape[0] - 1
    log_masses = np.empty(knots.shape[0] - 1)
    for scan in range(log.delta.shape[0]):
        z, y, spare = holder[0], holder[1], holder[2]
        scale, nearest = scale_at(beta[0], grid, adaptation.scales)
        sums[MOVE] += move(
            path, explorer, (beta[0], scale, nearest), replicas, z, adaptation, log.counts, rng
        )
        at_target = (1.0, adaptation.scales[last], last)
        sums[TARGET_MOVE] += move(
            path, explorer, at_target, replicas, y, adaptation, log.counts, rng
        )

        target_total = piece_masses(delta[y], knots, c, log_masses)
        total = piece_masses(delta[z], knots, c, log_masses)
        probability = exchange_probability(delta[z], total, delta[y], target_total)
        sums[EXCHANGE] += probability
        if rng.random() < probability:
            exchange(pair, log.counts)
            total = target_total

        bad_gradient = draw_from_reference(path, replicas, spare, log.reference_draws[scan], rng)
        count_reference_draw(log.counts, delta[spare], bad_gradient)
        log_ratio = piece_masses(delta[spare], knots, c, log_masses) - total
        probability = 1.0 if log_ratio >= 0.0 else np.exp(log_ratio)
        sums[REFERENCE_DRAW] += probability
        if rng.random() < probability:
            holder[0], holder[2] = spare, holder[0]
            pair.last_end[spare] = pair.last_end[holder[2]]
            visit_reference(pair, spare, log.counts)

        z = holder[0]
        total = piece_masses(delta[z], knots, c, log_masses)
        beta[0] = draw_beta(delta[z], knots, c, log_masses, total, rng)
        if beta[0] < grid[1]:
            visit_reference(pair, z, log.counts)
        log.delta[scan] = delta[z]
        log.target_delta[scan] = delta[holder[1]]
        log.beta[scan] = beta[0]
