"""How heavy tails are: those of draws, by a Student t for each coordinate, and of a density."""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.numerics import LOG_2PI, log_t_constant
from pymc_tempering.references.elbo import delta_at
from pymc_tempering.types import FloatArray

__all__ = ["StudentFits", "falls_like_a_power", "student_fits"]

_DOFS = (0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
_ITERATIONS = 20
_OF_NORMAL = 0.6744897501960817
_TINY = 1e-12

_NEAR, _FAR = 10.0, 100.0

MOST_DROP = 4.0 * np.log(10.0)
"""Nats that a density may lose between ten and a hundred standard deviations: those of a t of three
degrees of freedom. One that falls exponentially loses ninety times what it loses in the first."""


class StudentFits(NamedTuple):
    """Most likely t densities, shape (D,) each.

    Attributes
    ----------
    dof, location, scale : ndarray
    gain : ndarray
        Nats a draw by which the t is more likely than the most likely Gaussian; negative where
        tails are no heavier.
    """

    dof: FloatArray
    location: FloatArray
    scale: FloatArray
    gain: FloatArray


def student_fits(y: FloatArray) -> StudentFits:
    """Fit a t density to each coordinate, by the EM algorithm for a few degrees of freedom.

    Parameters
    ----------
    y : ndarray of shape (n, D)
        Draws, none of the coordinates constant.

    References
    ----------
    .. [1] K. L. Lange, R. J. A. Little, J. M. G. Taylor (1989). Robust statistical modeling using
       the t distribution. Journal of the American Statistical Association 84, 881-896.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> y = np.column_stack([3.0 + 2.0 * rng.standard_cauchy(1000), rng.normal(size=1000)])
    >>> found = student_fits(y)
    >>> bool(found.gain[0] > 1.0 > 0.01 > found.gain[1])
    True
    >>> [float(of[0].round(0)) for of in found[:3]]
    [1.0, 3.0, 2.0]
    """
    centre = np.median(y, axis=0)
    spread = np.maximum(np.median(np.abs(y - centre), axis=0) / _OF_NORMAL, _TINY)
    best, found = np.full(y.shape[1], -np.inf), np.zeros((3, y.shape[1]))
    for dof in _DOFS:
        location, scale = centre, spread
        for _ in range(_ITERATIONS):
            weights = (dof + 1.0) / (dof + ((y - location) / scale) ** 2)
            location = (weights * y).sum(axis=0) / weights.sum(axis=0)
            scale = np.sqrt((weights * (y - location) ** 2).mean(axis=0)) + _TINY
        tails = np.log1p(((y - location) / scale) ** 2 / dof).mean(axis=0)
        value = log_t_constant(dof) - np.log(scale) - 0.5 * (dof + 1.0) * tails
        better = value > best
        best = np.where(better, value, best)
        found = np.where(better, np.stack([np.full(y.shape[1], dof), location, scale]), found)
    normal = -np.log(y.std(axis=0) + _TINY) - 0.5 * (LOG_2PI + 1.0)
    return StudentFits(found[0], found[1], found[2], best - normal)


def falls_like_a_power(density: Density, fit: GaussianBase) -> tuple[bool, int]:
    """Tell whether a density has heavy tails along some coordinate, far outside of a fit.

    Draws would have to be there to say so, and moves hardly go there.

    Parameters
    ----------
    density : Density
    fit : GaussianBase

    Returns
    -------
    is_heavy : bool
    n_evaluations : int
        Four of each coordinate.

    Examples
    --------
    >>> from pymc_tempering.testing import heavy_tail, scaled_normal
    >>> heavy, normal = heavy_tail(), scaled_normal(dim=2, sd=0.7)
    >>> falls_like_a_power(heavy, GaussianBase([1.0, -0.5], [0.7, 2.0]))
    (True, 8)
    >>> falls_like_a_power(normal, GaussianBase(normal.mean, [0.7, 0.7]))
    (False, 8)
    """
    steps = np.diag(fit.standard_deviation)
    directions = np.concatenate([steps, -steps])
    near, far = (
        delta_at(density, fit.mean + distance * directions, np.zeros(len(directions)))
        for distance in (_NEAR, _FAR)
    )
    both = np.isfinite(near) & np.isfinite(far)
    return bool(np.any(near[both] - far[both] <= MOST_DROP)), 2 * len(directions)
