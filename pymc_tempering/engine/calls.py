"""Calling a compiled move by its address: one that nobody asks for is never compiled.

Ensembles that called every explorer by name would contain the machine code of all of them, and take
that much longer to compile.
"""

from typing import Any

import numba
import numpy as np
from numba.extending import intrinsic

from pymc_tempering.engine.path.components import no_components
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import N_WORK, Replicas
from pymc_tempering.private.of_numba import address_of_compiled

__all__ = ["call_move", "move_address"]

_ROW, _ROWS = np.zeros(1), np.zeros((1, 1))
_ARGUMENTS = tuple(
    numba.typeof(value)
    for value in (
        Path(0, 0, _ROW, _ROWS, 0.0, no_components(1), np.zeros(2, dtype=np.int64)),
        _ROW, 0.0, 0.0,
        Replicas(_ROWS, _ROWS, _ROWS, _ROW, _ROW, _ROW, np.zeros((N_WORK, 1))), 0,
        np.random.default_rng(0)
    )
)  # fmt: skip
"""Types of a path, options, beta, scale, replicas, row, and a generator."""


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
