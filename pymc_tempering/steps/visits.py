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
from pymc_tempering.references.same_mode import joined
from pymc_tempering.references.starts import inside
from pymc_tempering.types import FloatArray

__all__ = ["MOST_GRADIENTS", "MOST_TO_LOOK", "Visits", "not_visited"]

N_LOOKED_AT = 32
"""Draws, evenly spaced: eight of them are of a mode with a quarter of the mass."""

N_AROUND, NEAR = 8, 0.3
"""Ascents from around a maximum, and how many standard deviations of its curvature away: further
off, a bend leads out of its mode."""

MOST_GRADIENTS = (N_LOOKED_AT + N_AROUND) * MOST_OF_ASCENT
"""For each mode, roughly; nearly all ascents take a tenth of what they may."""

MOST_TO_LOOK = 0.1
"""Of the gradients that a chain has left."""

_OUTSIDE = 1e-3
"""Share of a Gaussian's draws that its ellipsoid leaves out."""

_LEAST_RESPONSIBILITY = 0.05
"""Of a fit for a draw that is its own: fits of one mode share it."""


class Visits(Stateful):
    """Which of the known modes had a draw.

    Parameters
    ----------
    modes : sequence of GaussianBase
        See :attr:`pymc_tempering.references.prepared.Prepared.sure`.
    unsure : sequence of GaussianBase
        See :attr:`pymc_tempering.references.prepared.Prepared.unsure`.

    Attributes
    ----------
    n_missed : int
        Of the unsure ones, those that no ascent from a draw led to when it was last looked.

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

    _changing = (
        "modes",
        "visited",
        "poorly_fitted",
        "n_missed",
        "n_draws",
        "kept",
        "every",
        "next_look",
    )

    def __init__(
        self, modes: Sequence[GaussianBase] = (), poorly_fitted: Sequence[GaussianBase] = ()
    ) -> None:
        self.modes, self.visited = list(modes), np.zeros(len(modes), dtype=bool)
        self.poorly_fitted, self.n_missed = list(poorly_fitted), 0
        self.n_draws, self.every, self.next_look = 0, 1, N_LOOKED_AT
        self.kept: list[FloatArray] = []

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
        self._keep(position)
        if self.visited.all():
            return
        squares = np.array([np.sum(mode.to_base(position[None]) ** 2) for mode in self.modes])
        masses = [(mode.log_zeta or 0.0) - mode.log_det_scale for mode in self.modes]
        log_density = np.array(masses) - 0.5 * squares
        inside = squares <= chdtri(position.size, _OUTSIDE)
        own = log_density >= logsumexp(log_density) + np.log(_LEAST_RESPONSIBILITY)
        self.visited |= inside & own

    def _keep(self, position: FloatArray) -> None:
        """Of all draws so far some that are evenly spaced, for :meth:`look`."""
        if self.poorly_fitted and self.n_draws % self.every == 0:
            self.kept.append(position.copy())
        self.n_draws += 1
        if len(self.kept) == 2 * N_LOOKED_AT:
            self.kept, self.every = self.kept[::2], 2 * self.every

    def look(self, density: Density, left: float = np.inf) -> int:
        """Ascend from draws to the unsure modes, if there are twice as many as the last time.

        Those that an ascent led to are known to have draws, and are not looked for again.

        Parameters
        ----------
        density : Density
        left : float
            Gradients; it is not looked where they might not be enough.

        Returns
        -------
        n_gradients : int
        """
        enough = left >= MOST_GRADIENTS * len(self.poorly_fitted)
        if not self.poorly_fitted or self.n_draws < self.next_look or not enough:
            return 0
        self.next_look = 2 * self.n_draws
        missed, n_gradients = not_visited(density, np.stack(self.kept), self.poorly_fitted)
        self.poorly_fitted = [
            mode for mode, no_draw in zip(self.poorly_fitted, missed, strict=True) if no_draw
        ]
        self.n_missed = len(self.poorly_fitted)
        return n_gradients


def not_visited(
    density: Density, positions: FloatArray, modes: Sequence[GaussianBase]
) -> tuple[list[bool], int]:
    """Find modes to which an ascent from no draw leads.

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
    missed : list of bool
        For each mode.
    n_gradients : int
    """
    rows = np.linspace(0, len(positions) - 1, min(N_LOOKED_AT, len(positions))).astype(np.int64)
    missed, n_gradients = [], 0
    for mode in modes:
        coordinates = Coordinates.of(mode)
        found = ascend(density, positions[rows], coordinates)
        # an ascent may stop on a ridge, or on a saddle, that leads on to where the draws are
        near = GaussianBase(mode.mean, NEAR * mode.scale)
        around = near.draw(np.random.default_rng(0), N_AROUND)
        beside = ascend(density, around[inside(density, around)], coordinates)
        places = [mode.mean, *beside.ends[np.isfinite(beside.values)]]
        joined = [_joined(density, place, found.ends, mode) for place in places]
        missed.append(not (joined[0] or np.mean(joined) > 0.5))
        n_gradients += found.n_gradients + beside.n_gradients
    return missed, n_gradients


def _joined(density: Density, place: FloatArray, ends: FloatArray, mode: GaussianBase) -> bool:
    distances = np.linalg.norm(mode.to_base(ends) - mode.to_base(place[None]), axis=1)
    return joined(density, ends[np.argmin(distances)], place)
