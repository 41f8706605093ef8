"""Whole scans of HAIS as a Markov chain: a new particle, a move at the target, a new weight."""

import numpy as np

from pymc_tempering.jit import compiled
from pymc_tempering.kernels.annealing import anneal_forward, anneal_reverse
from pymc_tempering.kernels.annealing_moves import AnnealingMoves, AnnealingTally
from pymc_tempering.kernels.density import TargetInBase
from pymc_tempering.kernels.hmc import draw_trajectory, hmc_transition
from pymc_tempering.types import BoolArray, FloatArray

__all__ = ["hais_scans"]


@compiled
def hais_scans(
    target: TargetInBase,
    moves: AnnealingMoves,
    target_step_size: float,
    trajectory_length: float,
    max_steps: int,
    u: FloatArray,
    grad: FloatArray,
    log_densities: FloatArray,
    buffers: FloatArray,
    log_weight_forward: FloatArray,
    log_weight_reverse: FloatArray,
    accepted: BoolArray,
    tally: AnnealingTally,
    target_positions: FloatArray,
    rng: np.random.Generator,
) -> None:
    r"""Run ``accepted.shape[0]`` scans in place.

    A scan leaves the joint law of y and its annealing run invariant, whose marginal in y is the
    target:

    1. Anneal a new particle with weight W'. Replace y and W by it with probability
       :math:`\min(1, W' / W)` (particle independent Metropolis-Hastings; Andrieu, Doucet &
       Holenstein 2010, section 2.4.2).
    2. Move y by a Hamiltonian transition at beta = 1.
    3. Draw W from its law given y: the weight of the exact reversal, started from y.

    Parameters
    ----------
    target_step_size, trajectory_length, max_steps
        Of the move at the target, see :func:`pymc_tempering.kernels.hmc.draw_trajectory`.
    u, grad : ndarray of shape (D,)
        y and the gradient of the log target there; overwritten.
    log_densities : ndarray of shape (2,)
        Log target at y in base coordinates, and log W; overwritten.
    buffers : ndarray of shape (8, D)
        Scratch space.
    log_weight_forward, log_weight_reverse : ndarray of shape (n_scans,)
        Overwritten with log W' of every proposed particle and with every redrawn log W.
    accepted : ndarray of bool of shape (n_scans,)
        Overwritten.
    target_positions : ndarray of shape (n_scans, D) or (0, D)
        With rows, overwritten with y after each scan, in base coordinates.
    target, moves, tally, rng
        As for :func:`pymc_tempering.kernels.annealing.anneal_forward`; the sums are over both
        directions.
    """
    dim = u.shape[0]
    new_u, new_grad, momentum, work = buffers[0], buffers[1], buffers[2], buffers[3:8]
    for scan in range(accepted.shape[0]):
        log_weight, log_target = anneal_forward(
            target, moves, new_u, new_grad, momentum, work, tally, rng
        )
        log_weight_forward[scan] = log_weight
        log_ratio = log_weight - log_densities[1]
        accepted[scan] = log_weight > -np.inf and (
            log_ratio >= 0.0 or rng.random() < np.exp(log_ratio)
        )
        if accepted[scan]:
            log_densities[0] = log_target
            for i in range(dim):
                u[i] = new_u[i]
                grad[i] = new_grad[i]
        step_size, n_steps = draw_trajectory(target_step_size, trajectory_length, max_steps, rng)
        log_densities[0], _, diverging, n_gradients = hmc_transition(
            target, 1.0, step_size, n_steps, u, grad, log_densities[0], work, rng
        )
        tally.counts[0] += n_gradients
        if diverging:
            tally.counts[1] += 1
            tally.counts[2] += 1
        for i in range(dim):
            new_u[i] = u[i]
            new_grad[i] = grad[i]
        log_densities[1] = anneal_reverse(
            target, moves, new_u, new_grad, momentum, log_densities[0], work, tally, rng
        )
        log_weight_reverse[scan] = log_densities[1]
        if target_positions.shape[0] > 0:
            for i in range(dim):
                target_positions[scan, i] = u[i]
