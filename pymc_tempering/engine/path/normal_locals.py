r"""Locals that are normal given the globals: their moments at any globals, without interpolation.

Given globals g the gradient by the locals x is linear in them, Q(g) (x(g) - x), so that coloured
differences give the precision Q = L L', and one solution the mean x(g), up to rounding. With

.. math:: x = x(g) + L^{-T} u

the locals' u are standard normals whatever the globals are, and these have the density

.. math:: \log p(g) = \log p(g, x(g)) - \tfrac12 \log \det Q(g) + \text{const}.

It and its gradient take (1 + k) (1 + c) + 1 gradients of k globals and c colours. Mostly Q(g) is a
sum of few fixed matrices, as of a prior over a variance and of data over another: then the gradient
along one direction d, Q d, tells how much of each there is, and c is 1.
"""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.lbfgs import copy
from pymc_tempering.engine.path.newton import STEP, n_colours, precision
from pymc_tempering.engine.path.path import call_density
from pymc_tempering.engine.path.sparse_precision import (
    System,
    factorise,
    half_log_det,
    solve,
    solve_back,
)
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray

_ROUNDING = 1e-9
"""Of the largest change of a gradient: what is more is of a matrix that the span does not have."""

type Scratch = tuple[FloatArray, ...]


class Span(NamedTuple):
    """What precisions are made of: r matrices, or r = 0 where there are too many."""

    matrices: FloatArray  # (r, number of entries)
    changes: FloatArray  # (r, n), of a gradient along the direction, by each
    by_change: FloatArray  # (r, n), from what a gradient changes by to how much of each there is
    along: FloatArray  # (n,), the direction


@compiled(inside=True)
def _scratch(s: System, dim: int) -> Scratch:
    # entries, a factor, three vectors, what differences of each colour are, a step, and widths:
    # gradients are linear, so that differences are of steps of 1
    return (
        np.empty(s.rows.size + 1), np.empty(s.rows.size), np.empty(dim), np.empty(dim),
        np.empty(dim), np.empty((n_colours(s), s.at.size)), np.empty(s.at.size),
        np.full(s.at.size, 1.0 / STEP),
    )  # fmt: skip


@compiled(borrows=True, inside=True)
def _is_in_span(
    address: int, s: System, span: Span, z: FloatArray, grad: FloatArray, entries: FloatArray,
    up: FloatArray, there: FloatArray,
) -> bool:  # fmt: skip
    """Fill the entries of the precision by one more gradient; whether they explain all of it."""
    copy(there, z)
    for j in range(s.at.size):
        there[s.at[j]] += span.along[j]
    call_density(address, there, up)
    largest = 0.0
    for j in range(s.at.size):
        up[s.at[j]] = grad[s.at[j]] - up[s.at[j]]
        largest = max(largest, abs(up[s.at[j]]))
    entries[:] = 0.0
    for r in range(len(span.matrices)):
        share = 0.0
        for j in range(s.at.size):
            share += span.by_change[r, j] * up[s.at[j]]
        for e in range(s.rows.size):
            entries[e] += share * span.matrices[r, e]
        for j in range(s.at.size):
            there[s.at[j]] = (there[s.at[j]] if r else 0.0) + share * span.changes[r, j]
    is_all = True
    for j in range(s.at.size):
        is_all = is_all and abs(up[s.at[j]] - there[s.at[j]]) <= _ROUNDING * largest
    return is_all


@compiled(borrows=True, inside=True)
def _factor_at(
    address: int, s: System, span: Span, z: FloatArray, grad: FloatArray, factor: FloatArray,
    scratch: Scratch,
) -> bool:  # fmt: skip
    """Fill the factor of the precision at ``z`` (D,); false where there is none."""
    entries, _, up, there, _, fallen, _, widths = scratch
    if not np.isfinite(call_density(address, z, grad)):
        return False
    few = len(span.matrices) > 0
    if not (few and _is_in_span(address, s, span, z, grad, entries, up, there)):
        precision(address, s, z, grad, widths, entries, up, there, fallen)
    return factorise(s, entries, factor, 0.0)


@compiled
def precisions(address: int, s: System, z: FloatArray, entries: FloatArray) -> None:
    """Fill entries (N, number of entries) of precisions at the rows of ``z`` (N, D), by colours."""
    _, _, up, there, grad, fallen, _, widths = _scratch(s, z.shape[1])
    for row in range(len(z)):
        call_density(address, z[row], grad)
        precision(address, s, z[row], grad, widths, entries[row], up, there, fallen)


@compiled(borrows=True, inside=True)
def _to_mean(address: int, s: System, span: Span, z: FloatArray, scratch: Scratch) -> float:
    """Move the locals of ``z`` (D,) to their mean; return the globals' log density, or -inf."""
    _, factor, _, _, grad, _, step, _ = scratch
    if not _factor_at(address, s, span, z, grad, factor, scratch):
        return -np.inf
    for j in range(step.size):
        step[j] = grad[s.at[j]]
    solve(s, factor, step)
    for j in range(step.size):
        z[s.at[j]] += step[j]
    value = call_density(address, z, grad)
    return value - half_log_det(s, factor) if np.isfinite(value) else -np.inf


@compiled
def density_of_globals(
    address: int, s: System, span: Span, place: FloatArray, steps: FloatArray, g: FloatArray,
    slope: FloatArray,
) -> float:  # fmt: skip
    """Log density of globals ``g`` (k,) in nats, without a constant, and its gradient; or -inf.

    Locals are moved from those of ``place`` (D,); ``steps`` (k,) are those of differences by the
    globals.
    """
    z, moved, scratch = place.copy(), np.empty(place.size), _scratch(s, place.size)
    slope[:] = 0.0
    for i in range(g.size):
        z[s.globals[i]] = g[i]
    value = _to_mean(address, s, span, z, scratch)
    if not np.isfinite(value):
        return -np.inf
    factor, grad = scratch[1], scratch[4]
    half, other, up = half_log_det(s, factor), np.empty(factor.size), np.empty(place.size)
    for i in range(g.size):
        copy(moved, z)
        moved[s.globals[i]] += steps[i]
        if not _factor_at(address, s, span, moved, up, other, scratch):
            slope[:] = 0.0
            return -np.inf
        slope[i] = grad[s.globals[i]] - (half_log_det(s, other) - half) / steps[i]
    return value


@compiled
def draw_locals(
    address: int, s: System, span: Span, place: FloatArray, z: FloatArray, u: FloatArray,
    log_det: FloatArray,
) -> None:  # fmt: skip
    """Fill locals of the rows of ``z`` (N, D), whose globals are known, from normals ``u`` (N, n).

    And log determinants (N,). All are nan where locals have no precision.
    """
    scratch = _scratch(s, place.size)
    for row in range(len(z)):
        for j in s.at:
            z[row, j] = place[j]
        if not np.isfinite(_to_mean(address, s, span, z[row], scratch)):
            z[row, :] = log_det[row] = np.nan
            continue
        solve_back(s, scratch[1], u[row])
        for j in range(s.at.size):
            z[row, s.at[j]] += u[row, j]
        log_det[row] = -half_log_det(s, scratch[1])


@compiled
def standardise_locals(
    address: int, s: System, span: Span, place: FloatArray, z: FloatArray, u: FloatArray
) -> None:
    """Fill normals ``u`` (N, n) that :func:`draw_locals` makes the locals of ``z`` (N, D) from.

    They are nan where locals have no precision.
    """
    mean, scratch = np.empty(place.size), _scratch(s, place.size)
    for row in range(len(z)):
        copy(mean, z[row])
        for j in s.at:
            mean[j] = place[j]
        if not np.isfinite(_to_mean(address, s, span, mean, scratch)):
            u[row, :] = np.nan
            continue
        factor = scratch[1]
        for j in range(s.at.size):
            u[row, j] = 0.0
            for e in range(s.begins[j], s.begins[j + 1]):
                i = s.at[s.rows[e]]
                u[row, j] += factor[e] * (z[row, i] - mean[i])
