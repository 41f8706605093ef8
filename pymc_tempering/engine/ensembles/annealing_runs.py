r"""One annealing run, forward or exactly reversed, with its log weight.

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
from pymc_tempering.engine.path.replicas import Replicas, draw_from_reference, evaluate
from pymc_tempering.engine.tally import EVALUATIONS, count_reference_draw
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

__all__ = ["TargetMove", "anneal_ensemble", "anneal_forward", "anneal_reverse", "target_chain"]


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
    one is at beta = 1 (Sohl-Dickstein & Culpepper 2012, eq. 25; increments as in Neal 2001).

    Parameters
    ----------
    path : Path
    moves : AnnealingMoves
    replicas : Replicas
    row : int
        Of the particle; overwritten with the end of the run.
    draw : ndarray of shape (D,) or (0,)
        See :func:`pymc_tempering.engine.path.replicas.draw_from_reference`.
    tally : AnnealingTally
    rng : numpy.random.Generator

    Returns
    -------
    float
        Log weight in nats; ``-inf`` for a particle that started where the target has no density.
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
    reference's mass on the support of the target.

    Parameters
    ----------
    path, moves, tally, rng
        As for :func:`anneal_forward`.
    replicas : Replicas
    row : int
        At a draw of the target; overwritten with the end of the run.

    Returns
    -------
    float
        Log weight with the sign of the forward run, in nats; finite.
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
    """Anneal independent particles, one after another.

    Parameters
    ----------
    reverse : bool
        Start from ``positions``, draws of the target, instead of the reference.
    path : Path
    moves : AnnealingMoves
    replicas : Replicas
        One, for the particle.
    positions : ndarray of shape (n_particles, D)
        In the path's coordinates; overwritten with the ends of the runs. Forward runs from a
        reference that is not Gaussian start from here too.
    log_weights : ndarray of shape (n_particles,)
        Overwritten; see :func:`anneal_forward` and :func:`anneal_reverse`. A reverse particle that
        starts where the density is zero gets nan.
    tally : AnnealingTally
    rng : numpy.random.Generator
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
    """Continue draws of the target by moves at beta = 1.

    The chain is stationary where the draws are exact: every further position is then an exact draw
    too, if not an independent one.

    Parameters
    ----------
    path : Path
    target_move : TargetMove
    n_moves : int
        Moves between successive positions.
    first : int
        Number of draws given, at least 1.
    positions : ndarray of shape (n, D)
        In the path's coordinates; row ``i >= first`` becomes row ``i - first`` moved on.
    replicas : Replicas
        One, to move.
    rng : numpy.random.Generator
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
