"""Laws of the residuals of :mod:`.conditional`, and how they warp a normal one."""

from typing import NamedTuple

import numpy as np

from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

BOUND = 25.0
"""Standard deviations at which the globals that locals depend on are bounded: nodes reach 5, and
more where tails do."""

SATURATES = 3.0
"""Standard deviations beyond which what a law's bends and scales depend on grows no more."""


class Laws(NamedTuple):
    """Of the residuals, one row for each coordinate: the globals, then locals as eliminated."""

    shift: FloatArray  # (D,)
    log_scale: FloatArray  # (D,)
    skew: FloatArray  # (D,), each below 1 in size
    tail: FloatArray  # (k, 2), a - 1 of both sides: 0 of a normal tail, 1 of an exponential one
    linear: FloatArray  # (k, k), A below its diagonal
    bend: FloatArray  # (k, k, k), B where last index <= second < first; empty where all are zero
    scale: FloatArray  # (k, k), S below its diagonal
    pair: FloatArray  # (n, 2), B and S of locals by their only parent; (0, 2) where none has them

    @classmethod
    def normal(
        cls, dim: int, n_globals: int, *, in_pairs: bool = False, bends: bool = True
    ) -> "Laws":
        """Of a map that is a Gaussian given the globals."""
        k = n_globals
        return cls(
            np.zeros(dim), np.zeros(dim), np.zeros(dim), np.zeros((k, 2)),
            np.zeros((k, k)), np.zeros((k * bends,) * 3), np.zeros((k, k)),
            np.zeros(((dim - k) * in_pairs, 2)),
        )  # fmt: skip


@compiled(borrows=True, inside=True)
def warp(u: float, skew: float) -> tuple[float, float, float]:
    """Skewed residual, its derivative, and the second one."""
    root = np.sqrt(1.0 + u * u)
    bend = skew / root
    return u + skew * root, 1.0 + bend * u, bend / (root * root)


@compiled(borrows=True, inside=True)
def unwarp(value: float, skew: float) -> float:
    """Residual that :func:`warp` leads to a value from."""
    left = 1.0 - skew * skew
    return (value - skew * np.sqrt(value * value + left)) / left


@compiled(borrows=True, inside=True)
def warp_tail(u: float, skew: float, tail: FloatArray) -> tuple[float, float, float]:
    """The same, with tails that are longer than normal ones: two derivatives match at 0."""
    longer = tail[0] if u < 0.0 else tail[1]
    if longer == 0.0:
        return warp(u, skew)
    power = 1.0 + longer
    square = 1.0 + u * u
    root = np.sqrt(square)
    y = power * np.arcsinh(u)
    sinh = np.sinh(y)
    cosh = np.cosh(y)
    slope = cosh / root
    curve = (power * sinh - cosh * u / root) / square
    value, by_tail, twice = warp(sinh / power, skew)
    return value, by_tail * slope, twice * slope * slope + by_tail * curve


@compiled(borrows=True, inside=True)
def bounded(x: float, bound: float = BOUND) -> tuple[float, float]:
    """Bound a number, which it is like while small; and the derivative. No tanh, for its time."""
    y = x / bound
    left = 1.0 / (1.0 + y * y)
    root = np.sqrt(left)
    return x * root, left * root


@compiled(borrows=True, inside=True)
def saturating(x: float) -> tuple[float, float]:
    """The same of what bends and scales depend on: products extrapolate badly."""
    return bounded(x, SATURATES)
