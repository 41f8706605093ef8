"""Gaussians of the places where ascents ended: of the curvature first, variational where poor."""

from collections.abc import Sequence

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.noise import N_EVALUATIONS, is_noise
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references.ascent_paths import N_PATHS, masses_on_paths
from pymc_tempering.references.basins import Basin
from pymc_tempering.references.curvature import Curvature, curvature_at
from pymc_tempering.references.local import (
    N_DRAWS,
    LocalFit,
    assess,
    laplace_at,
    refine,
)
from pymc_tempering.references.quality import FAIR, GOOD
from pymc_tempering.references.same_mode import n_places
from pymc_tempering.references.starts import Surroundings, pulled_inside
from pymc_tempering.references.watch import Report, Tally
from pymc_tempering.types import FloatArray

__all__ = ["MOST_FITS", "MOST_REFINED", "Shapes"]

MOST_FITS, MOST_REFINED = 64, 8
"""Modes of which the curvature is taken, the highest first, and of which a variational fit is made
where curvature does not describe them. With more modes, places decide the base and not shapes."""


_FEW_STARTS = 1 / 3
"""Share of the starts that may lead to modes which hold nothing, before they say that the density
is rugged, so that what holds most may have been missed."""

_N_LOOKED_AT = 3
"""Draws of a fit, besides its mean, at which the density has to be more than rounding noise."""

_OUTSIDE = 2.0
"""Standard deviations of a fit beyond which the highest place is outside. That of one mode is at
most the square root of three of them from the mean, on a line."""

_WIDER = 1000.0
"""A place that held nothing even if it were so much wider, each way, than the fit with most mass is
not worth a variational fit."""


class Shapes:
    """Fits of basins, by their number.

    Parameters
    ----------
    density : Density
    rng : numpy.random.Generator
    share : int
        Gradients for curvatures, and as many for variational fits.
    most : float
        Of all variational fits, the last one included; infinite where `share` alone counts.

    Attributes
    ----------
    fits : dict of int to LocalFit
    curvatures : dict of int to tuple of GaussianBase and float
        Of the curvature at the end, and the variance of ``log_target - log_base`` under it.
    n_gradients : int
        Of all fits.
    """

    def __init__(
        self, density: Density, rng: np.random.Generator, share: int, most: float = np.inf
    ) -> None:
        self._density, self._rng, self._share, self._most = density, rng, share, most
        self.fits: dict[int, LocalFit] = {}
        self.curvatures: dict[int, tuple[GaussianBase, float]] = {}
        self._passed: list[LocalFit] = []
        self._n_measured = self._n_refined = 0

    @property
    def n_gradients(self) -> int:
        """Gradients of all fits."""
        return self._n_measured + self._n_refined

    @property
    def every(self) -> list[LocalFit]:
        """All fits, with those of masses that all ascents to a place went by."""
        return [*self.fits.values(), *self._passed]

    @property
    def may_measure(self) -> bool:
        """Whether curvatures took less than half of their share: the rest is for the highest."""
        return self._n_measured < self._share // 2

    def measure(self, i: int, basin: Basin, units: FloatArray) -> Curvature | None:
        """Take the curvature at the end of an ascent, unless that still rose, or climbed noise."""
        if not basin.converged:
            return None
        basin.measured = True
        if self._refuse(basin):
            return None
        found = curvature_at(self._density, basin.end, units)
        fit = assess(self._density, found.base, basin.start_count, self._rng)
        self._n_measured += found.n_gradients + N_DRAWS
        if fit is not None and not self._covers_noise(found.base):
            self.fits[i] = fit
            self.curvatures[i] = found.base, fit.variance
            basin.is_gaussian = fit.variance <= GOOD
        return found

    def _refuse(self, basin: Basin) -> bool:
        """Whether the density is rounding noise at the end: that is no mode, and leads to none."""
        self._n_measured += N_EVALUATIONS
        noise = is_noise(self._density, basin.end)
        if noise:
            basin.is_saddle = True
        return noise

    def _covers_noise(self, base: GaussianBase) -> bool:
        """Whether a fit owes anything to places where the density is rounding noise."""
        # a generator of its own leaves all other draws of the search as they are
        draws = base.draw(np.random.default_rng(0), _N_LOOKED_AT)
        self._n_refined += N_EVALUATIONS * (1 + _N_LOOKED_AT)
        return any(is_noise(self._density, z) for z in (base.mean, *draws))

    def n_that_matter(self, basins: Sequence[Basin], negligible: float) -> int:
        """Distinct modes without those that hold nothing, unless these have many of the starts.

        Parameters
        ----------
        basins : sequence of Basin
        negligible : float
            nats below the most mass of a mode at which it does not matter.
        """
        modes = [i for i, basin in enumerate(basins) if basin.is_mode]
        if len(modes) < 2 or any(i not in self.fits for i in modes):
            return len(modes)
        masses = {i: self._mass(i, basins[i]) for i in modes}
        best = max(masses.values())
        held = [i for i in modes if masses[i] >= best - negligible]
        n_elsewhere = sum(basins[i].start_count for i in modes if i not in held)
        if n_elsewhere > _FEW_STARTS * sum(basins[i].start_count for i in modes):
            return len(modes)
        return n_places([self.fits[i].base for i in held])

    def _mass(self, i: int, basin: Basin) -> float:
        """Log of what the mass may be, in nats: by the fit, or by the curvature at the end."""
        if i not in self.curvatures:
            return self.fits[i].mass
        shape, _ = self.curvatures[i]
        by_curvature = basin.value + shape.log_det_scale + 0.5 * shape.dim * LOG_2PI
        return max(self.fits[i].mass, by_curvature)

    def _ends_outside(self, i: int, basin: Basin) -> bool:
        """Whether ascents end away from the mass, so that they may go by some."""
        end = self.fits[i].base.to_base(basin.end[None])
        return not basin.is_gaussian and bool(np.abs(end).max() > _OUTSIDE)

    def _lowest(self, best: LocalFit, negligible: float) -> float:
        """Log density below which no place can hold mass that matters, in nats."""
        widest = best.base.log_det_scale + best.base.dim * (np.log(_WIDER) + 0.5 * LOG_2PI)
        return best.mass - negligible - widest

    def drop(self, i: int) -> None:
        """Forget the fit of a place that is no mode."""
        self.fits.pop(i, None)
        self.curvatures.pop(i, None)

    def improve(self, i: int, basin: Basin, coordinates: Coordinates, units: FloatArray) -> None:
        """Fit a mode further, unless its fit is good; the better ELBO stays.

        But for one that fits a fair one's mode worse, and so has more mass for having left for
        others: put together with one of these, it would leave its own without a fit.
        """
        fit = self.fits.get(i)
        if fit is not None and fit.variance <= GOOD:
            return
        shape, _ = self.curvatures.get(i, (None, 0.0))
        left = self._most - self._n_refined
        better, n_gradients = refine(
            self._density, basin.start, shape, coordinates, units, self._rng, left
        )
        self._n_refined += n_gradients
        if better is None or self._covers_noise(better.base):
            return
        left_for_others = fit is not None and fit.variance <= min(FAIR, better.variance)
        if fit is None or (better.elbo > fit.elbo and not left_for_others):
            self.fits[i] = better._replace(start_count=basin.start_count)

    def complete(
        self,
        basins: Sequence[Basin],
        coordinates: Coordinates,
        units: FloatArray,
        negligible: float,
        report: Report,
    ) -> None:
        """Fit the highest of the modes that have no fit, and improve the poor ones of most mass."""
        rest = [i for i in range(1, len(basins)) if not basins[i].is_saddle]
        rest.sort(key=lambda i: basins[i].value, reverse=True)
        most = self._n_measured + self._share
        tally = Tally(report, "shapes of modes", len(rest[:MOST_FITS]))
        for i in rest[:MOST_FITS]:
            if self._n_measured < most and not basins[i].measured:
                self.measure(i, basins[i], units)
            tally.add(self.n_gradients)
        # what a curvature has under it says nothing of the mass where it fits as poorly as most do
        best = sorted(self.fits, key=lambda i: self._mass(i, basins[i]), reverse=True)
        runaways = [i for i in rest if not basins[i].converged]
        poor = runaways + [i for i in best if i > 0 and self.fits[i].variance > GOOD]
        if best:
            least = self._lowest(max(self.fits.values(), key=lambda fit: fit.mass), negligible)
            poor = [i for i in poor if basins[i].value >= least]
        tally = Tally(report, "local fits", len(poor[:MOST_REFINED]))
        for i in poor[:MOST_REFINED]:
            is_noise_free = basins[i].converged or not self._refuse(basins[i])
            if is_noise_free and self._n_refined < self._share:
                self.improve(i, basins[i], coordinates, units)
            tally.add(self.n_gradients)
        for i, fit in self.fits.items():
            laplace = None
            if fit.variance > GOOD and basins[i].converged:
                laplace, n_gradients = laplace_at(
                    self._density, basins[i].end, basins[i].value, units
                )
                self._n_refined += n_gradients
            self.fits[i] = fit._replace(
                start_count=basins[i].start_count, searches=basins[i].searches, laplace=laplace
            )

    def look_on_paths(
        self,
        basins: Sequence[Basin],
        around: Surroundings,
        coordinates: Coordinates,
        units: FloatArray,
        negligible: float,
    ) -> None:
        """Fit what starts go by where ascents end outside of the mass; see :mod:`.ways`.

        Parameters
        ----------
        basins : sequence of Basin
        around : Surroundings
            Where the search started.
        coordinates, units, negligible
            As for :meth:`complete`, after which this comes.
        """
        best = max((fit.mass for fit in self.fits.values()), default=0.0)
        odd = [i for i, fit in self.fits.items()
               if fit.most >= best - negligible and self._ends_outside(i, basins[i])]  # fmt: skip
        # on a line no ascent goes by a mode
        if not odd or self._density.dim == 1:
            return
        i = max(odd, key=lambda i: basins[i].start_count)
        starts, n_pulled = pulled_inside(self._density, *around.fresh(N_PATHS, self._rng))
        self._passed, n_by, n_gradients = masses_on_paths(
            self._density, self.every, starts.points, coordinates, units, self._rng,
            min(2 * self._share, self._most - self._n_refined),
        )  # fmt: skip
        self._n_refined += n_pulled + n_gradients
        # of all starts that led to the place, as large a part goes by
        share = self.fits[i].start_count // (N_PATHS + 1)
        n_by[list(self.fits).index(i)] -= sum(n_by)
        start_count = [fit.start_count + n * share for fit, n in zip(self.every, n_by, strict=True)]
        to_place = self.fits[i].searches
        every = [
            fit._replace(start_count=n, searches=fit.searches | (to_place if more > 0 else 0))
            for fit, n, more in zip(self.every, start_count, n_by, strict=True)
        ]
        self._passed = every[len(self.fits) :]
        self.fits = dict(zip(self.fits, every, strict=False))
