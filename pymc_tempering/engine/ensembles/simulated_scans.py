"""Whole scans of simulated tempering with a coupled target replica.

One scan is the composite

1. z given its level: an independent draw at the base, one Hamiltonian transition elsewhere;
2. y at beta = 1, by another transition;
3. an exchange of z and y;
4. the level given z.

With independent draws of the level, 3 is made with the level integrated out, so 4 has to follow at
once, accepted or not. A step to a neighbouring level is no draw from the conditional, so there the
exchange is made given the level, as between two replicas of parallel tempering.
"""

import numpy as np

from pymc_tempering.engine.ensembles.beta import (
    draw_level,
    exchange_probability,
    level_masses,
    neighbour_level,
)
from pymc_tempering.engine.ensembles.pair_moves import (
    EXCHANGE,
    Bias,
    Pair,
    PairLog,
    exchange,
    move,
    move_target,
    visit_reference,
)
from pymc_tempering.engine.ensembles.swap import swap_probability
from pymc_tempering.engine.explorers.adaptation import Adaptation
from pymc_tempering.engine.move import Explorer
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas, draw_from_reference
from pymc_tempering.engine.tally import count_reference_draw
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

__all__ = ["LEVEL_UPDATES", "exchange_at_levels", "redraw_level", "simulated_scans"]

LEVEL_UPDATES = ("independent", "neighbour")
"""How the level is drawn given the position."""

_INDEPENDENT = 0


@compiled
def exchange_at_levels(
    betas: FloatArray,
    log_level_weights: FloatArray,
    pair: Pair,
    delta: FloatArray,
    log_masses: FloatArray,
    log: PairLog,
    rng: np.random.Generator,
) -> None:
    """Exchange z and y or leave them: with the level integrated out, or given the level."""
    z, y = pair.holder[0], pair.holder[1]
    if pair.level_update == _INDEPENDENT:
        target_total = level_masses(delta[y], betas, log_level_weights, log_masses)
        total = level_masses(delta[z], betas, log_level_weights, log_masses)
        probability = exchange_probability(delta[z], total, delta[y], target_total)
    else:
        probability = swap_probability(1.0 - betas[pair.level[0]], delta[z], delta[y])
    log.sums[EXCHANGE] += probability
    if rng.random() < probability:
        exchange(pair, log.counts[0])


@compiled
def redraw_level(
    betas: FloatArray,
    log_level_weights: FloatArray,
    pair: Pair,
    delta: FloatArray,
    log_masses: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Draw the level given z, or step to a neighbouring one."""
    total = level_masses(delta[pair.holder[0]], betas, log_level_weights, log_masses)
    if pair.level_update == _INDEPENDENT:
        pair.level[0] = draw_level(log_masses, total, rng)
    else:
        pair.level[0] = neighbour_level(pair.level[0], log_masses, rng)


@compiled
def simulated_scans(
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

    Minus the bias are the log level weights; the scale of level 0 is not used.
    """
    betas, log_level_weights = bias.betas, -bias.bias
    holder, level, delta = pair.holder, pair.level, replicas.delta
    log_masses = np.empty(betas.shape[0])
    for scan in range(log.delta.shape[0]):
        z, k = holder[0], level[0]
        log.visits[k] += 1
        if k == 0:
            bad_gradient = draw_from_reference(path, replicas, z, log.reference_draws[scan], rng)
            count_reference_draw(log.counts[0], delta[z], bad_gradient)
            visit_reference(pair, z, log.counts[0])
            log.acceptance_sums[0] += 1.0
        else:
            at_level = (betas[k], adaptation.scales[k], k)
            log.acceptance_sums[k] += move(
                path, explorer, at_level, replicas, z, adaptation, log.counts, rng
            )
        move_target(path, explorer, pair, replicas, adaptation, log, rng)
        exchange_at_levels(betas, log_level_weights, pair, delta, log_masses, log, rng)
        redraw_level(betas, log_level_weights, pair, delta, log_masses, rng)
        log.delta[scan] = delta[holder[0]]
        log.target_delta[scan] = delta[holder[1]]
        log.level[scan] = level[0]
