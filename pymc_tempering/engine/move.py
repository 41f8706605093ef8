"""What every explorer is told and what it answers."""

from dataclasses import astuple, dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple, Self

import numpy as np

from pymc_tempering.types import FloatArray

__all__ = [
    "ACCEPTED",
    "DIVERGENT",
    "REJECTED",
    "ZERO_DENSITY",
    "Explorer",
    "ExplorerSettings",
    "Move",
]

ACCEPTED, REJECTED, DIVERGENT, ZERO_DENSITY = 0, 1, 2, 3
"""Status of a move: taken; refused by chance; by an energy error beyond all bounds; because it ran
into a point of zero density."""


class Explorer(NamedTuple):
    """Which explorer moves the replicas, with its options, as compiled code sees it.

    Attributes
    ----------
    kind : int
        Position in :data:`pymc_tempering.engine.explorers.explore.EXPLORERS`.
    options : ndarray of shape (n_options,)
        What the explorer of this kind declares.
    aim : float
        Mean of the adaptation signal that tuning of the scale aims at.
    log_max_scale : float
        Log of the largest scale that tuning tries.
    """

    kind: int
    options: FloatArray
    aim: float
    log_max_scale: float


class Move(NamedTuple):
    """Outcome of one move.

    Attributes
    ----------
    acceptance_rate : float
        Probability with which the proposal was to be accepted; 1 for moves without rejection.
    signal : float
        What the explorer's scale is tuned by: in [0, 1], smaller for larger scales.
    status : int
        One of the four above.
    n_evaluations : int
        Evaluations of the target.
    n_bad_gradients : int
        Those of finite density whose gradient was not finite.
    """

    acceptance_rate: float
    signal: float
    status: int
    n_evaluations: int
    n_bad_gradients: int


@dataclass(frozen=True)
class ExplorerSettings:
    """Base class of the explorers' settings: frozen numbers, in the order that moves read them.

    Attributes
    ----------
    kind : int
        Which explorer these are the settings of.
    needs_gradient : bool
    max_scale : float
        Largest scale that tuning tries, default without bound.
    aim : float
        Mean of the adaptation signal that tuning of the scale aims at.
    """

    kind: ClassVar[int]
    needs_gradient: ClassVar[bool]
    max_scale: ClassVar[float] = np.inf
    aim: float

    @cached_property
    def packed(self) -> Explorer:
        """Hand the settings to compiled code."""
        aim, *options = astuple(self)
        log_max_scale = float(np.log(self.max_scale))
        return Explorer(self.kind, np.array(options, dtype=np.float64), float(aim), log_max_scale)

    def within(self, reach: float) -> Self:
        """Settings for a path whose modes are smaller than its reference; the same by default.

        Parameters
        ----------
        reach : float
            Largest standard deviation of a mode in the coordinates of the path, at most 1.
        """
        del reach
        return self
