r"""Annealing runs, forward or exactly reversed, and HAIS, the Markov chain that is made of them.

Forward, transition *k* leaves :math:`\pi_k \propto b \exp(\beta_k \delta)` invariant: Hamiltonian
steps at :math:`\beta_k`, accepted or rejected, the momentum reversed on rejection, then refreshed
in part. With *F* the reversal of momentum, the Hamiltonian part is *F M*, where *M* is in detailed
balance, and the refreshment *R* is in detailed balance by itself, so that the reversal of
*R F M* is *M F R*. Seen with momentum of the opposite sign that is *F M R*: first the refreshment,
then the forward move itself. The momentum that a reverse run starts from is drawn afresh and has no
sign, so a reverse run makes exactly these moves, from the last transition to the first
(Sohl-Dickstein & Culpepper 2012, eq. 14).
"""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.explorers.adaptation import update_dual_averaging
from pymc_tempering.engine.explorers.explore import explore
from pymc_tempering.engine.explorers.hamiltonian import LOG_MAX_STEP_SIZE, accept, follow, jitter
from pymc_tempering.engine.move import ACCEPTED, REJECTED, ZERO_DENSITY, Explorer, Move
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import (
    Replicas,
    Work,
    copy_replica,
    draw_from_reference,
    evaluate,
    evaluate_trial,
    take_trial,
    trial_position,
)
from pymc_tempering.engine.tally import EVALUATIONS, count_move, count_reference_draw
from pymc_tempering.jit import compiled
from pymc_tempering.types import BoolArray, FloatArray, IntArray

TRANSITIONS = ("hamiltonian", "fresh_momentum", "random_walk")
"""Momentum kept in part (HAIS); drawn afresh each time (AIS with HMC); Gaussian proposals."""

_FRESH_MOMENTUM = TRANSITIONS.index("fresh_momentum")
_RANDOM_WALK = TRANSITIONS.index("random_walk")


class AnnealingMoves(NamedTuple):
    """Schedule and transitions of an annealing run."""

    betas: FloatArray  # (n_levels,), from 0 to 1
    step_sizes: FloatArray  # (n_levels,); that of level 0 is not used
    n_leapfrog: int  # steps in each transition
    kind: int  # position in `TRANSITIONS`
    short_steps: bool  # make one step in five up to 20 times shorter, for funnels
    target: Explorer  # that moves draws of the target at beta = 1
    target_scale: float


class AnnealingTally(NamedTuple):
    """What annealing runs report and adapt; the arrays are overwritten."""

    acceptance_sums: FloatArray  # (n_levels,)
    counts: IntArray  # (n_levels, 9), see `tally.COUNTERS`
    # (n_rows, 5), each for an equal share of the levels, last the step size to try next; (0, 5)
    # adapts nothing
    dual_averaging: FloatArray
    target_accept: float  # acceptance rate that the adaptation aims at


class Annealing(NamedTuple):
    """All that annealing runs read and write."""

    path: Path
    moves: AnnealingMoves
    replicas: Replicas
    tally: AnnealingTally


@compiled(borrows=True)
def refresh_momentum(momentum: FloatArray, gamma: float, rng: np.random.Generator) -> None:
    """Replace a part ``gamma`` in [0, 1] of the momentum's power, which leaves N(0, I) invariant.

    The noise has standard deviation ``sqrt(gamma)``; the report prints ``gamma`` for it, which
    would cool the momentum (Sohl-Dickstein & Culpepper 2012, section 2.3, step 4).
    """
    keep, noise = np.sqrt(1.0 - gamma), np.sqrt(gamma)
    for i in range(momentum.shape[0]):
        momentum[i] = keep * momentum[i] + noise * rng.standard_normal()


@compiled(borrows=True)
def persistent_move(
    path: Path, beta: float, step_size: float, n_leapfrog: int, replicas: Replicas, row: int,
    rng: np.random.Generator,
) -> Move:  # fmt: skip
    """Follow the dynamics at ``beta``, accept or reject, and reverse the momentum on rejection.

    The momentum is part of the replicas' scratch space, see :class:`.replicas.Work`.
    """
    kept, tried = replicas.work[Work.KEPT_MOMENTUM], replicas.work[Work.MOMENTUM]
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
    path: Path, beta: float, step_size: float, replicas: Replicas, row: int,
    rng: np.random.Generator,
) -> Move:  # fmt: skip
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
    reverse: bool, level: int, a: Annealing, row: int, rng: np.random.Generator
) -> None:
    """Make transition ``level`` of a forward run, or its reversal, from a point of finite density.

    Step sizes are jittered independently of the state, and the part of the momentum's power that is
    refreshed, ``1 - 0.5 ** (step_size * n_leapfrog)``, follows the step size of the transition.
    """
    path, moves, replicas, tally = a
    last = moves.betas.shape[0] - 1
    beta, n_rows = moves.betas[level], tally.dual_averaging.shape[0]
    share = (level - 1) * n_rows // last
    tried = moves.step_sizes[level]
    if n_rows > 0 and tally.dual_averaging[share, 0] > 0.0:
        tried = tally.dual_averaging[share, 4]
    step_size, _ = jitter(tried, moves.short_steps, rng)
    if moves.kind == _RANDOM_WALK:
        move = random_walk_move(path, beta, step_size, replicas, row, rng)
    else:
        power = 0.5 ** (step_size * moves.n_leapfrog)
        gamma = 1.0 if moves.kind == _FRESH_MOMENTUM else 1.0 - power
        kept = replicas.work[Work.KEPT_MOMENTUM]
        if reverse:
            refresh_momentum(kept, gamma, rng)
        move = persistent_move(path, beta, step_size, moves.n_leapfrog, replicas, row, rng)
        if not reverse:
            refresh_momentum(kept, gamma, rng)
    tally.acceptance_sums[level] += move.acceptance_rate
    count_move(tally.counts[level], move, level == last)
    # short steps say nothing of the step size that is tuned
    if n_rows > 0 and step_size > 0.8 * tried - 1e-12:
        tally.dual_averaging[share, 4] = update_dual_averaging(
            tally.dual_averaging[share], move.signal, tally.target_accept, LOG_MAX_STEP_SIZE
        )


@compiled(borrows=True, apart=True)
def anneal_forward(a: Annealing, row: int, draw: FloatArray, rng: np.random.Generator) -> float:
    r"""Anneal one particle from the reference to the target; the mean of its weight is Z.

    Position and momentum are drawn afresh. For k = 1, ..., N the log weight grows by
    :math:`(\beta_k - \beta_{k-1})\,\delta(u)`, and then transition k moves the particle; the last
    one is at beta = 1 (Sohl-Dickstein & Culpepper 2012, eq. 25; increments as in Neal 2001). `row`
    is overwritten with the end of the run. Returns the log weight in nats, ``-inf`` for a particle
    that started where the target has no density. `draw` is as for
    :func:`.replicas.draw_from_reference`.
    """
    betas, delta = a.moves.betas, a.replicas.delta
    bad_gradient = draw_from_reference(a.path, a.replicas, row, draw, rng)
    count_reference_draw(a.tally.counts[0], delta[row], bad_gradient)
    if a.replicas.log_target[row] == -np.inf:
        return -np.inf
    refresh_momentum(a.replicas.work[Work.KEPT_MOMENTUM], 1.0, rng)
    log_weight = 0.0
    for level in range(1, betas.shape[0]):
        log_weight += (betas[level] - betas[level - 1]) * delta[row]
        annealing_transition(False, level, a, row, rng)
    return log_weight


@compiled(borrows=True, apart=True)
def anneal_reverse(a: Annealing, row: int, rng: np.random.Generator) -> float:
    r"""Run from a draw of the target back to the reference: the exact reversal of a forward run.

    Momentum is drawn from N(0, I). For k = N, ..., 1 the reversal of transition k moves the
    particle, and then the log weight grows by :math:`(\beta_k - \beta_{k-1})\,\delta(u)`: the same
    increments at the same states as forward. The mean of 1 / W is b / Z, where b is the
    reference's mass on the support of the target. Returns log W with the sign of the forward run,
    finite, in nats.
    """
    refresh_momentum(a.replicas.work[Work.KEPT_MOMENTUM], 1.0, rng)
    betas, log_weight = a.moves.betas, 0.0
    for level in range(betas.shape[0] - 1, 0, -1):
        annealing_transition(True, level, a, row, rng)
        log_weight += (betas[level] - betas[level - 1]) * a.replicas.delta[row]
    return log_weight


@compiled(borrows=True)
def anneal_ensemble(
    reverse: bool, a: Annealing, positions: FloatArray, log_weights: FloatArray,
    rng: np.random.Generator,
) -> None:  # fmt: skip
    """Anneal independent particles, one after another, with one replica.

    `positions` (n, D) are overwritten with the ends of the runs, in the path's coordinates. Reverse
    runs start there, from draws of the target, and so do forward runs from a reference that is not
    Gaussian. A reverse particle that starts where the density is zero gets the weight nan.
    """
    n, dim = positions.shape
    replicas = a.replicas
    n_drawn = replicas.residual.shape[1]
    for particle in range(n):
        if reverse:
            for i in range(dim):
                replicas.u[0, i] = positions[particle, i]
            evaluate(a.path, replicas, 0)
            a.tally.counts[0, EVALUATIONS] += 1
            if replicas.log_target[0] == -np.inf:
                log_weights[particle] = np.nan
                continue
            log_weights[particle] = anneal_reverse(a, 0, rng)
        else:
            log_weights[particle] = anneal_forward(a, 0, positions[particle, :n_drawn], rng)
        for i in range(dim):
            positions[particle, i] = replicas.u[0, i]


@compiled(borrows=True)
def target_chain(
    a: Annealing, n_moves: int, first: int, positions: FloatArray, rng: np.random.Generator
) -> None:
    """Continue `first` draws of the target by moves at beta = 1: row i is ``i - first`` moved on.

    The chain is stationary where the draws are exact: every further position (n, D) is then an
    exact draw too, if not an independent one. `n_moves` are made between successive positions.
    """
    n, dim = positions.shape
    replicas, moves = a.replicas, a.moves
    for row in range(first, n):
        for i in range(dim):
            replicas.u[0, i] = positions[row - first, i]
        evaluate(a.path, replicas, 0)
        if replicas.log_target[0] > -np.inf:
            for _ in range(n_moves):
                explore(a.path, moves.target, 1.0, moves.target_scale, replicas, 0, rng)
        for i in range(dim):
            positions[row, i] = replicas.u[0, i]


class AnnealingLog(NamedTuple):
    """What scans write down; overwritten."""

    log_weight: FloatArray  # (1,), log W of y, nats; that before the scans, too
    log_weight_forward: FloatArray  # (n_scans,), log W' of every proposed particle
    log_weight_reverse: FloatArray  # (n_scans,), every redrawn log W
    accepted: BoolArray  # (n_scans,)
    # (n_scans, D), made beforehand; (n_scans, 0) where they are made here
    reference_draws: FloatArray


@compiled(borrows=True)
def annealing_scans(a: Annealing, log: AnnealingLog, rng: np.random.Generator) -> None:
    """Run as many scans as the log has entries, in place; :class:`.hais.HAIS` has their steps.

    There are two replicas: y, and the particle that is being annealed. A scan leaves the joint law
    of y and its annealing run invariant, whose marginal in y is the target (particle independent
    Metropolis-Hastings; Andrieu, Doucet & Holenstein 2010, section 2.4.2).
    """
    # particles are in the first row here too: numba compiles what anneals them for that number
    particle, y = 0, 1
    for scan in range(log.accepted.shape[0]):
        log_weight = anneal_forward(a, particle, log.reference_draws[scan], rng)
        log.log_weight_forward[scan] = log_weight
        log_ratio = log_weight - log.log_weight[0]
        log.accepted[scan] = log_weight > -np.inf and (
            log_ratio >= 0.0 or rng.random() < np.exp(log_ratio)
        )
        if log.accepted[scan]:
            copy_replica(a.replicas, particle, y)
        move = explore(a.path, a.moves.target, 1.0, a.moves.target_scale, a.replicas, y, rng)
        count_move(a.tally.counts[-1], move, True)
        copy_replica(a.replicas, y, particle)
        log.log_weight[0] = anneal_reverse(a, particle, rng)
        log.log_weight_reverse[scan] = log.log_weight[0]
