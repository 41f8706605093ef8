"""What locals depend on, interpolated between nodes of the globals.

Modes, log precisions and slopes of all locals have few functions of the globals in common, their
principal components over the nodes; a Gaussian process with a linear trend goes through them. A
mode is an affine function of the globals and what residuals have to be for the rest, so that errors
of the interpolation are in the units of V: where a chain is narrow, they do not grow along it. With
offsets of each local, and slopes in standard deviations, which are 10^4 next to an end that stays
wide, five of eight maps of volatilities were refused, and the others had a V of .3 to 11; now it is
.06 to .15, by the median of five short runs (2026-11-28). Slopes of effects with a covariance are
bounded in standard deviations, and where one effect hardly varies those in the units of the model
are not: V was 10^7 to 10^23, and is .5 to 1.4 (eight groups, five data sets).
"""

import numpy as np
from scipy.linalg import cho_factor
from scipy.linalg.lapack import dpotri
from scipy.optimize import minimize
from scipy.spatial.distance import cdist

from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.conditional_kernels import TILE, Arrays
from pymc_tempering.engine.path.conditional_laws import BOUND, Laws
from pymc_tempering.model.structure import Structure
from pymc_tempering.references.nested_laplace import Conditionals
from pymc_tempering.types import FloatArray

_UNEXPLAINED = 1e-4, 1e-2
"""Variance over all that locals depend on, in units of V, that principal components leave out: a
thousandth of the V before, within these. `gp_states` took 171, and 2.1 ms, for 74 and 0.4."""

_MOST_LEFT_OUT = 0.03
"""Share of V that a map may gain by what is left out of it in the end: `gp_states` has 50 functions
for 74, and takes 0.31 ms for 0.40 (benchmarks/README.md)."""

_CONSTANT = 0.5
"""Spread of a slope in the model's units over the nodes, as a share of that in standard deviations,
both in the units of V, below which it counts as constant: 0.7 and more for most slopes of eight
models and all of covariances, 0.4 to 10^-5 next to an end of a chain that stays wide."""

_NUGGET = 1e-6
"""Variance of the interpolation at nodes, of one: Newton steps end, and rounding."""


def interpolated(
    structure: Structure, mean: FloatArray, root: FloatArray, solved: Conditionals,
    before: ConditionalMap | None = None, variance: float = np.inf,
) -> ConditionalMap | None:  # fmt: skip
    """Map with what locals depend on interpolated between nodes where it is known.

    Its lengths are much like those of one of other nodes ``before``, of which V was ``variance``.
    """
    factor, k = structure.factor, mean.size
    t = np.linalg.solve(root, (solved.z[:, structure.globals] - mean).T).T
    at = structure.locals[factor.order]
    n = at.size
    first = factor.begins[:-1]
    column = np.repeat(np.arange(n), np.diff(factor.begins))
    off = np.ones(factor.rows.size, dtype=bool)
    off[first] = False
    pivots = solved.factors[:, first]
    # what follows is of a sum
    factors, of_sum = np.split(solved.factors, [factor.rows.size], axis=1)
    slopes = factors[:, off] / pivots[:, column[off]]
    log_precision = np.log(pivots)
    sd = np.exp(-log_precision)
    # given all others: next to the end of a chain in a neck all but that are narrow
    precision = np.zeros((n, len(t)))
    np.add.at(precision, factor.rows, factors.T**2)
    affine = _affine(t, solved.z[:, at], 1.0 / np.sqrt(precision.T))
    offsets = solved.z[:, at] - affine[:, 0] - t @ affine[:, 1:].T
    summed, _ = structure.summed_as_eliminated
    units = np.ones(2 * n + slopes.shape[1] + of_sum.shape[1])
    by_scale = log_precision[:, column[off]] - log_precision[:, factor.rows[off]]
    by_slope, slopes_in_sd = np.exp(by_scale), slopes * np.exp(by_scale)
    constant = (by_slope * slopes_in_sd).mean(axis=0) / (by_slope**2).mean(axis=0)
    spread = np.sqrt(((by_slope * (slopes - constant)) ** 2).mean(axis=0))
    in_sd = (spread > _CONSTANT * slopes_in_sd.std(axis=0)).astype(np.int64)
    units[2 * n : 2 * n + in_sd.size] = np.where(in_sd, 1.0, np.exp(by_scale.mean(axis=0)))
    if summed.size:
        # in standard deviations too, but the same at all nodes, so that their sum is 1 between them
        total = of_sum[:, summed].sum(axis=1, keepdims=True)
        of_sum = np.column_stack([of_sum[:, :n] / total, of_sum[:, n]])
        units[-n - 1 : -1] = np.exp((0.5 * np.log(total) + log_precision).mean(axis=0))
        # what becomes of it once the sum is as narrow as it is
        more = np.expm1(of_sum[:, n:]) * offsets[:, summed].sum(axis=1, keepdims=True)
        offsets += of_sum[:, :n] * more
    means = offsets.copy()
    np.add.at(means.T, column[off], (slopes * offsets[:, factor.rows[off]]).T)
    means /= sd
    slopes = np.where(in_sd, slopes_in_sd, slopes)
    values = np.column_stack([means, log_precision, slopes, of_sum]) * units
    constants = values.mean(axis=0)
    values -= constants
    # a few of thousands of columns' components are wanted, and rows are few
    left, sizes, _ = np.linalg.svd(np.linalg.qr(values.T, mode="r").T, full_matrices=False)
    tail = np.cumsum(sizes[::-1] ** 2)[::-1] / len(values)
    n_kept = max(int((tail > np.clip(1e-3 * variance, *_UNEXPLAINED)).sum()), 1)
    right = left[:, :n_kept].T @ values / np.maximum(sizes[:n_kept, None], 1e-300)
    v = t / np.sqrt(1.0 + (t / BOUND) ** 2)
    begin = np.full(k, 3.0) if before is None else before.arrays.lengths
    lengths, trend, weights = _process(v, left[:, :n_kept] * sizes[:n_kept], begin)
    begins = factor.begins - np.arange(n + 1)
    arrays = Arrays(
        np.concatenate([structure.globals, at]), begins, factor.rows[off], summed,
        in_sd if in_sd.any() else in_sd[:0], in_sd[:0], mean, root,
        v / lengths, lengths, trend, weights, affine, constants / units,
        # as maps keep them: what they cannot keep is not finite here
        (right / units).astype(np.float32),
        *Laws.normal(structure.dim, k),
    )  # fmt: skip
    if not all(np.isfinite(array).all() for array in arrays):
        return None
    return ConditionalMap(arrays)


def pruned(made: ConditionalMap, variance: float) -> ConditionalMap:
    """Leave out what matters least of the functions, of a map of which V is ``variance``.

    Each tile of outputs may leave out as much for its size: of `gp_states` 55 functions of 87 stay.
    """
    arrays = made.arrays
    near = np.exp(-0.5 * cdist(arrays.nodes, arrays.nodes, "sqeuclidean"))
    linear = np.column_stack([np.ones(len(near)), arrays.nodes * arrays.lengths])
    squares = ((linear @ arrays.trend + near @ arrays.weights) ** 2).mean(axis=0)
    # what a sum needs has other units
    n = 2 * (made.dim - made.n_globals) + arrays.parents.size
    n_out = arrays.constants.size
    begins = np.arange(0, n_out, TILE)
    inside = begins[begins < n]
    squared = np.add.reduceat(arrays.loadings[:, :n].astype(float) ** 2, inside, axis=1)
    left_out = (squares[:, None] * squared)[::-1].cumsum(axis=0)[::-1]
    shares = np.diff(inside, append=n) / n
    matter = (left_out > _MOST_LEFT_OUT * variance * shares).sum(axis=0)
    n_kept = max(int(matter.max()), 1)
    used = np.full(len(begins), n_kept)
    # others move with a sum by functions that add up to 1, if they are the same everywhere
    n_apart = (np.append(begins[1:], n_out) <= n).sum()
    used[:n_apart] = matter[:n_apart]
    return ConditionalMap(arrays._replace(
        used=used, trend=arrays.trend[:, :n_kept], weights=arrays.weights[:, :n_kept],
        loadings=arrays.loadings[:n_kept],
    ))  # fmt: skip


def _affine(t: FloatArray, z: FloatArray, sd: FloatArray) -> FloatArray:
    """Regress each column of ``z`` (N, n) on nodes (N, k), with errors ``sd``; (n, 1 + k)."""
    design = np.column_stack([np.ones(len(t)), t])
    # errors of a funnel differ by 10^8, which normal equations would square
    weights = np.maximum(sd.min(axis=0) / sd, 1e-8).T
    q, r = np.linalg.qr(weights[..., None] * design)
    return np.linalg.solve(r, np.einsum("nai,na->ni", q, weights * z.T)[..., None])[..., 0]


def _process(
    v: FloatArray, y: FloatArray, begin: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Lengths (k,), trend (1 + k, R) and weights (N, R) of a Gaussian process through nodes.

    Lengths are the likeliest, from where the search begins, which all R functions share, by their
    variances.
    """
    n, k = v.shape
    design = np.column_stack([np.ones(n), v])

    def solved(log_lengths: FloatArray) -> tuple[FloatArray, FloatArray, float, FloatArray]:
        scaled = v / np.exp(log_lengths)
        squares = (scaled**2).sum(axis=1)
        gaps = squares[:, None] + squares[None] - 2.0 * scaled @ scaled.T
        kernel = np.exp(-0.5 * np.maximum(gaps, 0.0))
        factor = cho_factor(kernel + _NUGGET * np.eye(n), lower=True, check_finite=False)
        inverse = np.tril(dpotri(factor[0], lower=1)[0])
        inverse += np.tril(inverse, -1).T
        both = inverse @ np.column_stack([design, y])
        trend = np.linalg.solve(
            design.T @ both[:, : k + 1] + 1e-10 * np.eye(k + 1), design.T @ both[:, k + 1 :]
        )
        weights = both[:, k + 1 :] - both[:, : k + 1] @ trend
        variances = ((y - design @ trend) * weights).sum(axis=0) / n + 1e-12
        log_det = np.log(np.diagonal(factor[0])).sum()
        fit = 0.5 * n * np.log(variances).sum() + y.shape[1] * log_det
        # by the entries of the kernel, and of these by the lengths
        by_kernel = y.shape[1] * inverse - (weights / variances) @ weights.T
        by_gap = 0.5 * by_kernel * kernel
        slope = 2.0 * (by_gap.sum(axis=1) @ scaled**2 - (scaled * (by_gap @ scaled)).sum(axis=0))
        return trend, weights, float(fit), slope

    def falling(x: FloatArray) -> tuple[float, FloatArray]:
        # a broad prior keeps what data do not tell within bounds
        _, _, fit, slope = solved(x)
        return fit + float(((x - 1.0) ** 2).sum()) / 8.0, slope + (x - 1.0) / 4.0

    found = minimize(
        falling, np.log(begin), jac=True,
        method="L-BFGS-B", bounds=[(np.log(0.5), np.log(60.0))] * k, options={"maxiter": 30},
    )  # fmt: skip
    trend, weights, _, _ = solved(found.x)
    return np.exp(found.x), trend, weights
