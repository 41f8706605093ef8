"""How many draws of a chain count as independent, over many coordinates at once.

ArviZ's effective sample size goes from coordinate to coordinate in the interpreter, where it took a
third of the time of a run with many modes: every round asks for that of each of them.
"""

import numpy as np
from arviz_stats.base import array_stats

from pymc_tempering.types import FloatArray

__all__ = ["effective_sizes", "n_independent"]

_LEAST_TO_COUNT = 4
"""Draws without which no autocorrelation is known."""


def n_independent(positions: FloatArray) -> float:
    """Number of draws (n, D) of a chain that count as independent: of coordinates and squares.

    The least of the two, in the median over coordinates. Long before a chain has seen all of a
    target it has seen enough to tell its shape where it was.
    """
    n, dim = positions.shape
    if n < _LEAST_TO_COUNT:
        return 0.0
    centred = positions - positions.mean(axis=0)
    sizes = effective_sizes(np.column_stack([centred, centred**2])).reshape(2, dim)
    # of constant columns there are none
    return float(np.nan_to_num(np.median(sizes.min(axis=0))))


def effective_sizes(columns: FloatArray) -> FloatArray:
    """Effective sizes of the means of columns, as :func:`arviz_stats.ess` has them of one chain.

    Columns (n, T) are draws of one chain, at least four, whose halves count as two. Geyer's initial
    monotone sequence (1992, "Practical Markov chain Monte Carlo", section 3.3) and eq. 10-13 of
    Vehtari et al. (2021, "Rank-normalization, folding, and localization: an improved R-hat").

    Examples
    --------
    >>> draws = np.random.default_rng(1).normal(size=(1000, 2))
    >>> draws[:, 1] = np.repeat(draws[::10, 1], 10)
    >>> effective_sizes(draws).round(-2)
    array([1000.,  100.])
    """
    n = len(columns) // 2
    halves = np.stack([columns[:n], columns[-n:]])
    covariances = array_stats.autocov(halves, axis=1).mean(axis=0)
    within = covariances[0] * n / (n - 1.0)
    total = covariances[0] + halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations = 1.0 - (within - covariances) / total
    correlations[0] = 1.0
    n_pairs = max((n - 1) // 2, 1)
    pairs = correlations[: 2 * n_pairs].reshape(n_pairs, 2, -1)
    sums = pairs.sum(axis=1)
    # the first pair that noise turns negative ends the sum, and the last one does
    negative = sums <= 0.0
    negative[-1] = True
    last = negative.argmax(axis=0)
    kept = np.arange(n_pairs)[:, None] < last
    monotone = np.where(kept, np.minimum.accumulate(sums, axis=0), 0.0).sum(axis=0)
    at_last = np.take_along_axis(pairs, last[None, None], axis=0)[0]
    ends = np.where(at_last.sum(axis=0) >= 0.0, at_last[0], np.maximum(at_last[0], 0.0))
    times = -1.0 + 2.0 * monotone + ends
    sizes = 2 * n / np.maximum(times, 1.0 / np.log10(2 * n))
    constant = np.ptp(halves, axis=(0, 1)) < np.finfo(np.float64).resolution
    return np.asarray(np.where(constant, 2.0 * n, sizes))
