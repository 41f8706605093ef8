"""The search for modes: ascents from very many starts, and fits of the distinct ones.

A start leads to a mode only from within its basin, and an ascent costs a few dozen gradients where
a variational fit costs thousands. So breadth comes first, and depth is for what was found.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import softmax

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.endless import Rise, first_rise
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.errors import BaseError
from pymc_tempering.references.ascent import MOST_GRADIENTS, ascend
from pymc_tempering.references.basins import Basins
from pymc_tempering.references.coverage import Search
from pymc_tempering.references.curvature import Curvature, curvature_at
from pymc_tempering.references.halo import find_halos
from pymc_tempering.references.known import KnownModes
from pymc_tempering.references.local import (
    GAUSSIAN,
    N_DRAWS,
    LocalFit,
    assess,
    combine_local_bases,
    merge,
    peak_at,
    refine,
    unsure_modes,
)
from pymc_tempering.references.prepared import Prepared
from pymc_tempering.references.starts import (
    Starts,
    Surroundings,
    inside,
    jitter,
    pulled_inside,
)
from pymc_tempering.references.watch import Report, Tally, unwatched
from pymc_tempering.types import FloatArray

__all__ = ["SEARCHES", "Effort", "find_modes"]


class Effort(NamedTuple):
    """How far to search.

    Attributes
    ----------
    n_starts : int
        Unless the gradients are used up before.
    n_gradients : int
        Of all starts and ascents.
    """

    n_starts: int
    n_gradients: int


SEARCHES = {
    "none": Effort(1, 1000),
    "default": Effort(50_000, 50_000),
    "thorough": Effort(500_000, 500_000),
}
"""Efforts by the names that users give."""

_LEAST_BATCH, _MOST_BATCH = 32, 512
_FIRST_GRADIENTS, _MOST_REPEATS, _MOST_GAIN = 1000, 4, 0.1

_FOLLOWED, _MOST_IN_VAIN = 2, 8
"""Starts of a batch whose rest is followed, and how many in a row may lead nowhere."""

MOST_FITS, MOST_REFINED = 64, 8
"""Modes of which the curvature is taken, the highest first, and of which a variational fit is made
where curvature does not describe them. With more modes, places decide the base and not shapes."""

MOST_RISES = 2
"""Ascents that ran away of which the mass is looked at, the highest first."""

NEGLIGIBLE = 10.0
"""nats below the best at which a mode's mass does not matter, what its ELBO may miss included."""


# what is fitted far from any mode has squares beyond all numbers
@np.errstate(over="ignore", invalid="ignore")
@density_guard()
def find_modes(
    density: Density,
    start: FloatArray,
    rng: np.random.Generator,
    *,
    prior_points: FloatArray | None = None,
    effort: Effort = SEARCHES["default"],
    report: Report = unwatched,
) -> Prepared:
    """Find modes by ascents from many starts, fit each, and combine the fits into one Gaussian.

    Parameters
    ----------
    density : Density
        The target's compiled log density and gradient.
    start : ndarray of shape (D,)
    rng : numpy.random.Generator
    prior_points : ndarray of shape (n, D), optional
        Draws of the prior: every second start, as long as there are any.
    effort : Effort
    report : callable
        See :data:`pymc_tempering.references.watch.Report`.

    Raises
    ------
    BaseError
        If no start has a finite density, or no fit succeeded.
    """
    search = _Searcher(density, _start_inside(density, start, rng), rng, effort, report)
    if effort.n_starts > 1:
        search.look_around(prior_points)
    return search.result()


class _Searcher:
    """One search: where it stands, and what it knows of the scales of the target."""

    def __init__(
        self,
        density: Density,
        start: FloatArray,
        rng: np.random.Generator,
        effort: Effort,
        report: Report,
    ) -> None:
        self._density, self._start, self._rng = density, start, rng
        self._effort, self._report = effort, report
        self._share = effort.n_gradients // 5
        self._units = np.ones(density.dim)
        self._coordinates = Coordinates.of(GaussianBase(start, self._units))
        self._basins = Basins(density)
        self._fits: dict[int, LocalFit] = {}
        self._shapes: dict[int, GaussianBase] = {}
        self._variances: dict[int, float] = {}
        self._known = KnownModes(density)
        self._n_ascents = self._n_gradients = self._n_refined = self._in_vain = 0
        self._ascend(start[None], _FIRST_GRADIENTS)
        for _ in range(_MOST_REPEATS):
            found = self._measure(0)
            if found is None or (found.is_maximum and found.gain < _MOST_GAIN):
                break
            # on a slope of unknown scales; or a saddle, as starts with the model's symmetry are
            start = found.base.mean if found.is_maximum else found.base.draw(rng, 1)[0]
            if inside(density, start[None])[0]:
                self._coordinates = Coordinates.of(found.base)
                self._basins = Basins(density)
                self._ascend(start[None], _FIRST_GRADIENTS)
        self._fit(0)
        if (first := self._fits.get(0)) is not None:
            self._coordinates = Coordinates.of(first.base)
            self._units = np.maximum(1.0, first.base.standard_deviation)

    def _ascend(self, starts: FloatArray, most_gradients: int = MOST_GRADIENTS) -> None:
        found = ascend(self._density, starts, self._coordinates, most_gradients=most_gradients)
        self._n_ascents += found.n_gradients
        self._basins.add(starts, found, self._coordinates)

    def look_around(self, prior_points: FloatArray | None) -> None:
        """Start in batches, and ascend where a start belongs to no known mode."""
        around = self._surroundings(prior_points)
        most = self._effort.n_gradients
        n_done, total = 1, self._effort.n_starts
        while n_done < total and self._n_ascents < most:
            self._report("search for modes", self._n_ascents, most)
            # small batches while a start is dear, so that none goes far beyond what is left
            n = (most - self._n_ascents) * n_done // (4 * self._n_ascents) if n_done > 1 else 0
            n = min(max(n, _LEAST_BATCH), _MOST_BATCH, total - n_done)
            starts, n_gradients = pulled_inside(self._density, *around.draw(n, self._rng))
            self._n_ascents += n_gradients
            n_done += n
            if len(starts.points):
                self._sort(starts)
            if not any(basin.converged for basin in self._basins.known):
                # all of them run away: where they began tells more than where they end
                break
        self._report("search for modes", most, most)

    def _surroundings(self, prior_points: FloatArray | None) -> Surroundings:
        first = self._fits.get(0)
        places, units = [self._start], [self._units]
        if first is not None:
            self._know(0)
            places.append(first.base.mean)
            units.append(first.base.standard_deviation)
        return Surroundings(np.array(places), np.array(units), prior_points)

    def _sort(self, starts: Starts) -> None:
        """Count starts for the known modes they belong to; ascend from the others."""
        known = self._basins.known
        owners = self._known.owners(starts)
        for i, n in enumerate(np.bincount(owners.number[owners.number >= 0])):
            known[i].hits += int(n)
        n_before = len(known)
        climbing = starts.points[owners.number < 0]
        if len(climbing):
            self._ascend(climbing)
        flanks = np.flatnonzero(np.isfinite(owners.rest))
        if len(flanks) and self._in_vain < _MOST_IN_VAIN:
            flanks = flanks[np.argsort(owners.rest[flanks])[-_FOLLOWED:]]
            n_known = len(known)
            beyond = self._known.beyond(starts.at(flanks))
            if len(beyond):
                self._ascend(beyond)
            self._in_vain = 0 if len(known) > n_known else self._in_vain + len(flanks)
        for i in range(n_before, len(known)):
            if known[i].converged and self._n_gradients < self._share // 2:
                found = self._measure(i)
                if found and not found.is_maximum:  # where starts with a symmetry end
                    found = self._leave_saddle(i, found)
                if found and found.is_maximum:
                    self._know(i)

    def _leave_saddle(self, i: int, found: Curvature) -> Curvature | None:
        """Ascend to both sides of a saddle."""
        aside = found.base.draw(self._rng, 1)
        self._ascend(np.concatenate([aside, 2.0 * found.base.mean - aside]))
        return self._measure(i)

    def _know(self, i: int) -> None:
        """Compare later starts with a mode."""
        if i in self._variances:
            self._known.add(i, self._shapes[i], self._variances[i])

    @property
    def _n_spent(self) -> int:
        n_apart = self._basins.n_gradients + self._known.n_gradients
        return self._n_ascents + n_apart + self._n_gradients + self._n_refined

    def _measure(self, i: int) -> Curvature | None:
        """Take the curvature at the end of an ascent, unless that still rose."""
        basin = self._basins.known[i]
        if not basin.converged:
            return None
        found = curvature_at(self._density, basin.end, self._units)
        fit = assess(self._density, found.base, basin.hits, self._rng)
        self._shapes[i] = found.base
        self._n_gradients += found.n_gradients + N_DRAWS
        if fit is not None:
            self._fits[i] = fit
            # of the curvature, which is what later starts are compared with
            self._variances[i] = fit.variance
            basin.is_gaussian = fit.variance <= GAUSSIAN
        return found

    def _fit(self, i: int) -> None:
        """Fit a mode further, unless its fit is good; the better ELBO stays."""
        fit = self._fits.get(i)
        if fit is not None and fit.variance <= GAUSSIAN:
            return
        better, n_gradients = refine(
            self._density, self._basins.known[i], self._shapes.get(i), self._coordinates,
            self._units, self._rng,
        )  # fmt: skip
        self._n_refined += n_gradients
        if better is not None and (fit is None or better.elbo > fit.elbo):
            self._fits[i] = better

    def _fit_rest(self) -> None:
        known = self._basins.known
        rest = sorted(range(1, len(known)), key=lambda i: known[i].value, reverse=True)
        most = self._n_gradients + self._share
        chosen = rest[:MOST_FITS]
        tally = Tally(self._report, "shapes of modes", len(chosen))
        for i in chosen:
            if self._n_gradients < most and i not in self._shapes:
                self._measure(i)
            tally.add()
        best = sorted(self._fits, key=lambda i: self._fits[i].mass, reverse=True)
        runaways = [i for i in rest if not known[i].converged]
        poor = runaways + [i for i in best if i > 0 and self._fits[i].variance > GAUSSIAN]
        tally = Tally(self._report, "local fits", len(poor[:MOST_REFINED]))
        for i in poor[:MOST_REFINED]:
            if self._n_refined < self._share:
                self._fit(i)
            tally.add()
        for i, fit in self._fits.items():
            peak = None
            if fit.variance > GAUSSIAN:
                peak, n_gradients = peak_at(self._density, known[i], self._units)
                self._n_refined += n_gradients
            self._fits[i] = fit._replace(hits=known[i].hits, peak=peak)

    def result(self) -> Prepared:
        """Fit what was found, and combine the fits.

        Raises
        ------
        BaseError
            If no fit succeeded.
        """
        self._fit_rest()
        if not self._fits:
            raise BaseError(
                "None of the local fits succeeded: the density may be improper. Give a base "
                "explicitly."
            )
        fits = merge(self._density, list(self._fits.values()))
        n_halos = 0
        if self._effort.n_starts > 1:
            halos, n_halos = find_halos(self._density, fits, NEGLIGIBLE, self._rng)
            fits = sorted([*fits, *halos], key=lambda fit: fit.elbo, reverse=True)
        best = max(fit.elbo for fit in fits)
        kept = [fit for fit in fits if fit.most >= best - NEGLIGIBLE]
        known = self._basins.known
        others = [fit.hits for fit in fits if fit.most < best - NEGLIGIBLE]
        others += [known[i].hits for i in range(len(known)) if i not in self._fits]
        masses = softmax([fit.mass for fit in kept])
        bases = tuple(fit.base for fit in kept)
        rise = self._rise(bases[0])
        search = Search(
            hits=tuple(fit.hits for fit in kept if fit.hits) + tuple(others),
            n_left_out=len(others),
            n_unfinished=self._basins.n_lost,
            n_gradients=self._n_spent + n_halos + rise.n_gradients,
            mass_once=float(sum(masses[i] for i, fit in enumerate(kept) if fit.hits == 1)),
            rise=rise,
        )
        return Prepared(combine_local_bases(bases), bases, search, unsure_modes(kept))

    def _rise(self, fit: GaussianBase) -> Rise:
        """Look at the mass along the highest ascents that found no end, away from the best fit."""
        endless = [basin for i, basin in enumerate(self._basins.known)
                   if not basin.converged or i not in self._fits]  # fmt: skip
        highest = sorted(endless, key=lambda basin: basin.value, reverse=True)[:MOST_RISES]
        base = GaussianBase(fit.mean, fit.standard_deviation)
        return first_rise(self._density, base, [basin.end for basin in highest])


def _start_inside(density: Density, start: FloatArray, rng: np.random.Generator) -> FloatArray:
    start = np.asarray(start, dtype=np.float64)
    if inside(density, start[None])[0]:
        return start
    offsets = jitter(rng, 2, np.ones((2, density.dim)))
    nearby = pulled_inside(density, np.stack([start, start]), offsets)[0].points
    if not len(nearby):
        raise BaseError(
            "The log density or its gradient is not finite at the start of the search, nor around "
            "it. Pass a start inside the support, e.g. through the model's initial values."
        )
    return nearby[0]
