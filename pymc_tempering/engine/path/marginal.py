"""Laplace's marginal density of some coordinates, its gradient, and what it takes at many nodes.

The mathematics is that of :mod:`pymc_tempering.references.nested_laplace`.
"""

import numpy as np

from pymc_tempering.engine.path.lbfgs import copy
from pymc_tempering.engine.path.newton import (
    STEP,
    climb,
    n_colours,
    precision,
    precision_over_widths,
)
from pymc_tempering.engine.path.path import call_density
from pymc_tempering.engine.path.sparse_precision import (
    System,
    factorise,
    half_log_det,
    solve,
    solve_back,
)
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray, IntArray

_APART = 1e-2
"""Standard deviations of second differences of gradients, of which half as many digits are left as
of first ones."""

_LOOSE, _TIGHT = 1e-2, 1e-5
"""Squared length of a last Newton step, in standard deviations: of the steps of an ascent, and of
nodes between which is interpolated."""


@compiled(borrows=True, inside=True)
def _sensitivity(  # noqa: PLR0913 - scratch space, too
    address: int, s: System, z: FloatArray, grad: FloatArray, factor: FloatArray, i: int,
    step: float, b: FloatArray, up: FloatArray, there: FloatArray,
) -> int:  # fmt: skip
    """Fill the derivatives ``b`` of the locals' mode by a global; return the gradients it took."""
    copy(there, z)
    there[s.globals[i]] += step
    call_density(address, there, up)
    for j in range(s.at.size):
        b[j] = (up[s.at[j]] - grad[s.at[j]]) / step
    solve(s, factor, b)
    return 1


@compiled(borrows=True, inside=True)
def _depths(s: System, depths: IntArray) -> int:
    """Count those that depend on each local and are eliminated after it; the most, and one.

    Columns of L^-T of one depth have no neighbours in common (Liu 1990, "The role of elimination
    trees in sparse factorization", SIAM J. Matrix Anal. Appl. 11).
    """
    n_deep = 0
    for j in range(s.at.size - 1, -1, -1):
        below = s.begins[j] + 1
        depths[j] = depths[s.rows[below]] + 1 if below < s.begins[j + 1] else 0
        n_deep = max(n_deep, depths[j] + 1)
    return n_deep


@compiled(borrows=True, inside=True)
def _slope_of_widths(  # noqa: PLR0913 - scratch space, too
    address: int, s: System, z: FloatArray, widths: FloatArray, entries: FloatArray,
    slope: FloatArray, up: FloatArray, down: FloatArray, there: FloatArray, moved: FloatArray,
) -> int:  # fmt: skip
    """Add to ``slope`` (D,) that of minus the log determinant of precisions over widths."""
    for way in (1.0, -1.0):
        copy(there, z)
        for j in range(s.at.size):
            there[s.at[j]] += way * widths[j] + 0.5 * STEP / (widths[j] * entries[j])
        call_density(address, there, moved)
        for d in range(z.size):
            slope[d] += way * (moved[d] - (up[d] if way > 0.0 else down[d])) / STEP
    return 2


@compiled(borrows=True, inside=True)
def _slope_of_factor(  # noqa: PLR0913 - scratch space, too
    address: int, s: System, z: FloatArray, grad: FloatArray, factor: FloatArray, depths: IntArray,
    n_deep: int, slope: FloatArray, up: FloatArray, there: FloatArray, columns: FloatArray,
) -> int:  # fmt: skip
    """Add to ``slope`` (D,) that of minus the log determinant of the precision, by ``z``.

    It is the sum of third derivatives, twice along the columns of L^-T of one depth.
    """
    for depth in range(n_deep):
        for j in range(s.at.size):
            columns[j] = 1.0 if depths[j] == depth else 0.0
        solve_back(s, factor, columns)
        for way in (_APART, -_APART):
            copy(there, z)
            for j in range(s.at.size):
                there[s.at[j]] += way * columns[j]
            call_density(address, there, up)
            for d in range(z.size):
                slope[d] += (up[d] - grad[d]) / _APART**2
    return 2 * n_deep


@compiled
def marginal_density(
    address: int, s: System, z: FloatArray, widths: FloatArray, near: bool, factor: FloatArray,
    steps: FloatArray, slope: FloatArray,
) -> tuple[bool, float, int]:  # fmt: skip
    """Climb, and fill ``slope`` (k,) of the marginal density; whether all is finite, its log.

    ``factor`` is that of a place ``near``, or none; then it is that of the mode.

    That of the log determinant comes by all globals at once; with a sum of locals, or where columns
    of L^-T are long, as in a chain, by differences along each.
    """
    n, k, dim = s.at.size, s.globals.size, z.size
    entries, grad = np.empty(s.rows.size + 1), np.empty(dim)
    up, down, there, moved = np.empty(dim), np.empty(dim), np.empty(dim), np.empty(dim)
    done, value, n_gradients = climb(address, s, z, widths, _LOOSE, near, entries, factor, grad)
    if not done:
        return False, -np.inf, n_gradients
    by_all, b, depths, n_more = np.zeros(dim), np.empty(n), np.empty(n, np.int64), 0
    colours, n_deep = n_colours(s), _depths(s, depths)
    if s.rows.size == n and s.summed.size == 0:
        n_gradients += precision_over_widths(address, s, z, widths, entries, up, down, there)
        if not factorise(s, entries, factor, 0.0):
            return False, -np.inf, n_gradients
        n_more = _slope_of_widths(
            address, s, z, widths, entries, by_all, up, down, there, moved
        )  # fmt: skip
    elif s.summed.size == 0 and 2 * n_deep <= k * (1 + colours):
        n_more = _slope_of_factor(
            address, s, z, grad, factor, depths, n_deep, by_all, up, there, b
        )  # fmt: skip
    n_gradients += n_more
    half, other, fallen = half_log_det(s, factor), np.empty(factor.size), np.empty((colours, n))
    for i, g in enumerate(s.globals):
        n_gradients += _sensitivity(address, s, z, grad, factor, i, steps[i], b, up, there)
        slope[i] = grad[g] + 0.5 * by_all[g]
        # of the last Newton step that was not taken, to first order, too
        for j in range(n):
            slope[i] += b[j] * (grad[s.at[j]] + 0.5 * by_all[s.at[j]])
        if n_more > 0:
            continue
        copy(there, z)
        there[g] += steps[i]
        for j in range(n):
            there[s.at[j]] += steps[i] * b[j]
        call_density(address, there, up)
        n_gradients += 1 + precision(address, s, there, up, widths, entries, down, moved, fallen)
        if not factorise(s, entries, other, 0.0):
            return False, -np.inf, n_gradients
        slope[i] -= (half_log_det(s, other) - half) / steps[i]
    return True, value - half, n_gradients


@compiled
def solve_at_nodes(
    address: int, s: System, z: FloatArray, units: FloatArray, widths: FloatArray, near: bool,
    factors: FloatArray, values: FloatArray,
) -> int:  # fmt: skip
    """Climb at the globals of each row of ``z``; a value of -inf is of a row without a mode.

    Each starts from the nearest solved before it, in ``units`` (k,) of the globals, moved as that
    of the first would, which is a mode. Where half of 2 k + 2 have none, the rest is left out.
    Where the first is ``near`` a place with a known factor, that is in the first row of them.
    """
    n, k, dim = s.at.size, s.globals.size, z.shape[1]
    entries, grad, own = np.empty(s.rows.size + 1), np.empty(dim), np.empty(n)
    by_global, up, there, down = np.empty((k, n)), np.empty(dim), np.empty(dim), np.empty(dim)
    n_gradients = n_solved = 0
    values[:] = -np.inf
    for row in range(z.shape[0]):
        if row >= 2 * k + 2 and 2 * n_solved < row:
            break
        nearest, least = 0, np.inf
        for other in range(row):
            gap = 0.0
            for i in range(k):
                gap += ((z[row, s.globals[i]] - z[other, s.globals[i]]) / units[i]) ** 2
            if gap < least and np.isfinite(values[other]):
                nearest, least = other, gap
        if row > 0:
            for j in range(n):
                moved = z[nearest, s.at[j]]
                for i in range(k):
                    g = s.globals[i]
                    moved += by_global[i, j] * (z[row, g] - z[nearest, g])
                z[row, s.at[j]] = moved
            factors[row] = factors[nearest]
        own[:] = widths
        done, value, used = climb(address, s, z[row], own, _TIGHT, near or row > 0, entries,
                                   factors[row], grad)  # fmt: skip
        n_gradients += used
        if done and s.rows.size == n and s.summed.size == 0:
            n_gradients += precision_over_widths(address, s, z[row], own, entries, up, down, there)
            done = factorise(s, entries, factors[row], 0.0)
        if done:
            values[row], n_solved = value - half_log_det(s, factors[row]), n_solved + 1
        if row == 0:
            for i in range(k):
                n_gradients += _sensitivity(
                    address, s, z[0], grad, factors[0], i, 1e-3 * units[i], by_global[i], up, there
                )  # fmt: skip
    return n_gradients
