"""What every explorer is told and what it answers, and how its compiled move is called.

A move is called by its address, so that one that nobody asks for is never compiled: ensembles that
called every explorer by name would contain the machine code of all of them.
"""

from dataclasses import astuple, dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, ClassVar, NamedTuple, Self, get_type_hints

import numba
import numpy as np
from numba.extending import intrinsic

from pymc_tempering.engine.path.components import no_components
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas
from pymc_tempering.options import check_positive, check_probability, check_whole
from pymc_tempering.private.of_numba import address_of_compiled
from pymc_tempering.types import FloatArray

ACCEPTED, REJECTED, DIVERGENT, ZERO_DENSITY = 0, 1, 2, 3
"""Status of a move: taken; refused by chance; by an energy error beyond all bounds; because it ran
into a point of zero density."""


class Explorer(NamedTuple):
    """Which explorer moves the replicas, with its options, as compiled code sees it."""

    address: int  # of the compiled move, see `move_address`; 0 for Hamiltonian moves
    options: FloatArray  # (n_options,), what the explorer declares
    aim: float  # mean of the adaptation signal that tuning of the scale aims at
    log_max_scale: float  # log of the largest scale that tuning tries


class Move(NamedTuple):
    """Outcome of one move."""

    acceptance_rate: float  # probability of acceptance; 1 for moves without rejection
    # what the scale is tuned by: in [0, 1], smaller for larger scales; nan says nothing
    signal: float
    status: int  # one of the four above
    n_evaluations: int  # of the target
    n_bad_gradients: int  # evaluations of finite density whose gradient was not finite


@dataclass(frozen=True)
class ExplorerSettings:
    """Base class of the explorers' settings: frozen numbers, in the order that moves read them.

    Whatever declares a setting also bounds it: a `float` is positive, an `int` at least 1, or the
    ``least`` of its metadata, as in ``n: int = field(default=0, metadata={"least": 0})``. Anything
    else is refused with an OptionError. Tables of numbers are tuples of tuples, which the package
    itself makes. Tuning aims at a mean adaptation signal of `aim`, between 0 and 1, and tries
    scales up to `max_scale`.

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
    move: ClassVar[Any]
    """The compiled move; None for the Hamiltonian one, which every ensemble contains."""
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

        `reach` is the largest standard deviation of a mode in the path's coordinates, at most 1.
        """
        del reach
        return self


@lru_cache(maxsize=32)
def packed_within(settings: ExplorerSettings, reach: float) -> Explorer:
    """Hand :meth:`ExplorerSettings.within` to compiled code; kept, as every block of scans asks."""
    return settings.within(reach).packed


def _argument_types() -> tuple[Any, ...]:
    """Types of a path, options, beta, scale, replicas, row, and a generator."""
    one, rows = np.zeros(1), np.zeros((1, 1))
    path = Path(0, 0, one, rows, 0.0, no_components(1), np.zeros(2, dtype=np.int64))
    replicas = Replicas(rows, rows, rows, one, one, one, rows)
    values = path, one, 0.0, 0.0, replicas, 0, np.random.default_rng(0)
    return tuple(map(numba.typeof, values))


_ARGUMENTS = _argument_types()


def move_address(move: Any) -> int:
    """Address of the machine code of an explorer's move, compiled here or loaded from disk."""
    return address_of_compiled(move, _ARGUMENTS)


@intrinsic
def call_move(typingctx: Any, address: Any, result: Any, arguments: Any) -> Any:
    """Call a move at an `address` of :func:`move_address`, from compiled code.

    `result` is a :class:`.move.Move` that only gives the type; `arguments` are path, options, beta,
    scale, replicas, row and generator.
    """
    types = tuple(numba.types.unliteral(kind) for kind in arguments.types)
    if types != _ARGUMENTS:
        raise numba.TypingError(f"a move takes {_ARGUMENTS}, and was given {types}")
    signature = result(address, result, numba.types.Tuple(_ARGUMENTS))

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        convention = context.call_conv
        function_type = convention.get_function_type(sig.return_type, _ARGUMENTS)
        function = builder.inttoptr(args[0], function_type.as_pointer())
        values = [builder.extract_value(args[2], i) for i in range(len(_ARGUMENTS))]
        status, value = convention.call_function(
            builder, function, sig.return_type, _ARGUMENTS, values
        )
        with builder.if_then(status.is_error, likely=False):
            convention.return_status_propagate(builder, status)
        return value

    return signature, codegen
