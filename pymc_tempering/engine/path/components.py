"""A mixture as compiled code sees it: arrays of its components, and its density and gradient.

Kernels are given arrays: none is compiled again for other fits, weights or models.
"""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.transport import NO_TERMS, log_map
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray, IntArray

_MANY = 12
"""Coordinates from which vector instructions gain more than they cost to begin with."""

NEGLIGIBLE = 37.0
"""Nats below the others at which a component changes no digit of their sum."""


class Components(NamedTuple):
    """A mixture as compiled code sees it, in the coordinates of a path.

    K local fits, the defensive component before them, and T terms of transport maps.
    """

    log_scales: FloatArray  # (K + 1,), log densities of the weighted components at their means
    means: FloatArray  # (K, D)
    # (E,), rows of matrices to coordinates in which a fit is N(0, I), or mapped further: from
    # the first entry that is not zero; of one that is not mapped to the diagonal
    entries: FloatArray
    starts: IntArray  # (K D + 1,), where the entries of each row begin and end
    begins: IntArray  # (K, D), column of the first entry of each row
    what: IntArray  # (T, 4), see `transport.Terms`; of all components
    coefficients: FloatArray  # (T,)
    ends: IntArray  # (K + 1,), where the terms of each component begin and end
    dof: float  # degrees of freedom of the defensive component


def no_components(dim: int) -> Components:
    """Of a path whose reference is no mixture."""
    return Components(
        np.empty(0), np.empty((0, dim)), np.empty(0), np.zeros(1, np.int64),
        np.empty((0, dim), np.int64), *NO_TERMS, np.zeros(1, np.int64), np.inf,
    )  # fmt: skip


def widest(components: Components) -> float:
    """Largest standard deviation of a local fit in the coordinates, at most 1."""
    n_fits, dim = components.means.shape
    least = []
    for k in range(n_fits):
        starts = components.starts[k * dim : (k + 1) * dim + 1]
        entries = components.entries[starts[0] : starts[-1]]
        if entries.size == dim:
            least.append(np.abs(entries).min())
            continue
        root = np.zeros((dim, dim))
        for i, begin in enumerate(components.begins[k]):
            row = components.entries[starts[i] : starts[i + 1]]
            root[i, begin : begin + row.size] = row
        least.append(np.linalg.svd(root, compute_uv=False)[-1])
    return float(min(1.0, 1.0 / min(least)))


def is_diagonal(matrix: FloatArray) -> bool:
    """Tell whether a matrix has nothing beside its diagonal."""
    return np.count_nonzero(matrix) == np.count_nonzero(np.diagonal(matrix))


@compiled(borrows=True, inside=True)
def log_defensive(components: Components, square: float, dim: int) -> float:
    """Log density of the weighted defensive component, by the squared distance from the origin."""
    tail = 0.5 * (components.dof + dim)
    return components.log_scales[0] - tail * np.log1p(square / components.dof)


@compiled(borrows=True, inside=True)
def _start(components: Components, k: int, i: int) -> np.uint64:
    """Where the entries of a row begin."""
    return np.uint64(components.starts[k * components.means.shape[1] + i])


@compiled(borrows=True, inside=True)
def _has_diagonal(components: Components, k: int) -> bool:
    """Whether a component has one entry in each row."""
    dim = components.means.shape[1]
    return components.starts[(k + 1) * dim] - components.starts[k * dim] == dim


# sums in any order, as in :mod:`.path`: in order each addition waits for the one before; and by
# indices without a sign, since where one may be negative the compiler uses no vector instructions
@compiled(borrows=True, fastmath={"reassoc", "contract"}, inside=True)
def _log_of_many(
    components: Components, k: int, u: FloatArray, pull: FloatArray, floor: float
) -> float:
    log_density = components.log_scales[k + 1]
    if _has_diagonal(components, k):
        square, mean = 0.0, components.means[k]
        diagonal = components.entries[_start(components, k, 0) :]
        for i in range(u.shape[0]):
            pull[i] = diagonal[i] * (mean[i] - u[i])
            square += pull[i] * pull[i]
        log_density -= 0.5 * square
        return log_density if log_density >= floor else -np.inf
    for i in range(u.shape[0]):
        total = 0.0
        begin, start = np.uint64(components.begins[k, i]), _start(components, k, i)
        for j in range(_start(components, k, i + 1) - start):
            of_mean = u[begin + j] - components.means[k, begin + j]
            total += components.entries[start + j] * of_mean
        pull[i] = -total
        log_density -= 0.5 * total * total
        if log_density < floor:
            return -np.inf
    return log_density


@compiled(borrows=True, fastmath={"reassoc", "contract"}, inside=True)
def _log_of_map(
    components: Components, k: int, u: FloatArray, x: FloatArray, pull: FloatArray
) -> float:
    dim = u.shape[0]
    for i in range(dim):
        pull[i] = u[i] - components.means[k, i]
    for i in range(dim):
        total = 0.0
        begin, start = np.uint64(components.begins[k, i]), _start(components, k, i)
        for j in range(_start(components, k, i + 1) - start):
            total += components.entries[start + j] * pull[begin + j]
        x[i] = total
    first, last = components.ends[k], components.ends[k + 1]
    of_terms = log_map(components.what, components.coefficients, first, last, x, pull)
    return components.log_scales[k + 1] + of_terms


@compiled(borrows=True, inside=True)
def _add_pull(
    components: Components, k: int, weight: float, pull: FloatArray, residual: FloatArray
) -> None:
    if _has_diagonal(components, k):
        diagonal = components.entries[_start(components, k, 0) :]
        for i in range(pull.shape[0]):
            residual[i] += weight * diagonal[i] * pull[i]
        return
    for i in range(pull.shape[0]):
        force = weight * pull[i]
        begin, start = np.uint64(components.begins[k, i]), _start(components, k, i)
        for j in range(_start(components, k, i + 1) - start):
            residual[begin + j] += components.entries[start + j] * force


@compiled(borrows=True, inside=True)
def _log_of_few(
    components: Components, k: int, u: FloatArray, pull: FloatArray, floor: float
) -> float:
    log_density = components.log_scales[k + 1]
    for i in range(u.shape[0]):
        total = 0.0
        begin = components.begins[k, i]
        start = components.starts[k * u.shape[0] + i] - begin
        for j in range(begin, i + 1):
            total += components.entries[start + j] * (u[j] - components.means[k, j])
        pull[i] = -total
        log_density -= 0.5 * total * total
        if log_density < floor:
            return -np.inf
    return log_density


@compiled(borrows=True, apart=True, inside=True)
def log_component(
    components: Components, k: int, u: FloatArray, x: FloatArray, pull: FloatArray, floor: float
) -> float:
    """Log density of one weighted component, and the gradient `pull` in its own coordinates.

    Or ``-inf`` below `floor`; `x` is overwritten.
    """
    if components.ends[k] < components.ends[k + 1]:
        of_map = _log_of_map(components, k, u, x, pull)
        return of_map if of_map >= floor else -np.inf
    if u.shape[0] >= _MANY:
        return _log_of_many(components, k, u, pull, floor)
    return _log_of_few(components, k, u, pull, floor)


@compiled(borrows=True, inside=True)
def log_mixture(
    components: Components, u: FloatArray, residual: FloatArray, work: FloatArray
) -> float:
    """Log density at ``u`` (D,) in nats, and its gradient plus ``u``, written into `residual`.

    One component is a defensive t around the origin. `work` has two or more rows of scratch space.
    """
    dim = u.shape[0]
    square = 0.0
    for i in range(dim):
        square += u[i] * u[i]
    top = log_defensive(components, square, dim)
    for i in range(dim):
        residual[i] = (1.0 - (components.dof + dim) / (components.dof + square)) * u[i]
    total = 1.0
    x, pull = work[0], work[1]
    for k in range(components.means.shape[0]):
        mapped = components.ends[k] < components.ends[k + 1]
        if mapped or dim >= _MANY:
            log_density = log_component(components, k, u, x, pull, top - NEGLIGIBLE)
        else:
            log_density = _log_of_few(components, k, u, pull, top - NEGLIGIBLE)
        if log_density == -np.inf:
            continue
        if log_density > top:
            shrink = np.exp(top - log_density)
            total *= shrink
            for i in range(dim):
                residual[i] *= shrink
            top = log_density
        weight = np.exp(log_density - top)
        total += weight
        for i in range(dim):
            residual[i] += weight * u[i]
        if mapped or dim >= _MANY:
            _add_pull(components, k, weight, pull, residual)
            continue
        for i in range(dim):
            force = weight * pull[i]
            begin = components.begins[k, i]
            start = components.starts[k * dim + i] - begin
            for j in range(begin, i + 1):
                residual[j] += components.entries[start + j] * force
    for i in range(dim):
        residual[i] /= total
    return top + np.log(total)


@compiled
def component_excess(components: Components, shares: FloatArray, draws: FloatArray) -> FloatArray:
    """Sum of responsibilities of draws (n, D) from a mixture, minus its mean, n times `shares`.

    Result and shares have shape (K + 1,), the defensive component first. The means are known
    whatever the target is: control variates that cost no density (Owen & Zhou 2000). With them
    :mod:`pymc_tempering.estimators.controls` takes out what estimates owe to the number of draws
    that happened to be of one component.
    """
    dim, logs, excess = draws.shape[1], np.empty(shares.size), -len(draws) * shares
    x, pull = np.empty(dim), np.empty(dim)
    for row in range(draws.shape[0]):
        u = draws[row]
        square = 0.0
        for i in range(dim):
            square += u[i] * u[i]
        top = log_defensive(components, square, dim)
        logs[0] = top
        for k in range(logs.size - 1):
            logs[k + 1] = log_component(components, k, u, x, pull, top - NEGLIGIBLE)
            top = max(top, logs[k + 1])
        total = 0.0
        for k in range(logs.size):
            logs[k] = np.exp(logs[k] - top)
            total += logs[k]
        for k in range(logs.size):
            excess[k] += logs[k] / total
    return excess
