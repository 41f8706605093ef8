"""Directions in which a cloud of draws may fall apart, and valleys of the density along them.

A mode is what is left when draws are cut where few of them lie. Along one direction a cut is judged
by counting: how many draws are in a window around it, and how many in the fullest windows of the
same width on both sides. Windows of all widths are tried, so that narrow modes beside wide ones
show, and no bandwidth has to be chosen.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import cdist
from scipy.special import xlogy

from pymc_tempering.types import FloatArray

_N_DIRECTIONS = 3  # of each kind: modes that differ in more are parted one cut after another

MAX_RATIO = 0.5
"""A valley has at most this share of the draws of the lower of its two peaks."""

MIN_EVIDENCE = 40.0
"""Log likelihood ratio (times two) of two unequal windows against equal ones.

The lowest and the two highest of some 10^4 windows are compared, in tens of directions. Without
valley, this is exceeded in fewer than one of a thousand sets of draws
(tests/diagnostics/clustering). An empty window against 29 draws has it.
"""


class Valley(NamedTuple):
    """The clearest valley of a set of draws, on their scale.

    `cut` is where to cut; the window from `low` to `high` around it was counted. `ratio` is the
    draws in it over those in the fullest window of the same width on the emptier side, `evidence`
    twice the log likelihood ratio of these two counts being different, 0 without valley.
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
    """
    low, middle, high = np.quantile(values, [0.25, 0.5, 0.75])
    scale = 3.0 * (high - low) / 1.349 or values.std() or 1.0
    return np.arcsinh((values - middle) / scale)


def deepest_valley(values: FloatArray, *, inflation: float = 1.0) -> Valley:
    """Find the valley of draws on the line for which there is most evidence.

    `inflation` is how many draws are worth one independent draw. The evidence is 0 where no window
    is less than half as full as windows on both sides.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> two = np.concatenate([rng.normal(-3.0, 1.0, 300), rng.normal(3.0, 1.0, 700)])
    >>> valley = deepest_valley(two)
    >>> round(abs(valley.cut)) <= 1, is_valley(valley), is_valley(deepest_valley(two[:300]))
    (True, True, False)
    """
    # narrow modes beside wide ones show in the narrowest windows
    n_bins, widths = 1024, (4, 8, 16, 32, 64, 128, 256)
    # ends of the grid hold few draws; outside of them windows would be empty for want of room
    outermost = 3
    if values.size <= 2 * outermost or np.ptp(values) == 0.0:
        return _NONE
    order = np.argsort(values, kind="stable")
    values = values[order]
    at = compress_tails(values)
    low, high = at[outermost - 1], at[-outermost]
    if low == high:
        return _NONE
    margin = (high - low) / n_bins
    edges = np.linspace(low - margin, high + margin, n_bins + 1)
    below = np.searchsorted(at, edges, side="left")
    best = _NONE
    for width in widths:
        counts = below[width:] - below[:-width]
        n = counts.size - 2 * width
        if n <= 0:
            break
        left = np.maximum.accumulate(counts)[:n]
        right = np.maximum.accumulate(counts[::-1])[::-1][2 * width :]
        peak, here = np.minimum(left, right), counts[width : width + n]
        evidence = evidence_of_counts(here / inflation, peak / inflation)
        evidence[here > MAX_RATIO * peak] = 0.0
        i = int(np.argmax(evidence))
        if evidence[i] > best.evidence:
            # many windows may be equally empty: the middle of them
            same = np.flatnonzero((here == here[i]) & (peak == peak[i]))
            run = same[(same >= i)]
            run = run[: int(np.argmax(np.diff(run, append=run[-1] + 2) > 1)) + 1]
            middle = (i + int(run[-1])) / 2 + width + 0.5 * width
            low, high, cut = np.interp(
                [i + width, run[-1] + 2 * width, middle], np.arange(n_bins + 1), edges
            )
            low, high, cut = np.interp([low, high, cut], at, values)
            best = Valley(cut, low, high, float(here[i] / peak[i]), float(evidence[i]))
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


def robust_scale(draws: FloatArray) -> FloatArray:
    """Positive sd of each column (n, D), by its quartiles, or plain where these are equal."""
    low, high = np.quantile(draws, [0.25, 0.75], axis=0)
    scale = (high - low) / 1.349
    scale = np.where(scale > 0.0, scale, draws.std(axis=0))
    return np.where(scale > 0.0, scale, 1.0)


def principal_directions(draws: FloatArray) -> FloatArray:
    """Directions (at most 3, D) in which draws (n, D) vary most."""
    values, vectors = np.linalg.eigh(np.cov(_clipped(draws).T))
    return vectors[:, _varies(values)][:, ::-1][:, :_N_DIRECTIONS].T


def _varies(variances: FloatArray) -> np.ndarray:
    """Which of ascending variances are not of collinear coordinates: rounding alone has gaps."""
    return variances > 1e-10 * max(variances[-1], 1e-300)


def local_directions(draws: FloatArray) -> FloatArray:
    """Directions (at most 3, D) in which neighbours are closest, compared with all draws (n, D).

    The generalised eigenvectors of two scatter matrices, that of all draws and that of differences
    between near neighbours. For mixtures of elliptical clusters they span the discriminating
    subspace, whatever the clusters are (Tyler, Critchley, Dümbgen & Oja 2009, JRSS B 71, 549-592).
    None where there are too few draws.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> draws = rng.normal(size=(600, 3))
    >>> draws[:200] += [5.0, 5.0, 0.0]
    >>> first = local_directions(draws)[0]
    >>> bool(np.abs(first[:2]).min() > 3 * np.abs(first[2]))
    True
    """
    whiten = _whitening(draws)
    if whiten.size == 0:
        return whiten
    # some 1500 points, for all pairs of distances; 10 neighbours are few enough to be of one mode
    points = _clipped(draws[:: max(1, len(draws) // 1500)]) @ whiten.T
    n_neighbours = min(10, len(points) - 1)
    near = np.argpartition(cdist(points, points), n_neighbours, axis=1)[:, : n_neighbours + 1]
    steps = (points[near] - points[:, None]).reshape(-1, points.shape[1])
    values, vectors = np.linalg.eigh(steps.T @ steps)
    order = np.argsort(values)[:_N_DIRECTIONS]
    return vectors[:, order].T @ whiten


def discriminant(draws: FloatArray, upper: np.ndarray) -> FloatArray:
    """Fisher's direction (D,) between draws (n, D) on the `upper` side and the others."""
    x = _clipped(draws)
    means = np.stack([x[~upper].mean(axis=0), x[upper].mean(axis=0)])
    within = np.cov((x - means[upper.astype(int)]).T, ddof=0).reshape(x.shape[1], -1)
    # towards the difference of means where a covariance of so few draws says little
    ridge = max(1e-6, x.shape[1] / len(x)) * np.trace(within) / x.shape[1]
    step = means[1] - means[0]
    return np.asarray(np.linalg.solve(within + (ridge + 1e-12) * np.eye(x.shape[1]), step))


def _clipped(draws: FloatArray) -> FloatArray:
    """Draws without what is far out, which would decide every covariance and says nothing."""
    middle, scale = np.median(draws, axis=0), robust_scale(draws)
    return np.clip((draws - middle) / scale, -6.0, 6.0) * scale + middle


def _whitening(draws: FloatArray) -> FloatArray:
    """Rows that turn the covariance of draws, without collinear directions, into the identity."""
    n, dim = draws.shape
    # a covariance takes five draws for each dimension
    most = min(dim, n // 5)
    if most < 2:
        return np.empty((0, dim))
    values, vectors = np.linalg.eigh(np.cov(_clipped(draws).T))
    order = np.flatnonzero(_varies(values))[::-1][:most]
    return (vectors[:, order] / np.sqrt(values[order])).T
