"""How heavy the tails of draws are: a Student t fitted to each coordinate."""

from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.types import FloatArray

__all__ = ["StudentFits", "student_fits"]

_DOFS = (0.7, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
_ITERATIONS = 20
_OF_NORMAL = 0.6744897501960817
_TINY = 1e-12


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
        constant = gammaln(0.5 * (dof + 1.0)) - gammaln(0.5 * dof) - 0.5 * np.log(np.pi * dof)
        value = constant - np.log(scale) - 0.5 * (dof + 1.0) * tails
        better = value > best
        best = np.where(better, value, best)
        found = np.where(better, np.stack([np.full(y.shape[1], dof), location, scale]), found)
    normal = -np.log(y.std(axis=0) + _TINY) - 0.5 * (LOG_2PI + 1.0)
    return StudentFits(found[0], found[1], found[2], best - normal)
