"""A hierarchy whose locals are normal given the globals, by globals and standard normals.

No interpolation: the locals' means and precisions are taken from gradients wherever they are needed
(:mod:`pymc_tempering.engine.path.normal_locals`), so that they are right where scales go to zero.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numba import carray
from scipy import sparse

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.conditional_kernels import Arrays
from pymc_tempering.engine.path.normal_locals import (
    Span,
    density_of_globals,
    draw_locals,
    precisions,
    standardise_locals,
)
from pymc_tempering.engine.path.path import call_density, density_at
from pymc_tempering.engine.path.sparse_precision import System
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.mapped import in_coordinates, through_map, with_arrays
from pymc_tempering.model.structure import Structure
from pymc_tempering.types import FloatArray

_BY_GLOBALS = 1e-4
"""Of the globals' standard deviations, for differences of log determinants, of which ten digits are
right."""

_ROUNDING = 1e-6
"""Share of the change of gradients along a line that another one may differ from it by."""

_N_OF_SPAN, _WIDER, _FARTHEST = 32, 1.5, 4.0
"""Draws of the globals from which the span of precisions is taken, times their standard deviations,
and of those at which it is tried."""

_INDEPENDENT = 1e-9
"""Singular value of a span, of the largest: of a level and a cycle they fall from 2e-3 to 1e-15."""


@dataclass(frozen=True, eq=False)
class NormalLocals:
    """Coordinates of a hierarchy: those of its globals, and standard normals for its locals.

    ``of_globals`` is the map of the globals alone; ``place`` (D,) has locals to start from.
    """

    density: CompiledDensity
    structure: Structure
    of_globals: ConditionalMap
    place: FloatArray
    span: Span

    @classmethod
    @density_guard()
    def of(
        cls, density: CompiledDensity, structure: Structure, of_globals: ConditionalMap
    ) -> "tuple[NormalLocals, int]":
        """Find a place and what precisions are made of, too; with the gradients that it took."""
        s, rng = structure.system, np.random.default_rng(0)
        # one step leads to the mean from wherever digits are left, as they may not be of a map's
        began = cls(density, structure, of_globals, density.start, _no_span(len(s.at)))
        place = began.from_base(np.zeros(density.dim))
        n_draws = _N_OF_SPAN + _N_OF_SPAN // 4
        u = _WIDER * rng.standard_normal((n_draws, of_globals.n_globals))
        u[_N_OF_SPAN:] *= _FARTHEST / _WIDER
        z = np.repeat(place[None], n_draws, axis=0)
        z[:, s.globals] = of_globals.from_base(u)
        entries = np.empty((n_draws, len(s.rows) + 1))
        precisions(density.address, s, z, entries)
        span = _span(s, entries[:, :-1], rng.standard_normal(len(s.at)))
        return cls(density, structure, of_globals, place, span), n_to_see(structure)

    # compiled code cannot be pickled
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.density, self.structure, self.of_globals, self.place, self.span)

    @property
    def dim(self) -> int:
        """Number D of coordinates."""
        return self.structure.dim

    @property
    def n_globals(self) -> int:
        """Number k of globals."""
        return self.of_globals.n_globals

    @cached_property
    def arrays(self) -> Arrays:
        """Those of the map of the globals, with the order of all coordinates."""
        order = np.concatenate([self.structure.globals, self.structure.system.at])
        return self.of_globals.arrays._replace(order=order)

    @cached_property
    def digest(self) -> str:
        """Identity of the map: 16 hex digits."""
        made = hashlib.sha256(f"normal {self.of_globals.digest}".encode())
        made.update(self.place.tobytes() + self.arrays.order.tobytes())
        return made.hexdigest()[:16]

    @property
    def n_each(self) -> int:
        """Gradients that an evaluation takes."""
        n = n_each(self.structure)
        return 2 * (1 + self.n_globals) + 1 if len(self.span.matrices) else n

    @property
    def n_of_moments(self) -> int:
        """Gradients that the locals' moments at some globals take."""
        return 3 if len(self.span.matrices) else 2 + _n_colours(self.structure)

    @property
    def steps(self) -> FloatArray:
        """Of differences by the globals (k,)."""
        return _BY_GLOBALS * np.sqrt((self.of_globals.arrays.root**2).sum(axis=1))

    @density_guard()
    def forward(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map ``u`` (n, D) to ``z``, with the log determinant of the map, shape (n,)."""
        z, k = np.empty(u.shape), self.n_globals
        z[:, self.structure.globals], log_det = self.of_globals.forward(u[:, :k])
        of_locals, normals = np.empty(len(u)), np.array(u[:, k:], order="C")
        draw_locals(
            self.density.address, self.structure.system, self.span, self.place, z, normals,
            of_locals,
        )  # fmt: skip
        return z, log_det + of_locals

    def from_base(self, u: FloatArray) -> FloatArray:
        """Map ``u`` of shape (..., D) to ``z``."""
        u = np.asarray(u, dtype=np.float64)
        return self.forward(u.reshape(-1, self.dim))[0].reshape(u.shape)

    @density_guard()
    def to_base(self, z: FloatArray) -> FloatArray:
        """Map ``z`` of shape (..., D) to ``u``, the inverse of :meth:`from_base`."""
        flat = np.array(z, dtype=np.float64, order="C").reshape(-1, self.dim)
        of_globals = self.of_globals.to_base(flat[:, self.structure.globals])
        normals = np.empty((len(flat), self.dim - self.n_globals))
        standardise_locals(
            self.density.address, self.structure.system, self.span, self.place, flat, normals
        )
        return np.concatenate([of_globals, normals], axis=1).reshape(np.shape(z))

    @cached_property
    def marginal(self) -> CompiledDensity:
        """The density of the globals alone; only its address and what keeps it alive count."""
        s = self.structure.system
        n_entries, n_matrices = len(s.rows), len(self.span.matrices)
        numbers = len(s.globals), len(s.at), self.dim, n_entries, s.n_hubs, n_matrices
        ints = s.globals, s.at, s.colours, s.begins, s.rows, s.filled
        arrays = [np.ascontiguousarray(array, dtype=np.int64) for array in ints]
        arrays += map(np.ascontiguousarray, (self.place, self.steps, *self.span))
        address = self.density.address
        closure = with_arrays(_density_of_globals, address, numbers, arrays)
        return replace(
            self.density, address=closure.address, dim=self.n_globals,
            start=self.place[self.structure.globals], _function=closure.ctypes,
            _keep_alive=(self.density, closure, *arrays),
        )  # fmt: skip

    @cached_property
    def marginal_by_law(self) -> CompiledDensity:
        """That density by the coordinates of the globals' map."""
        return through_map(self.marginal, self.of_globals)


def _times(s: System, entries: FloatArray, x: FloatArray) -> FloatArray:
    """Multiply a symmetric matrix, of which the lower triangle has these entries, by ``x`` (n,)."""
    columns = np.repeat(np.arange(len(s.at)), np.diff(s.begins))
    lower = sparse.csc_array((entries, (s.rows, columns)), shape=(x.size, x.size))
    return lower @ x + lower.T @ x - lower.diagonal() * x


def n_each(structure: Structure) -> int:
    """Gradients that an evaluation with normal locals takes at most."""
    return (1 + len(structure.globals)) * (1 + _n_colours(structure)) + 1


def n_to_see(structure: Structure) -> int:
    """Gradients that tell what precisions are made of."""
    return (_N_OF_SPAN + _N_OF_SPAN // 4 + 1) * (1 + _n_colours(structure)) + 1


def _n_colours(structure: Structure) -> int:
    return int(structure.colours.max(initial=-1)) + 1


def _no_span(n: int) -> Span:
    return Span(*3 * (np.empty((0, n)),), np.zeros(n))


def _span(s: System, entries: FloatArray, along: FloatArray) -> Span:
    """Matrices that entries (N, number of entries) are sums of; none if they are many.

    The last fifth is what others are tried at.
    """
    n_first = _N_OF_SPAN
    with np.errstate(all="ignore"):
        entries = entries / np.abs(entries).max(axis=1, keepdims=True)
    if not np.isfinite(entries).all():
        return _no_span(along.size)
    _, sizes, right = np.linalg.svd(entries[:n_first], full_matrices=False)
    matrices = np.ascontiguousarray(right[sizes > _INDEPENDENT * sizes[0]])
    left = entries[n_first:] - entries[n_first:] @ matrices.T @ matrices
    if 2 * len(matrices) > n_first or np.abs(left).max() > _INDEPENDENT:
        return _no_span(along.size)
    change = np.array([_times(s, matrix, along) for matrix in matrices])
    return Span(matrices, change, np.linalg.pinv(change.T), along)


def _density_of_globals(  # noqa: PLR0913 - arrays and their sizes, one by one
    g_pointer: Any, grad_pointer: Any, target: Any, k: Any, n: Any, dim: Any, n_entries: Any,
    n_hubs: Any, r: Any, of_globals: Any, at: Any, colours: Any, begins: Any, rows: Any,
    filled: Any, place: Any, steps: Any, matrices: Any, changes: Any, by_change: Any, along: Any,
) -> Any:  # fmt: skip
    nothing = carray(at, (0,))
    system = System(
        carray(at, (n,)), carray(of_globals, (k,)), carray(colours, (n,)), n_hubs,
        carray(begins, (n + 1,)), carray(rows, (n_entries,)), carray(filled, (n_entries,)),
        nothing, nothing,
    )  # fmt: skip
    span = Span(
        carray(matrices, (r, n_entries)), carray(changes, (r, n)), carray(by_change, (r, n)),
        carray(along, (n,)),
    )  # fmt: skip
    return density_of_globals(
        target, system, span, carray(place, (dim,)), carray(steps, (k,)),
        carray(g_pointer, (k,)), carray(grad_pointer, (k,)),
    )  # fmt: skip


def _density_with_normals(
    u_pointer: Any, grad_pointer: Any, _: Any, by_law: Any, dim: Any, k: Any
) -> Any:  # fmt: skip
    u, grad = carray(u_pointer, (dim,)), carray(grad_pointer, (dim,))
    value = call_density(by_law, u[:k], grad[:k])
    for j in range(k, dim):
        value -= 0.5 * u[j] * u[j]
        grad[j] = -u[j]
    return value


def through_normal(density: CompiledDensity, made: NormalLocals) -> CompiledDensity:
    """Give a density by the coordinates of normal locals; log Z is the same."""
    by_coordinates = in_coordinates(
        density, made, through_normal, _density_with_normals,
        (made.marginal_by_law.address, made.dim, made.n_globals), (),
    )  # fmt: skip
    return replace(by_coordinates, n_each=made.n_each)


@density_guard()
def are_normal(
    density: CompiledDensity, structure: Structure, z: FloatArray, rng: np.random.Generator
) -> tuple[bool, int]:
    """Whether locals are normal given the globals of places ``z`` (m, D), and the gradients of it.

    Along a line gradients by locals then change by as much in each step, here of their own width.
    """
    if structure.summed.size or not len(structure.locals):
        return False, 0
    along, sd = np.zeros(z.shape), z[:, structure.locals].std(axis=0)
    along[:, structure.locals] = sd * rng.standard_normal((len(z), len(sd)))
    grads = [
        density_at(density.address, z + step * along)[1][:, structure.locals]
        for step in (0.0, 1.0, 2.0)
    ]
    change, again = grads[1] - grads[0], grads[2] - grads[1]
    scale = np.abs(change).max(axis=1, keepdims=True) + np.abs(grads[0]).max(axis=1, keepdims=True)
    return bool((np.abs(again - change) <= _ROUNDING * scale).all()), 3 * len(z)
