"""Whole scans of parallel tempering: every replica moves, then neighbours exchange places."""

import numpy as np

from pymc_tempering.jit import compiled
from pymc_tempering.kernels.adaptation import update_dual_averaging
from pymc_tempering.kernels.density import TargetInBase, evaluate
from pymc_tempering.kernels.hmc import draw_trajectory, hmc_transition, log_base
from pymc_tempering.kernels.swap import (
    ALTERNATING,
    DEO,
    SEO,
    attempt_swap,
    swap_probability,
    track_trips,
)
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["parallel_scans"]


@compiled
def _swap_sweep(
    scheme: int,
    scan: int,
    betas: FloatArray,
    delta: FloatArray,
    replica_at: IntArray,
    rng: np.random.Generator,
) -> None:
    n_pairs = betas.shape[0] - 1
    if scheme in (DEO, SEO):
        parity = scan % 2 if scheme == DEO else rng.integers(0, 2)
        for i in range(parity, n_pairs, 2):
            attempt_swap(i, betas, delta, replica_at, rng.random())
    elif scheme == ALTERNATING and scan % 2 == 1:
        for i in range(n_pairs - 1, -1, -1):
            attempt_swap(i, betas, delta, replica_at, rng.random())
    else:
        for i in range(n_pairs):
            attempt_swap(i, betas, delta, replica_at, rng.random())


@compiled
def parallel_scans(
    target: TargetInBase,
    betas: FloatArray,
    step_sizes: FloatArray,
    trajectory_length: float,
    max_steps: int,
    swap_scheme: int,
    first_scan: int,
    u: FloatArray,
    grad: FloatArray,
    log_target: FloatArray,
    delta: FloatArray,
    replica_at: IntArray,
    last_end: IntArray,
    work: FloatArray,
    delta_out: FloatArray,
    swap_sums: FloatArray,
    acceptance_sums: FloatArray,
    counts: IntArray,
    dual_averaging: FloatArray,
    target_accept: float,
    target_positions: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Run ``delta_out.shape[0]`` scans in place.

    Parameters
    ----------
    target : TargetInBase
    betas : ndarray of shape (n_levels,)
        Increasing from 0 to 1.
    step_sizes : ndarray of shape (n_levels,)
        The entry of level 0 is not used: there the move is an independent draw.
    trajectory_length : float
        Longest simulated time; each transition makes 1 to ``trajectory_length / step_size`` steps,
        equally likely, since a fixed length can resonate with an orbit.
    max_steps : int
        Largest number of steps of a transition.
    swap_scheme : int
        Position in :data:`pymc_tempering.kernels.swap.SWAP_SCHEMES`.
    first_scan : int
        Number of scans made before, for the parity of the swaps.
    u, grad : ndarray of shape (n_levels, D)
        Positions and gradients of the log target, by replica.
    log_target, delta : ndarray of shape (n_levels,)
        By replica, in nats.
    replica_at : ndarray of int of shape (n_levels,)
    last_end : ndarray of int of shape (n_levels,)
    work : ndarray of shape (5, D)
    delta_out : ndarray of shape (n_scans, n_levels)
        Overwritten with delta by level after each scan.
    swap_sums : ndarray of shape (n_levels - 1,)
        Swap probabilities of all neighbours, attempted or not, are added up.
    acceptance_sums : ndarray of shape (n_levels,)
        Acceptance probabilities of the moves are added up.
    counts : ndarray of int of shape (6,)
        Incremented: round trips, tempered restarts, gradient evaluations, divergences, divergences
        at the target, proposals of zero density.
    dual_averaging : ndarray of shape (n_levels, 4) or (0, 4)
        With rows, step sizes adapt; without, nothing does and every scan is exactly invariant.
    target_accept : float
    target_positions : ndarray of shape (n_scans, D) or (0, D)
        With rows, overwritten with the position at beta = 1 after each scan.
    rng : numpy.random.Generator
    """
    n_levels, dim = u.shape
    adapt = dual_averaging.shape[0] > 0
    for scan in range(delta_out.shape[0]):
        for level in range(n_levels):
            r = replica_at[level]
            if level == 0:
                for i in range(dim):
                    u[r, i] = rng.standard_normal()
                log_target[r] = evaluate(target, u[r], grad[r], work)
                counts[2] += 1
                acceptance_sums[0] += 1.0
            else:
                step_size, n_steps = draw_trajectory(
                    step_sizes[level], trajectory_length, max_steps, rng
                )
                new, acceptance_rate, diverging, n_gradients = hmc_transition(
                    target, betas[level], step_size, n_steps, u[r], grad[r], log_target[r], work,
                    rng,
                )  # fmt: skip
                log_target[r] = new
                acceptance_sums[level] += acceptance_rate
                counts[2] += n_gradients
                if diverging:
                    counts[3] += 1
                    if level == n_levels - 1:
                        counts[4] += 1
                if n_gradients < n_steps or (acceptance_rate == 0.0 and not diverging):
                    counts[5] += 1
                if adapt:
                    step_sizes[level] = update_dual_averaging(
                        dual_averaging[level], acceptance_rate, target_accept
                    )
            delta[r] = log_target[r] - log_base(u[r])
        for i in range(n_levels - 1):
            swap_sums[i] += swap_probability(
                betas[i + 1] - betas[i], delta[replica_at[i]], delta[replica_at[i + 1]]
            )
        _swap_sweep(swap_scheme, first_scan + scan, betas, delta, replica_at, rng)
        track_trips(replica_at, last_end, counts)
        for level in range(n_levels):
            delta_out[scan, level] = delta[replica_at[level]]
        if target_positions.shape[0] > 0:
            for i in range(dim):
                target_positions[scan, i] = u[replica_at[n_levels - 1], i]
