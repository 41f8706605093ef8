"""Multistate Bennett acceptance ratio: log z of all levels from the samples of all levels."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.bar import bar
from pymc_tempering.estimators.ladder import (
    LadderEstimate,
    check_betas,
    check_ladder,
    finite_floor,
)
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["mbar", "mbar_samples"]

# Elements of one block of level probabilities: 2 MB, which stays in cache.
_BLOCK_ELEMENTS = 2**18
# Samples per level that locate the solution before all of them are used.
_START_SAMPLES = 2000
_MAX_ITERATIONS = 100
# Newton's error after a step is about the square of the step.
_LAST_STEP = 1e-6


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
    x = np.asarray(delta, dtype=float)
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
    thinned = [_thin(delta[level == k], _START_SAMPLES) for k in visited]
    c = _bar_start(thinned, b)
    small = np.array([len(group) for group in thinned], dtype=float)
    if small.sum() < delta.size:
        c, _ = _newton(np.concatenate(thinned), b, small, c)
    c, curvature = _newton(delta, b, n, c)

    influence = np.full(delta.size, np.nan)
    log_z = np.empty(betas.size)
    log_z[visited] = c
    if visited.size < betas.size:
        missing = np.setdiff1d(np.arange(betas.size), visited)
        log_z[missing] = _predict(delta, b, n, c, betas[missing])
    if curvature is None:
        return log_z, influence
    to_last = np.zeros(visited.size)
    to_last[1:] = cho_solve(curvature, np.eye(visited.size - 1)[-1])
    own = np.zeros(betas.size)
    own[visited] = to_last
    for rows in _blocks(delta.size, visited.size):
        probability, _ = _level_probability(delta[rows], b, np.log(n) - c)
        influence[rows] = probability @ to_last - own[level[rows]]
    return log_z, influence * delta.size


def _thin(samples: FloatArray, n_most: int) -> FloatArray:
    if samples.size <= n_most:
        return samples
    return samples[np.arange(n_most) * samples.size // n_most]


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
    for _ in range(_MAX_ITERATIONS):
        factor = _factor(curvature)
        if factor is None:
            return c, None
        step = np.zeros(c.size)
        step[1:] = cho_solve(factor, score[1:])
        if np.abs(step).max() < _LAST_STEP:
            return c + step, factor
        for _ in range(40):
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
        return cho_factor(reduced)
    except LinAlgError:
        return None


def _objective(
    delta: FloatArray, betas: FloatArray, n: FloatArray, c: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return objective, ``sum of probabilities - n`` (minus its gradient) and its curvature."""
    offset = np.log(n) - c
    value = float(n @ c)
    total = np.zeros(betas.size)
    products = np.zeros((betas.size, betas.size))
    for rows in _blocks(delta.size, betas.size):
        probability, log_sum = _level_probability(delta[rows], betas, offset)
        value += log_sum
        total += probability.sum(axis=0)
        products += probability.T @ probability
    return value, total - n, np.diag(total) - products


def _level_probability(
    delta: FloatArray, betas: FloatArray, offset: FloatArray
) -> tuple[FloatArray, float]:
    exponent = np.multiply.outer(delta, betas)
    exponent += offset
    top = exponent.max(axis=1)
    exponent -= top[:, None]
    np.exp(exponent, out=exponent)
    total = exponent.sum(axis=1)
    exponent /= total[:, None]
    return exponent, float(top.sum() + np.log(total).sum())


def _blocks(n_samples: int, n_levels: int) -> list[slice]:
    size = max(1, _BLOCK_ELEMENTS // n_levels)
    return [slice(start, start + size) for start in range(0, n_samples, size)]


def _predict(
    delta: FloatArray, betas: FloatArray, n: FloatArray, c: FloatArray, new_betas: FloatArray
) -> FloatArray:
    """Log z of levels without samples: Shirts & Chodera 2008, eq. 11 with n_k = 0."""
    log_mixture = np.empty(delta.size)
    for rows in _blocks(delta.size, betas.size):
        exponent = np.multiply.outer(delta[rows], betas) + (np.log(n) - c)
        log_mixture[rows] = np.logaddexp.reduce(exponent, axis=1)
    return np.array([np.logaddexp.reduce(beta * delta - log_mixture) for beta in new_betas])
