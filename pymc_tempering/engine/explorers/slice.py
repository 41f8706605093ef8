"""Slice sampling, coordinate by coordinate: no gradient, no rejection.

Each update draws a level below the tempered log density of the present point, finds an interval of
the coordinate that holds part of the slice by stepping out, and draws from the interval, shrinking
it towards the present point after each miss (Neal 2003, "Slice sampling", sections 4.1 and 4.2,
figures 3 and 5).
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from pymc_tempering.engine.move import ACCEPTED, REJECTED, ExplorerSettings, Move
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import (
    Replicas,
    Trial,
    evaluate_trial,
    log_tempered,
    take_trial,
    trial_position,
)
from pymc_tempering.jit import compiled
from pymc_tempering.numerics import draw_below
from pymc_tempering.types import FloatArray


@compiled(borrows=True)
def _try(path: Path, replicas: Replicas, counts: FloatArray) -> Trial:
    trial = evaluate_trial(path, replicas)
    counts[0] += 1.0
    counts[1] += trial.bad_gradient
    return trial


@compiled(borrows=True)
def _log_density(path: Path, beta: float, replicas: Replicas, counts: FloatArray) -> float:
    """Tempered log density at the trial position, in nats."""
    trial = _try(path, replicas, counts)
    return log_tempered(beta, trial.log_target, trial.log_reference)


@compiled(borrows=True, apart=True)
def update_coordinate(
    path: Path, options: FloatArray, at: tuple[float, float, int], replicas: Replicas, row: int,
    counts: FloatArray, rng: np.random.Generator,
) -> bool:  # fmt: skip
    """Update one coordinate; ``counts`` are evaluations, bad gradients, expansions, shrinkages."""
    beta, width, i = at
    u, position = replicas.u[row], trial_position(replicas)
    present = log_tempered(beta, replicas.log_target[row], replicas.log_reference[row])
    level = present + np.log(1.0 - rng.random())
    left = u[i] - width * rng.random()
    right = left + width
    # the number of steps to either side is split at random, or the interval would not be as likely
    # from any other point of the slice
    n_left = int(np.floor((options[0] + 1.0) * rng.random()))
    n_right = int(options[0]) - n_left
    position[i] = left
    while n_left > 0 and _log_density(path, beta, replicas, counts) > level:
        left -= width
        position[i] = left
        n_left -= 1
        counts[2] += 1.0
    position[i] = right
    while n_right > 0 and _log_density(path, beta, replicas, counts) > level:
        right += width
        position[i] = right
        n_right -= 1
        counts[2] += 1.0
    # by then an interval has no length left
    for _ in range(100):
        position[i] = left + (right - left) * rng.random()
        trial = _try(path, replicas, counts)
        if log_tempered(beta, trial.log_target, trial.log_reference) > level:
            take_trial(trial, replicas, row)
            return True
        counts[3] += 1.0
        if position[i] < u[i]:
            left = position[i]
        else:
            right = position[i]
    position[i] = u[i]
    return False


@compiled
def slice_move(
    path: Path, options: FloatArray, beta: float, width: float, replicas: Replicas, row: int,
    rng: np.random.Generator,
) -> Move:  # fmt: skip
    """Update coordinates of one replica; the density at ``beta`` in [0, 1] stays invariant.

    `options` are the largest number of expansions and the coordinates to update, 0 for all; `width`
    is the first length of the interval, in standard deviations of the reference.
    """
    dim = replicas.u.shape[1]
    n_updates = int(options[1]) if options[1] > 0.0 else dim
    counts, position = np.zeros(4), trial_position(replicas)
    for i in range(dim):
        position[i] = replicas.u[row, i]
    first = draw_below(dim, rng)
    status = REJECTED
    for k in range(n_updates):
        at = (beta, width, (first + k) % dim)
        if update_coordinate(path, options, at, replicas, row, counts, rng):
            status = ACCEPTED
    total = counts[2] + counts[3]
    signal = counts[2] / total if total > 0.0 else 0.5
    return Move(1.0 if status == ACCEPTED else 0.0, signal, status, int(counts[0]), int(counts[1]))


@dataclass(frozen=True)
class Slice(ExplorerSettings):
    """Coordinate-wise slice sampling.

    Attributes
    ----------
    aim : float
        Share of expansions among expansions and shrinkages that tuning of the width aims at.
        Default 0.5: an interval that is too short costs as much as one that is too long.
    max_expansions : int
        Largest number of times that an interval is stepped out, default 16.
    n_updates : int
        Coordinates that a move updates, from a random one on. Default 0: all of them.
    """

    needs_gradient: ClassVar[bool] = False
    # the width bounds itself, by shrinkages; this keeps it finite where a density is flat
    max_scale: ClassVar[float] = 1e3
    move: ClassVar[Any] = staticmethod(slice_move)
    aim: float = 0.5
    max_expansions: int = field(default=16, metadata={"least": 0})
    n_updates: int = field(default=0, metadata={"least": 0})

    def most_evaluations(self, dim: int) -> int:
        """Twice what updates take on average; there is no bound that they are not far from."""
        # an update of one coordinate takes 6 evaluations at the tuned width
        return 6 * 2 * (self.n_updates or dim)
