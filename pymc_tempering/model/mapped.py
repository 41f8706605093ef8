"""A compiled density in the coordinates of a map, in which it is nearly a standard normal.

One C function takes the arrays of a map by address, and a function of two lines knows where they
are. Names, draws and start go with it: whoever reads points of the density through its
:class:`.PointMap` never sees the coordinates.
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numba
import numpy as np

from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.conditional_kernels import Arrays, density_through
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.machine_code import DENSITY_SIGNATURE
from pymc_tempering.model.point import CoordinateMap

__all__ = ["in_coordinates", "through_map"]

_WHOLE = ("order", "begins", "parents", "summed")
_DOUBLE, _INT = (numba.types.CPointer(t) for t in (numba.types.float64, numba.types.int64))
_CORE = numba.types.float64(_DOUBLE, _DOUBLE, numba.types.int64, numba.types.float64, _DOUBLE, _INT)

_AT_ADDRESSES = """
def density_in_coordinates(u_pointer, grad_pointer):
    return core(u_pointer, grad_pointer, {arguments})
"""


def _density_of_map(
    u_pointer: Any, grad_pointer: Any, target: Any, log_det: Any,
    floats_pointer: Any, ints_pointer: Any,
) -> Any:  # fmt: skip
    sizes = numba.carray(ints_pointer, (9,))
    k, n, n_nodes, n_functions, n_out, n_parents, n_summed, n_pairs, n_floats = (
        sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6], sizes[7], sizes[8]
    )  # fmt: skip
    dim = k + n
    last = 10 + dim + n + n_parents
    ints = numba.carray(ints_pointer, (last + n_summed,))
    f = numba.carray(floats_pointer, (n_floats,))
    a = 0
    mean = f[a : a + k]
    a += k
    root = f[a : a + k * k].reshape((k, k))
    a += k * k
    nodes = f[a : a + n_nodes * k].reshape((n_nodes, k))
    a += n_nodes * k
    lengths = f[a : a + k]
    a += k
    trend = f[a : a + (1 + k) * n_functions].reshape((1 + k, n_functions))
    a += (1 + k) * n_functions
    weights = f[a : a + n_nodes * n_functions].reshape((n_nodes, n_functions))
    a += n_nodes * n_functions
    affine = f[a : a + n * (1 + k)].reshape((n, 1 + k))
    a += n * (1 + k)
    constants = f[a : a + n_out]
    a += n_out
    loadings = f[a : a + n_out * n_functions].reshape((n_functions, n_out))
    a += n_out * n_functions
    shift = f[a : a + dim]
    a += dim
    log_scale = f[a : a + dim]
    a += dim
    skew = f[a : a + dim]
    a += dim
    tail = f[a : a + 2 * k].reshape((k, 2))
    a += 2 * k
    linear = f[a : a + k * k].reshape((k, k))
    a += k * k
    bend = f[a : a + k * k * k].reshape((k, k, k))
    a += k * k * k
    scale = f[a : a + k * k].reshape((k, k))
    a += k * k
    pair = f[a : a + 2 * n_pairs].reshape((n_pairs, 2))
    a += 2 * n_pairs
    width = f[a : a + dim]
    m = Arrays(
        ints[9 : 9 + dim], ints[9 + dim : 10 + dim + n], ints[10 + dim + n : last], ints[last:],
        mean, root, nodes, lengths, trend, weights, affine, constants, loadings,
        shift, log_scale, skew, tail, linear, bend, scale, pair, width,
    )  # fmt: skip
    u, grad = numba.carray(u_pointer, (dim,)), numba.carray(grad_pointer, (dim,))
    return density_through(target, m, u, grad) + log_det


@cache
def _core() -> Any:
    return numba.cfunc(_CORE, cache=True)(_density_of_map)


def through_map(
    density: CompiledDensity,
    made: ConditionalMap,
    backend: str | None = None,  # noqa: ARG001  as all makers of densities take it
) -> CompiledDensity:
    """Give a density by the coordinates ``u`` of a map, ``z = T(u)``.

    Its log density has the log Jacobian of the map, so that log Z is the same.
    """
    arrays = made.arrays
    whole = [array.ravel() for name, array in arrays._asdict().items() if name in _WHOLE]
    real = [array.ravel() for name, array in arrays._asdict().items() if name not in _WHOLE]
    floats = np.concatenate(real)
    sizes = (
        made.n_globals, made.dim - made.n_globals, len(arrays.nodes), arrays.trend.shape[1],
        arrays.constants.size, arrays.parents.size, arrays.summed.size, len(arrays.pair),
        floats.size,
    )  # fmt: skip
    ints = np.concatenate([np.array(sizes, dtype=np.int64), *whole])
    arguments = (density.address, made.log_det_root, floats.ctypes.data, ints.ctypes.data)
    return in_coordinates(density, made, _core().address, arguments, (floats, ints), through_map)


def in_coordinates(
    density: CompiledDensity,
    made: CoordinateMap,
    core_address: int,
    arguments: Sequence[float],
    kept: tuple[Any, ...],
    maker: Callable[..., CompiledDensity],
) -> CompiledDensity:
    """Give a density by the coordinates of a map, as machine code at an address computes it.

    That takes pointers to the coordinates and to the gradient, and the ``arguments``, addresses and
    real numbers; what these point to is ``kept``. ``maker`` makes the same of density and map.
    """
    vector = ctypes.POINTER(ctypes.c_double)
    kinds = [ctypes.c_double if isinstance(a, float) else ctypes.c_size_t for a in arguments]
    core = ctypes.CFUNCTYPE(ctypes.c_double, vector, vector, *kinds)(core_address)
    names: dict[str, Any] = {"__name__": __name__, "core": core}
    exec(_AT_ADDRESSES.format(arguments=", ".join(map(repr, arguments))), names)
    wrapper = numba.cfunc(DENSITY_SIGNATURE)(names["density_in_coordinates"])
    return replace(
        density,
        address=wrapper.address,
        start=made.to_base(density.start),
        points=replace(density.points, map=made),
        _function=wrapper.ctypes,
        _keep_alive=(density, wrapper, core, *kept),
        _made_by=(maker, (density, made)),
    )
