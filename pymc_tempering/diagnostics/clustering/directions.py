"""Directions in which a cloud of draws may fall apart."""

import numpy as np
from scipy.spatial.distance import cdist

from pymc_tempering.types import FloatArray

__all__ = ["discriminant", "local_directions", "principal_directions", "robust_scale"]

_N_DIRECTIONS = 3
_N_NEIGHBOURS = 10
_MAX_POINTS = 1500

# draws far out say nothing of where the middle falls apart, and would decide every covariance
_CLIP = 6.0

# share of the largest variance below which a direction's is rounding
_LEAST_VARIANCE = 1e-10

# draws needed for each dimension of a covariance
_PER_DIMENSION = 5


def robust_scale(draws: FloatArray) -> FloatArray:
    """Standard deviation of each column by its quartiles, or plain where these are equal.

    Parameters
    ----------
    draws : ndarray of shape (n, D)

    Returns
    -------
    ndarray of shape (D,)
        Never zero.
    """
    low, high = np.quantile(draws, [0.25, 0.75], axis=0)
    scale = (high - low) / 1.349
    scale = np.where(scale > 0.0, scale, draws.std(axis=0))
    return np.where(scale > 0.0, scale, 1.0)


def principal_directions(draws: FloatArray) -> FloatArray:
    """Directions in which draws vary most.

    Parameters
    ----------
    draws : ndarray of shape (n, D)

    Returns
    -------
    ndarray of shape (at most 3, D)
    """
    values, vectors = np.linalg.eigh(np.cov(_clipped(draws).T))
    # across collinear coordinates draws differ by rounding alone, which has gaps
    vectors = vectors[:, values > _LEAST_VARIANCE * max(values[-1], 1e-300)]
    return vectors[:, ::-1][:, :_N_DIRECTIONS].T


def local_directions(draws: FloatArray) -> FloatArray:
    """Directions in which neighbours are closest, compared with all draws.

    The generalised eigenvectors of two scatter matrices, that of all draws and that of differences
    between near neighbours. For mixtures of elliptical clusters they span the discriminating
    subspace, whatever the clusters are (Tyler et al. 2009).

    Parameters
    ----------
    draws : ndarray of shape (n, D)

    Returns
    -------
    ndarray of shape (at most 3, D)
        Empty where there are too few draws.

    References
    ----------
    Tyler, D. E., Critchley, F., Dümbgen, L. & Oja, H. (2009). Invariant co-ordinate selection.
    Journal of the Royal Statistical Society B 71(3), 549-592.

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
    points = _clipped(draws[:: max(1, len(draws) // _MAX_POINTS)]) @ whiten.T
    n_neighbours = min(_N_NEIGHBOURS, len(points) - 1)
    near = np.argpartition(cdist(points, points), n_neighbours, axis=1)[:, : n_neighbours + 1]
    steps = (points[near] - points[:, None]).reshape(-1, points.shape[1])
    values, vectors = np.linalg.eigh(steps.T @ steps)
    order = np.argsort(values)[:_N_DIRECTIONS]
    return vectors[:, order].T @ whiten


def discriminant(draws: FloatArray, upper: np.ndarray) -> FloatArray:
    """Fisher's direction between two groups of draws.

    Parameters
    ----------
    draws : ndarray of shape (n, D)
    upper : ndarray of bool of shape (n,)
        Whether a draw is of the group on the upper side.

    Returns
    -------
    ndarray of shape (D,)
    """
    x = _clipped(draws)
    means = np.stack([x[~upper].mean(axis=0), x[upper].mean(axis=0)])
    within = np.cov((x - means[upper.astype(int)]).T, ddof=0).reshape(x.shape[1], -1)
    # towards the difference of means where a covariance of so few draws says little
    ridge = max(1e-6, x.shape[1] / len(x)) * np.trace(within) / x.shape[1]
    step = means[1] - means[0]
    return np.asarray(np.linalg.solve(within + (ridge + 1e-12) * np.eye(x.shape[1]), step))


def _clipped(draws: FloatArray) -> FloatArray:
    middle, scale = np.median(draws, axis=0), robust_scale(draws)
    return np.clip((draws - middle) / scale, -_CLIP, _CLIP) * scale + middle


def _whitening(draws: FloatArray) -> FloatArray:
    """Rows that turn the covariance of draws, without collinear directions, into the identity."""
    n, dim = draws.shape
    most = min(dim, n // _PER_DIMENSION)
    if most < 2:
        return np.empty((0, dim))
    values, vectors = np.linalg.eigh(np.cov(_clipped(draws).T))
    order = np.argsort(values)[::-1][:most]
    order = order[values[order] > _LEAST_VARIANCE * max(values[order[0]], 1e-300)]
    return (vectors[:, order] / np.sqrt(values[order])).T
