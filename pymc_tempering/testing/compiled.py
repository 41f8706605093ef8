"""Analytic densities as C functions, compiled once per set of parameters and kept for good.

Parameters arrive as tuples, so that equal ones share one compiled function; as closure variables
they are part of numba's cache key, so that no target is served another's density from the disk.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numba
import numpy as np

_SIGNATURE = "float64(CPointer(float64), CPointer(float64))"
type Vector = tuple[float, ...]
type Matrix = tuple[Vector, ...]


@functools.cache
def gaussian(mean: Vector, precision: Matrix, log_const: float, edge: float) -> Any:
    """``log_const - r' precision r / 2`` with ``r = z - mean``, -inf unless ``z[0] > edge``."""
    dim, mu, prec = len(mean), np.array(mean), np.array(precision)

    @numba.cfunc(_SIGNATURE, cache=True)
    def density(z_pointer, grad_pointer):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        z, grad = numba.carray(z_pointer, (dim,)), numba.carray(grad_pointer, (dim,))
        if not z[0] > edge:
            for i in range(dim):
                grad[i] = 0.0
            return -np.inf
        quad = 0.0
        for i in range(dim):
            push = 0.0
            for j in range(dim):
                push += prec[i, j] * (z[j] - mu[j])
            grad[i] = -push
            quad += push * (z[i] - mu[i])
        return log_const - 0.5 * quad

    return density


@functools.cache
def mixture(log_consts: Vector, means: Matrix, precisions: tuple[Matrix, ...]) -> Any:
    """Log of a sum of ``exp(log_const_k - r_k' precision_k r_k / 2)``."""
    n, dim = len(means), len(means[0])
    consts, mu, prec = np.array(log_consts), np.array(means), np.array(precisions)

    @numba.cfunc(_SIGNATURE, cache=True)
    def density(z_pointer, grad_pointer):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        z, grad = numba.carray(z_pointer, (dim,)), numba.carray(grad_pointer, (dim,))
        for i in range(dim):
            grad[i] = 0.0
        best, total = -np.inf, 0.0
        # two passes over few components cost less than an allocation
        for phase in range(2):
            for k in range(n):
                value = consts[k]
                for i in range(dim):
                    for j in range(dim):
                        value -= 0.5 * (z[i] - mu[k, i]) * prec[k, i, j] * (z[j] - mu[k, j])
                if phase == 0:
                    best = max(best, value)
                    continue
                weight = math.exp(value - best)
                total += weight
                for i in range(dim):
                    for j in range(dim):
                        grad[i] -= weight * prec[k, i, j] * (z[j] - mu[k, j])
        for i in range(dim):
            grad[i] /= total
        return best + math.log(total)

    return density


@functools.cache
def student(dof: Vector, loc: Vector, scale: Vector, log_const: float) -> Any:
    """Product of Student t kernels plus `log_const`."""
    dim, nu, mu, sd = len(dof), np.array(dof), np.array(loc), np.array(scale)

    @numba.cfunc(_SIGNATURE, cache=True)
    def density(z_pointer, grad_pointer):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        z, grad = numba.carray(z_pointer, (dim,)), numba.carray(grad_pointer, (dim,))
        value = log_const
        for i in range(dim):
            t = (z[i] - mu[i]) / sd[i]
            value -= 0.5 * (nu[i] + 1.0) * math.log1p(t * t / nu[i])
            grad[i] = -(nu[i] + 1.0) * t / ((nu[i] + t * t) * sd[i])
        return value

    return density


@functools.cache
def log_gamma(shape: Vector, rate: Vector, log_const: float) -> Any:
    """Product of densities of logarithms of Gamma variables, ``shape z - rate exp(z)`` each."""
    dim, a, b = len(shape), np.array(shape), np.array(rate)

    @numba.cfunc(_SIGNATURE, cache=True)
    def density(z_pointer, grad_pointer):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        z, grad = numba.carray(z_pointer, (dim,)), numba.carray(grad_pointer, (dim,))
        value = log_const
        for i in range(dim):
            x = b[i] * math.exp(z[i])
            value += a[i] * z[i] - x
            grad[i] = a[i] - x
        return value

    return density


@functools.cache
def banana(loc: Vector, scale: Vector, slope: float, bend: float, log_const: float) -> Any:
    """``z0`` normal, ``z1`` normal around ``loc1 + slope r + bend r**2`` with ``r = z0 - loc0``."""
    m0, m1 = loc
    s0, s1 = scale

    @numba.cfunc(_SIGNATURE, cache=True)
    def density(z_pointer, grad_pointer):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        z, grad = numba.carray(z_pointer, (2,)), numba.carray(grad_pointer, (2,))
        r = z[0] - m0
        e0, e1 = r / s0, (z[1] - m1 - slope * r - bend * r * r) / s1
        grad[1] = -e1 / s1
        grad[0] = -e0 / s0 + e1 * (slope + 2.0 * bend * r) / s1
        return log_const - 0.5 * (e0 * e0 + e1 * e1)

    return density
