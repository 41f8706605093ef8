"""A trial position of one replica: evaluated beside it, and taken or left.

Moves that propose positions write them into a row of the replicas' scratch space and decide by what
is found there; until one is taken, the replica stays what it was.
"""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.path import Path, evaluate_reference, evaluate_target
from pymc_tempering.engine.path.replicas import Replicas
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

__all__ = ["GRADIENT", "POSITION", "RESIDUAL", "Trial", "evaluate_trial",
           "log_tempered", "take_trial", "trial_position"]  # fmt: skip

POSITION, GRADIENT, RESIDUAL = 2, 3, 4
"""Rows of the scratch space, beside the two with which densities are evaluated."""


class Trial(NamedTuple):
    """What was evaluated at a trial position."""

    log_target: float  # nats
    log_reference: float  # nats
    bad_gradient: bool  # see `path.evaluate_target`


@compiled(inline="always")
def trial_position(replicas: Replicas) -> FloatArray:
    """Where a move writes the position that it tries; shape (D,)."""
    return replicas.work[POSITION]


@compiled(borrows=True, apart=True)
def evaluate_trial(path: Path, replicas: Replicas) -> Trial:
    """Evaluate both densities at the trial position."""
    work = replicas.work
    residual = work[RESIDUAL, : replicas.residual.shape[1]]
    log_target, bad_gradient = evaluate_target(path, work[POSITION], work[GRADIENT], work)
    log_reference = evaluate_reference(path, work[POSITION], residual, work)
    return Trial(log_target, log_reference, bad_gradient)


@compiled(borrows=True)
def log_tempered(beta: float, log_target: float, log_reference: float) -> float:
    """Log density of the path at ``beta``, up to its constant, in nats.

    At beta = 1 the reference does not count, even where its density is zero.
    """
    if log_target == -np.inf:
        return -np.inf
    tempered = beta * log_target
    if beta < 1.0:
        tempered += (1.0 - beta) * log_reference
    return tempered


@compiled(borrows=True)
def take_trial(trial: Trial, replicas: Replicas, row: int) -> None:
    """Move one replica to the trial position, which was evaluated last."""
    work = replicas.work
    for i in range(replicas.u.shape[1]):
        replicas.u[row, i] = work[POSITION, i]
        replicas.grad[row, i] = work[GRADIENT, i]
    for i in range(replicas.residual.shape[1]):
        replicas.residual[row, i] = work[RESIDUAL, i]
    replicas.log_target[row] = trial.log_target
    replicas.log_reference[row] = trial.log_reference
    replicas.delta[row] = trial.log_target - trial.log_reference
