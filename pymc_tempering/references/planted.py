"""With what probability a search would have found one mode more, like those that it knows.

A mode is put where none is known, and looked for where the search has been: where it outweighs the
rest at a start, or on the path of an ascent, that leads to it from there.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import logsumexp, softmax

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Density
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references.same_mode import MAX_DIP
from pymc_tempering.references.starts import evaluated
from pymc_tempering.types import FloatArray

MASSES = (0.01, 0.05, 0.25)
"""Shares of the whole mass that a planted mode has."""

WIDTHS = (1.0, 0.5, 0.25)
"""Its standard deviations, as multiples of those of the known mode whose shape it has."""

NEAREST_AND_FURTHEST = 3.0, 10.0
"""Standard deviations of the known mode, in a random direction from it; log uniform."""

VALLEY = math.sqrt(2.0 * (MAX_DIP + math.log(2.0)))
"""For each standard deviation of the distance, nats by which a mode has to stand above all else:
between two Gaussians of equal widths the log density then dips by :data:`.same_mode.MAX_DIP`."""

N_PLACES = 200
"""Places of each; the probability is known to 0.035 at most."""


class Looked(NamedTuple):
    """Where a search has been: points (n, D), and what it takes to be found from each of them.

    ``least`` is the log density in nats that one mode more needs there, shape (n,).
    """

    points: FloatArray
    least: FloatArray

    def and_at(self, points: FloatArray, least: FloatArray) -> "Looked":
        """Add starts, until there are a million numbers: those beyond have found nothing."""
        if self.points.size >= 1_000_000:
            return self
        return Looked(np.concatenate([self.points, points]), np.concatenate([self.least, least]))

    def and_on(self, path: FloatArray, heights: FloatArray) -> "Looked":
        """Add ascent paths but for their starts: shapes (n, n_path, D), (n, n_path)."""
        # the last place stands again for those that are not there
        new = np.diff(heights, axis=1) > 0.0
        return self.and_at(path[:, 1:][new], heights[:, 1:][new])


def found_if_there(
    density: Density, looked: Looked, modes: list[GaussianBase], rng: np.random.Generator
) -> FloatArray:
    """Probability that one mode more would have been found, for each of `WIDTHS` and `MASSES`.

    Of the places where it would be a mode, with a valley before it. The mode more has the shape of
    one of ``modes`` (with the log of their mass as ``log_zeta``), drawn by mass, and is in a random
    direction from there. It takes 200 gradients. Returns an array of shape (W, M).
    """
    log_masses = np.array([mode.log_zeta for mode in modes], dtype=np.float64)
    log_odds = np.log(MASSES) - np.log1p(-np.array(MASSES)) + logsumexp(log_masses)
    found, is_mode = np.zeros((2, len(WIDTHS), len(MASSES)))
    near, far = (float(np.log(distance)) for distance in NEAREST_AND_FURTHEST)
    for mode, n in zip(modes, rng.multinomial(N_PLACES, softmax(log_masses)), strict=True):
        at = rng.standard_normal((n, mode.dim))
        at *= (np.exp(rng.uniform(near, far, n)) / np.linalg.norm(at, axis=1))[:, None]
        there = evaluated(density, mode.from_base(at))
        at = mode.to_base(there.points)
        squares = cdist(at, mode.to_base(looked.points), "sqeuclidean")
        valley = VALLEY * np.linalg.norm(at, axis=1)
        for i, width in enumerate(WIDTHS):
            height = log_odds - mode.log_det_scale - mode.dim * (np.log(width) + 0.5 * LOG_2PI)
            needed = (0.5 / width**2 * squares + looked.least).min(axis=1, initial=np.inf)
            stands = height > (there.values + valley)[:, None]
            found[i] += (stands & (height > needed[:, None])).sum(axis=0)
            is_mode[i] += stands.sum(axis=0)
    # of one that would be a mode nowhere nothing is missed
    return np.where(is_mode > 0.0, found / np.maximum(is_mode, 1.0), 1.0)
