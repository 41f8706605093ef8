"""Which of the modes that the search found a chain's draws come from."""

from collections.abc import Sequence

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.basins import MAX_DIP
from pymc_tempering.references.elbo import dip_between
from pymc_tempering.types import FloatArray

__all__ = ["not_visited"]

N_LOOKED_AT = 32
"""Draws of a round, evenly spaced: eight of them are of a mode with a quarter of the mass."""


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
        found = ascend(density, positions[rows], Coordinates.of(mode))
        distances = np.linalg.norm(mode.to_base(found.ends), axis=1)
        nearest = found.ends[np.argmin(distances)]
        n_missed += dip_between(density, nearest, mode.mean) > MAX_DIP
        n_gradients += found.n_gradients
    return int(n_missed), n_gradients
