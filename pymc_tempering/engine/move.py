"""What every explorer is told and what it answers."""

from dataclasses import astuple, dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple, Self, get_type_hints

import numpy as np

from pymc_tempering.engine.calls import move_address
from pymc_tempering.options import check_positive, check_probability, check_whole
from pymc_tempering.types import FloatArray

__all__ = [
    "ACCEPTED",
    "DIVERGENT",
    "REJECTED",
    "ZERO_DENSITY",
    "Explorer",
    "ExplorerSettings",
    "Move",
    "packed_within",
]

ACCEPTED, REJECTED, DIVERGENT, ZERO_DENSITY = 0, 1, 2, 3
"""Status of a move: taken; refused by chance; by an energy error beyond all bounds; because it ran
into a point of zero density."""


class Explorer(NamedTuple):
    """Which explorer moves the replicas, with its options, as compiled code sees it.

    Attributes
    ----------
    address : int
        Of the compiled move, see :func:`.calls.move_address`; 0 for Hamiltonian moves.
    options : ndarray of shape (n_options,)
        What the explorer declares.
    aim : float
        Mean of the adaptation signal that tuning of the scale aims at.
    log_max_scale : float
        Log of the largest scale that tuning tries.
    """

    address: int
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
        What the explorer's scale is tuned by: in [0, 1], smaller for larger scales; nan where the
        move says nothing of it.
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

    Whatever declares a setting also bounds it: a `float` is positive, an `int` at least 1, or the
    ``least`` of its metadata, as in ``n: int = field(default=0, metadata={"least": 0})``. Tables of
    numbers are tuples of tuples, which the package itself makes.

    Attributes
    ----------
    needs_gradient : bool
    max_scale : float
        Largest scale that tuning tries, default without bound.
    aim : float
        Mean of the adaptation signal that tuning of the scale aims at, between 0 and 1.

    Raises
    ------
    OptionError
        If a setting is out of its bounds.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Walk(ExplorerSettings):
    ...     aim: float = 0.35
    ...     n_steps: int = 5
    >>> Walk(n_steps=0)
    Traceback (most recent call last):
    pymc_tempering.errors.OptionError: `Walk.n_steps` is 0; expected a whole number of at least 1.
    """

    needs_gradient: ClassVar[bool]
    max_scale: ClassVar[float] = np.inf
    aim: float

    def __post_init__(self) -> None:
        types = get_type_hints(type(self))
        for setting in fields(self):
            name = f"{type(self).__name__}.{setting.name}"
            value = getattr(self, setting.name)
            if setting.name == "aim":
                check_probability(name, value)
            elif types[setting.name] is int:
                check_whole(name, value, setting.metadata.get("least", 1))
            elif types[setting.name] is float:
                check_positive(name, value)

    @cached_property
    def packed(self) -> Explorer:
        """Hand the settings to compiled code, with a move that is compiled here at the latest."""
        address = 0 if self.move is None else move_address(self.move)
        aim, *options = astuple(self)
        log_max_scale = float(np.log(self.max_scale))
        flat = np.concatenate([np.empty(0), *map(np.ravel, options)])
        return Explorer(address, flat, float(aim), log_max_scale)

    @property
    def move(self) -> Any:
        """The compiled move; None for the Hamiltonian one, which every ensemble contains."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        """Without the address, which is another one in another process."""
        return type(self), astuple(self)

    def most_evaluations(self, dim: int) -> int:
        """Evaluations that a move in `dim` dimensions takes at most, by default 64 and `dim`.

        What chains with `max_gradients` keep back for each; an explorer that may take more says so.
        """
        return 64 + dim

    def within(self, reach: float) -> Self:
        """Settings for a path whose modes are smaller than its reference; the same by default.

        Parameters
        ----------
        reach : float
            Largest standard deviation of a mode in the coordinates of the path, at most 1.
        """
        del reach
        return self


@lru_cache(maxsize=32)
def packed_within(settings: ExplorerSettings, reach: float) -> Explorer:
    """Hand :meth:`ExplorerSettings.within` to compiled code; kept, as every block of scans asks."""
    return settings.within(reach).packed
