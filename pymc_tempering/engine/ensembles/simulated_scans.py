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
    TARGET_MOVE,
    Bias,
    Pair,
    PairLog,
    exchange,
    move,
    visit_reference,
)
from pymc_tempering.engine.ensembles.swap import swap_probability
from pymc_tempering.engine.explorers.adaptation import Adaptation
from pymc_tempering.engine.move import Explorer
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas, draw_from_reference
from pymc_tempering.engine.tally import count_reference_draw
from pymc_tempering.jit import compiled

__all__ = ["LEVEL_UPDATES", "simulated_scans"]

LEVEL_UPDATES = ("independent", "neighbour")
"""How the level is drawn given the position."""

_INDEPENDENT = 0


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
    """Run as many scans as the log has entries, in place.

    Parameters
    ----------
    path : Path
    explorer : Explorer
    bias : Bias
        With the levels; minus the bias are the log level weights.
    pair : Pair
    replicas : Replicas
        Three.
    adaptation : Adaptation
        By level; the scale of level 0 is not used.
    log : PairLog
    rng : numpy.random.Generator
    """
    betas, log_level_weights = bias.betas, -bias.bias
    holder, level, delta, sums = pair.holder, pair.level, replicas.delta, log.sums
    last = betas.shape[0] - 1
    log_masses = np.empty(betas.shape[0])
    for scan in range(log.delta.shape[0]):
        z, y, k = holder[0], holder[1], level[0]
        log.visits[k] += 1
        if k == 0:
            bad_gradient = draw_from_reference(path, replicas, z, log.reference_draws[scan], rng)
            count_reference_draw(log.counts, delta[z], bad_gradient)
            visit_reference(pair, z, log.counts)
            log.acceptance_sums[0] += 1.0
        else:
            at_level = (betas[k], adaptation.scales[k], k)
            log.acceptance_sums[k] += move(
                path, explorer, at_level, replicas, z, adaptation, log.counts, rng
            )
        at_target = (1.0, adaptation.scales[last], last)
        sums[TARGET_MOVE] += move(
            path, explorer, at_target, replicas, y, adaptation, log.counts, rng
        )

        if pair.level_update == _INDEPENDENT:
            target_total = level_masses(delta[y], betas, log_level_weights, log_masses)
            total = level_masses(delta[z], betas, log_level_weights, log_masses)
            probability = exchange_probability(delta[z], total, delta[y], target_total)
        else:
            probability = swap_probability(1.0 - betas[k], delta[z], delta[y])
        sums[EXCHANGE] += probability
        if rng.random() < probability:
            exchange(pair, log.counts)

        z = holder[0]
        total = level_masses(delta[z], betas, log_level_weights, log_masses)
        if pair.level_update == _INDEPENDENT:
            level[0] = draw_level(log_masses, total, rng)
        else:
            level[0] = neighbour_level(k, log_masses, rng)
        log.delta[scan] = delta[z]
        log.target_delta[scan] = delta[holder[1]]
        log.level[scan] = level[0]
