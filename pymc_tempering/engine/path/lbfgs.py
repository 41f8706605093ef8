"""Curvature from the last moves of an ascent, as L-BFGS has it.

The two loops of Nocedal & Wright (2006, algorithm 7.4) correct any inverse curvature by pairs of
steps and decreases of the gradient: a multiple of the identity in
:mod:`pymc_tempering.references.ascent`, the factor of a place nearby in :mod:`.newton`. ``pairs``
(2, MEMORY, n) are rings, in which pair ``j`` is at ``j % MEMORY``; ``alpha`` (MEMORY,) goes from
one loop to the other. Vectors are handled by loops: an expression of whole arrays takes numba the
better part of a second to compile, with the errors that it may raise.
"""

import math

from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

MEMORY = 8
"""Pairs of steps and changes of the gradient that the curvature is known from."""


@compiled(borrows=True, inside=True)
def dot(a: FloatArray, b: FloatArray) -> float:
    """Sum of products."""
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@compiled(borrows=True, inside=True)
def copy(out: FloatArray, given: FloatArray) -> None:
    """Fill ``out`` with what is given."""
    for i in range(out.size):
        out[i] = given[i]


@compiled(borrows=True, inside=True)
def scale(out: FloatArray, factor: float) -> None:
    """Multiply ``out`` by a factor."""
    for i in range(out.size):
        out[i] *= factor


@compiled(borrows=True, inside=True)
def move(out: FloatArray, origin: FloatArray, factor: float, direction: FloatArray) -> None:
    """Fill ``out`` with a point on a line; it may be ``origin``."""
    for i in range(out.size):
        out[i] = origin[i] + factor * direction[i]


@compiled(borrows=True, apart=True, inside=True)
def first_loop(pairs: FloatArray, n_pairs: int, alpha: FloatArray, direction: FloatArray) -> None:
    """Turn a gradient ``direction`` (n,) into what the inverse curvature is multiplied by."""
    for j in range(n_pairs - 1, max(0, n_pairs - MEMORY) - 1, -1):
        s, y = pairs[0, j % MEMORY], pairs[1, j % MEMORY]
        alpha[j % MEMORY] = dot(s, direction) / dot(s, y)
        move(direction, direction, -alpha[j % MEMORY], y)


@compiled(borrows=True, apart=True, inside=True)
def second_loop(pairs: FloatArray, n_pairs: int, alpha: FloatArray, direction: FloatArray) -> None:
    """Turn the product ``direction`` (n,) into the step."""
    for j in range(max(0, n_pairs - MEMORY), n_pairs):
        s, y = pairs[0, j % MEMORY], pairs[1, j % MEMORY]
        factor = alpha[j % MEMORY] - dot(y, direction) / dot(s, y)
        move(direction, direction, factor, s)


@compiled(borrows=True, inside=True)
def remember(pairs: FloatArray, n_pairs: int, step: FloatArray, decrease: FloatArray) -> int:
    """Keep a step and the decrease of the gradient, where they tell of a maximum; pairs so far."""
    # free of units: a width of 1e-8 is a curvature of 1e16
    lengths = math.sqrt(dot(step, step)) * math.sqrt(dot(decrease, decrease))
    if not dot(step, decrease) > 1e-12 * lengths:
        return n_pairs
    copy(pairs[0, n_pairs % MEMORY], step)
    copy(pairs[1, n_pairs % MEMORY], decrease)
    return n_pairs + 1
