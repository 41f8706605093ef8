"""Which of the modes that the search found a chain's draws come from."""

from collections.abc import Sequence

import numpy as np
from scipy.special import chdtri, logsumexp

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.engine.state import Stateful
from pymc_tempering.references.ascent import MOST_GRADIENTS as MOST_OF_ASCENT
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.basins import MAX_DIP
from pymc_tempering.references.elbo import dip_between
from pymc_tempering.references.starts import inside
from pymc_tempering.types import FloatArray

__all__ = ["MOST_GRADIENTS", "Visits", "not_visited"]

N_LOOKED_AT = 32
"""Draws of a round, evenly spaced: eight of them are of a mode with a quarter of the mass."""

N_AROUND, NEAR = 8, 0.3
"""Ascents from around a maximum, and how many standard deviations of its curvature away: further
off, a bend leads out of its mode."""

MOST_GRADIENTS = (N_LOOKED_AT + N_AROUND) * MOST_OF_ASCENT
"""For each mode, roughly; nearly all ascents take a tenth of what they may."""

_OUTSIDE = 1e-3
"""Share of a Gaussian's draws that its ellipsoid leaves out."""

_LEAST_RESPONSIBILITY = 0.05
"""Of a fit for a draw that is its own: fits of one mode share it."""


class Visits(Stateful):
    """Which of the well fitted modes had a draw.

    Parameters
    ----------
    modes : sequence of GaussianBase
        See :attr:`pymc_tempering.references.prepared.Prepared.sure`.

    Examples
    --------
    >>> slab, spike = GaussianBase([0.0], [1.0], -1.0), GaussianBase([0.5], [0.001], -2.0)
    >>> visits = Visits([slab, spike])
    >>> visits.log_mass_unvisited
    array([-1., -2.])
    >>> visits.note(np.array([0.3]))
    >>> visits.log_mass_unvisited
    array([nan, -2.])
    """

    _changing = ("modes", "visited")

    def __init__(self, modes: Sequence[GaussianBase] = ()) -> None:
        self.modes, self.visited = list(modes), np.zeros(len(modes), dtype=bool)

    @property
    def log_mass_unvisited(self) -> FloatArray:
        """Log of the mass of each mode, in nats; NaN where it had a draw."""
        masses = np.array([mode.log_zeta or 0.0 for mode in self.modes])
        return np.where(self.visited, np.nan, masses)

    def note(self, position: FloatArray) -> None:
        """Add a draw.

        Parameters
        ----------
        position : ndarray of shape (D,)
        """
        if self.visited.all():
            return
        squares = np.array([np.sum(mode.to_base(position[None]) ** 2) for mode in self.modes])
        masses = [(mode.log_zeta or 0.0) - mode.log_det_scale for mode in self.modes]
        log_density = np.array(masses) - 0.5 * squares
        inside = squares <= chdtri(position.size, _OUTSIDE)
        own = log_density >= logsumexp(log_density) + np.log(_LEAST_RESPONSIBILITY)
        self.visited |= inside & own


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
