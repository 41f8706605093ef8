"""A hierarchy whose locals are normal given the globals, by globals and standard normals.

No interpolation: the locals' means and precisions are taken from gradients wherever they are needed
(:mod:`pymc_tempering.engine.path.normal_locals`), so that they are right where scales go to zero.
"""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numba
import numpy as np

from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.conditional_kernels import Arrays
from pymc_tempering.engine.path.newton import STEP
from pymc_tempering.engine.path.normal_locals import (
    density_of_globals,
    draw_locals,
    standardise_locals,
)
from pymc_tempering.engine.path.path import call_density, density_at
from pymc_tempering.engine.path.sparse_precision import System
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.machine_code import at_addresses
from pymc_tempering.model.mapped import c_function, through_map
from pymc_tempering.model.structure import Structure
from pymc_tempering.types import FloatArray

__all__ = ["NormalLocals", "are_normal", "n_each", "through_normal"]

_BY_GLOBALS = 1e-4
"""Of the globals' standard deviations, for differences of log determinants, of which ten digits are
right."""

_ROUNDING = 1e-6
"""Share of the change of gradients along a line that another one may differ from it by."""

_DOUBLE, _WHOLE = (numba.types.CPointer(t) for t in (numba.types.float64, numba.types.int64))
_OF_GLOBALS = numba.types.float64(_DOUBLE, _DOUBLE, numba.types.int64, _WHOLE, _DOUBLE)
_WITH_NORMALS = numba.types.float64(
    _DOUBLE, _DOUBLE, numba.types.int64, numba.types.int64, numba.types.int64
)


@dataclass(frozen=True, eq=False)
class NormalLocals:
    """Coordinates of a hierarchy: those of its globals, and standard normals for its locals.

    ``of_globals`` is the map of the globals alone; ``place`` (D,) has locals to start from.
    """

    density: CompiledDensity
    structure: Structure
    of_globals: ConditionalMap
    place: FloatArray

    # compiled code cannot be pickled
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.density, self.structure, self.of_globals, self.place)

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
        made.update(self.place.tobytes())
        return made.hexdigest()[:16]

    @property
    def n_each(self) -> int:
        """Gradients that an evaluation takes."""
        return n_each(self.structure)

    @property
    def widths(self) -> FloatArray:
        """Of the locals (n,), over the step of differences: they may be of any length."""
        return np.full(self.dim - self.n_globals, 1.0 / STEP)

    @property
    def steps(self) -> FloatArray:
        """Of differences by the globals (k,)."""
        return _BY_GLOBALS * np.sqrt((self.of_globals.arrays.root**2).sum(axis=1))

    def forward(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map ``u`` (n, D) to ``z``, with the log determinant of the map, shape (n,)."""
        z, k = np.empty(u.shape), self.n_globals
        z[:, self.structure.globals], log_det = self.of_globals.forward(u[:, :k])
        of_locals, normals = np.empty(len(u)), np.array(u[:, k:], order="C")
        draw_locals(
            self.density.address, self.structure.system, self.place, self.widths, z, normals,
            of_locals,
        )  # fmt: skip
        return z, log_det + of_locals

    def from_base(self, u: FloatArray) -> FloatArray:
        """Map ``u`` of shape (..., D) to ``z``."""
        u = np.asarray(u, dtype=np.float64)
        return self.forward(u.reshape(-1, self.dim))[0].reshape(u.shape)

    def to_base(self, z: FloatArray) -> FloatArray:
        """Map ``z`` of shape (..., D) to ``u``, the inverse of :meth:`from_base`."""
        flat = np.array(z, dtype=np.float64, order="C").reshape(-1, self.dim)
        of_globals = self.of_globals.to_base(flat[:, self.structure.globals])
        normals = np.empty((len(flat), self.dim - self.n_globals))
        standardise_locals(
            self.density.address, self.structure.system, self.place, self.widths, flat, normals
        )
        return np.concatenate([of_globals, normals], axis=1).reshape(np.shape(z))

    @cached_property
    def marginal(self) -> CompiledDensity:
        """The density of the globals alone; only its address and what keeps it alive count."""
        s = self.structure.system
        sizes = len(s.globals), len(s.at), self.dim, len(s.rows), s.n_hubs
        of_system = s.globals, s.at, s.colours, s.begins, s.rows, s.filled
        ints = np.concatenate([sizes, *of_system]).astype(np.int64)
        floats = np.concatenate([self.place, self.widths, self.steps])
        core = c_function(_OF_GLOBALS, _density_of_globals)
        arguments = self.density.address, ints.ctypes.data, floats.ctypes.data
        wrapper, called = at_addresses(core.address, arguments)
        return replace(
            self.density, address=wrapper.address, dim=self.n_globals,
            start=self.place[self.structure.globals], _function=wrapper.ctypes,
            _keep_alive=(self.density, wrapper, called, ints, floats),
        )  # fmt: skip


def n_each(structure: Structure) -> int:
    """Gradients that an evaluation with normal locals takes."""
    n_colours = int(structure.colours.max(initial=-1)) + 1
    return (1 + len(structure.globals)) * (1 + n_colours) + 1


def _density_of_globals(
    g_pointer: Any, grad_pointer: Any, target: Any, ints_pointer: Any, floats_pointer: Any
) -> Any:
    sizes = numba.carray(ints_pointer, (5,))
    k, n, dim, n_entries, n_hubs = sizes[0], sizes[1], sizes[2], sizes[3], sizes[4]
    a = 5 + k
    b = a + 3 * n + 1
    ints = numba.carray(ints_pointer, (b + 2 * n_entries,))
    floats = numba.carray(floats_pointer, (dim + n + k,))
    system = System(
        ints[a : a + n], ints[5:a], ints[a + n : a + 2 * n], n_hubs, ints[a + 2 * n : b],
        ints[b : b + n_entries], ints[b + n_entries :], ints[:0], ints[:0],
    )  # fmt: skip
    return density_of_globals(
        target, system, floats[:dim], floats[dim : dim + n], floats[dim + n :],
        numba.carray(g_pointer, (k,)), numba.carray(grad_pointer, (k,)),
    )  # fmt: skip


def _density_with_normals(u_pointer: Any, grad_pointer: Any, target: Any, dim: Any, k: Any) -> Any:
    u, grad = numba.carray(u_pointer, (dim,)), numba.carray(grad_pointer, (dim,))
    value = call_density(target, u[:k], grad[:k])
    for j in range(k, dim):
        value -= 0.5 * u[j] * u[j]
        grad[j] = -u[j]
    return value


def through_normal(
    density: CompiledDensity,
    made: NormalLocals,
    backend: str | None = None,  # noqa: ARG001  as all makers of densities take it
) -> CompiledDensity:
    """Give a density by the coordinates of normal locals; log Z is the same."""
    of_globals = through_map(made.marginal, made.of_globals)
    core = c_function(_WITH_NORMALS, _density_with_normals)
    wrapper, called = at_addresses(core.address, (of_globals.address, made.dim, made.n_globals))
    return replace(
        density,
        address=wrapper.address,
        start=made.to_base(density.start),
        points=replace(density.points, map=made),
        n_each=made.n_each,
        _function=wrapper.ctypes,
        _keep_alive=(density, of_globals, wrapper, called),
        _made_by=(through_normal, (density, made)),
    )


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
