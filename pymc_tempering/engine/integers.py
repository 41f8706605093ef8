"""Uniform whole numbers from a generator, in compiled code."""

from typing import Any

import numpy as np

from pymc_tempering.jit import compiled
from pymc_tempering.private.of_numba import bounded_integer

__all__ = ["draw_below"]

_bounded_integer = bounded_integer()


@compiled(borrows=True, inside=True)
def draw_below(n: int, rng: np.random.Generator) -> int:
    """Draw one of 0 to ``n - 1``: what ``rng.integers(n)`` draws, and nothing where n is 1.

    numba's `integers` makes an array for each number, and is for all types, ranges and sizes: it
    takes the better part of a second to compile. n is below 2**32.
    """
    if n == 1:
        return 0
    # signed, as the 0 is: numba makes a floating-point number of either
    drawn: Any = np.int64(_bounded_integer(rng.bit_generator, n - 1))
    return drawn
