"""Constant matrices in one order in memory, so that numba compiles what takes them once."""

from typing import Any

import numpy as np
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.basic import graph_rewriter

__all__ = ["MAX_BYTES", "numba_mode"]

_AFTER_ALL_OTHERS = 1000.0

MAX_BYTES = 10**8
"""Beyond which a second copy in memory is worse than a second compilation."""


@graph_rewriter
def _by_rows(graph: Any) -> None:
    # a transposed constant is folded into one by columns, which is another type to numba
    for variable in [v for v in graph.variables if isinstance(v, Constant)]:
        data = variable.data
        if not isinstance(data, np.ndarray) or data.nbytes > MAX_BYTES:
            continue
        if not data.flags.c_contiguous:
            by_rows = variable.type.make_constant(np.ascontiguousarray(data))
            graph.replace(variable, by_rows, import_missing=True)


def numba_mode() -> Mode:
    """PyTensor's mode of numba, with constant arrays stored by rows.

    The gradient of a product with a matrix is one with its transpose. By rows both are the same
    compiled product, of which the compilation takes longer than that of the rest of most models.
    """
    return get_mode("NUMBA").register((_by_rows, _AFTER_ALL_OTHERS))
