"""The only place where a model's graph becomes machine code.

What comes back from :mod:`pymc_tempering.model.machine_code` is compared with PyTensor's own
evaluation all the same. A black box without a gradient is a density whose gradient is zero, and
which says so.
"""

import ctypes
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pymc as pm
import pytensor

from pymc_tempering.engine.guard import raise_failure
from pymc_tempering.errors import ModelError
from pymc_tempering.model.freeze import (
    check_finite,
    finite_supports,
    freeze,
    naming_shapes,
    points_of,
    starting_points,
)
from pymc_tempering.model.graph import KnownIndices, density_graph
from pymc_tempering.model.identity import Kept, recipe
from pymc_tempering.model.improper import check_integrable
from pymc_tempering.model.innovations import Innovations
from pymc_tempering.model.machine_code import machine_code
from pymc_tempering.model.own_ops import made_elsewhere
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.python_density import double_precision, made_for_jax
from pymc_tempering.model.verify import verify_density
from pymc_tempering.private.of_pymc import draws_from_prior
from pymc_tempering.types import FloatArray, IntArray

_log = logging.getLogger(__name__)


N_VERIFIED = 3
"""Starting points at which compiled code is compared with PyTensor's own evaluation; where there
are discrete variables, it is all of them."""


@dataclass(frozen=True)
class CompiledDensity:
    """A model's log density and gradient as a C function of one flat unconstrained vector."""

    # of `double f(const double *z, double *grad)`: log density in nats with all Jacobian terms,
    # potentials and observed terms; -inf where it is zero. Of angles one period (see `Angles`)
    address: int
    dim: int  # number D of unconstrained values
    # (D,), the model's initial point, or the first place with a finite density: of seven around it
    # and, where nobody chose it, of 512 draws of the prior
    start: FloatArray
    points: PointMap  # flat vector to named values and back
    model: pm.Model  # the frozen copy that was compiled
    # why there is no gradient, from PyTensor, which then counts as zero; empty where there is
    no_gradient: str
    calls_python: str  # why an evaluation calls Python, many times slower; else empty
    backend: str  # "numba", "c" or "jax", of PyTensor, that computes it
    uses_jax: bool  # whether JAX is called, by this backend or by one that calls Python
    _function: Any = field(repr=False, compare=False)
    _keep_alive: Any = field(repr=False, compare=False)
    _made_by: tuple[Any, ...] = field(repr=False, compare=False)
    n_each: int = 1  # gradients of the model that an evaluation takes

    # compiled code cannot be pickled; the cache makes compiling again cheap, in a worker too
    def __reduce__(self) -> tuple[Any, ...]:
        return made_elsewhere(self.model, *self._made_by)

    @property
    def inner(self) -> "CompiledDensity":
        """The density in the model's own coordinates: itself, unless it is in those of a map."""
        return self if self.points.map is None else self._made_by[1][0]

    @cached_property
    def draw_from_prior(self) -> Callable[[int], dict[str, Any]]:
        """From a seed to one draw of the prior, as values of the value variables."""
        return draws_from_prior(self.model)

    def evaluated_by(self, function: Any) -> "CompiledDensity":
        """Give the same density by another C function, which calls that of this one."""
        address = int(ctypes.cast(function, ctypes.c_void_p).value or 0)
        other = replace(self, address=address, _function=function)
        # that of a prior which cannot be drawn from raises again where it is asked for
        with suppress(Exception):
            vars(other)["draw_from_prior"] = self.draw_from_prior
        return other

    def innovations(self, hubs: IntArray | None = None) -> Innovations | None:
        """Give what the model would be written by, of which entries ``hubs`` are globals."""
        return Innovations.of(self.model, self.points.initial, hubs)

    def non_centred(self, hubs: IntArray | None = None) -> "CompiledDensity | None":
        """The density in the coordinates of these innovations; None where it has none.

        ModelError where it cannot be compiled so. Kept, since every run of a model asks again.
        """
        key = b"" if hubs is None else np.asarray(hubs, np.int64).tobytes()
        if key not in self._non_centred:
            self._non_centred[key] = (
                None
                if self.innovations(hubs) is None
                else compile_frozen(self.model, self.backend, by_innovations=True, hubs=hubs)
            )
        return self._non_centred[key]

    @cached_property
    def _non_centred(self) -> "dict[bytes, CompiledDensity | None]":
        """By the entries of the globals; none yet."""
        return {}

    def ways_to_write(
        self, hubs: IntArray | None, *, non_centred_first: bool
    ) -> Iterator["CompiledDensity"]:
        """Give the density as it is, and non-centred where it can be compiled so."""
        if not non_centred_first:
            yield self
        with suppress(ModelError):
            made = self.non_centred(hubs)
            if made is not None and not (made.no_gradient or made.calls_python):
                yield made
        if non_centred_first:
            yield self

    def value_and_grad(self, z: FloatArray) -> tuple[float, FloatArray]:
        """Log density (nats) and gradient of shape (D,) at ``z`` of shape (D,).

        DensityError if Python code that the model calls raises.
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
    model: pm.Model, *, discrete: bool = False, backend: str | None = None
) -> CompiledDensity:
    """Compile a model's log density and gradient into a C function.

    Data and dims are frozen into a copy; the model itself is not changed. PyMC's rewrites make
    invalid parameters ``-inf``. Floating point is strict, so that values are the same to the last
    bit in every process. A model that has not changed since it was compiled in this process is not
    compiled again.

    Free variables may be ``discrete``, with finite supports: their entries of the flat vector have
    to be whole numbers, and their gradient is zero. ``backend`` is "numba", "c" or "jax", of
    PyTensor; by default that which suits (:func:`.machine_code.machine_code`).

    ModelError for models without free variables, with free discrete variables otherwise, with
    minibatches or other random graphs, or without a finite log density at any start; if the
    compiled density is not what PyTensor evaluates; or if the backend cannot compile it.
    OptionError if that is JAX, and it is not installed; DensityError if Python code that the model
    calls raises at a start.

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
    content = _content(model, discrete)

    def compiled() -> tuple[str | None, CompiledDensity]:
        return backend, compile_frozen(freeze(model, discrete=discrete), backend)

    asked, density = _compiled.get(model, content, compiled)
    if asked != backend:
        asked, density = compiled()
        _compiled.put(model, content, (asked, density))
    return density


def density_at_hand(model: pm.Model) -> CompiledDensity:
    """Give the density that a model was compiled to last, whichever backend computes it.

    For looking at draws that are there. After changes of the model or its data it is compiled.
    """
    return _compiled.get(model, _content(model), lambda: (None, compile_frozen(freeze(model))))[1]


# each with the backend that was asked for
_compiled = Kept[tuple[str | None, CompiledDensity]]()


def keep_density(model: pm.Model, density: CompiledDensity) -> None:
    """Let `compile_density` give this density, until the model or its data change."""
    _compiled.put(model, _content(model), (None, density))


def compile_frozen(
    frozen: pm.Model, backend: str | None = None, *, by_innovations: bool = False,
    hubs: IntArray | None = None,
) -> CompiledDensity:  # fmt: skip
    """Compile a model that is frozen already, as `compile_density` does."""
    # not frozen again when unpickled: PyMC orders variables anew in every copy of a model
    points = points_of(frozen)
    if by_innovations:
        points = replace(points, innovations=Innovations.of(frozen, points.initial, hubs))
    with naming_shapes(frozen):
        term = frozen.logp()
    made_by = partial(compile_frozen, by_innovations=by_innovations, hubs=hubs), (frozen,)
    density = _compile(frozen, points, term, made_by, backend)
    if not (density.no_gradient or by_innovations):
        check_integrable(density.value_and_grad, points, density.start, frozen)
    return density


def _content(model: pm.Model, discrete: bool = False) -> list[Any]:
    """Everything that a model's density depends on."""
    return [*recipe(model), (pytensor.config.numba__cache, discrete)]


def compile_prior(density: CompiledDensity, backend: str | None = None) -> CompiledDensity:
    """Compile the prior of a compiled model alone, on the same flat vector.

    That is the densities of its free variables; potentials, of unknown meaning, are left out.
    """
    model, points = density.model, replace(density.points, map=None)
    term = model.logp(vars=model.free_RVs)
    return _compile(model, points, term, (compile_prior, (density,)), backend)


def _compile(
    frozen: pm.Model, points: PointMap, term: Any, made_by: tuple[Any, ...], backend: str | None
) -> CompiledDensity:
    supports = finite_supports(frozen, points)
    KnownIndices(frozen).check()
    graph = density_graph(frozen, points, term)
    # `check_bounds` of the model decides how parameter checks are compiled
    with frozen:
        code = machine_code(graph.z, graph.log_density, graph.gradient, points, backend)
    density = CompiledDensity(
        address=code.address,
        dim=points.dim,
        start=points.ravel(points.initial),
        points=points,
        model=frozen,
        no_gradient=graph.no_gradient,
        calls_python=code.calls_python,
        backend=code.backend,
        uses_jax=code.backend == "jax"
        or bool(code.calls_python and made_for_jax(graph.log_density)),
        _function=code.called,
        _keep_alive=code,
        _made_by=(made_by[0], (*made_by[1], code.backend)),
    )
    starts = starting_points(density.start, supports)
    verified = starts[:N_VERIFIED]
    if supports:
        # and where all discrete entries have their lowest and their highest values
        ends = np.vstack([starts[0], starts[0]])
        for entry, lowest, n_values in supports:
            ends[:, entry] = lowest, lowest + n_values - 1
        verified = np.vstack([starts, ends])
    with double_precision():
        verify_density(density.value_and_grad, code.function, verified, backend=code.backend)

    # a start that the user chose is not passed over
    chosen = any(start is not None for start in frozen.rvs_to_initial_values.values())

    def drawn() -> FloatArray:
        return prior_points(density, np.random.default_rng(0), 512)

    place = check_finite(density.value_and_grad, points, frozen, starts, None if chosen else drawn)
    return density if chosen or np.array_equal(place, starts[0]) else replace(density, start=place)


def prior_points(density: CompiledDensity, rng: np.random.Generator, n: int) -> FloatArray:
    """Draw n starting points from the prior, shape (n, D).

    No rows for models whose prior cannot be drawn from, such as flat ones. Jitter around one point
    does not know how far apart the modes of a model may lie; its prior does.
    """
    empty = np.empty((0, density.dim))
    try:
        draw = density.draw_from_prior
        seeds = rng.integers(2**31, size=n)
        # wide priors have draws beyond all numbers; they are left out below
        with np.errstate(all="ignore"):
            points = np.stack([density.points.ravel(draw(int(seed))) for seed in seeds])
    except Exception as error:  # noqa: BLE001  whatever a prior cannot do is no obstacle
        _log.debug("no starting points from the prior: %s", error)
        return empty
    return points[np.isfinite(points).all(axis=1)]
