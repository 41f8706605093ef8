r"""One annealing run, forward or exactly reversed, with its log weight, in base coordinates.

Forward, transition *k* leaves :math:`\pi_k \propto b \exp(\beta_k \delta)` invariant: Hamiltonian
steps at :math:`\beta_k`, accepted or rejected, the momentum reversed on rejection, then refreshed
in part. With *F* the reversal of momentum, the Hamiltonian part is *F M*, where *M* is in detailed
balance, and the refreshment *R* is in detailed balance by itself, so that the reversal of
*R F M* is *M F R*. Seen with momentum of the opposite sign that is *F M R*: first the refreshment,
then the forward move itself. The momentum that a reverse run starts from is drawn afresh and has no
sign, so a reverse run makes exactly these moves, from the last transition to the first
(Sohl-Dickstein & Culpepper 2012, eq. 14).
"""

import numpy as np

from pymc_tempering.jit import compiled
from pymc_tempering.kernels.annealing_moves import (
    AnnealingMoves,
    AnnealingTally,
    annealing_transition,
)
from pymc_tempering.kernels.density import TargetInBase, evaluate
from pymc_tempering.kernels.hmc import draw_trajectory, hmc_transition, log_base
from pymc_tempering.types import FloatArray

__all__ = ["anneal_ensemble", "anneal_forward", "anneal_reverse", "target_chain"]


@compiled
def anneal_forward(
    target: TargetInBase,
    moves: AnnealingMoves,
    u: FloatArray,
    grad: FloatArray,
    momentum: FloatArray,
    work: FloatArray,
    tally: AnnealingTally,
    rng: np.random.Generator,
) -> tuple[float, float]:
    r"""Anneal one particle from the base to the target; the mean of its weight is Z.

    Position and momentum are drawn from N(0, I). For k = 1, ..., N the log weight grows by
    :math:`(\beta_k - \beta_{k-1})\,\delta(u)`, and then transition k moves the particle; the last
    one is at beta = 1 (Sohl-Dickstein & Culpepper 2012, eq. 25; increments as in Neal 2001).

    Parameters
    ----------
    target : TargetInBase
    moves : AnnealingMoves
    u, grad, momentum : ndarray of shape (D,)
        Overwritten with the end of the run.
    work : ndarray of shape (5, D)
    tally : AnnealingTally
    rng : numpy.random.Generator

    Returns
    -------
    log_weight : float
        In nats; ``-inf`` for a particle that started where the target has no density.
    log_target : float
        At the end, in base coordinates.
    """
    betas = moves.betas
    for i in range(u.shape[0]):
        u[i] = rng.standard_normal()
        momentum[i] = rng.standard_normal()
    log_target = evaluate(target, u, grad, work)
    tally.counts[0] += 1
    if log_target == -np.inf:
        return -np.inf, -np.inf
    log_weight = 0.0
    for level in range(1, betas.shape[0]):
        log_weight += (betas[level] - betas[level - 1]) * (log_target - log_base(u))
        log_target = annealing_transition(
            False, level, target, moves, u, grad, momentum, log_target, work, tally, rng
        )
    return log_weight, log_target


@compiled
def anneal_reverse(
    target: TargetInBase,
    moves: AnnealingMoves,
    u: FloatArray,
    grad: FloatArray,
    momentum: FloatArray,
    log_target: float,
    work: FloatArray,
    tally: AnnealingTally,
    rng: np.random.Generator,
) -> float:
    r"""Run from a draw of the target back to the base: the exact reversal of a forward run.

    Momentum is drawn from N(0, I). For k = N, ..., 1 the reversal of transition k moves the
    particle, and then the log weight grows by :math:`(\beta_k - \beta_{k-1})\,\delta(u)`: the same
    increments at the same states as forward. The mean of 1 / W is b / Z, where b is the base's
    mass on the support of the target.

    Parameters
    ----------
    u, grad : ndarray of shape (D,)
        The draw and the gradient there; overwritten with the end of the run.
    log_target : float
        At the draw, in base coordinates; finite.
    target, moves, momentum, work, tally, rng
        As for :func:`anneal_forward`.

    Returns
    -------
    float
        Log weight with the sign of the forward run, in nats; finite.
    """
    for i in range(u.shape[0]):
        momentum[i] = rng.standard_normal()
    betas, log_weight = moves.betas, 0.0
    for level in range(betas.shape[0] - 1, 0, -1):
        log_target = annealing_transition(
            True, level, target, moves, u, grad, momentum, log_target, work, tally, rng
        )
        log_weight += (betas[level] - betas[level - 1]) * (log_target - log_base(u))
    return log_weight


@compiled
def anneal_ensemble(
    reverse: bool,
    target: TargetInBase,
    moves: AnnealingMoves,
    positions: FloatArray,
    log_weights: FloatArray,
    tally: AnnealingTally,
    rng: np.random.Generator,
) -> None:
    """Anneal independent particles, one after another.

    Parameters
    ----------
    reverse : bool
        Start from ``positions``, draws of the target, instead of the base.
    positions : ndarray of shape (n_particles, D)
        In base coordinates; overwritten with the ends of the runs.
    log_weights : ndarray of shape (n_particles,)
        Overwritten; see :func:`anneal_forward` and :func:`anneal_reverse`. A reverse particle that
        starts where the density is zero gets nan.
    target, moves, tally, rng
        As for :func:`anneal_forward`.
    """
    n, dim = positions.shape
    grad, momentum, work = np.empty(dim), np.empty(dim), np.empty((5, dim))
    for particle in range(n):
        u = positions[particle]
        if reverse:
            log_target = evaluate(target, u, grad, work)
            tally.counts[0] += 1
            if log_target == -np.inf:
                log_weights[particle] = np.nan
                continue
            log_weights[particle] = anneal_reverse(
                target, moves, u, grad, momentum, log_target, work, tally, rng
            )
        else:
            log_weights[particle], _ = anneal_forward(
                target, moves, u, grad, momentum, work, tally, rng
            )


@compiled
def target_chain(
    target: TargetInBase,
    step_size: float,
    trajectory_length: float,
    max_steps: int,
    n_moves: int,
    first: int,
    positions: FloatArray,
    rng: np.random.Generator,
) -> None:
    """Continue draws of the target by Hamiltonian transitions at beta = 1.

    The chain is stationary where the draws are exact: every further position is then an exact draw
    too, if not an independent one.

    Parameters
    ----------
    step_size, trajectory_length, max_steps
        See :func:`pymc_tempering.kernels.hmc.draw_trajectory`.
    n_moves : int
        Transitions between successive positions.
    first : int
        Number of draws given, at least 1.
    positions : ndarray of shape (n, D)
        In base coordinates; row ``i >= first`` is overwritten with row ``i - first`` moved on.
    target, rng
        As for :func:`anneal_forward`.
    """
    n, dim = positions.shape
    grad, work = np.empty(dim), np.empty((5, dim))
    for row in range(first, n):
        positions[row] = positions[row - first]
        log_target = evaluate(target, positions[row], grad, work)
        if log_target == -np.inf:
            continue
        for _ in range(n_moves):
            jittered, n_steps = draw_trajectory(step_size, trajectory_length, max_steps, rng)
            log_target, _, _, _ = hmc_transition(
                target, 1.0, jittered, n_steps, positions[row], grad, log_target, work, rng
            )
