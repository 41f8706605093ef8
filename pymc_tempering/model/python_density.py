"""Log densities that run Python code, as C functions, and those that JAX computes.

numba can call Python from compiled code, but an exception there stays pending where nobody looks,
and the process dies at the next call. Here compiled code calls Python as a whole instead.

JAX is loaded here at the earliest. It computes in single precision unless it is told otherwise, and
in threads, which a forked process does not have: it would wait for them for ever.
"""

import ctypes
import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from importlib.util import find_spec
from typing import Any

import numpy as np
from pymc.pytensorf import compile as pymc_compile
from pytensor.graph.traversal import ancestors

from pymc_tempering.engine.guard import has_failed, keep_failure
from pymc_tempering.errors import OptionError, WorkerError
from pymc_tempering.model.point import PointMap
from pymc_tempering.private.of_pymc import parameter_error
from pymc_tempering.private.of_pytensor import is_for_jax, jitted
from pymc_tempering.types import FloatArray

_C_DENSITY = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)

_OBJECT_MODE = "Numba will use object mode"

_NO_DENSITY = (parameter_error(), np.linalg.LinAlgError, ArithmeticError)
"""What an Op may raise where the density is zero or cannot be computed."""


@contextmanager
def watch_for_python() -> Iterator[list[str]]:
    """Notice whether PyTensor's numba backend falls back on Python for an Op that it compiles.

    It says so by a warning, which is kept back, as that fallback is not what runs, and is in the
    list in the end. Other warnings are passed on.
    """
    found: list[str] = []
    with warnings.catch_warnings(record=True, action="always") as caught:
        yield found
    for warning in caught:
        if str(warning.message).startswith(_OBJECT_MODE):
            found.append(str(warning.message))
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


NO_FORK = (
    "JAX computes this model, or a part of it, in threads that a forked process does not have, so "
    "that it would wait for ever"
)


def jax_is_installed() -> bool:
    """Whether JAX could be loaded."""
    return find_spec("jax") is not None


def made_for_jax(graph: Any) -> str:
    """Names of the Ops of a graph that are written for JAX; empty where there are none."""
    ops = (v.owner.op for v in ancestors([graph]) if v.owner is not None)
    names = (getattr(op, "name", None) or type(op).__name__ for op in ops if is_for_jax(op))
    return ", ".join(dict.fromkeys(names))


def check_jax() -> None:
    """OptionError where JAX is not installed, WorkerError where it would wait for ever."""
    if not jax_is_installed():
        raise OptionError(
            "`backend` is 'jax', and JAX is not installed: `pip install 'pymc-tempering[jax]'`. "
            "Leave `backend` away for what is there."
        )
    _refuse_forked()


def double_precision() -> AbstractContextManager[Any]:
    """Have JAX, where it is loaded, compute in double precision in this thread."""
    jax = sys.modules.get("jax")
    return nullcontext() if jax is None else jax.enable_x64(True)


def jax_function(
    inputs: list[Any], outputs: list[Any], start: FloatArray
) -> tuple[Callable[[FloatArray], tuple[float, FloatArray]], Any]:
    """Compile a log density and its gradient with JAX, and evaluate it once at `start`.

    JAX finds at the first call what it cannot compile. Returns the function from a vector of shape
    (D,) to log density (nats) and gradient in double precision, and the PyTensor function that it
    is made of. The former raises WorkerError in a process forked from one in which JAX was used.
    OptionError if JAX is not installed; what JAX raises is passed on.
    """
    check_jax()
    import jax
    import jax.numpy as jnp

    with jax.enable_x64(True):
        function = pymc_compile(inputs, outputs, mode="JAX")
    inner = jitted(function)

    @jax.jit
    def both(z: Any) -> Any:
        # one array, as fetching each takes longer than computing it
        value, gradient = inner(z)
        return jnp.append(gradient, value)

    def called(z: FloatArray) -> tuple[float, FloatArray]:
        _refuse_forked()
        with jax.enable_x64(True):
            found = np.asarray(both(z))
        return float(found[-1]), found[:-1]

    called(start)
    return called, function


# where JAX was first asked for, which forked processes remember
_process = functools.cache(os.getpid)


def _refuse_forked() -> None:
    if os.getpid() != _process():
        raise WorkerError(f'{NO_FORK}. Pass `mp_ctx="spawn"`, or `cores=1`.')
