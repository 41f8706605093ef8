"""With what probability a search would have found one mode more, like those that it knows.

A mode is put where none is known, and looked for with the starts that the search has made: where it
outweighs the rest at one of them, an ascent from there leads to it. That takes no gradient. What
ascents meet on their way comes on top.
"""

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, softmax

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.types import FloatArray

__all__ = ["MASSES", "NEAREST_AND_FURTHEST", "WIDTHS", "Looked", "found_if_there"]

MASSES = (0.01, 0.05, 0.25)
"""Shares of the whole mass that a planted mode has."""

WIDTHS = (1.0, 0.5, 0.25)
"""Its standard deviations, as multiples of those of the known mode whose shape it has."""

NEAREST_AND_FURTHEST = 3.0, 10.0
"""Standard deviations of the known mode, in a random direction from it; log uniform."""

N_PLACES = 200
"""Places of each; the probability is known to 0.035 at most."""

_MOST_NUMBERS = 1_000_000


class Looked(NamedTuple):
    """Where a search has started.

    Attributes
    ----------
    points : ndarray of shape (n, D)
    least : ndarray of shape (n,)
        Log density in nats that a mode more needs there to be found.
    """

    points: FloatArray
    least: FloatArray

    @classmethod
    def nowhere(cls, dim: int) -> "Looked":
        """Before the first start."""
        return cls(np.empty((0, dim)), np.empty(0))

    def and_at(self, points: FloatArray, least: FloatArray) -> "Looked":
        """Add starts, until there are a million numbers: those beyond have found nothing."""
        if self.points.size >= _MOST_NUMBERS:
            return self
        return Looked(np.concatenate([self.points, points]), np.concatenate([self.least, least]))


def found_if_there(
    looked: Looked,
    modes: list[GaussianBase],
    rng: np.random.Generator,
    masses: tuple[float, ...] = MASSES,
    widths: tuple[float, ...] = WIDTHS,
) -> FloatArray:
    """Probability that one mode more would have been found, for each width and mass.

    Parameters
    ----------
    looked : Looked
    modes : list of GaussianBase
        The known modes, with the log of their mass as ``log_zeta``: the mode more has the shape of
        one of them, drawn by mass, is in a random direction from there, and that far.
    rng : numpy.random.Generator
    masses, widths : tuple of float

    Returns
    -------
    ndarray of shape (W, M)

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> starts, known = 9.0 * rng.normal(size=(500, 1)), GaussianBase([0.0], [1.0], log_zeta=0.0)
    >>> nothing = np.full(500, -np.inf)
    >>> bool(found_if_there(Looked(starts, nothing), [known], rng).min() == 1.0)
    True
    """
    log_masses = np.array([mode.log_zeta for mode in modes], dtype=np.float64)
    log_odds = np.log(masses) - np.log1p(-np.array(masses)) + logsumexp(log_masses)
    found = np.zeros((len(widths), len(masses)))
    if not len(looked.points):
        return found
    for mode, n in zip(modes, rng.multinomial(N_PLACES, softmax(log_masses)), strict=True):
        at = rng.standard_normal((n, mode.dim))
        far = np.exp(rng.uniform(*np.log(NEAREST_AND_FURTHEST), n))
        at *= (far / np.linalg.norm(at, axis=1))[:, None]
        squares = cdist(at, mode.to_base(looked.points), "sqeuclidean")
        for i, width in enumerate(widths):
            volume = mode.log_det_scale + mode.dim * (np.log(width) + 0.5 * LOG_2PI)
            best = (-0.5 / width**2 * squares - looked.least).max(axis=1) - volume
            found[i] += (best[:, None] + log_odds > 0.0).sum(axis=0)
    return found / N_PLACES
