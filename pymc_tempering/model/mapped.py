"""A compiled density in the coordinates of a map, in which it is nearly a standard normal.

One C function takes the arrays of a map by address, and a function of two lines knows where they
are. Names, draws and start go with it: whoever reads points of the density through its
:class:`.PointMap` never sees the coordinates.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numba
import numpy as np

from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.conditional_kernels import Arrays, density_through
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.machine_code import at_addresses
from pymc_tempering.model.point import CoordinateMap

__all__ = ["in_coordinates", "through_map", "with_arrays"]


def _density_of_map(
    u_pointer: Any, grad_pointer: Any, target: Any, log_det: Any,
    floats_pointer: Any, loadings: Any, ints_pointer: Any,
) -> Any:  # fmt: skip
    sizes = numba.carray(ints_pointer, (32,)).astype(np.int64)
    k, n, n_nodes, n_functions, n_out, n_bent, n_pairs = (
        sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], sizes[6]
    )  # fmt: skip
    # where each array begins among the whole numbers and among the real ones, and the last ends
    b, a = sizes[7:14], sizes[14:]
    ints, f = numba.carray(ints_pointer, (b[6],)), numba.carray(floats_pointer, (a[17],))
    m = Arrays(
        ints[b[0] : b[1]], ints[b[1] : b[2]], ints[b[2] : b[3]], ints[b[3] : b[4]],
        ints[b[4] : b[5]], ints[b[5] : b[6]],
        f[a[0] : a[1]],  # mean
        f[a[1] : a[2]].reshape((k, k)),  # root
        f[a[2] : a[3]].reshape((n_nodes, k)),  # nodes
        f[a[3] : a[4]],  # lengths
        f[a[4] : a[5]].reshape((1 + k, n_functions)),  # trend
        f[a[5] : a[6]].reshape((n_nodes, n_functions)),  # weights
        f[a[6] : a[7]].reshape((n, 1 + k)),  # affine
        f[a[7] : a[8]],  # constants
        numba.carray(loadings, (n_functions, n_out)),
        f[a[8] : a[9]], f[a[9] : a[10]], f[a[10] : a[11]],  # shift, log_scale, skew
        f[a[11] : a[12]].reshape((k, 2)),  # tail
        f[a[12] : a[13]].reshape((k, k)),  # linear
        f[a[13] : a[14]].reshape((n_bent, n_bent, n_bent)),  # bend
        f[a[14] : a[15]].reshape((k, k)),  # scale
        f[a[15] : a[16]].reshape((n_pairs, 2)),  # pair
        f[a[16] : a[17]],  # width
    )  # fmt: skip
    u, grad = numba.carray(u_pointer, (k + n,)), numba.carray(grad_pointer, (k + n,))
    return density_through(target, m, u, grad) + log_det


@cache
def _c_function(signature: Any, function: Callable[..., float]) -> Any:
    """Compile a C function once, and keep it on disk."""
    return numba.cfunc(signature, cache=True)(function)


def with_arrays(
    function: Callable[..., float], address: int, numbers: Sequence[float], arrays: Sequence[Any]
) -> tuple[Any, Any]:
    """Make a C function of a vector and its gradient, by one of these, numbers and pointers.

    That takes, after the two pointers, the address of a density, the ``numbers``, and pointers to
    the ``arrays``. What comes beside the result has to be kept as long as that.
    """
    double = numba.types.CPointer(numba.types.float64)
    kinds = [numba.typeof(number) for number in (address, *numbers)]
    kinds += [numba.types.CPointer(numba.from_dtype(array.dtype)) for array in arrays]
    core = _c_function(numba.types.float64(double, double, *kinds), function)
    pointers = [array.ctypes.data for array in arrays]
    return at_addresses(core.address, (address, *numbers, *pointers))


def through_map(density: CompiledDensity, made: ConditionalMap) -> CompiledDensity:
    """Give a density by the coordinates ``u`` of a map, ``z = T(u)``.

    Its log density has the log Jacobian of the map, so that log Z is the same.
    """
    arrays = made.arrays
    flat = {name: np.ravel(array) for name, array in arrays._asdict().items() if name != "loadings"}
    # whole numbers come first
    whole, real = list(flat.values())[:6], list(flat.values())[6:]
    floats = np.concatenate(real)
    sizes = (
        made.n_globals, made.dim - made.n_globals, len(arrays.nodes), arrays.trend.shape[1],
        arrays.constants.size, len(arrays.bend), len(arrays.pair),
    )  # fmt: skip
    begins = np.cumsum([32, *map(np.size, whole)]), np.cumsum([0, *map(np.size, real)])
    ints = np.concatenate([sizes, *begins, *whole]).astype(np.uint32)
    return in_coordinates(
        density, made, through_map, _density_of_map, (made.log_det_root,),
        (floats, arrays.loadings, ints),
    )  # fmt: skip


def in_coordinates(
    density: CompiledDensity, made: CoordinateMap, maker: Callable[..., CompiledDensity],
    function: Callable[..., float], numbers: Sequence[float], arrays: Sequence[Any],
) -> CompiledDensity:  # fmt: skip
    """Give a density by the coordinates of a map, as a function has it (:func:`with_arrays`).

    ``maker`` makes the same of density and map.
    """
    wrapper, core = with_arrays(function, density.address, numbers, arrays)
    return replace(
        density,
        address=wrapper.address,
        start=made.to_base(density.start),
        points=replace(density.points, map=made),
        _function=wrapper.ctypes,
        _keep_alive=(density, wrapper, core, *arrays),
        _made_by=(maker, (density, made)),
    )
