"""Which of the modes that the search found a chain's draws come from."""

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.path import Density
from pymc_tempering.engine.state import Stateful
from pymc_tempering.references.ascent import MOST_GRADIENTS as MOST_OF_ASCENT
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.same_mode import joined, owner
from pymc_tempering.references.starts import inside
from pymc_tempering.types import FloatArray

N_LOOKED_AT = 32
"""Draws, evenly spaced: eight of them are of a mode with a quarter of the mass."""

_N_AROUND = 8
"""Ascents from around a maximum: some of them get off a ridge or a saddle that it lies on."""

MOST_GRADIENTS = (N_LOOKED_AT + _N_AROUND) * MOST_OF_ASCENT
"""For each mode, roughly; nearly all ascents take a tenth of what they may."""


class Visits(Stateful):
    """Which of the known modes had a draw.

    ``modes`` are well fitted, with the log of their mass as ``log_zeta``; ``poorly_fitted`` are
    maxima of the others, with their curvature, and ``n_missed`` those of them to which no ascent
    from a draw led when this was last looked at.

    Examples
    --------
    >>> slab, spike = GaussianBase([0.0], [1.0], -1.0), GaussianBase([0.5], [0.001], -2.0)
    >>> visits = Visits([slab, spike])
    >>> visits.note(np.array([0.3]))
    >>> visits.log_mass_unvisited
    array([nan, -2.])
    """

    _changing = (
        "modes", "visited", "poorly_fitted", "n_missed", "n_draws", "kept", "every", "next_look",
        "orbit",
    )  # fmt: skip

    def __init__(
        self,
        modes: Sequence[GaussianBase] = (),
        poorly_fitted: Sequence[GaussianBase] = (),
        orbit: Orbit | None = None,
    ) -> None:
        self.orbit = orbit
        self.modes, self.visited = list(modes), np.zeros(len(modes), dtype=bool)
        self.poorly_fitted, self.n_missed = list(poorly_fitted), 0
        self.n_draws, self.every, self.next_look = 0, 1, N_LOOKED_AT
        self.kept: list[FloatArray] = []

    @property
    def log_mass_unvisited(self) -> FloatArray:
        """Log of the mass of each mode, in nats; NaN where it had a draw."""
        return np.where(self.visited, np.nan, [mode.log_zeta or 0.0 for mode in self.modes])

    def note(self, position: FloatArray) -> None:
        """Add a draw of shape (D,): it is of each mode that explains it, by a twentieth at least.

        A mode that was fitted twice has its draws for both fits.
        """
        if self.poorly_fitted and self.n_draws % self.every == 0:
            self.kept.append(position.copy())
            if len(self.kept) == 2 * N_LOOKED_AT:
                self.kept, self.every = self.kept[::2], 2 * self.every
        self.n_draws += 1
        if self.visited.all():
            return
        z = position[None]
        if self.orbit is not None:
            means = np.array([mode.mean for mode in self.modes])
            z, _ = self.orbit.nearest(z, means, self.modes[0])
        # most draws are of modes that had one before
        if owner([self.modes[i] for i in np.flatnonzero(~self.visited)], z)[0] < 0:
            return
        around = [i for i, mode in enumerate(self.modes) if owner([mode], z)[0] == 0]
        modes = [self.modes[i] for i in around]
        logs = np.array([(m.log_zeta or 0.0) + m.log_density(z)[0] for m in modes])
        self.visited[around] |= logs >= logsumexp(logs) - np.log(20.0)

    def look(self, density: Density, left: float = np.inf) -> int:
        """Ascend from draws towards poorly fitted modes, and return the gradients it took.

        It is done where there are twice as many draws as the last time, and gradients ``left``.
        Modes that an ascent led to are not looked for again.
        """
        enough = left >= MOST_GRADIENTS * len(self.poorly_fitted)
        if not self.poorly_fitted or self.n_draws < self.next_look or not enough:
            return 0
        self.next_look = 2 * self.n_draws
        missed, n_gradients = not_visited(
            density, np.stack(self.kept), self.poorly_fitted, self.orbit
        )
        self.poorly_fitted = [
            mode for mode, is_missed in zip(self.poorly_fitted, missed, strict=True) if is_missed
        ]
        self.n_missed = len(self.poorly_fitted)
        return n_gradients


def not_visited(
    density: Density,
    positions: FloatArray,
    modes: Sequence[GaussianBase],
    orbit: Orbit | None = None,
) -> tuple[list[bool], int]:
    """For each mode whether no ascent from draws (n, D) leads to it, and the gradients it took.

    ``modes`` are Gaussians of the curvature at maxima of modes of another shape, whose fits do not
    tell which draws are their own.
    """
    rows = np.linspace(0, len(positions) - 1, min(N_LOOKED_AT, len(positions))).astype(np.int64)
    missed, n_gradients = [], 0
    for mode in modes:
        coordinates = Coordinates.of(mode)
        found = ascend(density, positions[rows], coordinates)
        if orbit is not None:
            found = found._replace(ends=orbit.nearest(found.ends, mode.mean[None], mode)[0])
        # an ascent may stop on a ridge, or on a saddle, that leads on to where the draws are; from
        # further off than 0.3 standard deviations one leaves a curved mode
        near = GaussianBase(mode.mean, 0.3 * mode.scale)
        around = near.draw(np.random.default_rng(0), _N_AROUND)
        beside = ascend(density, around[inside(density, around)], coordinates)
        places = [mode.mean, *beside.ends[np.isfinite(beside.values)]]
        reached = []
        for place in places:
            distances = np.linalg.norm(mode.to_base(found.ends) - mode.to_base(place[None]), axis=1)
            reached.append(joined(density, found.ends[distances.argmin()], place))
        missed.append(not (reached[0] or np.mean(reached) > 0.5))
        n_gradients += found.n_gradients + beside.n_gradients
    return missed, n_gradients
