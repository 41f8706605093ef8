"""The only place where a model's graph becomes machine code.

What comes back from :mod:`pymc_tempering.model.machine_code` is compared with PyTensor's own
evaluation all the same. A black box without a gradient is a density whose gradient is zero, and
which says so.
"""

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
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
from pymc_tempering.model.machine_code import machine_code
from pymc_tempering.model.own_ops import made_elsewhere
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.supports import finite_supports
from pymc_tempering.model.verify import verify_density
from pymc_tempering.private import draws_from_prior, rewrite_before_gradient
from pymc_tempering.types import FloatArray

__all__ = [
    "CompiledDensity",
    "DensityGraph",
    "compile_density",
    "compile_frozen",
    "compile_prior",
    "density_graph",
    "keep_density",
]

N_VERIFIED = 3
"""Starting points at which compiled code is compared with PyTensor's own evaluation; where there
are discrete variables, it is all of them."""


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
    no_gradient : str
        Why there is none, from PyTensor; empty where there is one. It then counts as zero.
    calls_python : str
        Why an evaluation calls Python, which takes many times as long as machine code; empty where
        it does not.
    """

    address: int
    dim: int
    start: FloatArray
    points: PointMap
    model: pm.Model
    no_gradient: str
    calls_python: str
    _function: Any = field(repr=False, compare=False)
    _keep_alive: Any = field(repr=False, compare=False)
    _made_by: tuple[Any, ...] = field(repr=False, compare=False)

    # compiled code cannot be pickled; the cache makes compiling again cheap, in a worker too
    def __reduce__(self) -> tuple[Any, ...]:
        return made_elsewhere(self.model, *self._made_by)

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


def compile_density(
    model: pm.Model, *, random_seed: int = 0, discrete: bool = False
) -> CompiledDensity:
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
    discrete : bool
        Whether free variables may be discrete, of supports that are known to be finite. Their
        entries of the flat vector have to be whole numbers, at which alone the density is that of
        the model; their gradient is zero.

    Returns
    -------
    CompiledDensity

    Raises
    ------
    ModelError
        For models without free variables, with free discrete variables, with minibatches or other
        random graphs, or without a finite log density at any of several starting points; or if the
        compiled density is not what PyTensor evaluates.
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
    return _compiled.get(
        model,
        _content(model, discrete),
        lambda: compile_frozen(freeze(model, discrete=discrete), random_seed),
    )


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


def _content(model: pm.Model, discrete: bool = False) -> list[Any]:
    """Everything that a model's density depends on; the objects themselves, to be compared."""
    flags = pytensor.config
    return [
        *model.basic_RVs,
        *model.potentials,
        *model.rvs_to_values.values(),
        *model.rvs_to_transforms.values(),
        *map(_by_value, model.rvs_to_initial_values.values()),
        (shared_digest(model), model.check_bounds, flags.floatX, flags.numba__cache, discrete),
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


class DensityGraph(NamedTuple):
    """A log density and its gradient as PyTensor variables.

    Attributes
    ----------
    z : pytensor vector
        The flat vector that both depend on.
    log_density, gradient : pytensor variables
        In nats; of the shape of ``z``.
    no_gradient : str
        Why the gradient is zeros, where there is none.
    """

    z: Any
    log_density: Any
    gradient: Any
    no_gradient: str


def density_graph(
    frozen: pm.Model, points: PointMap, term: Any, data: Mapping[Any, Any] | None = None
) -> DensityGraph:
    """Write a log density of named values as one of the flat vector, with its gradient.

    Parameters
    ----------
    frozen : pymc.Model
    points : PointMap
    term : pytensor variable
        Log density, of the value variables.
    data : mapping of constants of the graph to variables, optional
        That take their place.
    """
    # freezing knows the data that the model knows, not shared variables made without it
    given = {v: pt.as_tensor(v.get_value()) for v in shared_values([term])}
    term = graph_replace(term, given | dict(data or {}))
    [log_density], z = points.join(term, [], frozen.value_vars)
    log_density = rewrite_before_gradient(log_density).astype("float64")
    return DensityGraph(z, log_density, *_gradient(log_density, z))


def _compile(
    frozen: pm.Model, points: PointMap, term: Any, random_seed: int, made_by: tuple[Any, ...]
) -> CompiledDensity:
    supports = finite_supports(frozen, points)
    graph = density_graph(frozen, points, term)
    # `check_bounds` of the model decides how parameter checks are compiled
    with frozen:
        code = machine_code(graph.z, graph.log_density, graph.gradient, points)
    density = CompiledDensity(
        address=code.address,
        dim=points.dim,
        start=points.ravel(points.initial),
        points=points,
        model=frozen,
        no_gradient=graph.no_gradient,
        calls_python=code.calls_python,
        _function=code.called,
        _keep_alive=code,
        _made_by=made_by,
    )
    starts = starting_points(density.start, random_seed, supports)
    verified = starts if supports else starts[:N_VERIFIED]
    verify_density(density.value_and_grad, code.function, verified)
    check_finite(density.value_and_grad, points, frozen, starts)
    return density


def _gradient(log_density: Any, z: Any) -> tuple[Any, str]:
    """Gradient of a log density; where there is none zeros, with the reason."""
    try:
        return pytensor.gradient.grad(log_density, z), ""
    except (NotImplementedError, NullTypeGradError, DisconnectedInputError) as error:
        return pt.zeros_like(z), str(error).strip().split("\n")[0]
