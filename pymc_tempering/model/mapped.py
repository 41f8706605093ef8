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
from numba import carray

from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.conditional_kernels import Arrays, density_through
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.machine_code import Closure, at_addresses
from pymc_tempering.model.point import CoordinateMap


def _density_of_map(  # noqa: PLR0913 - arrays and their sizes, one by one
    u_pointer: Any, grad_pointer: Any, target: Any, log_det: Any, k: Any, n: Any, n_nodes: Any,
    n_functions: Any, n_out: Any, n_bent: Any, n_pairs: Any, n_parents: Any, n_summed: Any,
    n_in_sd: Any, n_used: Any, order: Any, begins: Any, parents: Any, summed: Any, in_sd: Any,
    used: Any, mean: Any, root: Any, nodes: Any, lengths: Any, trend: Any, weights: Any,
    affine: Any, constants: Any, loadings: Any, shift: Any, log_scale: Any, skew: Any, tail: Any,
    linear: Any, bend: Any, scale: Any, pair: Any, width: Any,
) -> Any:  # fmt: skip
    dim = k + n
    m = Arrays(
        carray(order, (dim,)), carray(begins, (n + 1,)), carray(parents, (n_parents,)),
        carray(summed, (n_summed,)), carray(in_sd, (n_in_sd,)), carray(used, (n_used,)),
        carray(mean, (k,)), carray(root, (k, k)), carray(nodes, (n_nodes, k)),
        carray(lengths, (k,)), carray(trend, (1 + k, n_functions)),
        carray(weights, (n_nodes, n_functions)), carray(affine, (n, 1 + k)),
        carray(constants, (n_out,)), carray(loadings, (n_functions, n_out)),
        carray(shift, (dim,)), carray(log_scale, (dim,)), carray(skew, (dim,)),
        carray(tail, (k, 2)), carray(linear, (k, k)), carray(bend, (n_bent, n_bent, n_bent)),
        carray(scale, (k, k)), carray(pair, (n_pairs, 2)), carray(width, (dim,)),
    )  # fmt: skip
    u, grad = carray(u_pointer, (dim,)), carray(grad_pointer, (dim,))
    return density_through(target, m, u, grad) + log_det


@cache
def _c_function(signature: Any, function: Callable[..., float]) -> Any:
    return numba.cfunc(signature, cache=True)(function)


def with_arrays(
    function: Callable[..., float], address: int, numbers: Sequence[float], arrays: Sequence[Any]
) -> Closure:
    """Make a C function of a vector and its gradient, by one of these, numbers and pointers.

    That takes, after the two pointers, the address of a density, the ``numbers``, and pointers to
    the ``arrays``, which have to be kept as long as the result.
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
    a = made.arrays
    sizes = (
        made.n_globals, made.dim - made.n_globals, len(a.nodes), a.trend.shape[1],
        a.constants.size, len(a.bend), len(a.pair), a.parents.size, a.summed.size, a.in_sd.size,
        a.used.size,
    )  # fmt: skip
    numbers = (made.log_det_root, *sizes)
    return in_coordinates(density, made, through_map, _density_of_map, numbers, a)


def in_coordinates(
    density: CompiledDensity, made: CoordinateMap, maker: Callable[..., CompiledDensity],
    function: Callable[..., float], numbers: Sequence[float], arrays: Sequence[Any],
) -> CompiledDensity:  # fmt: skip
    """Give a density by the coordinates of a map, as a function has it (:func:`with_arrays`).

    ``maker`` makes the same of density and map.
    """
    closure = with_arrays(function, density.address, numbers, arrays)
    return replace(
        density,
        address=closure.address,
        start=made.to_base(density.start),
        points=replace(density.points, map=made),
        _function=closure.ctypes,
        _keep_alive=(density, closure, *arrays),
        _made_by=(maker, (density, made)),
    )
