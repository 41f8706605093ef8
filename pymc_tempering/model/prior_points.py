"""Draws from the prior as flat unconstrained vectors, where to look for modes."""

import logging
from typing import TYPE_CHECKING

import numpy as np

from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    from pymc_tempering.model.compile import CompiledDensity

__all__ = ["prior_points"]

_log = logging.getLogger(__name__)


def prior_points(density: "CompiledDensity", rng: np.random.Generator, n: int) -> FloatArray:
    """Draw starting points from the prior.

    Jitter around one point does not know how far the modes of a model may lie apart; its prior
    does.

    Returns
    -------
    ndarray of shape (m, D)
        ``m = n``, or no rows for models whose prior cannot be drawn from, such as flat ones.
    """
    empty = np.empty((0, density.dim))
    try:
        draw = density.draw_from_prior
        seeds = rng.integers(2**31, size=n)
        # wide priors have draws beyond all numbers; they are left out below
        with np.errstate(all="ignore"):
            points = np.stack([density.points.ravel(draw(int(seed))) for seed in seeds])
    except Exception as error:  # noqa: BLE001  whatever a prior cannot do is no obstacle
        _log.debug("no starting points from the prior: %s", error)
        return empty
    return points[np.isfinite(points).all(axis=1)]
