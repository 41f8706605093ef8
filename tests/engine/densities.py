"""Toy densities as C functions, each compiled once a session, by the first test that needs it."""

import math
from functools import cached_property

import numba


class Toy:
    """Compiled log density: ``address``, ``dim``."""

    def __init__(self, function, dim):
        self.function, self.dim = function, dim

    @cached_property
    def compiled(self):
        function, dim = numba.njit(self.function), self.dim

        @numba.cfunc("float64(CPointer(float64), CPointer(float64))")
        def density(z, grad):
            return function(numba.carray(z, (dim,)), numba.carray(grad, (dim,)))

        return density

    @property
    def address(self):
        return self.compiled.address


def toy(dim):
    """Make a density of ``(z, grad) -> log density``, both of shape (dim,)."""
    return lambda function: Toy(function, dim)


@toy(1)
def half_normal(z, grad):
    grad[0] = -z[0]
    return -0.5 * z[0] ** 2 if z[0] > 0.0 else -math.inf


@toy(1)
def narrow_between_edges(z, grad):
    """N(0, 0.1^2) between -5 and 3 of its standard deviations."""
    grad[0] = -100.0 * z[0]
    return -50.0 * z[0] ** 2 if -0.5 < z[0] < 0.3 else -math.inf


@toy(2)
def gamma_without_jacobian(z, grad):
    """`testing.skewed_gamma` without the term that the log transform adds."""
    value = 0.0
    for i in range(2):
        shape, rate = (0.8, 0.5) if i == 0 else (3.0, 2.0)
        value += (shape - 1.0) * z[i] - rate * math.exp(z[i])
        grad[i] = shape - 1.0 - rate * math.exp(z[i])
    return value


@toy(2)
def awkward(z, grad):
    """By the size of z[0]: above 3 -inf, above 2 nan, above 1 inf, above 0 a gradient of nan.

    As well as below -50, where the density is as good as none.
    """
    grad[0], grad[1] = 1.0, 2.0
    if z[0] > 3.0:
        return -math.inf
    if z[0] > 2.0:
        return math.nan
    if z[0] > 1.0:
        return math.inf
    if z[0] > 0.0:
        grad[1] = math.nan
    if z[0] < -50.0:
        grad[1] = -math.inf
        return -1e9
    return 5.0
