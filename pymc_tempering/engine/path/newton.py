"""Newton steps to the mode of some coordinates given the others, with sparse curvature.

The Hessian of the locals comes from differences of gradients along coloured directions, its
Cholesky factor by columns in an order of elimination that is given.

Where the density depends on a sum of locals too, with a = 1 at these and else 0, the precision is
S + c a a', and S is what is sparse. Entries of S are followed by c; those of its factor by
w = S^-1 a, (n,), and by half the log of 1 + c a'w, what c adds to that of the determinant (Sherman
& Morrison 1950).
"""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.path import call_density
from pymc_tempering.jit import compiled
from pymc_tempering.types import BoolArray, FloatArray, IntArray

__all__ = ["System", "marginal_density", "solve_at_nodes"]

_STEP = 1e-4
"""Standard deviations of differences of gradients: eight of twelve digits are left."""

_LOOSE, _TIGHT = 1e-2, 1e-5
"""Squared length of a last Newton step, in standard deviations: of the steps of an ascent, and of
nodes between which is interpolated."""

_MOST_STEPS = 30


class System(NamedTuple):
    """Structure as compiled code sees it; locals in the order of elimination."""

    at: IntArray  # (n,), entry of z
    globals: IntArray  # (k,)
    colours: IntArray  # (n,)
    n_hubs: int  # that have the first colours, each its own
    begins: IntArray  # (n + 1,)
    rows: IntArray
    filled: BoolArray  # entries of the factor where the precision is zero
    summed: IntArray  # (m,), locals that the density depends on the sum of
    apart: IntArray  # those of them that are no neighbours of the first


@compiled(borrows=True, inside=True)
def _factorise(s: System, entries: FloatArray, factor: FloatArray, ridge: float) -> bool:
    """Cholesky factor of the entries plus a share of their diagonal; false where there is none."""
    n, n_entries = s.at.size, s.rows.size
    for e in range(n_entries):
        factor[e] = entries[e]
    for j in range(n):
        first, last = s.begins[j], s.begins[j + 1]
        pivot = factor[first] + ridge * (abs(entries[first]) + 1e-8)
        # nan fails as well
        if not pivot > 1e-12 * abs(entries[first]):
            return False
        root = np.sqrt(pivot)
        factor[first] = root
        for e in range(first + 1, last):
            factor[e] /= root
        for e in range(first + 1, last):
            column, size = s.rows[e], last - e
            to = s.begins[column]
            # as many entries are the same ones: what is eliminated later has all of them
            if s.begins[column + 1] - to == size:
                for d in range(size):
                    factor[to + d] -= factor[e] * factor[e + d]
                continue
            for d in range(e, last):
                row = s.rows[d]
                while s.rows[to] < row:
                    to += 1
                factor[to] -= factor[e] * factor[d]
    if s.summed.size:
        w = factor[n_entries : n_entries + n]
        for j in range(n):
            w[j] = 0.0
        for j in s.summed:
            w[j] = 1.0
        _solve_sparse(s, factor, w)
        more = entries[n_entries] * _sum(s, w)
        if not more > -1.0:
            return False
        factor[n_entries + n] = 0.5 * np.log1p(more)
    return True


@compiled(borrows=True, inside=True)
def _sum(s: System, x: FloatArray) -> float:
    total = 0.0
    for j in s.summed:
        total += x[j]
    return total


@compiled(borrows=True, inside=True)
def _solve(s: System, factor: FloatArray, b: FloatArray) -> float:
    """Overwrite ``b`` by the solution; return its squared length in standard deviations."""
    square = _solve_sparse(s, factor, b)
    if s.summed.size:
        n, n_entries = s.at.size, s.rows.size
        w = factor[n_entries : n_entries + n]
        total = _sum(s, b)
        share = -np.expm1(-2.0 * factor[n_entries + n]) * total / _sum(s, w)
        square -= share * total
        for j in range(n):
            b[j] -= share * w[j]
    return square


@compiled(borrows=True, inside=True)
def _solve_sparse(s: System, factor: FloatArray, b: FloatArray) -> float:
    """Solve without what the sum adds to the precision."""
    n = s.at.size
    square = 0.0
    for j in range(n):
        first = s.begins[j]
        b[j] /= factor[first]
        square += b[j] * b[j]
        for e in range(first + 1, s.begins[j + 1]):
            b[s.rows[e]] -= factor[e] * b[j]
    for j in range(n - 1, -1, -1):
        first = s.begins[j]
        for e in range(first + 1, s.begins[j + 1]):
            b[j] -= factor[e] * b[s.rows[e]]
        b[j] /= factor[first]
    return square


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
def _half_log_det(s: System, factor: FloatArray) -> float:
    total = 0.0
    for j in range(s.at.size):
        total += np.log(factor[s.begins[j]])
    if s.summed.size:
        total += factor[s.rows.size + s.at.size]
    return total


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
        square = _solve(s, factor, step)
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
        while not _factorise(s, entries, factor, ridge):
            ridge = max(1e-3, 4.0 * ridge)
            if ridge > 1e6:
                return False, value, n_gradients
        for j in range(n):
            step[j] = grad[s.at[j]]
        square = _solve(s, factor, step)
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
    _solve(s, factor, b)
    return 1


@compiled
def marginal_density(
    address: int, s: System, z: FloatArray, scale: FloatArray, steps: FloatArray, slope: FloatArray
) -> tuple[bool, float, int]:
    """Climb, and fill the gradient of the marginal density; whether all is finite, its log."""
    n, k, dim, n_entries = s.at.size, s.globals.size, z.size, s.rows.size + s.at.size + 1
    entries, factor, grad = np.empty(s.rows.size + 1), np.empty(n_entries), np.empty(dim)
    up, down, there, moved = np.empty(dim), np.empty(dim), np.empty(dim), np.empty(dim)
    done, value, n_gradients = _climb(
        address, s, z, scale, _LOOSE, False, entries, factor, grad
    )  # fmt: skip
    if not done:
        return False, -np.inf, n_gradients
    value -= _half_log_det(s, factor)
    half, b, other = _half_log_det(s, factor), np.empty(n), np.empty(n_entries)
    fallen = np.empty((_n_colours(s), n))
    for i in range(k):
        g = s.globals[i]
        n_gradients += _sensitivity(address, s, z, grad, factor, i, steps[i], b, up, there)
        for d in range(dim):
            there[d] = z[d]
        there[g] += steps[i]
        for j in range(n):
            there[s.at[j]] += steps[i] * b[j]
        call_density(address, there, up)
        n_gradients += 1
        n_gradients += _precision(address, s, there, up, scale, entries, down, moved, fallen)
        if not _factorise(s, entries, other, 0.0):
            return False, -np.inf, n_gradients
        slope[i] = grad[g] - (_half_log_det(s, other) - half) / steps[i]
        # of the last Newton step that was not taken, to first order
        for j in range(n):
            slope[i] += b[j] * grad[s.at[j]]
    return True, value, n_gradients


@compiled
def solve_at_nodes(
    address: int, s: System, z: FloatArray, units: FloatArray, scale: FloatArray,
    factors: FloatArray, values: FloatArray,
) -> int:  # fmt: skip
    """Climb at the globals of each row of ``z``; a value of -inf is of a row without a mode.

    The first row is a mode. Others start from the nearest solved before them, in ``units`` (k,) of
    the globals, moved as that of the first row would.
    """
    n, k, dim = s.at.size, s.globals.size, z.shape[1]
    entries, grad, own = np.empty(s.rows.size + 1), np.empty(dim), np.empty(n)
    by_global, up, there = np.empty((k, n)), np.empty(dim), np.empty(dim)
    n_gradients = 0
    for row in range(z.shape[0]):
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
            for e in range(factors.shape[1]):
                factors[row, e] = factors[nearest, e]
        for j in range(n):
            own[j] = scale[j]
        done, value, used = _climb(
            address, s, z[row], own, _TIGHT, row > 0, entries, factors[row], grad
        )  # fmt: skip
        if not done and row > 0:
            # as the first row has them, where the way there led astray
            n_gradients += used
            for j in range(n):
                z[row, s.at[j]] = z[0, s.at[j]]
            done, value, used = _climb(
                address, s, z[row], own, _TIGHT, False, entries, factors[row], grad
            )  # fmt: skip
        n_gradients += used
        values[row] = value - _half_log_det(s, factors[row]) if done else -np.inf
        if row == 0:
            for i in range(k):
                n_gradients += _sensitivity(
                    address, s, z[0], grad, factors[0], i, 1e-3 * units[i], by_global[i], up, there
                )  # fmt: skip
    return n_gradients
