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

from pymc_tempering.engine.ensembles.annealing_moves import (
    AnnealingMoves,
    AnnealingTally,
    annealing_transition,
    kept_momentum,
)
from pymc_tempering.engine.explorers.explore import explore
from pymc_tempering.engine.move import Explorer
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import (
    Replicas,
    copy_replica,
    draw_from_reference,
    evaluate,
)
from pymc_tempering.engine.tally import EVALUATIONS, count_move, count_reference_draw
from pymc_tempering.jit import compiled
from pymc_tempering.types import BoolArray, FloatArray

__all__ = ["AnnealedChain", "AnnealingLog", "TargetMove", "anneal_ensemble", "anneal_forward",
           "anneal_reverse", "annealing_scans", "target_chain"]  # fmt: skip


class TargetMove(NamedTuple):
    """The move of a draw of the target at beta = 1: an explorer and its scale."""

    explorer: Explorer
    scale: float


@compiled(borrows=True)
def _draw_momentum(replicas: Replicas, rng: np.random.Generator) -> None:
    momentum = kept_momentum(replicas)
    for i in range(momentum.shape[0]):
        momentum[i] = rng.standard_normal()


@compiled(borrows=True, apart=True)
def anneal_forward(
    path: Path,
    moves: AnnealingMoves,
    replicas: Replicas,
    row: int,
    draw: FloatArray,
    tally: AnnealingTally,
    rng: np.random.Generator,
) -> float:
    r"""Anneal one particle from the reference to the target; the mean of its weight is Z.

    Position and momentum are drawn afresh. For k = 1, ..., N the log weight grows by
    :math:`(\beta_k - \beta_{k-1})\,\delta(u)`, and then transition k moves the particle; the last
    one is at beta = 1 (Sohl-Dickstein & Culpepper 2012, eq. 25; increments as in Neal 2001). `row`
    is overwritten with the end of the run. Returns the log weight in nats, ``-inf`` for a particle
    that started where the target has no density. `draw` is as for
    :func:`.replicas.draw_from_reference`.
    """
    bad_gradient = draw_from_reference(path, replicas, row, draw, rng)
    count_reference_draw(tally.counts[0], replicas.delta[row], bad_gradient)
    if replicas.log_target[row] == -np.inf:
        return -np.inf
    _draw_momentum(replicas, rng)
    betas, log_weight = moves.betas, 0.0
    for level in range(1, betas.shape[0]):
        log_weight += (betas[level] - betas[level - 1]) * replicas.delta[row]
        annealing_transition(False, level, path, moves, replicas, row, tally, rng)
    return log_weight


@compiled(borrows=True, apart=True)
def anneal_reverse(
    path: Path,
    moves: AnnealingMoves,
    replicas: Replicas,
    row: int,
    tally: AnnealingTally,
    rng: np.random.Generator,
) -> float:
    r"""Run from a draw of the target back to the reference: the exact reversal of a forward run.

    Momentum is drawn from N(0, I). For k = N, ..., 1 the reversal of transition k moves the
    particle, and then the log weight grows by :math:`(\beta_k - \beta_{k-1})\,\delta(u)`: the same
    increments at the same states as forward. The mean of 1 / W is b / Z, where b is the
    reference's mass on the support of the target. Returns log W with the sign of the forward run,
    finite, in nats.
    """
    _draw_momentum(replicas, rng)
    betas, log_weight = moves.betas, 0.0
    for level in range(betas.shape[0] - 1, 0, -1):
        annealing_transition(True, level, path, moves, replicas, row, tally, rng)
        log_weight += (betas[level] - betas[level - 1]) * replicas.delta[row]
    return log_weight


@compiled(borrows=True)
def anneal_ensemble(
    reverse: bool,
    path: Path,
    moves: AnnealingMoves,
    replicas: Replicas,
    positions: FloatArray,
    log_weights: FloatArray,
    tally: AnnealingTally,
    rng: np.random.Generator,
) -> None:
    """Anneal independent particles, one after another, with one replica.

    `positions` (n, D) are overwritten with the ends of the runs, in the path's coordinates. Reverse
    runs start there, from draws of the target, and so do forward runs from a reference that is not
    Gaussian. A reverse particle that starts where the density is zero gets the weight nan.
    """
    n, dim = positions.shape
    n_drawn = replicas.residual.shape[1]
    for particle in range(n):
        if reverse:
            for i in range(dim):
                replicas.u[0, i] = positions[particle, i]
            evaluate(path, replicas, 0)
            tally.counts[0, EVALUATIONS] += 1
            if replicas.log_target[0] == -np.inf:
                log_weights[particle] = np.nan
                continue
            log_weights[particle] = anneal_reverse(path, moves, replicas, 0, tally, rng)
        else:
            draw = positions[particle, :n_drawn]
            log_weights[particle] = anneal_forward(path, moves, replicas, 0, draw, tally, rng)
        for i in range(dim):
            positions[particle, i] = replicas.u[0, i]


@compiled(borrows=True)
def target_chain(
    path: Path,
    target_move: TargetMove,
    n_moves: int,
    first: int,
    positions: FloatArray,
    replicas: Replicas,
    rng: np.random.Generator,
) -> None:
    """Continue `first` draws of the target by moves at beta = 1.

    Row i is row ``i - first`` moved on.

    The chain is stationary where the draws are exact: every further position (n, D) is then an
    exact draw too, if not an independent one. `n_moves` are made between successive positions.
    """
    n, dim = positions.shape
    for row in range(first, n):
        for i in range(dim):
            replicas.u[0, i] = positions[row - first, i]
        evaluate(path, replicas, 0)
        if replicas.log_target[0] > -np.inf:
            for _ in range(n_moves):
                explore(path, target_move.explorer, 1.0, target_move.scale, replicas, 0, rng)
        for i in range(dim):
            positions[row, i] = replicas.u[0, i]


class AnnealedChain(NamedTuple):
    """State of the chain; overwritten."""

    replicas: Replicas  # two: y, and the particle that is being annealed
    log_weight: FloatArray  # (1,), log W of y, nats


class AnnealingLog(NamedTuple):
    """What scans write down; overwritten."""

    log_weight_forward: FloatArray  # (n_scans,), log W' of every proposed particle
    log_weight_reverse: FloatArray  # (n_scans,), every redrawn log W
    accepted: BoolArray  # (n_scans,)
    # (n_scans, D) or (0, D), y after each scan, in the path's coordinates
    target_positions: FloatArray
    # (n_scans, D), made beforehand; (n_scans, 0) where they are made here
    reference_draws: FloatArray


@compiled(borrows=True)
def annealing_scans(
    path: Path,
    moves: AnnealingMoves,
    target_move: TargetMove,
    chain: AnnealedChain,
    log: AnnealingLog,
    tally: AnnealingTally,
    rng: np.random.Generator,
) -> None:
    r"""Run as many scans as the log has entries, in place.

    A scan leaves the joint law of y and its annealing run invariant, whose marginal in y is the
    target:

    1. Anneal a new particle with weight W'. Replace y and W by it with probability
       :math:`\min(1, W' / W)` (particle independent Metropolis-Hastings; Andrieu, Doucet &
       Holenstein 2010, section 2.4.2).
    2. Move y at beta = 1.
    3. Draw W from its law given y: the weight of the exact reversal, started from y.
    """
    replicas = chain.replicas
    y, particle = 0, 1
    for scan in range(log.accepted.shape[0]):
        log_weight = anneal_forward(
            path, moves, replicas, particle, log.reference_draws[scan], tally, rng
        )
        log.log_weight_forward[scan] = log_weight
        log_ratio = log_weight - chain.log_weight[0]
        log.accepted[scan] = log_weight > -np.inf and (
            log_ratio >= 0.0 or rng.random() < np.exp(log_ratio)
        )
        if log.accepted[scan]:
            copy_replica(replicas, particle, y)
        move = explore(path, target_move.explorer, 1.0, target_move.scale, replicas, y, rng)
        count_move(tally.counts[-1], move, True)
        copy_replica(replicas, y, particle)
        chain.log_weight[0] = anneal_reverse(path, moves, replicas, particle, tally, rng)
        log.log_weight_reverse[scan] = chain.log_weight[0]
        if log.target_positions.shape[0] > 0:
            for i in range(replicas.u.shape[1]):
                log.target_positions[scan, i] = replicas.u[y, i]
