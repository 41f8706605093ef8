"""Where replicas are, everything that was evaluated there, and trial positions beside them.

Moves that propose positions write them into a row of the replicas' scratch space and decide by what
is found there; until one is taken, the replica stays what it was.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.path import GAUSSIAN, Path, evaluate_reference, evaluate_target
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray


class Work(IntEnum):
    """Rows of the replicas' scratch space, after the two with which densities are evaluated."""

    POSITION = 2  # that is tried, and what was evaluated there
    GRADIENT = 3
    RESIDUAL = 4
    MOMENTUM = 5  # of the trajectory that is followed
    KEPT_MOMENTUM = 6  # from one annealing transition to the next
    MEAN = 7  # of the path around which Gibbs sweeps move the other coordinates
    PROBE = 8  # beside a position, for the curvature there, and what was evaluated at it
    PROBE_GRADIENT = 9
    PROBE_RESIDUAL = 10
    DIRECTION = 11


N_WORK = 2 + len(Work)


class Replicas(NamedTuple):
    """Positions of n replicas on a path, in its coordinates; the arrays are overwritten."""

    u: FloatArray  # (n, D)
    grad: FloatArray  # (n, D), gradients of the log target
    # (n, D), gradients of the log reference plus u; (n, 0) for a Gaussian reference
    residual: FloatArray
    log_target: FloatArray  # (n,), nats
    log_reference: FloatArray  # (n,), nats
    delta: FloatArray  # (n,), their difference
    work: FloatArray  # (N_WORK, D), scratch space, see `Work`


def new_replicas(path: Path, u: FloatArray) -> Replicas:
    """Replicas at ``u`` of shape (n, D), evaluated there."""
    n, dim = u.shape
    # the residual of a Gaussian reference is zero
    n_residual = 0 if path.reference_address == GAUSSIAN else dim
    replicas = Replicas(
        np.array(u, order="C"), np.zeros((n, dim)), np.zeros((n, n_residual)),
        np.full(n, -np.inf), np.full(n, -np.inf), np.full(n, -np.inf), np.zeros((N_WORK, dim)),
    )  # fmt: skip
    for row in range(n):
        evaluate(path, replicas, row)
    return replicas


@compiled(borrows=True, apart=True)
def evaluate(path: Path, replicas: Replicas, row: int) -> bool:
    """Evaluate both densities at one replica, and say whether the gradient was bad."""
    u, work = replicas.u[row], replicas.work
    log_target, bad_gradient = evaluate_target(path, u, replicas.grad[row], work)
    log_reference = evaluate_reference(path, u, replicas.residual[row], work)
    replicas.log_target[row] = log_target
    replicas.log_reference[row] = log_reference
    # also where neither has any density
    replicas.delta[row] = -np.inf if log_target == -np.inf else log_target - log_reference
    return bad_gradient


@compiled(borrows=True, inside=True)
def draw_from_reference(
    path: Path, replicas: Replicas, row: int, draws: FloatArray, rng: np.random.Generator
) -> bool:
    """Put one replica at an independent draw from the reference; whether its gradient was bad.

    `draws` is one ``u`` of shape (D,), made beforehand of a reference that only Python code can
    draw from, or has shape (0,) for a Gaussian reference.
    """
    u = replicas.u[row]
    if draws.shape[0] == 0:
        for i in range(u.shape[0]):
            u[i] = rng.standard_normal()
    else:
        for i in range(u.shape[0]):
            u[i] = draws[i]
    return evaluate(path, replicas, row)


@compiled(borrows=True, inside=True)
def copy_replica(replicas: Replicas, source: int, row: int) -> None:
    """Put one replica where another is."""
    for i in range(replicas.u.shape[1]):
        replicas.u[row, i] = replicas.u[source, i]
        replicas.grad[row, i] = replicas.grad[source, i]
    for i in range(replicas.residual.shape[1]):
        replicas.residual[row, i] = replicas.residual[source, i]
    replicas.log_target[row] = replicas.log_target[source]
    replicas.log_reference[row] = replicas.log_reference[source]
    replicas.delta[row] = replicas.delta[source]


class Trial(NamedTuple):
    """What was evaluated at a trial position."""

    log_target: float  # nats
    log_reference: float  # nats
    bad_gradient: bool  # see `path.evaluate_target`


@compiled(inline="always")
def trial_position(replicas: Replicas) -> FloatArray:
    """Where a move writes the position that it tries; shape (D,)."""
    return replicas.work[Work.POSITION]


@compiled(borrows=True, apart=True)
def evaluate_trial(path: Path, replicas: Replicas) -> Trial:
    """Evaluate both densities at the trial position."""
    work = replicas.work
    residual = work[Work.RESIDUAL, : replicas.residual.shape[1]]
    log_target, bad_gradient = evaluate_target(path, work[Work.POSITION], work[Work.GRADIENT], work)
    log_reference = evaluate_reference(path, work[Work.POSITION], residual, work)
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
        replicas.u[row, i] = work[Work.POSITION, i]
        replicas.grad[row, i] = work[Work.GRADIENT, i]
    for i in range(replicas.residual.shape[1]):
        replicas.residual[row, i] = work[Work.RESIDUAL, i]
    replicas.log_target[row] = trial.log_target
    replicas.log_reference[row] = trial.log_reference
    replicas.delta[row] = trial.log_target - trial.log_reference
