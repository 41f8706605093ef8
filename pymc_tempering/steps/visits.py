"""Which of the modes that the search found a chain's draws come from."""

from collections.abc import Sequence

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.references.ascent import MOST_GRADIENTS as MOST_OF_ASCENT
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.basins import MAX_DIP
from pymc_tempering.references.elbo import dip_between
from pymc_tempering.references.starts import inside
from pymc_tempering.types import FloatArray

__all__ = ["MOST_GRADIENTS", "not_visited"]

N_LOOKED_AT = 32
"""Draws of a round, evenly spaced: eight of them are of a mode with a quarter of the mass."""

N_AROUND, NEAR = 8, 0.3
"""Ascents from around a maximum, and how many standard deviations of its curvature away: further
off, a bend leads out of its mode."""

MOST_GRADIENTS = (N_LOOKED_AT + N_AROUND) * MOST_OF_ASCENT
"""For each mode, roughly; nearly all ascents take a tenth of what they may."""


def not_visited(
    density: Density, positions: FloatArray, modes: Sequence[GaussianBase]
) -> tuple[int, int]:
    """Count modes to which an ascent from no draw leads.

    Where a mode is of a shape that no Gaussian has, its fit does not tell which draws are its own.

    Parameters
    ----------
    density : Density
    positions : ndarray of shape (n, D)
        Draws of the target.
    modes : sequence of GaussianBase
        Gaussians of the curvature at their maxima.

    Returns
    -------
    n_modes, n_gradients : int
    """
    rows = np.linspace(0, len(positions) - 1, min(N_LOOKED_AT, len(positions))).astype(np.int64)
    n_missed = n_gradients = 0
    for mode in modes:
        coordinates = Coordinates.of(mode)
        found = ascend(density, positions[rows], coordinates)
        # an ascent may stop on a ridge, or on a saddle, that leads on to where the draws are
        near = GaussianBase(mode.mean, NEAR * mode.scale)
        around = near.draw(np.random.default_rng(0), N_AROUND)
        beside = ascend(density, around[inside(density, around)], coordinates)
        places = [mode.mean, *beside.ends[np.isfinite(beside.values)]]
        joined = [_joined(density, place, found.ends, mode) for place in places]
        n_missed += not (joined[0] or np.mean(joined) > 0.5)
        n_gradients += found.n_gradients + beside.n_gradients
    return n_missed, n_gradients


def _joined(density: Density, place: FloatArray, ends: FloatArray, mode: GaussianBase) -> bool:
    distances = np.linalg.norm(mode.to_base(ends) - mode.to_base(place[None]), axis=1)
    return dip_between(density, ends[np.argmin(distances)], place) <= MAX_DIP
