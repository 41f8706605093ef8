"""The moves of an annealing run at one inverse temperature, in base coordinates."""

from typing import NamedTuple

import numpy as np

from pymc_tempering.jit import compiled
from pymc_tempering.kernels.adaptation import update_dual_averaging
from pymc_tempering.kernels.density import TargetInBase, evaluate
from pymc_tempering.kernels.hmc import (
    LOG_SHORTEST_STEP,
    MAX_ENERGY_ERROR,
    SHORT_STEP_PROBABILITY,
)
from pymc_tempering.types import FloatArray, IntArray

__all__ = [
    "N_COUNTS",
    "TRANSITIONS",
    "AnnealingMoves",
    "AnnealingTally",
    "annealing_transition",
    "hamiltonian_move",
    "random_walk_move",
    "refresh_momentum",
]

TRANSITIONS = ("hamiltonian", "fresh_momentum", "random_walk")
"""Momentum kept in part (HAIS); drawn afresh each time (AIS with HMC); Gaussian proposals."""

HAMILTONIAN, FRESH_MOMENTUM, RANDOM_WALK = 0, 1, 2

N_COUNTS = 4
"""Gradient evaluations, divergences, divergences at beta = 1, proposals of zero density."""


class AnnealingMoves(NamedTuple):
    """Schedule and transitions of an annealing run.

    Attributes
    ----------
    betas : ndarray of shape (n_levels,)
        From 0 to 1.
    step_sizes : ndarray of shape (n_levels,)
        By level, in base coordinates; that of level 0 is not used.
    n_leapfrog : int
        Steps in each transition.
    kind : int
        Position in :data:`TRANSITIONS`.
    short_steps : bool
        Make one step in five up to 20 times shorter, for necks of funnels.
    """

    betas: FloatArray
    step_sizes: FloatArray
    n_leapfrog: int
    kind: int
    short_steps: bool


class AnnealingTally(NamedTuple):
    """What annealing runs report and adapt; the arrays are overwritten.

    Attributes
    ----------
    acceptance_sums : ndarray of shape (n_levels,)
        Acceptance probabilities are added up.
    counts : ndarray of int of shape (4,)
        Incremented; see :data:`N_COUNTS`.
    dual_averaging : ndarray of shape (n_rows, 5) or (0, 5)
        With rows, each adapts the step size of an equal share of the levels; its last column is
        the step size to try next. Such runs are for tuning.
    target_accept : float
        Acceptance rate that the adaptation aims at.
    """

    acceptance_sums: FloatArray
    counts: IntArray
    dual_averaging: FloatArray
    target_accept: float


@compiled
def refresh_momentum(momentum: FloatArray, gamma: float, rng: np.random.Generator) -> None:
    """Replace a part ``gamma`` of the momentum's power, which leaves N(0, I) invariant.

    The noise has standard deviation ``sqrt(gamma)``; the report prints ``gamma`` for it, which
    would cool the momentum (Sohl-Dickstein & Culpepper 2012, section 2.3, step 4).

    Parameters
    ----------
    momentum : ndarray of shape (D,)
        Overwritten.
    gamma : float
        In [0, 1].
    rng : numpy.random.Generator
    """
    keep, noise = np.sqrt(1.0 - gamma), np.sqrt(gamma)
    for i in range(momentum.shape[0]):
        momentum[i] = keep * momentum[i] + noise * rng.standard_normal()


@compiled
def hamiltonian_move(
    target: TargetInBase,
    beta: float,
    step_size: float,
    n_leapfrog: int,
    u: FloatArray,
    grad: FloatArray,
    momentum: FloatArray,
    log_target: float,
    work: FloatArray,
    rng: np.random.Generator,
) -> tuple[float, float, bool, int]:
    """Follow the dynamics at ``beta``, accept or reject, and reverse the momentum on rejection.

    The steps are those of :func:`pymc_tempering.kernels.hmc.hmc_transition`: a rotation, exact for
    the base, between half kicks by ``beta * grad delta``, which is reversible and conserves volume.

    Parameters
    ----------
    target : TargetInBase
    beta : float
    step_size : float
    n_leapfrog : int
    u, grad, momentum : ndarray of shape (D,)
        Position, gradient of the log target there, momentum; overwritten.
    log_target : float
        Log target at ``u`` in base coordinates, in nats; finite.
    work : ndarray of shape (5, D)
    rng : numpy.random.Generator

    Returns
    -------
    log_target : float
    acceptance_rate : float
    diverging : bool
    n_gradients : int
        Fewer than ``n_leapfrog`` where the trajectory ran into zero density.
    """
    dim = u.shape[0]
    position, new_momentum, gradient = work[2], work[3], work[4]
    energy = -beta * log_target
    kick = 0.5 * step_size * beta
    for i in range(dim):
        energy += 0.5 * (momentum[i] * momentum[i] + (1.0 - beta) * u[i] * u[i])
        position[i] = u[i]
        new_momentum[i] = momentum[i] + kick * (grad[i] + u[i])
    cosine, sine = np.cos(step_size), np.sin(step_size)
    proposal, acceptance_rate, diverging, n_gradients = log_target, 0.0, False, 0
    for step in range(n_leapfrog):
        for i in range(dim):
            x, p = position[i], new_momentum[i]
            position[i] = cosine * x + sine * p
            new_momentum[i] = cosine * p - sine * x
        proposal = evaluate(target, position, gradient, work)
        n_gradients += 1
        if proposal == -np.inf:
            break
        strength = kick if step == n_leapfrog - 1 else 2.0 * kick
        for i in range(dim):
            new_momentum[i] += strength * (gradient[i] + position[i])
    if proposal > -np.inf:
        energy_end = -beta * proposal
        for i in range(dim):
            energy_end += 0.5 * (
                new_momentum[i] * new_momentum[i] + (1.0 - beta) * position[i] * position[i]
            )
        error = energy_end - energy
        if not error < MAX_ENERGY_ERROR:
            diverging = True
        else:
            acceptance_rate = 1.0 if error <= 0.0 else np.exp(-error)
    if rng.random() < acceptance_rate:
        for i in range(dim):
            u[i] = position[i]
            grad[i] = gradient[i]
            momentum[i] = new_momentum[i]
        return proposal, acceptance_rate, diverging, n_gradients
    for i in range(dim):
        momentum[i] = -momentum[i]
    return log_target, acceptance_rate, diverging, n_gradients


@compiled
def random_walk_move(
    target: TargetInBase,
    beta: float,
    step_size: float,
    u: FloatArray,
    grad: FloatArray,
    log_target: float,
    work: FloatArray,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Propose ``u + step_size * noise`` and accept it with the Metropolis probability at ``beta``.

    Parameters
    ----------
    target, beta, step_size, u, grad, log_target, work, rng
        As for :func:`hamiltonian_move`.

    Returns
    -------
    log_target : float
    acceptance_rate : float
    """
    dim = u.shape[0]
    position, gradient = work[2], work[4]
    quadratic = 0.0
    for i in range(dim):
        position[i] = u[i] + step_size * rng.standard_normal()
        quadratic += u[i] * u[i] - position[i] * position[i]
    proposal = evaluate(target, position, gradient, work)
    if proposal == -np.inf:
        return log_target, 0.0
    log_ratio = 0.5 * (1.0 - beta) * quadratic + beta * (proposal - log_target)
    acceptance_rate = 1.0 if log_ratio >= 0.0 else np.exp(log_ratio)
    if rng.random() < acceptance_rate:
        for i in range(dim):
            u[i] = position[i]
            grad[i] = gradient[i]
        return proposal, acceptance_rate
    return log_target, acceptance_rate


@compiled
def _jitter(step_size: float, short_steps: bool, rng: np.random.Generator) -> float:
    """Step size of one transition, drawn independently of the state."""
    jittered = step_size * (0.8 + 0.4 * rng.random())
    if short_steps and rng.random() < SHORT_STEP_PROBABILITY:
        jittered *= np.exp(-rng.random() * LOG_SHORTEST_STEP)
    return jittered


@compiled
def annealing_transition(
    reverse: bool,
    level: int,
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
    """Make transition ``level`` of a forward run, or its reversal.

    Forward, the move comes first and the refreshment of the momentum after it; reversed, the
    refreshment comes first. Step sizes are jittered independently of the state, and the part that
    is refreshed, ``1 - 0.5 ** (step_size * n_leapfrog)``, follows the step size of the transition.

    Parameters
    ----------
    reverse : bool
    level : int
    log_target : float
        At ``u``; finite.
    target, moves, u, grad, momentum, work, tally, rng
        As for :func:`pymc_tempering.kernels.annealing.anneal_forward`.

    Returns
    -------
    float
        Log target of the next state.
    """
    betas, counts, dual_averaging = moves.betas, tally.counts, tally.dual_averaging
    last = betas.shape[0] - 1
    n_rows = dual_averaging.shape[0]
    row = (level - 1) * n_rows // last
    tried = moves.step_sizes[level]
    if n_rows > 0 and dual_averaging[row, 0] > 0.0:
        tried = dual_averaging[row, 4]
    step_size = _jitter(tried, moves.short_steps, rng)
    diverging, n_gradients, n_expected = False, 1, 1
    if moves.kind == RANDOM_WALK:
        log_target, acceptance_rate = random_walk_move(
            target, betas[level], step_size, u, grad, log_target, work, rng
        )
    else:
        power = 0.5 ** (step_size * moves.n_leapfrog)
        gamma = 1.0 if moves.kind == FRESH_MOMENTUM else 1.0 - power
        if reverse:
            refresh_momentum(momentum, gamma, rng)
        log_target, acceptance_rate, diverging, n_gradients = hamiltonian_move(
            target, betas[level], step_size, moves.n_leapfrog, u, grad, momentum, log_target, work,
            rng,
        )  # fmt: skip
        if not reverse:
            refresh_momentum(momentum, gamma, rng)
        n_expected = moves.n_leapfrog
    tally.acceptance_sums[level] += acceptance_rate
    counts[0] += n_gradients
    if diverging:
        counts[1] += 1
        if level == last:
            counts[2] += 1
    elif n_gradients < n_expected or acceptance_rate == 0.0:
        counts[3] += 1
    # short steps say nothing of the step size that is tuned
    if n_rows > 0 and step_size > 0.8 * tried - 1e-12:
        dual_averaging[row, 4] = update_dual_averaging(
            dual_averaging[row], acceptance_rate, tally.target_accept
        )
    return log_target
