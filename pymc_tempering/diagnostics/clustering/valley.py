"""Valleys of a density on the line, from draws of it.

A mode is what is left when draws are cut where few of them lie. Along one direction a cut is judged
by counting: how many draws are in a window around it, and how many in the fullest windows of the
same width on both sides. Windows of all widths are tried, so that narrow modes beside wide ones
show, and no bandwidth has to be chosen.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from pymc_tempering.types import FloatArray

__all__ = [
    "MAX_RATIO",
    "MIN_EVIDENCE",
    "Valley",
    "compress_tails",
    "deepest_valley",
    "evidence_of_counts",
    "is_valley",
]

MAX_RATIO = 0.5
"""A valley has at most this share of the draws of the lower of its two peaks."""

MIN_EVIDENCE = 40.0
"""Log likelihood ratio (times two) of two unequal windows against equal ones.

The lowest and the two highest of some 10^4 windows are compared, in tens of directions. Without
valley, this is exceeded in fewer than one of a thousand sets of draws
(tests/diagnostics/clustering). An empty window against 29 draws has it.
"""

_N_BINS = 1024
_WIDTHS = (4, 8, 16, 32, 64, 128, 256)

# ends of the grid hold few draws; beyond them windows would be empty for want of room
_OUTERMOST = 3


class Valley(NamedTuple):
    """The clearest valley of a set of draws.

    Attributes
    ----------
    cut : float
        Where to cut, on the scale of the draws.
    low, high : float
        The window around the cut that was counted.
    ratio : float
        Draws in it, over those in the fullest window of the same width on the emptier side.
    evidence : float
        Twice the log likelihood ratio of these two counts being different; 0 without valley.
    """

    cut: float
    low: float
    high: float
    ratio: float
    evidence: float


_NONE = Valley(np.nan, np.nan, np.nan, 1.0, 0.0)


def compress_tails(values: FloatArray) -> FloatArray:
    """Draw tails in, so that a grid of equal steps resolves the middle of heavy-tailed draws.

    Linear within about three standard deviations (by quartiles) of the median, logarithmic beyond.

    Parameters
    ----------
    values : ndarray of shape (n,)

    Examples
    --------
    >>> compress_tails(np.array([-1.0, 0.0, 1.0, 2.0, 1e6])).round(1).tolist()
    [-0.4, -0.2, 0.0, 0.2, 13.0]
    """
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    scale = 3.0 * (high - low) / 1.349 or values.std() or 1.0
    return np.arcsinh((values - middle) / scale)


def deepest_valley(values: FloatArray, *, inflation: float = 1.0) -> Valley:
    """Find the valley for which there is most evidence.

    Parameters
    ----------
    values : ndarray of shape (n,)
        Draws on the line.
    inflation : float, default 1.0
        Draws that are worth one independent draw.

    Returns
    -------
    Valley
        Evidence 0 where no window is less than half as full as windows on both sides.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> two = np.concatenate([rng.normal(-3.0, 1.0, 300), rng.normal(3.0, 1.0, 700)])
    >>> valley = deepest_valley(two)
    >>> round(abs(valley.cut)) <= 1, is_valley(valley), is_valley(deepest_valley(two[:300]))
    (True, True, False)
    """
    if values.size <= 2 * _OUTERMOST or np.ptp(values) == 0.0:
        return _NONE
    order = np.argsort(values, kind="stable")
    values = values[order]
    at = compress_tails(values)
    low, high = at[_OUTERMOST - 1], at[-_OUTERMOST]
    if low == high:
        return _NONE
    margin = (high - low) / _N_BINS
    edges = np.linspace(low - margin, high + margin, _N_BINS + 1)
    below = np.searchsorted(at, edges, side="left")
    best = _NONE
    for width in _WIDTHS:
        counts = below[width:] - below[:-width]
        n = counts.size - 2 * width
        if n <= 0:
            break
        left = np.maximum.accumulate(counts)[:n]
        right = np.maximum.accumulate(counts[::-1])[::-1][2 * width :]
        laplace, here = np.minimum(left, right), counts[width : width + n]
        evidence = evidence_of_counts(here / inflation, laplace / inflation)
        evidence[here > MAX_RATIO * laplace] = 0.0
        i = int(np.argmax(evidence))
        if evidence[i] > best.evidence:
            # many windows may be equally empty: the middle of them
            same = np.flatnonzero((here == here[i]) & (laplace == laplace[i]))
            run = same[(same >= i)]
            run = run[: int(np.argmax(np.diff(run, append=run[-1] + 2) > 1)) + 1]
            middle = (i + int(run[-1])) / 2 + width + 0.5 * width
            low, high, cut = np.interp(
                [i + width, run[-1] + 2 * width, middle], np.arange(_N_BINS + 1), edges
            )
            low, high, cut = np.interp([low, high, cut], at, values)
            best = Valley(cut, low, high, float(here[i] / laplace[i]), float(evidence[i]))
    return best


def is_valley(valley: Valley) -> bool:
    """Whether a valley is deep enough, and on enough draws, to part two modes."""
    return valley.evidence >= MIN_EVIDENCE and valley.ratio <= MAX_RATIO


def evidence_of_counts(one: ArrayLike, two: ArrayLike) -> FloatArray:
    """Twice the log likelihood ratio of two Poisson counts being different; 9 is 3 errors.

    Examples
    --------
    >>> round(float(evidence_of_counts(0, 29)), 1)
    40.2
    """
    half = np.maximum(0.5 * np.add(one, two), 1e-300)
    return np.asarray(2.0 * (xlogy(one, one / half) + xlogy(two, two / half)))
