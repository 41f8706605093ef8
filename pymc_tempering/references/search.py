"""The search for modes: ascents from very many starts, and fits of the distinct ones.

A start leads to a mode only from within its basin, and an ascent costs a few dozen gradients where
a variational fit costs thousands. So breadth comes first, and depth is for what was found.

Four searches take turns, each from a place of its own. They share what is known of the modes, so
that they cost no more than one: how many of them found a mode tells what none may have found.
"""

import itertools

import numpy as np

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.divergent import Rise, first_rise
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.errors import BaseError
from pymc_tempering.references.ascent import MOST_GRADIENTS, ascend
from pymc_tempering.references.basins import Basin, Basins
from pymc_tempering.references.coverage import MOST_ONCE, N_SEARCHES, Search, mass_once
from pymc_tempering.references.diffuse import find_diffuse
from pymc_tempering.references.effort import SEARCHES, Effort
from pymc_tempering.references.images import Images, add_images, no_images
from pymc_tempering.references.importance import N_DRAWS, importance_evidence
from pymc_tempering.references.known import KnownModes
from pymc_tempering.references.local import (
    LocalFit,
    combine_local_bases,
    poorly_fitted_modes,
    well_fitted_modes,
)
from pymc_tempering.references.planted import N_PLACES, Looked, found_if_there
from pymc_tempering.references.prepared import Prepared
from pymc_tempering.references.same_mode import merge
from pymc_tempering.references.shapes import Shapes
from pymc_tempering.references.starts import (
    Surroundings,
    inside,
    pulled_inside,
    start_inside,
)
from pymc_tempering.references.watch import Report, unwatched
from pymc_tempering.types import FloatArray

__all__ = ["SEARCHES", "Effort", "find_modes"]

SELDOM = 10
"""Starts that led to a mode, below which one as likely may have none; more than chance says, since
a third of the starts are around the first."""

_LEAST_BATCH, _MOST_BATCH = 16, 512
_FIRST_GRADIENTS, _MOST_REPEATS, _MOST_DECREMENT = 1000, 4, 0.1
_N_PATH = 8
"""Places on the way of an ascent that are remembered: most take no more steps."""

_FOLLOWED, _MOST_IN_VAIN = 2, 8
"""Starts of a batch whose rest is followed, and how many in a row may lead nowhere."""

ONE_IN_NEAR = 5
"""For so many starts and gradients there is one more around a known mode as soon as there are two:
a narrow mode next to another is nearer in scales of that one than in those of the first."""

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
    images: Images = no_images,
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
    images : callable
        From a place of shape (D,) to those of shape (P, D) where symmetries of the target would
        have its like.
    effort : Effort
    report : callable
        See :data:`pymc_tempering.references.watch.Report`.

    Raises
    ------
    BaseError
        If no start has a finite density, or no fit succeeded.
    """
    search = _Searcher(density, start_inside(density, start, rng), rng, images, effort, report)
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
        images: Images,
        effort: Effort,
        report: Report,
    ) -> None:
        self._density, self._start, self._rng = density, start, rng
        self._images, self._effort, self._report = images, effort, report
        self._units = np.ones(density.dim)
        self._coordinates = Coordinates.of(GaussianBase(start, self._units))
        self._basins, self._known = Basins(density), KnownModes(density)
        self._around: Surroundings | None = None
        self._looked = Looked.nowhere(density.dim)
        # each of the two shares goes over by no more than the fit under way
        self._shapes = Shapes(density, rng, effort.n_gradients // 5, effort.most / 4)
        self._n_ascents = self._n_near = self._n_images = self._in_vain = 0
        self._coordinates_of_first = False
        first_gradients = int(min(_FIRST_GRADIENTS, effort.most / 8))
        self._ascend(start[None], first_gradients)
        for _ in range(_MOST_REPEATS):
            if self._n_ascents + self._shapes.n_gradients > effort.most / 2:
                break
            found = self._shapes.measure(0, self._basins.known[0], self._units)
            if found is None or (found.is_maximum and found.newton_decrement < _MOST_DECREMENT):
                break
            # on a slope whose scales were not known; or a saddle, as a start with the symmetry of
            # the model is between its modes
            start = found.base.mean if found.is_maximum else found.base.draw(rng, 1)[0]
            if inside(density, start[None])[0]:
                self._coordinates = Coordinates.of(found.base)
                self._basins = Basins(density)
                self._ascend(start[None], first_gradients)
        self._shapes.improve(0, self._basins.known[0], self._coordinates, self._units)
        if (first := self._shapes.fits.get(0)) is not None:
            # later ascents take a fifth of the steps
            self._coordinates = Coordinates.of(first.base)
            self._coordinates_of_first = self._basins.known[0].is_mode
            self._units = np.maximum(1.0, first.base.standard_deviation)

    def _ascend(
        self,
        starts: FloatArray,
        most_gradients: int = MOST_GRADIENTS,
        *,
        first: tuple[FloatArray, FloatArray] | None = None,
        counted: bool = True,
    ) -> list[int]:
        """Ascend, and take note; return where those that are not counted led to."""
        known = None
        if self._coordinates_of_first:
            mode = self._basins.known[0]
            known = mode.end, mode.value
        found = ascend(
            self._density, starts, self._coordinates,
            most_gradients=most_gradients, first=first, known=known, n_path=_N_PATH,
        )  # fmt: skip
        self._n_ascents += found.n_gradients
        self._looked = self._looked.and_on(found.path, found.heights)
        if not counted:
            return self._basins.add_uncounted(starts, found, self._coordinates)
        self._basins.add(starts, found, self._coordinates)
        return []

    def look_around(self, prior_points: FloatArray | None) -> None:
        """Start in batches, and ascend where a start belongs to no known mode."""
        searches = self._searches(prior_points)
        n_done, total, most = 1, self._effort.n_starts, self._end
        for self._basins.search in itertools.cycle(range(N_SEARCHES)):
            if n_done >= total or self._n_looked >= most:
                break
            around, rng = searches[self._basins.search]
            self._report("search for modes", self._n_looked, int(most))
            # small batches while a start is dear: none goes far beyond what is left
            n = int((most - self._n_looked) * n_done / (4 * self._n_looked)) if n_done > 1 else 0
            n = min(max(n, _LEAST_BATCH), _MOST_BATCH, total - n_done)
            n_done += n
            self._sort(*around.draw(n, rng))
            self._start_near(n // ONE_IN_NEAR)
            # where all of them run away, where they began tells more than where they end
            if not any(basin.is_mode for basin in self._basins.known):
                break
            self._look_at_images()
            most = self._end
        self._report("search for modes", int(most), int(most))

    def _start_near(self, n: int) -> None:
        """Start around known modes: what that finds depends on others, and no start is a hit."""
        before, places = self._n_looked, self._known.places
        n_modes = self._shapes.n_that_matter(self._basins.known, NEGLIGIBLE)
        if min(n_modes, len(places)) > 1 and ONE_IN_NEAR * self._n_near <= before:
            near = Surroundings(places, self._known.units, None, own_units=True)
            self._sort(*near.draw(n, self._rng), counted=False)
            self._n_near += self._n_looked - before

    @property
    def _end(self) -> float:
        """Gradients after which the search ends, by what it knows."""
        modes = [basin for basin in self._basins.known if basin.is_mode]
        highest = max((basin.value for basin in modes), default=0.0)
        start_count = [basin.start_count for basin in modes if basin.value >= highest - NEGLIGIBLE]
        masses = [fit.mass for fit in self._shapes.fits.values()]
        once = mass_once(masses, [self._basins.found_by(i) for i in self._shapes.fits])
        # one that is alone has all starts, or there are few yet
        seldom = len(modes) > 1 and (max(start_count) < SELDOM or once > MOST_ONCE)
        n_modes = self._shapes.n_that_matter(self._basins.known, NEGLIGIBLE)
        return self._effort.end(self._density.dim, n_modes, seldom=seldom)

    def _searches(
        self, prior_points: FloatArray | None
    ) -> list[tuple[Surroundings, np.random.Generator]]:
        """Where each search starts: around its own start, and around the mode that this led to."""
        searches = []
        start, number = self._start, 0
        for k, rng in enumerate(self._rng.spawn(N_SEARCHES)):
            if k > 0:
                assert self._around is not None
                # the last one is of the prior, if there is one
                starts, n_gradients = pulled_inside(self._density, *self._around.draw(2, rng))
                self._n_ascents += n_gradients
                if len(starts.points):
                    start = starts.points[-1]
                    # one that runs away after others did leads to no place that is kept
                    for number in self._ascend(start[None], counted=False):
                        if not (basin := self._basins.known[number]).measured:
                            self._look_at(number, basin)
            places, units = [start], [self._units]
            if (fit := self._shapes.fits.get(number)) is not None:
                places.append(fit.base.mean)
                units.append(fit.base.standard_deviation)
            own = None if prior_points is None else prior_points[k::N_SEARCHES]
            around = Surroundings(np.array(places), np.array(units), own)
            if self._around is None:
                self._know(0)
                self._around = around
            searches.append((around, rng))
        return searches

    def _sort(self, centres: FloatArray, offsets: FloatArray, *, counted: bool = True) -> None:
        """Count starts for the known modes they belong to; ascend from the others."""
        starts, n_gradients = pulled_inside(self._density, centres, offsets)
        self._n_ascents += n_gradients
        if not len(starts.points):
            return
        known = self._basins.known
        owners = self._known.owners(starts)
        self._looked = self._looked.and_at(starts.points, owners.least)
        if counted:
            for i, n in enumerate(np.bincount(owners.number[owners.number >= 0])):
                self._basins.count_starts(i, int(n))
        climbing = starts.at(owners.number < 0)
        if len(climbing.points):
            first = climbing.values, climbing.grads
            self._ascend(climbing.points, first=first, counted=counted)
        flanks = np.flatnonzero(np.isfinite(owners.rest))
        if len(flanks) and self._in_vain < _MOST_IN_VAIN:
            flanks = flanks[np.argsort(owners.rest[flanks])[-_FOLLOWED:]]
            n_known = len(known)
            beyond = self._known.beyond(starts.at(flanks))
            if len(beyond):
                self._ascend(beyond, counted=counted)
            self._in_vain = 0 if len(known) > n_known else self._in_vain + len(flanks)
        for i, basin in enumerate(known):
            if basin.converged and not basin.measured and self._shapes.may_measure:
                self._look_at(i, basin)

    def _look_at(self, i: int, basin: Basin) -> None:
        """Take the curvature at a new place, and ascend to both sides where it is a saddle.

        Starts with a symmetry of the model end in saddles. A place to which neither side comes back
        is none of the modes, and one from which the mode uphill took the number is looked at again.
        At an edge of the support, both sides of which are outside, nothing is found out.
        """
        found = self._shapes.measure(i, basin, self._units)
        if found is not None and not found.is_maximum:
            n_starts_before = self._basins.start_count(i)
            aside = found.base.draw(self._rng, 1) - found.base.mean
            places = np.repeat(found.base.mean[None], 2, axis=0)
            sides, n_gradients = pulled_inside(
                self._density, places, np.concatenate([aside, -aside])
            )
            self._n_ascents += n_gradients
            if len(sides.points):
                self._ascend(sides.points, first=(sides.values, sides.grads))
            if (uphill := self._basins.known[i]) is not basin:
                self._shapes.measure(i, uphill, self._units)
            elif len(sides.points) and self._basins.start_count(i) == n_starts_before:
                basin.is_saddle = True
                self._shapes.drop(i)
        self._know(i)

    def _look_at_images(self) -> None:
        """Images are none of the starts, and take none of their gradients."""
        self._n_images += add_images(
            self._images, self._basins, self._known, self._coordinates,
            density=self._density, negligible=NEGLIGIBLE,
            most=self._effort.most / 8 - self._n_images,
        )  # fmt: skip

    def _know(self, i: int) -> None:
        """Compare later starts with a mode."""
        if i in self._shapes.curvatures:
            self._known.add(i, *self._shapes.curvatures[i])

    def result(self) -> Prepared:
        """Fit what was found, and combine the fits.

        Raises
        ------
        BaseError
            If no fit succeeded.
        """
        known = self._basins.known
        settled = self._coordinates, self._units, NEGLIGIBLE
        self._shapes.complete(known, *settled, self._report)
        if self._around is not None:
            self._shapes.look_on_paths(known, self._around, *settled)
        if not self._shapes.fits:
            raise BaseError(
                "None of the local fits succeeded: the density may be improper. Give a base "
                "explicitly."
            )
        found, n_merge = merge(self._density, self._shapes.every, self._rng)
        spent = self._n_looked + self._n_images + self._shapes.n_gradients + n_merge
        fits = found
        if self._effort.n_starts > 1:
            starts, left = GaussianBase(self._start, self._units), self._effort.most - spent
            diffuse, n_diffuse = find_diffuse(
                self._density, fits, NEGLIGIBLE, self._rng, left, starts
            )
            fits = sorted([*fits, *diffuse], key=lambda fit: fit.elbo, reverse=True)
            spent += n_diffuse
        best = max(fit.elbo for fit in fits)
        kept = [fit for fit in fits if fit.most >= best - NEGLIGIBLE]
        others = [
            (fit.start_count, fit.searches.bit_count())
            for fit in fits
            if fit.most < best - NEGLIGIBLE
        ]
        others += [(basin.start_count, basin.searches.bit_count()) for basin in self._without_fit]
        counted = [(fit.start_count, fit.searches.bit_count()) for fit in kept]
        counted = [pair for pair in (*counted, *others) if pair[0]]
        # what is wide and unexplained may be modes that no start led to: it is nothing seen
        seen = [fit for fit in found if fit.most >= best - NEGLIGIBLE] or found
        bases = tuple(fit.base for fit in kept)
        rise = self._rise(bases[0], self._effort.most - spent)
        well_fitted = well_fitted_modes(kept)
        # of one mode alone every method knows as much
        left = self._effort.most - spent - rise.n_gradients
        weighted = well_fitted if len(kept) > 1 and left >= N_DRAWS * len(well_fitted) else ()
        mass = importance_evidence(self._density, weighted, np.random.default_rng(0))
        search = Search(
            start_count=tuple(start_count for start_count, _ in counted),
            found_by=tuple(found_by for _, found_by in counted),
            n_left_out=sum(start_count > 0 for start_count, _ in others),
            n_unfinished=self._basins.n_lost + sum(b.start_count for b in known if b.is_saddle),
            n_gradients=spent + self._n_told + rise.n_gradients + mass.n_gradients,
            mass_once=mass_once(
                [fit.mass for fit in seen], [fit.searches.bit_count() for fit in seen]
            ),
            planted=self._planted(seen),
            n_images=sum(not fit.start_count for fit in seen),
            rise=rise,
            log_mass=mass.value,
            log_mass_se=mass.se,
        )
        return Prepared(
            combine_local_bases(bases),
            bases,
            search,
            poorly_fitted_modes(kept),
            well_fitted=well_fitted,
        )

    def _planted(self, seen: list[LocalFit]) -> tuple[float, ...]:
        """Probability that one mode more would have been found, by width and mass."""
        modes = [GaussianBase(fit.base.mean, fit.base.scale, fit.mass) for fit in seen]
        if not len(self._looked.points):
            return ()
        found = found_if_there(self._density, self._looked, modes, np.random.default_rng(0))
        return tuple(found.ravel().tolist())

    @property
    def _n_told(self) -> int:
        """Gradients that telling starts of known modes apart took, and what might be missed."""
        return self._known.n_gradients + (N_PLACES if len(self._looked.points) else 0)

    @property
    def _n_looked(self) -> int:
        """Gradients of starts and ascents, and of telling apart where they ended."""
        return self._n_ascents + self._basins.n_gradients

    @property
    def _without_fit(self) -> list[Basin]:
        return [
            basin
            for i, basin in enumerate(self._basins.known)
            if i not in self._shapes.fits and not basin.is_saddle
        ]

    def _rise(self, fit: GaussianBase, most: float) -> Rise:
        """Look at the mass along the highest ascents that found no end, away from the best fit."""
        runaways = [basin for basin in self._basins.known if not basin.converged]
        endless = runaways + [basin for basin in self._without_fit if basin.measured]
        highest = sorted(endless, key=lambda basin: basin.value, reverse=True)[:MOST_RISES]
        base = GaussianBase(fit.mean, fit.standard_deviation)
        return first_rise(self._density, base, [basin.end for basin in highest], most)
