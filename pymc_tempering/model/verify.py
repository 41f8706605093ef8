"""No density is trusted unchecked: machine code against PyTensor's own evaluation of the graph."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pymc_tempering.errors import ModelError
from pymc_tempering.model.graph import CannotInterpretError, interpret, naming_indices
from pymc_tempering.types import FloatArray

_TOLERANCE = {"float64": 1e-6, "float32": 2e-2}
"""Far above what the order of a sum changes, far below what another model gives."""

_STALE_CACHE = (
    "A damaged or foreign cache of compiled code does this: run `pytensor-cache purge`, then try "
    "again; if it persists, please report the model."
)
_WRONG_OP = (
    "PyTensor's backend {!r} is wrong about an Op of this model: take another `backend`, and "
    "please report it to PyTensor."
)


# points without density divide by zero and the like, as compiled code does without a word
@np.errstate(all="ignore")
def verify_density(
    value_and_grad: Callable[[FloatArray], tuple[float, FloatArray]],
    function: Any,
    points: FloatArray,
    data: Sequence[np.ndarray] = (),
    backend: str = "numba",
) -> None:
    """Compare a density that kernels call by address with the graph it was made from.

    The graph is evaluated at points of shape (n, D) by the Python code of its Ops or, where that is
    not possible, by `function`, which PyTensor made of it and which takes `data` after the vector.
    Points at which a value is not finite say nothing. ModelError if value or gradient differ at any
    point, or an index is out of range there.
    """
    graph = function.maker.fgraph
    tolerance = _TOLERANCE["float32" if _computes_in_single(graph) else "float64"]
    for z in points:
        # before compiled code, which may write beside an array
        with naming_indices(f" at the unconstrained values {_short(z)}"):
            try:
                expected, expected_grad = interpret(graph, [z.copy(), *map(np.copy, data)])
            except IndexError:
                raise
            except Exception as error:
                # which names what Python code in it raises
                value_and_grad(z)
                if isinstance(error, ArithmeticError | ValueError | AssertionError):
                    # a parameter check has failed, where compiled code gives -inf
                    continue
                if not isinstance(error, CannotInterpretError):
                    raise
                try:
                    expected, expected_grad = function(z.copy(), *data)
                except ArithmeticError:
                    # as zero to the power of -1, in the slope of rho**0 where rho is 0
                    continue
        expected, expected_grad = float(expected), np.asarray(expected_grad, dtype=np.float64)
        check_same_density(z, value_and_grad(z), (expected, expected_grad), backend, tolerance)


def check_same_density(
    z: FloatArray,
    found: tuple[float, FloatArray],
    expected: tuple[float, FloatArray],
    backend: str,
    tolerance: float = _TOLERANCE["float64"],
) -> None:
    """Refuse a density that differs from the expected one at ``z``, in value or gradient."""
    if not _agree(found, expected, tolerance):
        raise ModelError(
            f"The compiled log density is not that of this model: at {_short(z)} it is "
            f"{found[0]:.6g} with gradient {_short(found[1])}, where PyTensor's own evaluation "
            f"gives {expected[0]:.6g} and {_short(expected[1])}. Nothing was sampled. "
            f"{_STALE_CACHE if backend == 'numba' else _WRONG_OP.format(backend)}"
        )


def _computes_in_single(graph: Any) -> bool:
    """Whether results depend on the order of operations in the seventh digit.

    What is made of constants alone does not count. PyTensor makes those of small integers, as
    counts are, float32, but both evaluations read the same ones.
    """
    computed = set(graph.inputs)
    for node in graph.toposort():
        if not computed.isdisjoint(node.inputs):
            computed.update(node.outputs)
    return any(getattr(v.type, "dtype", None) == "float32" for v in computed)


def _agree(
    compiled: tuple[float, FloatArray], expected: tuple[float, FloatArray], tolerance: float
) -> bool:
    if not (np.isfinite(compiled[0]) and np.isfinite(expected[0])):
        return True
    if compiled[1].shape != expected[1].shape:
        return False
    finite = np.isfinite(compiled[1]) & np.isfinite(expected[1])
    scale = 1.0 + np.abs(expected[1][finite]).max(initial=0.0)
    return bool(
        abs(compiled[0] - expected[0]) <= tolerance * (1.0 + abs(expected[0]))
        and (np.abs(compiled[1] - expected[1])[finite] <= tolerance * scale).all()
    )


def _short(values: FloatArray) -> str:
    return np.array2string(values, precision=4, threshold=8, edgeitems=3)
