"""Multistate Bennett acceptance ratio: log z of all levels from the samples of all levels."""

import math

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.bar import bar
from pymc_tempering.estimators.ladder import LadderEstimate, check_ladder, finite_floor
from pymc_tempering.jit import compiled
from pymc_tempering.options import as_numbers, check_betas
from pymc_tempering.types import FloatArray, IntArray


def mbar(delta: ArrayLike, betas: ArrayLike) -> LadderEstimate:
    r"""Estimate log z of every level from all replicas of one chain.

    Minimises eq. 18 of Carlson et al. 2016 (Shirts & Chodera 2008, eq. 11),

    .. math:: \sum_i \log \sum_k n_k e^{\beta_k \delta_i - c_k} + \sum_k n_k c_k, \quad c_0 = 0,

    which is convex, by Newton's method from `bar_ladder`'s solution; the minimum is ``log_z``.
    Terms are bounded: tails of base and target do no harm, and ``-inf`` is allowed at the base.

    Parameters
    ----------
    delta : array_like of shape (n_scans, n_levels)
        ``log_target - log_base`` of the replica at each level after each scan, in nats.
    betas : array_like of shape (n_levels,)
        Increasing from 0 to 1.

    Returns
    -------
    LadderEstimate
        ``influence`` is the sandwich :math:`n A^{-1} s_t`, with A the second derivative of the
        objective and :math:`s_t` the score of scan t summed over levels, so it holds for
        correlated levels and scans. It is ``nan`` where levels do not overlap and A is singular:
        ``log_z`` is then no estimate.

    Raises
    ------
    DataError, ScheduleError
        If the input is no ladder (see `check_ladder`).

    Examples
    --------
    >>> mbar(np.full((8, 3), -2.0), [0, 0.5, 1]).log_z.round(9).tolist()
    [0.0, -1.0, -2.0]
    """
    delta, betas = check_ladder(delta, betas)
    n_scans, n_levels = delta.shape
    level = np.tile(np.arange(n_levels), n_scans)
    log_z, influence = _solve(finite_floor(delta).ravel(), level, betas)
    # A sample's influence is scaled by the number of samples; a scan has one per level.
    return LadderEstimate(log_z, influence.reshape(n_scans, n_levels).sum(axis=1) / n_levels)


def mbar_samples(delta: ArrayLike, level: ArrayLike, betas: ArrayLike) -> LadderEstimate:
    """Estimate log z from samples that visit one level at a time, as simulated tempering does.

    Parameters
    ----------
    delta : array_like of shape (n_scans,)
        In nats, in the order in which they were drawn; ``-inf`` at the base only.
    level : array_like of shape (n_scans,)
        Level at which each was drawn. Levels may have unequal numbers of samples; inner ones may
        have none, and their ``log_z`` is then predicted from the others.
    betas : array_like of shape (n_levels,)
        Increasing from 0 to 1.

    Returns
    -------
    LadderEstimate
        As for `mbar`, with one influence per sample.

    Raises
    ------
    DataError
        If the shapes disagree, a level is out of range, a delta is invalid, or the base or the
        target has no sample.
    ScheduleError
        If `betas` is not a schedule.

    Examples
    --------
    >>> mbar_samples([-2.0, -2.0, -2.0], [0, 1, 1], [0, 1]).log_z.round(9).tolist()
    [0.0, -2.0]
    """
    betas = check_betas(betas)
    x = as_numbers("delta", delta, DataError)
    as_numbers("level", level, DataError)
    k = np.asarray(level)
    if x.ndim != 1 or x.shape != k.shape or k.size == 0 or not np.issubdtype(k.dtype, np.integer):
        raise DataError(
            f"delta has shape {x.shape} and level shape {k.shape} of {k.dtype}; expected two "
            "one-dimensional arrays of equal length, levels as integers. Pass one level per delta."
        )
    if k.min() != 0 or k.max() != betas.size - 1:
        raise DataError(
            f"level runs from {k.min()} to {k.max()}; expected 0 to {betas.size - 1}, both ends "
            "visited. Run until the chain has been at the base and at the target."
        )
    if np.isnan(x).any() or np.isposinf(x).any() or np.isneginf(x[k > 0]).any():
        raise DataError(
            "delta is nan, inf, or -inf above the base; expected finite values, or -inf at level "
            "0. Drop the scans before the first valid state."
        )
    log_z, influence = _solve(finite_floor(x), k.astype(np.int64), betas)
    return LadderEstimate(log_z, influence)


def _solve(delta: FloatArray, level: IntArray, betas: FloatArray) -> tuple[FloatArray, FloatArray]:
    counts = np.bincount(level, minlength=betas.size)
    visited = np.flatnonzero(counts)
    n, b = counts[visited].astype(float), betas[visited]
    thinned = [_thinned(delta[level == k]) for k in visited]
    c = _bar_start(thinned, b)
    small = np.array([len(group) for group in thinned], dtype=float)
    if small.sum() < delta.size:
        c, _ = _newton(np.concatenate(thinned), b, small, c)
    c, curvature = _newton(delta, b, n, c)

    influence = np.full(delta.size, np.nan)
    log_z = np.empty(betas.size)
    log_z[visited] = c
    if visited.size < betas.size:
        # levels without samples: Shirts & Chodera 2008, eq. 11 with n_k = 0
        log_mixture = np.empty(delta.size)
        _log_mixture(delta, b, np.log(n) - c, np.empty(b.size), log_mixture)
        for k in np.setdiff1d(np.arange(betas.size), visited):
            log_z[k] = np.logaddexp.reduce(betas[k] * delta - log_mixture)
    if curvature is None:
        return log_z, influence
    to_last = np.zeros(visited.size)
    to_last[1:] = cho_solve(curvature, np.eye(visited.size - 1)[-1])
    own = np.zeros(betas.size)
    own[visited] = to_last
    influence = np.zeros(delta.size)
    _project(delta, b, np.log(n) - c, to_last, np.empty(b.size), influence)
    return log_z, (influence - own[level]) * delta.size


def _thinned(samples: FloatArray) -> FloatArray:
    """So many of a level locate the solution before all are used."""
    n = min(samples.size, 2000)
    return samples[np.arange(n) * samples.size // n]


def _bar_start(groups: list[FloatArray], betas: FloatArray) -> FloatArray:
    c = np.zeros(betas.size)
    for k, step in enumerate(np.diff(betas)):
        ratio = bar(step * groups[k], -step * groups[k + 1]).log_ratio
        c[k + 1] = c[k] + (ratio if abs(ratio) < 1e100 else step * np.median(groups[k + 1]))
    return c


def _newton(
    delta: FloatArray, betas: FloatArray, n: FloatArray, start: FloatArray
) -> tuple[FloatArray, tuple[FloatArray, bool] | None]:
    """Return the minimum and the Cholesky factor of the curvature, None where that is singular."""
    c = start
    value, score, curvature = _objective(delta, betas, n, c)
    for _ in range(100):
        factor = _factor(curvature)
        if factor is None:
            return c, None
        step = np.zeros(c.size)
        step[1:] = cho_solve(factor, score[1:])
        # Newton's error after a step is about the square of the step
        if np.abs(step).max() < 1e-6:
            return c + step, factor
        # a step that has to be a millionth of Newton's is along a gap between levels
        for _ in range(20):
            trial = _objective(delta, betas, n, c + step)
            if trial[0] <= value + 1e-12 * abs(value):
                break
            step = 0.5 * step
        else:
            return c, None
        c = c + step
        value, score, curvature = trial
    return c, None


def _factor(curvature: FloatArray) -> tuple[FloatArray, bool] | None:
    reduced = curvature[1:, 1:]
    diagonal = np.diag(reduced)
    # Below this share of the counts no sample tells two neighbouring levels apart from a gap.
    if not np.all(diagonal > 0.0) or np.linalg.cond(reduced) > 1e14:
        return None
    try:
        factor: tuple[FloatArray, bool] = cho_factor(reduced)
    except LinAlgError:
        return None
    return factor


def _objective(
    delta: FloatArray, betas: FloatArray, n: FloatArray, c: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return objective, ``sum of probabilities - n`` (minus its gradient) and its curvature."""
    total = np.zeros(betas.size)
    products = np.zeros((betas.size, betas.size))
    value = _accumulate(delta, betas, np.log(n) - c, total, products, np.empty(betas.size))
    products += np.tril(products, -1).T
    return value + float(n @ c), total - n, np.diag(total) - products


@compiled(borrows=True, inside=True)
def _level_probability(
    delta: float, betas: FloatArray, offset: FloatArray, probability: FloatArray
) -> tuple[float, int, int]:
    """Write the probability of each level; return the log normaliser and the levels that count.

    The exponent is concave along the ladder up to sampling noise, so that few neighbouring levels
    hold all probability: what is below e^-38 of the largest is left at zero.
    """
    n_levels = betas.size
    top = -np.inf
    for k in range(n_levels):
        probability[k] = betas[k] * delta + offset[k]
        top = max(top, probability[k])
    first, stop = n_levels, 0
    total = 0.0
    for k in range(n_levels):
        if probability[k] > top - 38.0:
            first, stop = min(first, k), k + 1
            probability[k] = math.exp(probability[k] - top)
            total += probability[k]
        else:
            probability[k] = 0.0
    for k in range(first, stop):
        probability[k] /= total
    return top + math.log(total), first, stop


@compiled(borrows=True)
def _accumulate(
    delta: FloatArray, betas: FloatArray, offset: FloatArray, total: FloatArray,
    products: FloatArray, probability: FloatArray,
) -> float:  # fmt: skip
    """Add up probabilities and the lower triangle of their products; return the log normalisers.

    ``probability``, of shape (n_levels,), is overwritten.
    """
    # No BLAS: its threads, started for such narrow blocks, cost twenty times the arithmetic.
    value = 0.0
    for i in range(delta.size):
        log_sum, first, stop = _level_probability(delta[i], betas, offset, probability)
        value += log_sum
        for k in range(first, stop):
            p = probability[k]
            total[k] += p
            for j in range(first, k + 1):
                products[k, j] += p * probability[j]
    return value


@compiled(borrows=True)
def _project(
    delta: FloatArray, betas: FloatArray, offset: FloatArray, direction: FloatArray,
    probability: FloatArray, out: FloatArray,
) -> None:  # fmt: skip
    """Add the mean of `direction` under the level probabilities of every sample to `out`."""
    for i in range(delta.size):
        _, first, stop = _level_probability(delta[i], betas, offset, probability)
        for k in range(first, stop):
            out[i] += probability[k] * direction[k]


@compiled(borrows=True)
def _log_mixture(
    delta: FloatArray, betas: FloatArray, offset: FloatArray, probability: FloatArray,
    out: FloatArray,
) -> None:  # fmt: skip
    """Fill `out` with the log density of the mixture of all levels over the base."""
    for i in range(delta.size):
        out[i], _, _ = _level_probability(delta[i], betas, offset, probability)
