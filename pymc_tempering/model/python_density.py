"""A log density that runs Python code, as a C function.

numba can call Python from compiled code, but an exception there stays pending where nobody looks,
and the process dies at the next call. Here compiled code calls Python as a whole instead.
"""

import ctypes
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from pymc_tempering.engine.guard import has_failed, keep_failure
from pymc_tempering.model.point import PointMap
from pymc_tempering.private import parameter_error

__all__ = ["PythonOps", "python_density", "watch_for_python"]

_C_DENSITY = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)

_OBJECT_MODE = "Numba will use object mode"

_NO_DENSITY = (parameter_error(), np.linalg.LinAlgError, ArithmeticError)
"""What an Op may raise where the density is zero or cannot be computed."""


class PythonOps:
    """Whether a graph was found to run Python code."""

    found = False


@contextmanager
def watch_for_python() -> Iterator[PythonOps]:
    """Notice whether PyTensor's numba backend falls back on Python for an Op that it compiles.

    It says so by a warning, which is kept back, as that fallback is not what runs. Other warnings
    are passed on.
    """
    ops = PythonOps()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield ops
    for warning in caught:
        if str(warning.message).startswith(_OBJECT_MODE):
            ops.found = True
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def python_density(value_and_grad: Any, points: PointMap) -> Any:
    """Make a C function ``double f(const double *z, double *grad)`` of a Python function.

    It never raises: exceptions are kept for :func:`pymc_tempering.engine.guard.density_guard`, and
    until they are raised there every evaluation in the same thread returns ``-inf`` at once. It is
    ``-inf`` too for ParameterValueError, LinAlgError and ArithmeticError. The result has to be kept
    as long as its address is used.
    """
    vector = ctypes.c_double * points.dim

    @_C_DENSITY
    def call(z_address: int, grad_address: int) -> float:
        try:
            if has_failed():
                return -np.inf
            # copied: an Op may keep or change what it is given
            z = np.array(vector.from_address(z_address))
            try:
                value, gradient = value_and_grad(z.copy())
                if np.shape(gradient) != (points.dim,):
                    raise ValueError(
                        f"the gradient has shape {np.shape(gradient)}; expected ({points.dim},)"
                    )
                np.frombuffer(vector.from_address(grad_address))[:] = gradient
                return float(value)
            except _NO_DENSITY:
                return -np.inf
            except BaseException as error:  # noqa: BLE001  raised by the guard
                keep_failure(error, points.unravel(z))
                return -np.inf
        except BaseException as error:  # noqa: BLE001  an interrupt between the lines above
            keep_failure(error, {})
            return -np.inf

    return call
