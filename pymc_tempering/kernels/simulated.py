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

from pymc_tempering.jit import compiled
from pymc_tempering.kernels.beta import (
    draw_level,
    exchange_probability,
    level_masses,
    neighbour_level,
)
from pymc_tempering.kernels.coupled import (
    adapt_step_size,
    draw_from_base,
    exchange,
    move,
    visit_base,
)
from pymc_tempering.kernels.density import TargetInBase
from pymc_tempering.kernels.swap import swap_probability
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["LEVEL_UPDATES", "simulated_scans"]

LEVEL_UPDATES = ("independent", "neighbour")
"""How the level is drawn given the position."""

_INDEPENDENT = 0


@compiled
def simulated_scans(
    target: TargetInBase,
    betas: FloatArray,
    log_level_weights: FloatArray,
    step_sizes: FloatArray,
    trajectory_length: float,
    max_steps: int,
    level_update: int,
    u: FloatArray,
    grad: FloatArray,
    log_target: FloatArray,
    delta: FloatArray,
    level: IntArray,
    holder: IntArray,
    last_end: IntArray,
    work: FloatArray,
    delta_out: FloatArray,
    target_delta_out: FloatArray,
    level_out: IntArray,
    acceptance_sums: FloatArray,
    visits: IntArray,
    sums: FloatArray,
    counts: IntArray,
    dual_averaging: FloatArray,
    target_accept: float,
    rng: np.random.Generator,
) -> None:
    """Run ``delta_out.shape[0]`` scans in place.

    Parameters
    ----------
    target : TargetInBase
    betas, log_level_weights : ndarray of shape (n_levels,)
        The levels and, in nats, the log of prior over guessed normaliser of each.
    step_sizes : ndarray of shape (n_levels,)
        The entry of level 0 is not used.
    trajectory_length : float
    max_steps : int
    level_update : int
        Position in :data:`LEVEL_UPDATES`.
    u, grad : ndarray of shape (3, D)
    log_target, delta : ndarray of shape (3,)
    level : ndarray of int of shape (1,)
    holder, last_end : ndarray of int of shape (3,)
        See :func:`pymc_tempering.kernels.coupled.exchange`.
    work : ndarray of shape (5, D)
    delta_out, target_delta_out : ndarray of shape (n_scans,)
        Overwritten with delta of z and of y after each scan.
    level_out : ndarray of int of shape (n_scans,)
    acceptance_sums : ndarray of shape (n_levels,)
        Acceptance probabilities of z, by level.
    visits : ndarray of int of shape (n_levels,)
        Number of moves of z at each level.
    sums : ndarray of shape (2,)
        Acceptance probabilities of y and of the exchange are added up.
    counts : ndarray of int of shape (8,)
        See :data:`pymc_tempering.kernels.coupled.N_COUNTS`; incremented.
    dual_averaging : ndarray of shape (n_levels, 4) or (0, 4)
        With rows, step sizes adapt; without, every scan is exactly invariant.
    target_accept : float
    rng : numpy.random.Generator
    """
    last = betas.shape[0] - 1
    log_masses = np.empty(betas.shape[0])
    for scan in range(delta_out.shape[0]):
        z, y, k = holder[0], holder[1], level[0]
        visits[k] += 1
        if k == 0:
            draw_from_base(target, z, u, grad, log_target, delta, work, counts, rng)
            visit_base(z, last_end, counts)
            acceptance_sums[0] += 1.0
        else:
            acceptance_rate = move(
                target, betas[k], step_sizes[k], trajectory_length, max_steps, z, u, grad,
                log_target, delta, work, counts, rng,
            )  # fmt: skip
            acceptance_sums[k] += acceptance_rate
            adapt_step_size(k, step_sizes, dual_averaging, acceptance_rate, target_accept)
        acceptance_rate = move(
            target, 1.0, step_sizes[last], trajectory_length, max_steps, y, u, grad, log_target,
            delta, work, counts, rng,
        )  # fmt: skip
        sums[0] += acceptance_rate
        adapt_step_size(last, step_sizes, dual_averaging, acceptance_rate, target_accept)

        if level_update == _INDEPENDENT:
            target_total = level_masses(delta[y], betas, log_level_weights, log_masses)
            total = level_masses(delta[z], betas, log_level_weights, log_masses)
            probability = exchange_probability(delta[z], total, delta[y], target_total)
        else:
            probability = swap_probability(1.0 - betas[k], delta[z], delta[y])
        sums[1] += probability
        if rng.random() < probability:
            exchange(holder, last_end, counts)

        z = holder[0]
        total = level_masses(delta[z], betas, log_level_weights, log_masses)
        if level_update == _INDEPENDENT:
            level[0] = draw_level(log_masses, total, rng)
        else:
            level[0] = neighbour_level(k, log_masses, rng)
        delta_out[scan] = delta[z]
        target_delta_out[scan] = delta[holder[1]]
        level_out[scan] = level[0]
