"""The moves of an annealing run at one inverse temperature."""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.explorers.adaptation import update_dual_averaging
from pymc_tempering.engine.explorers.hamiltonian import jitter
from pymc_tempering.engine.explorers.integrator import LOG_MAX_STEP_SIZE, accept, follow
from pymc_tempering.engine.move import ACCEPTED, REJECTED, ZERO_DENSITY, Move
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas
from pymc_tempering.engine.path.trial import evaluate_trial, take_trial, trial_position
from pymc_tempering.engine.tally import count_move
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["TRANSITIONS", "AnnealingMoves", "AnnealingTally", "annealing_transition",
           "persistent_move", "random_walk_move", "refresh_momentum"]  # fmt: skip

TRANSITIONS = ("hamiltonian", "fresh_momentum", "random_walk")
"""Momentum kept in part (HAIS); drawn afresh each time (AIS with HMC); Gaussian proposals."""

HAMILTONIAN, FRESH_MOMENTUM, RANDOM_WALK = 0, 1, 2

# rows of the replicas' scratch space, beside those of the integrator
_TRIED, _KEPT = 5, 6


class AnnealingMoves(NamedTuple):
    """Schedule and transitions of an annealing run."""

    betas: FloatArray  # (n_levels,), from 0 to 1
    step_sizes: FloatArray  # (n_levels,); that of level 0 is not used
    n_leapfrog: int  # steps in each transition
    kind: int  # position in `TRANSITIONS`
    short_steps: bool  # make one step in five up to 20 times shorter, for funnels


class AnnealingTally(NamedTuple):
    """What annealing runs report and adapt; the arrays are overwritten."""

    acceptance_sums: FloatArray  # (n_levels,)
    counts: IntArray  # (n_levels, 9), see `tally.COUNTERS`
    # (n_rows, 5), each for an equal share of the levels, last the step size to try next; (0, 5)
    # adapts nothing
    dual_averaging: FloatArray
    target_accept: float  # acceptance rate that the adaptation aims at


@compiled(borrows=True)
def refresh_momentum(momentum: FloatArray, gamma: float, rng: np.random.Generator) -> None:
    """Replace a part ``gamma`` in [0, 1] of the momentum's power, which leaves N(0, I) invariant.

    The noise has standard deviation ``sqrt(gamma)``; the report prints ``gamma`` for it, which
    would cool the momentum (Sohl-Dickstein & Culpepper 2012, section 2.3, step 4).
    """
    keep, noise = np.sqrt(1.0 - gamma), np.sqrt(gamma)
    for i in range(momentum.shape[0]):
        momentum[i] = keep * momentum[i] + noise * rng.standard_normal()


@compiled(inline="always")
def kept_momentum(replicas: Replicas) -> FloatArray:
    """Momentum of the particle, kept from one transition to the next; shape (D,)."""
    return replicas.work[_KEPT]


@compiled(borrows=True)
def persistent_move(
    path: Path,
    beta: float,
    step_size: float,
    n_leapfrog: int,
    replicas: Replicas,
    row: int,
    rng: np.random.Generator,
) -> Move:
    """Follow the dynamics at ``beta``, accept or reject, and reverse the momentum on rejection.

    The momentum is part of the replicas' scratch space, see :func:`kept_momentum`.
    """
    kept, tried = kept_momentum(replicas), replicas.work[_TRIED]
    for i in range(kept.shape[0]):
        tried[i] = kept[i]
    proposal = follow(path, beta, step_size, n_leapfrog, replicas, row, tried)
    rate, status = proposal.acceptance_rate, proposal.status
    if rng.random() < rate:
        accept(path, proposal, replicas, row)
        for i in range(kept.shape[0]):
            kept[i] = tried[i]
        status = ACCEPTED
    else:
        for i in range(kept.shape[0]):
            kept[i] = -kept[i]
    return Move(rate, rate, status, proposal.n_evaluations, proposal.n_bad_gradients)


@compiled(borrows=True, inside=True)
def random_walk_move(
    path: Path,
    beta: float,
    step_size: float,
    replicas: Replicas,
    row: int,
    rng: np.random.Generator,
) -> Move:
    """Propose ``u + step_size * noise`` and accept it by the Metropolis rule at ``beta``."""
    u, position = replicas.u[row], trial_position(replicas)
    for i in range(u.shape[0]):
        position[i] = u[i] + step_size * rng.standard_normal()
    trial = evaluate_trial(path, replicas)
    log_target, log_reference = trial.log_target, trial.log_reference
    if log_target == -np.inf or (beta < 1.0 and log_reference == -np.inf):
        return Move(0.0, 0.0, ZERO_DENSITY, 1, 0)
    log_ratio = beta * (log_target - replicas.log_target[row])
    if beta < 1.0:
        log_ratio += (1.0 - beta) * (log_reference - replicas.log_reference[row])
    rate = 1.0 if log_ratio >= 0.0 else np.exp(log_ratio)
    if rng.random() >= rate:
        return Move(rate, rate, REJECTED, 1, int(trial.bad_gradient))
    take_trial(trial, replicas, row)
    return Move(rate, rate, ACCEPTED, 1, int(trial.bad_gradient))


@compiled(borrows=True, apart=True)
def annealing_transition(
    reverse: bool,
    level: int,
    path: Path,
    moves: AnnealingMoves,
    replicas: Replicas,
    row: int,
    tally: AnnealingTally,
    rng: np.random.Generator,
) -> None:
    """Make transition ``level`` of a forward run, or its reversal, from a point of finite density.

    Forward, the move comes first and the refreshment of the momentum after it; reversed, the
    refreshment comes first. Step sizes are jittered independently of the state, and the part that
    is refreshed, ``1 - 0.5 ** (step_size * n_leapfrog)``, follows the step size of the transition.
    """
    last = moves.betas.shape[0] - 1
    beta, n_rows = moves.betas[level], tally.dual_averaging.shape[0]
    share = (level - 1) * n_rows // last
    tried = moves.step_sizes[level]
    if n_rows > 0 and tally.dual_averaging[share, 0] > 0.0:
        tried = tally.dual_averaging[share, 4]
    step_size, _ = jitter(tried, moves.short_steps, rng)
    if moves.kind == RANDOM_WALK:
        move = random_walk_move(path, beta, step_size, replicas, row, rng)
    else:
        power = 0.5 ** (step_size * moves.n_leapfrog)
        gamma = 1.0 if moves.kind == FRESH_MOMENTUM else 1.0 - power
        if reverse:
            refresh_momentum(kept_momentum(replicas), gamma, rng)
        move = persistent_move(path, beta, step_size, moves.n_leapfrog, replicas, row, rng)
        if not reverse:
            refresh_momentum(kept_momentum(replicas), gamma, rng)
    tally.acceptance_sums[level] += move.acceptance_rate
    count_move(tally.counts[level], move, level == last)
    # short steps say nothing of the step size that is tuned
    if n_rows > 0 and step_size > 0.8 * tried - 1e-12:
        tally.dual_averaging[share, 4] = update_dual_averaging(
            tally.dual_averaging[share], move.signal, tally.target_accept, LOG_MAX_STEP_SIZE
        )
