"""A standard normal of which one evaluation takes a good part of a second, in machine code."""

import numba
from numba import carray, types

pointer = types.CPointer(types.float64)


@numba.cfunc(types.float64(pointer, pointer), nopython=True)
def slow_normal(z_pointer, grad_pointer):
    z, grad = carray(z_pointer, (2,)), carray(grad_pointer, (2,))
    wasted = 1.0
    for i in range(60_000_000):
        wasted = wasted * 0.9999999 + 1e-9 * (i % 7)
    value = 1e-300 * wasted
    for i in range(2):
        value -= 0.5 * z[i] ** 2
        grad[i] = -z[i]
    return value
