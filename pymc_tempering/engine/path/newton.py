"""Newton steps to the mode of some coordinates given the others, with sparse curvature.

The Hessian of the locals comes from differences of gradients along coloured directions, its
Cholesky factor by columns, with what a sum of locals adds (:mod:`.sparse_precision`).
"""

import numpy as np

from pymc_tempering.engine.path.path import call_density
from pymc_tempering.engine.path.sparse_precision import (
    System,
    factorise,
    half_log_det,
    solve,
    solve_back,
)  # fmt: skip
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["marginal_density", "solve_at_nodes"]

_STEP = 1e-4
"""Standard deviations of differences of gradients: eight of twelve digits are left."""

_APART = 1e-2
"""The same of second differences of gradients, of which half as many digits are left."""

_LOOSE, _TIGHT = 1e-2, 1e-5
"""Squared length of a last Newton step, in standard deviations: of the steps of an ascent, and of
nodes between which is interpolated."""

_MOST_STEPS = 30
"""Of a climb. Near a mode each doubles the right digits; what climbs for longer has none near."""


@compiled(borrows=True, inside=True)
def _n_colours(s: System) -> int:
    n_colours = 0
    for j in range(s.at.size):
        n_colours = max(n_colours, s.colours[j] + 1)
    return n_colours


@compiled(borrows=True, inside=True)
def _in_common(
    address: int, s: System, z: FloatArray, grad: FloatArray, scale: FloatArray,
    up: FloatArray, there: FloatArray,
) -> float:  # fmt: skip
    """Find c, by those of the sum to which the first of them is nothing else."""
    first, total = s.summed[0], 0.0
    for i in range(z.size):
        there[i] = z[i]
    there[s.at[first]] += _STEP * scale[first]
    call_density(address, there, up)
    for j in s.apart:
        total += grad[s.at[j]] - up[s.at[j]]
    return total / (s.apart.size * _STEP * scale[first])


@compiled(borrows=True, inside=True)
def _precision(  # noqa: PLR0913 - scratch space, too
    address: int, s: System, z: FloatArray, grad: FloatArray, scale: FloatArray,
    entries: FloatArray, up: FloatArray, there: FloatArray, fallen: FloatArray,
) -> int:  # fmt: skip
    """Fill the entries of minus the Hessian of the locals; return the gradients it took.

    From one-sided differences with the gradient ``grad`` at ``z``; those by each colour are put
    into ``fallen`` (n_colours, n).
    """
    n, dim, n_colours = s.at.size, z.size, len(fallen)
    for e in range(entries.size):
        entries[e] = 0.0
    in_common = 0.0
    if s.summed.size:
        in_common = _in_common(address, s, z, grad, scale, up, there)
        entries[s.rows.size] = in_common
    for c in range(n_colours):
        for i in range(dim):
            there[i] = z[i]
        for j in range(n):
            if s.colours[j] == c:
                there[s.at[j]] += _STEP * scale[j]
        call_density(address, there, up)
        if s.summed.size:
            moved = 0.0
            for j in s.summed:
                if s.colours[j] == c:
                    moved += _STEP * scale[j]
            for j in s.summed:
                up[s.at[j]] += in_common * moved
        for j in range(n):
            fallen[c, j] = grad[s.at[j]] - up[s.at[j]]
    for j in range(n):
        for e in range(s.begins[j], s.begins[j + 1]):
            # there, differences are of other neighbours with the same colour
            if s.filled[e]:
                continue
            i = s.rows[e]
            of_j, of_i = s.colours[j], s.colours[i]
            # those of one colour are neighbours of one hub, which sees each of them
            by_j = of_j < s.n_hubs or of_i >= s.n_hubs
            if by_j:
                entries[e] = fallen[of_j, i] / (_STEP * scale[j])
            if i != j and (of_i < s.n_hubs or of_j >= s.n_hubs):
                other = fallen[of_i, j] / (_STEP * scale[i])
                entries[e] = 0.5 * (entries[e] + other) if by_j else other
    return n_colours + (1 if s.summed.size else 0)


@compiled(borrows=True, inside=True)
def _over_widths(
    address: int, s: System, z: FloatArray, scale: FloatArray, entries: FloatArray,
    up: FloatArray, down: FloatArray, there: FloatArray,
) -> int:  # fmt: skip
    """Fill the precisions of locals without neighbours, and return the gradients it took.

    They are the mean curvature over a standard deviation on either side. That of the mode may be
    none, where answers may have been guessed, and Laplace would make of it mass without bounds.
    """
    n, dim = s.at.size, z.size
    for way in (1.0, -1.0):
        for i in range(dim):
            there[i] = z[i]
        for j in range(n):
            there[s.at[j]] += way * scale[j]
        call_density(address, there, up if way > 0.0 else down)
    for j in range(n):
        entries[j] = (down[s.at[j]] - up[s.at[j]]) / (2.0 * scale[j])
    return 2


@compiled(borrows=True, inside=True)
def _chords(  # noqa: PLR0913 - scratch space, too
    address: int, s: System, z: FloatArray, tolerance: float, factor: FloatArray, value: float,
    grad: FloatArray, up: FloatArray, there: FloatArray, step: FloatArray,
) -> tuple[float, int]:  # fmt: skip
    """Move the locals of ``z`` by steps with the factor of another place, while these shrink.

    Each takes a gradient, where a factor of its own takes one for each colour: as many at most.
    """
    n, dim, last, n_gradients = s.at.size, z.size, np.inf, 0
    for _ in range(_n_colours(s)):
        for j in range(n):
            step[j] = grad[s.at[j]]
        square = solve(s, factor, step)
        # nan fails as well
        if square < tolerance or not square < 0.5 * last:
            break
        for i in range(dim):
            there[i] = z[i]
        for j in range(n):
            there[s.at[j]] += step[j]
        better = call_density(address, there, up)
        n_gradients += 1
        if not better >= value - 1e-9 * (1.0 + abs(value)):
            break
        for i in range(dim):
            z[i], grad[i] = there[i], up[i]
        last, value = square, better
    return value, n_gradients


@compiled
def _climb(  # noqa: PLR0913 - scratch space, too
    address: int, s: System, z: FloatArray, scale: FloatArray, tolerance: float, near: bool,
    entries: FloatArray, factor: FloatArray, grad: FloatArray,
) -> tuple[bool, float, int]:  # fmt: skip
    """Move the locals of ``z`` to their mode; whether there is one, log density, gradients.

    Where ``factor`` is that of a place ``near``, the first steps are with this.
    """
    n, dim = s.at.size, z.size
    up, there, step = np.empty(dim), np.empty(dim), np.empty(n)
    fallen = np.empty((_n_colours(s), n))
    value = call_density(address, z, grad)
    n_gradients = 1
    if near and n > 0 and np.isfinite(value):
        # so small that a step with a factor of its own is within the tolerance
        value, used = _chords(
            address, s, z, 0.25 * tolerance, factor, value, grad, up, there, step
        )  # fmt: skip
        n_gradients += used
    for _ in range(_MOST_STEPS):
        if not np.isfinite(value):
            return False, value, n_gradients
        n_gradients += _precision(address, s, z, grad, scale, entries, up, there, fallen)
        ridge = 0.0
        while not factorise(s, entries, factor, ridge):
            ridge = max(1e-3, 4.0 * ridge)
            if ridge > 1e6:
                return False, value, n_gradients
        for j in range(n):
            step[j] = grad[s.at[j]]
        square = solve(s, factor, step)
        if ridge == 0.0:
            for j in range(n):
                scale[j] = 1.0 / np.sqrt(entries[s.begins[j]])
        if square < tolerance and ridge == 0.0:
            return True, value, n_gradients
        share = 1.0
        better = -np.inf
        for _ in range(12):
            for i in range(dim):
                there[i] = z[i]
            for j in range(n):
                there[s.at[j]] += share * step[j]
            better = call_density(address, there, up)
            n_gradients += 1
            if better >= value - 1e-9 * (1.0 + abs(value)):
                break
            share *= 0.4
        else:
            # rounding is all that is left
            return ridge == 0.0 and square < 1.0, value, n_gradients
        for i in range(dim):
            z[i], grad[i] = there[i], up[i]
        value = better
    return False, value, n_gradients


@compiled(borrows=True, inside=True)
def _sensitivity(  # noqa: PLR0913 - scratch space, too
    address: int, s: System, z: FloatArray, grad: FloatArray, factor: FloatArray, i: int,
    step: float, b: FloatArray, up: FloatArray, there: FloatArray,
) -> int:  # fmt: skip
    """Fill the derivatives ``b`` of the locals' mode by a global; return the gradients it took."""
    for d in range(z.size):
        there[d] = z[d]
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
    address: int, s: System, z: FloatArray, scale: FloatArray, entries: FloatArray,
    slope: FloatArray, up: FloatArray, down: FloatArray, there: FloatArray, moved: FloatArray,
) -> int:  # fmt: skip
    """Add to ``slope`` (D,) that of minus the log determinant of :func:`_over_widths`, by ``z``."""
    for way in (1.0, -1.0):
        for d in range(z.size):
            there[d] = z[d]
        for j in range(s.at.size):
            there[s.at[j]] += way * scale[j] + 0.5 * _STEP / (scale[j] * entries[j])
        call_density(address, there, moved)
        for d in range(z.size):
            slope[d] += way * (moved[d] - (up[d] if way > 0.0 else down[d])) / _STEP
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
            for d in range(z.size):
                there[d] = z[d]
            for j in range(s.at.size):
                there[s.at[j]] += way * columns[j]
            call_density(address, there, up)
            for d in range(z.size):
                slope[d] += (up[d] - grad[d]) / _APART**2
    return 2 * n_deep


@compiled
def marginal_density(
    address: int, s: System, z: FloatArray, scale: FloatArray, steps: FloatArray, slope: FloatArray
) -> tuple[bool, float, int]:
    """Climb, and fill the gradient of the marginal density; whether all is finite, its log.

    That of the log determinant comes by all globals at once; with a sum of locals, or where columns
    of L^-T are long, as in a chain, by differences along each.
    """
    n, k, dim, n_entries = s.at.size, s.globals.size, z.size, s.rows.size + s.at.size + 1
    entries, factor, grad = np.empty(s.rows.size + 1), np.empty(n_entries), np.empty(dim)
    up, down, there, moved = np.empty(dim), np.empty(dim), np.empty(dim), np.empty(dim)
    done, value, n_gradients = _climb(
        address, s, z, scale, _LOOSE, False, entries, factor, grad
    )  # fmt: skip
    if not done:
        return False, -np.inf, n_gradients
    by_all, b, depths, n_more = np.zeros(dim), np.empty(n), np.empty(n, np.int64), 0
    n_colours, n_deep = _n_colours(s), _depths(s, depths)
    if s.rows.size == n and s.summed.size == 0:
        n_gradients += _over_widths(address, s, z, scale, entries, up, down, there)
        if not factorise(s, entries, factor, 0.0):
            return False, -np.inf, n_gradients
        n_more = _slope_of_widths(
            address, s, z, scale, entries, by_all, up, down, there, moved
        )  # fmt: skip
    elif s.summed.size == 0 and 2 * n_deep <= k * (1 + n_colours):
        n_more = _slope_of_factor(
            address, s, z, grad, factor, depths, n_deep, by_all, up, there, b
        )  # fmt: skip
    n_gradients += n_more
    half, other, fallen = half_log_det(s, factor), np.empty(n_entries), np.empty((n_colours, n))
    for i, g in enumerate(s.globals):
        n_gradients += _sensitivity(address, s, z, grad, factor, i, steps[i], b, up, there)
        slope[i] = grad[g] + 0.5 * by_all[g]
        # of the last Newton step that was not taken, to first order, too
        for j in range(n):
            slope[i] += b[j] * (grad[s.at[j]] + 0.5 * by_all[s.at[j]])
        if n_more > 0:
            continue
        for d in range(dim):
            there[d] = z[d]
        there[g] += steps[i]
        for j in range(n):
            there[s.at[j]] += steps[i] * b[j]
        call_density(address, there, up)
        n_gradients += 1 + _precision(address, s, there, up, scale, entries, down, moved, fallen)
        if not factorise(s, entries, other, 0.0):
            return False, -np.inf, n_gradients
        slope[i] -= (half_log_det(s, other) - half) / steps[i]
    return True, value - half, n_gradients


@compiled
def solve_at_nodes(
    address: int, s: System, z: FloatArray, units: FloatArray, scale: FloatArray,
    factors: FloatArray, values: FloatArray,
) -> int:  # fmt: skip
    """Climb at the globals of each row of ``z``; a value of -inf is of a row without a mode.

    Each starts from the nearest solved before it, in ``units`` (k,) of the globals, moved as that
    of the first would, which is a mode. Where half of 2 k + 2 have none, the rest is left out.
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
        own[:] = scale
        done, value, used = _climb(address, s, z[row], own, _TIGHT, row > 0, entries,
                                   factors[row], grad)  # fmt: skip
        if not done and row > 0:
            # as the first row has them, where the way there led astray
            n_gradients += used
            for j in range(n):
                z[row, s.at[j]] = z[0, s.at[j]]
            done, value, used = _climb(address, s, z[row], own, _TIGHT, False, entries,
                                       factors[row], grad)  # fmt: skip
        n_gradients += used
        if done and s.rows.size == n and s.summed.size == 0:
            n_gradients += _over_widths(address, s, z[row], own, entries, up, down, there)
            done = factorise(s, entries, factors[row], 0.0)
        if done:
            values[row], n_solved = value - half_log_det(s, factors[row]), n_solved + 1
        if row == 0:
            for i in range(k):
                n_gradients += _sensitivity(
                    address, s, z[0], grad, factors[0], i, 1e-3 * units[i], by_global[i], up, there
                )  # fmt: skip
    return n_gradients
