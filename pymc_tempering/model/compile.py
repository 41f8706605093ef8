"""The only place where a model's graph becomes machine code.

PyTensor compiles the graph with its numba backend. A small wrapper turns the result into a C
function that any compiled kernel can call by address. The wrapper is kept on disk, so that a second
process starts in tenths of a second, under a key of everything it depends on: the graph with its
constants, the source, the dimension, types, flags and versions. What comes back is compared with
PyTensor's own evaluation all the same. Where an Op has no machine code, the C function calls Python
(:mod:`pymc_tempering.model.python_density`).
"""

import ctypes
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import llvmlite
import numba
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import compile as pymc_compile
from pytensor.gradient import DisconnectedInputError, NullTypeGradError
from pytensor.graph.basic import Variable
from pytensor.graph.replace import graph_replace

from pymc_tempering.engine.guard import raise_failure
from pymc_tempering.errors import ModelError
from pymc_tempering.model.freeze import (
    check_finite,
    freeze,
    shared_digest,
    shared_values,
    starting_points,
)
from pymc_tempering.model.kept import Kept
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.python_density import python_density, watch_for_python
from pymc_tempering.model.verify import verify_density
from pymc_tempering.private import (
    compile_keyed,
    draws_from_prior,
    graph_key,
    jitted,
    rewrite_before_gradient,
)
from pymc_tempering.types import FloatArray

__all__ = [
    "DENSITY_SIGNATURE",
    "CompiledDensity",
    "compile_density",
    "compile_frozen",
    "compile_prior",
    "density_graph",
    "keep_density",
    "wrapper_key",
]

DENSITY_SIGNATURE = numba.types.float64(
    numba.types.CPointer(numba.types.float64), numba.types.CPointer(numba.types.float64)
)

# An exception must not cross into a kernel: whatever the graph raises is a point of zero density.
_WRAPPER = """
def tempering_density(z_pointer, grad_pointer):
    z = carray(z_pointer, ({dim},))
    grad = carray(grad_pointer, ({dim},))
    try:
        value, gradient = inner(z)
        for i in range({dim}):
            grad[i] = gradient[i]
        return value.item()
    except Exception:
        return -np.inf
"""


N_VERIFIED = 3
"""Starting points at which compiled code is compared with PyTensor's own evaluation."""


@dataclass(frozen=True)
class CompiledDensity:
    """A model's log density and gradient as a C function of one flat unconstrained vector.

    Attributes
    ----------
    address : int
        Address of ``double f(const double *z, double *grad)``: log density in nats with all
        Jacobian terms, potentials and observed terms; ``-inf`` where it is zero. Of angles one
        period (:mod:`pymc_tempering.model.angles`).
    dim : int
        Number D of unconstrained values.
    start : ndarray of shape (D,)
        The model's initial point.
    points : PointMap
        Flat vector to named values and back.
    model : pymc.Model
        The frozen copy that was compiled.
    """

    address: int
    dim: int
    start: FloatArray
    points: PointMap
    model: pm.Model
    _function: Any = field(repr=False, compare=False)
    _keep_alive: Any = field(repr=False, compare=False)
    _made_by: tuple[Any, ...] = field(repr=False, compare=False)

    # compiled code cannot be pickled; the cache makes compiling again cheap, in a worker too
    def __reduce__(self) -> tuple[Any, ...]:
        return self._made_by

    @cached_property
    def draw_from_prior(self) -> Callable[[int], dict[str, Any]]:
        """From a seed to one draw of the prior, as values of the value variables."""
        return draws_from_prior(self.model)

    def value_and_grad(self, z: FloatArray) -> tuple[float, FloatArray]:
        """Log density (nats) and gradient of shape (D,) at ``z`` of shape (D,).

        Raises
        ------
        DensityError
            If Python code that the model calls raises.
        """
        z = np.ascontiguousarray(z, dtype=np.float64)
        if z.shape != (self.dim,):
            raise ModelError(
                f"The model has {self.dim} unconstrained values, but a vector of shape {z.shape} "
                "was given; ravel the value variables in the order of `points.names`."
            )
        grad = np.empty(self.dim)
        pointer = ctypes.POINTER(ctypes.c_double)
        value = self._function(z.ctypes.data_as(pointer), grad.ctypes.data_as(pointer))
        raise_failure()
        return value, grad


def compile_density(model: pm.Model, *, random_seed: int = 0) -> CompiledDensity:
    """Compile a model's log density and gradient into a C function.

    Data and dims are frozen into a copy; the model itself is not changed. Compiled with PyMC's
    rewrites, so that invalid parameters give ``-inf`` and not an exception, and without liberties
    in floating point, so that values are the same to the last bit in every process. A model that
    was compiled before in this process, and has not changed since, is not compiled again.

    Parameters
    ----------
    model : pymc.Model
    random_seed : int
        Seed of the starting points at which the density must be finite. Fixed by default, since a
        constructor must not depend on chance.

    Returns
    -------
    CompiledDensity

    Raises
    ------
    ModelError
        For models without free variables, with free discrete variables, with minibatches or other
        random graphs, without a gradient, or without a finite log density at any of several
        starting points; or if the compiled density is not what PyTensor evaluates.
    DensityError
        If Python code that the model calls raises at one of these points.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 1.0, 2.0)
    >>> density = compile_density(model)
    >>> value, grad = density.value_and_grad(np.array([3.0]))
    >>> round(value, 4), round(float(grad[0]), 4)
    (-2.1121, -0.5)
    """
    return _compiled.get(model, _content(model), lambda: compile_frozen(freeze(model), random_seed))


_compiled = Kept[CompiledDensity]()


def keep_density(model: pm.Model, density: CompiledDensity) -> None:
    """Let :func:`compile_density` give this density, until the model or its data change.

    Parameters
    ----------
    model : pymc.Model
    density : CompiledDensity
        Of the model as it is now.
    """
    _compiled.put(model, _content(model), density)


def compile_frozen(frozen: pm.Model, random_seed: int = 0) -> CompiledDensity:
    """Compile a model that is frozen already, as :func:`compile_density` does.

    Parameters
    ----------
    frozen : pymc.Model
    random_seed : int
    """
    # not frozen again when unpickled: PyMC orders variables anew in every copy of a model
    points = PointMap.from_model(frozen)
    if points.dim == 0:
        raise ModelError(
            f"The free variables {list(points.names)} have no entries, so there is nothing to "
            "sample; look at their shapes and at the lengths of the coordinates they are over."
        )
    made_by = compile_frozen, (frozen, random_seed)
    return _compile(frozen, points, frozen.logp(), random_seed, made_by)


def _content(model: pm.Model) -> list[Any]:
    """Everything that a model's density depends on; the objects themselves, to be compared."""
    flags = pytensor.config
    return [
        *model.basic_RVs,
        *model.potentials,
        *model.rvs_to_values.values(),
        *model.rvs_to_transforms.values(),
        *map(_by_value, model.rvs_to_initial_values.values()),
        (shared_digest(model), model.check_bounds, flags.floatX, flags.numba__cache),
    ]


def _by_value(start: Any) -> Any:
    """Form of an initial value that tells whether it was changed in place."""
    if start is None or isinstance(start, str | Variable):
        return start
    array = np.asarray(start)
    return str(array.dtype), array.shape, array.tobytes()


def compile_prior(density: CompiledDensity) -> CompiledDensity:
    """Compile the prior of a compiled model alone: the densities of its free variables.

    Potentials are left out, since what they mean is not known.

    Parameters
    ----------
    density : CompiledDensity
        Of the model.

    Returns
    -------
    CompiledDensity
        Of the same flat vector.

    Raises
    ------
    ModelError
        As for :func:`compile_density`.
    """
    model, made_by = density.model, (compile_prior, (density,))
    return _compile(model, density.points, model.logp(vars=model.free_RVs), 0, made_by)


def density_graph(
    frozen: pm.Model, points: PointMap, term: Any, data: Mapping[Any, Any] | None = None
) -> tuple[Any, Any, Any]:
    """Flat vector, log density of it, and gradient, as PyTensor variables.

    Parameters
    ----------
    frozen : pymc.Model
    points : PointMap
    term : pytensor variable
        Log density, of the value variables.
    data : mapping of constants of the graph to variables, optional
        That take their place.

    Raises
    ------
    ModelError
        Without a gradient.
    """
    # freezing knows the data that the model knows, not shared variables made without it
    given = {v: pt.as_tensor(v.get_value()) for v in shared_values([term])}
    term = graph_replace(term, given | dict(data or {}))
    [log_density], z = points.join(term, [], frozen.value_vars)
    log_density = rewrite_before_gradient(log_density).astype("float64")
    try:
        return z, log_density, pytensor.gradient.grad(log_density, z)
    except (NotImplementedError, NullTypeGradError, DisconnectedInputError) as error:
        raise ModelError(
            f"The log density of this model has no gradient ({error}). The compiled kernels need "
            "one; rewrite the term that PyTensor cannot differentiate."
        ) from error


def _compile(
    frozen: pm.Model, points: PointMap, term: Any, random_seed: int, made_by: tuple[Any, ...]
) -> CompiledDensity:
    z, log_density, gradient = density_graph(frozen, points, term)
    # A compiler free to reorder sums does so in one way where it compiles the whole of a model, and
    # in another where it finds parts in the cache: a seed would give other draws the second time.
    exact = pytensor.config.change_flags(numba__fastmath=False)
    # `check_bounds` of the model decides how parameter checks are compiled
    with exact, frozen, watch_for_python() as python_ops:
        function = pymc_compile(
            [pytensor.In(z, borrow=True)],
            [pytensor.Out(log_density, borrow=True), pytensor.Out(gradient, borrow=True)],
            mode="NUMBA",
        )
    inner = jitted(function)
    # An Op whose compiled code has no key was registered by others, and may call Python unsaid.
    unknown = pytensor.config.numba__cache and graph_key(inner) is None
    if python_ops.found or unknown:
        wrapper = called = python_density(inner, points)
        address = int(ctypes.cast(called, ctypes.c_void_p).value or 0)
    else:
        wrapper = _wrap(inner, points.dim)
        called, address = wrapper.ctypes, wrapper.address
    density = CompiledDensity(
        address=address,
        dim=points.dim,
        start=points.ravel(points.initial),
        points=points,
        model=frozen,
        _function=called,
        _keep_alive=(wrapper, function),
        _made_by=made_by,
    )
    starts = starting_points(density.start, random_seed)
    verify_density(density.value_and_grad, function, starts[:N_VERIFIED])
    check_finite(density.value_and_grad, points, frozen, starts)
    return density


def _wrap(inner: Any, dim: int) -> Any:
    source_text = _WRAPPER.format(dim=dim)
    key = wrapper_key(graph_key(inner), source_text)
    # numba's cache imports the module that a function claims to come from
    names = {"__name__": __name__, "carray": numba.carray, "np": np, "inner": inner}
    source = compile_keyed(source_text, "tempering_density", names, key)
    return numba.cfunc(DENSITY_SIGNATURE, cache=key is not None)(source)


def wrapper_key(graph_key: str | None, source: str) -> str | None:
    """Key under which a compiled wrapper is kept on disk; None where the graph has none.

    PyTensor's key of a graph tells its Ops and constants. A graph of one vector variable is the
    same in any dimension, and numba looks at neither source nor globals of a keyed function: what
    else the machine code depends on has to be in the key.

    Parameters
    ----------
    graph_key : str or None
    source : str
        Of the wrapper, with the dimension written out.
    """
    if graph_key is None:
        return None
    flags = pytensor.config
    parts = (
        graph_key,
        __name__,  # which numba imports when it loads the function
        source,
        str(DENSITY_SIGNATURE),
        f"floatX={flags.floatX} fastmath={flags.numba__fastmath} opt={numba.config.OPT}",
        f"pytensor={pytensor.__version__} pymc={pm.__version__}",
        f"numba={numba.__version__} llvmlite={llvmlite.__version__} numpy={np.__version__}",
    )
    return f"tempering_{hashlib.sha256(repr(parts).encode()).hexdigest()}"
