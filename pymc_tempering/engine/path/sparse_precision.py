"""Cholesky factor of a sparse precision, by columns in an order of elimination that is given.

Where the density depends on a sum of locals too, with a = 1 at these and else 0, the precision is
S + c a a', and S is what is sparse. Entries of S are followed by c; those of its factor by
w = S^-1 a, (n,), and by half the log of 1 + c a'w, what c adds to that of the determinant (Sherman
& Morrison 1950).
"""

from typing import NamedTuple

import numpy as np

from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray, IntArray


class System(NamedTuple):
    """Structure as compiled code sees it; locals in the order of elimination."""

    at: IntArray  # (n,), entry of z
    globals: IntArray  # (k,)
    colours: IntArray  # (n,)
    n_hubs: int  # that have the first colours, each its own
    begins: IntArray  # (n + 1,)
    rows: IntArray
    filled: IntArray  # entries of the factor where the precision is zero
    summed: IntArray  # (m,), locals that the density depends on the sum of
    apart: IntArray  # those of them that are no neighbours of the first


@compiled(borrows=True, inside=True)
def factorise(s: System, entries: FloatArray, factor: FloatArray, ridge: float) -> bool:
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
def solve(s: System, factor: FloatArray, b: FloatArray) -> float:
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
    solve_back(s, factor, b)
    return square


@compiled(borrows=True, inside=True)
def solve_back(s: System, factor: FloatArray, b: FloatArray) -> None:
    """Overwrite ``b`` by the solution with the factor's transpose, without the sum."""
    for j in range(s.at.size - 1, -1, -1):
        first = s.begins[j]
        for e in range(first + 1, s.begins[j + 1]):
            b[j] -= factor[e] * b[s.rows[e]]
        b[j] /= factor[first]


@compiled(borrows=True, inside=True)
def half_log_det(s: System, factor: FloatArray) -> float:
    """Half the log determinant of the precision, in nats."""
    total = 0.0
    for j in range(s.at.size):
        total += np.log(factor[s.begins[j]])
    if s.summed.size:
        total += factor[s.rows.size + s.at.size]
    return total
