"""Whole scans of HAIS as a Markov chain: a new particle, a move at the target, a new weight."""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.ensembles.annealing_moves import AnnealingMoves, AnnealingTally
from pymc_tempering.engine.ensembles.annealing_runs import (
    TargetMove,
    anneal_forward,
    anneal_reverse,
)
from pymc_tempering.engine.explorers.explore import explore
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas, copy_replica
from pymc_tempering.engine.tally import count_move
from pymc_tempering.jit import compiled
from pymc_tempering.types import BoolArray, FloatArray

__all__ = ["AnnealedChain", "AnnealingLog", "annealing_scans"]


class AnnealedChain(NamedTuple):
    """State of the chain; overwritten.

    Attributes
    ----------
    replicas : Replicas
        Two: y, and the particle that is being annealed.
    log_weight : ndarray of shape (1,)
        Log W of y, in nats.
    """

    replicas: Replicas
    log_weight: FloatArray


class AnnealingLog(NamedTuple):
    """What scans write down; overwritten.

    Attributes
    ----------
    log_weight_forward, log_weight_reverse : ndarray of shape (n_scans,)
        Log W' of every proposed particle, and every redrawn log W.
    accepted : ndarray of bool of shape (n_scans,)
    target_positions : ndarray of shape (n_scans, D) or (0, D)
        With rows, y after each scan, in the path's coordinates.
    reference_draws : ndarray of shape (n_scans, D) or (n_scans, 0)
        Draws ``u`` of the reference, made beforehand; without columns they are made here.
    """

    log_weight_forward: FloatArray
    log_weight_reverse: FloatArray
    accepted: BoolArray
    target_positions: FloatArray
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

    Parameters
    ----------
    path : Path
    moves : AnnealingMoves
    target_move : TargetMove
    chain : AnnealedChain
    log : AnnealingLog
    tally : AnnealingTally
        The sums are over both directions.
    rng : numpy.random.Generator
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
