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

from pymc_tempering.jit import compiled
from pymc_tempering.kernels.beta import draw_beta, exchange_probability, piece_masses
from pymc_tempering.kernels.coupled import (
    adapt_step_size,
    draw_from_base,
    exchange,
    move,
    step_size_at,
    visit_base,
)
from pymc_tempering.kernels.density import TargetInBase
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["continuous_scans"]


@compiled
def continuous_scans(
    target: TargetInBase,
    knots: FloatArray,
    bias: FloatArray,
    grid: FloatArray,
    step_sizes: FloatArray,
    trajectory_length: float,
    max_steps: int,
    u: FloatArray,
    grad: FloatArray,
    log_target: FloatArray,
    delta: FloatArray,
    beta: FloatArray,
    holder: IntArray,
    last_end: IntArray,
    work: FloatArray,
    delta_out: FloatArray,
    target_delta_out: FloatArray,
    beta_out: FloatArray,
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
    knots, bias : ndarray of shape (n_pieces + 1,)
        Piecewise linear c, in nats.
    grid, step_sizes : ndarray of shape (n_grid,)
        Step sizes, log-linear between grid points.
    trajectory_length : float
    max_steps : int
    u, grad : ndarray of shape (3, D)
        Positions and gradients of the log target, by row.
    log_target, delta : ndarray of shape (3,)
        By row, in nats.
    beta : ndarray of shape (1,)
    holder, last_end : ndarray of int of shape (3,)
        See :func:`pymc_tempering.kernels.coupled.exchange`.
    work : ndarray of shape (5, D)
    delta_out, target_delta_out, beta_out : ndarray of shape (n_scans,)
        Overwritten with delta of z, delta of y and beta after each scan.
    sums : ndarray of shape (4,)
        Acceptance probabilities of z, of y, of the exchange and of the draw from the base are
        added up.
    counts : ndarray of int of shape (8,)
        See :data:`pymc_tempering.kernels.coupled.N_COUNTS`; incremented.
    dual_averaging : ndarray of shape (n_grid, 4) or (0, 4)
        With rows, step sizes adapt; without, every scan is exactly invariant.
    target_accept : float
    rng : numpy.random.Generator
    """
    last = grid.shape[0] - 1
    log_masses = np.empty(knots.shape[0] - 1)
    for scan in range(delta_out.shape[0]):
        z, y, spare = holder[0], holder[1], holder[2]
        step_size, nearest = step_size_at(beta[0], grid, step_sizes)
        acceptance_rate = move(
            target, beta[0], step_size, trajectory_length, max_steps, z, u, grad, log_target, delta,
            work, counts, rng,
        )  # fmt: skip
        sums[0] += acceptance_rate
        adapt_step_size(nearest, step_sizes, dual_averaging, acceptance_rate, target_accept)
        acceptance_rate = move(
            target, 1.0, step_sizes[last], trajectory_length, max_steps, y, u, grad, log_target,
            delta, work, counts, rng,
        )  # fmt: skip
        sums[1] += acceptance_rate
        adapt_step_size(last, step_sizes, dual_averaging, acceptance_rate, target_accept)

        target_total = piece_masses(delta[y], knots, bias, log_masses)
        total = piece_masses(delta[z], knots, bias, log_masses)
        probability = exchange_probability(delta[z], total, delta[y], target_total)
        sums[2] += probability
        if rng.random() < probability:
            exchange(holder, last_end, counts)
            total = target_total

        draw_from_base(target, spare, u, grad, log_target, delta, work, counts, rng)
        log_ratio = piece_masses(delta[spare], knots, bias, log_masses) - total
        probability = 1.0 if log_ratio >= 0.0 else np.exp(log_ratio)
        sums[3] += probability
        if rng.random() < probability:
            holder[0], holder[2] = spare, holder[0]
            last_end[spare] = last_end[holder[2]]
            visit_base(spare, last_end, counts)

        z = holder[0]
        total = piece_masses(delta[z], knots, bias, log_masses)
        beta[0] = draw_beta(delta[z], knots, bias, log_masses, total, rng)
        if beta[0] < grid[1]:
            visit_base(z, last_end, counts)
        delta_out[scan] = delta[z]
        target_delta_out[scan] = delta[holder[1]]
        beta_out[scan] = beta[0]
