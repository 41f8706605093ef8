"""What a search knows of the modes of a target, and how it takes up a start: ascend, fit, judge."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.noise import is_noise, n_evaluations
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.path import Density
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references.ascent import MOST_GRADIENTS, ascend
from pymc_tempering.references.basins import Basin, Basins
from pymc_tempering.references.curvature import Curvature, curvature_at
from pymc_tempering.references.known import MOST_KNOWN, KnownModes
from pymc_tempering.references.local import LocalFit, assess, laplace_at, refine
from pymc_tempering.references.planted import Looked
from pymc_tempering.references.prepared import MOST_ONCE, Effort, Report, mass_once
from pymc_tempering.references.quality import FAIR, GOOD, N_DRAWS, N_MANY, TRIMMED
from pymc_tempering.references.same_mode import N_ON_LINE, joined, n_places
from pymc_tempering.references.starts import Starts, evaluated, inside, pulled_inside
from pymc_tempering.types import FloatArray, IntArray

NEGLIGIBLE = 10.0
"""nats below the best at which a mode's mass does not matter, what its ELBO may miss included."""

SELDOM = 10
"""Starts that led to a mode, below which one as likely may have none; more than chance says, since
a third of the starts are around the first."""

MOST_REFINED = 8
"""Modes of which a variational fit is made where curvature does not describe them."""


class Proposal(NamedTuple):
    """Starts that a source gives: centres and offsets (n, D), of which they are the sums.

    Outside of the support they come nearer to the centres. ``counted`` are those that depend on
    nothing that was found, so that they say how seldom a mode is. Images are those of one basin.
    Ascents begin in ``coordinates``, or in those of the search.
    """

    centres: FloatArray
    offsets: FloatArray
    counted: bool = False
    image_of: int | None = None
    coordinates: Coordinates | None = None

    @classmethod
    def at(cls, points: FloatArray, *, counted: bool = False, image_of: int | None = None
           ) -> "Proposal":  # fmt: skip
        """Starts at points themselves."""
        return cls(points, np.zeros_like(points), counted, image_of)


class Survey:
    """What a search knows, and what it has spent.

    Ascents begin in ``coordinates``, those of the first mode's fit, which saves most of the steps;
    ``units`` (D,) are rough standard deviations. ``flanks`` are the latest starts at which the
    deflated residual shows, those of the largest last, and ``looked`` is where the search has been.
    ``spent`` are gradients of "ascents", "images", "curvatures" and "fits". With an ``orbit``
    starts and ends are moved to their image nearest to a known mode, of whose copies none is seen.
    ``is_known`` says that the first mode came with a fit, as that of a map of a hierarchy does;
    ``best`` is the best curvature of all places, those taken for saddles too.
    """

    def __init__(
        self, density: Density, rng: np.random.Generator, effort: Effort, report: Report
    ) -> None:
        self.density, self.rng, self.effort, self.report = density, rng, effort, report
        self.units = np.ones(density.dim)
        self.coordinates = Coordinates.of(GaussianBase(np.zeros(density.dim), self.units))
        self.basins, self.known = Basins(density), KnownModes(density)
        self.flanks = Starts(np.empty((0, density.dim)), np.empty(0), np.empty((0, density.dim)))
        self.flanks_are_counted = False
        self.looked = Looked(np.empty((0, density.dim)), np.empty(0))
        self.spent: Counter[str] = Counter()
        self.orbit: Orbit | None = None
        self.is_known = False
        self.best: LocalFit | None = None

    @property
    def n_looked(self) -> int:
        """Gradients of starts and ascents, and of telling apart where they ended."""
        return self.spent["ascents"] + self.basins.n_gradients

    @property
    def n_gradients(self) -> int:
        """Gradients of all, but for what telling starts of known modes apart took."""
        return self.spent.total() + self.basins.n_gradients

    @property
    def fits(self) -> list[LocalFit]:
        """The fit of each basin that has one, with its starts."""
        return [
            basin.fit._replace(start_count=basin.start_count, searches=basin.searches)
            for basin in self.basins.known
            if basin.fit is not None
        ]

    def begin(
        self, start: FloatArray, known: GaussianBase | None = None, known_to: int = 0
    ) -> None:
        """Ascend to a first mode, and learn the scales of the target there.

        The first ascent knows no scales. It goes on from the curvature at its end, up to four
        times, until a Newton step promises a tenth of a nat there. Of a mode of which a fit is
        ``known`` neither curvature nor another fit are taken; searches ``known_to`` have found it.
        """
        most = int(min(1000, self.effort.most / 8))
        fit = None if known is None else assess(self.density, known, self.rng, N_MANY, TRIMMED)
        self.is_known = fit is not None
        if fit is not None:
            self.spent["fits"] += N_MANY
            self.coordinates = Coordinates.of(fit.base)
            self.climb(start[None], most=most)
            fit = fit._replace(laplace=fit.base)
            first = self.basins.known[0]
            first.fit, first.curvature, first.measured = fit, fit, True
            first.searches |= known_to
            self.units = np.maximum(1.0, fit.base.standard_deviation)
            return
        self.coordinates = Coordinates.of(GaussianBase(start, self.units))
        self.climb(start[None], most=most)
        for _ in range(4):
            if self.n_gradients > self.effort.most / 2:
                break
            found = self.measure(self.basins.known[0])
            if found is None or (found.is_maximum and found.newton_decrement < 0.1):
                break
            # on a slope whose scales were not known; or a saddle, as a start with the symmetry of
            # the model is between its modes
            start = found.base.mean if found.is_maximum else found.base.draw(self.rng, 1)[0]
            if inside(self.density, start[None])[0]:
                self.coordinates = Coordinates.of(found.base)
                self.basins = Basins(self.density)
                self.climb(start[None], most=most)
        first = self.basins.known[0]
        # V is a half where the density is flat: 100 draws in pairs call that good once in eight,
        # 400 once in 200. A generator of its own leaves all other draws as they are.
        if first.fit is not None and first.fit.variance <= GOOD:
            self.spent["fits"] += N_MANY
            first.fit = assess(self.density, first.fit.base, np.random.default_rng(0), N_MANY)
        self.improve(first)
        if first.fit is not None:
            self.coordinates = Coordinates.of(first.fit.base)
            self.units = np.maximum(1.0, first.fit.base.standard_deviation)

    def climb(
        self, starts: FloatArray, *, first: tuple[FloatArray, FloatArray] | None = None,
        counted: bool = True, most: int = MOST_GRADIENTS, part: str = "ascents",
        coordinates: Coordinates | None = None,
    ) -> list[int]:  # fmt: skip
        """Ascend, take note, and return the numbers of the places reached.

        ``first`` are values and gradients at the starts, where they are known.
        """
        if not len(starts):
            return []
        known, coordinates = None, coordinates or self.coordinates
        for mode in self.basins.known[:1]:
            # an ascent that comes inside the first mode, whose coordinates these are, ends there
            if mode.is_mode and mode.fit and mode.fit.base is coordinates.base:
                known = mode.end, mode.value
        # most ascents take no more than eight steps
        found = ascend(self.density, starts, coordinates, most_gradients=most, first=first,
                       known=known, n_path=8)  # fmt: skip
        self.spent[part] += found.n_gradients
        if part == "ascents":
            self.looked = self.looked.and_on(found.path, found.heights)
        if self.orbit is not None:
            ends, which = self._near_known(found.ends)
            starts, found = self.orbit.moved(starts, which), found._replace(ends=ends)
        return self.basins.add(starts, found, self.coordinates, counted=counted)

    def _near_known(self, z: FloatArray) -> tuple[FloatArray, IntArray]:
        """Take the image of each place (n, D) that is nearest to a known mode, and its number."""
        assert self.orbit is not None
        places = np.array([basin.end for basin in self.basins.known])
        return self.orbit.nearest(z, places, self.coordinates.base)

    def follow(self, given: Proposal) -> None:
        """Count starts for the known modes they belong to, ascend from the others, and fit."""
        part = "ascents"
        if self.orbit is not None:
            which = self._near_known(given.centres + given.offsets)[1]
            centres, offsets = (self.orbit.moved(z, which) for z in (given.centres, given.offsets))
            given = given._replace(centres=centres, offsets=offsets)
        if given.image_of is None:
            starts, n = pulled_inside(self.density, given.centres, given.offsets)
        else:
            part, n = "images", len(given.centres)
            least = self.basins.known[given.image_of].value - NEGLIGIBLE
            starts = evaluated(self.density, given.centres)
            starts = starts.at(starts.values >= least)
        self.spent[part] += n
        if not len(starts.points):
            return
        owners = self.known.owners(starts)
        number, residual = owners.number, owners.residual
        if given.image_of is None:
            self.looked = self.looked.and_at(starts.points, owners.least)
            order = np.argsort(np.where(np.isfinite(residual), residual, -np.inf))
            self.flanks = starts.at(order[np.isfinite(residual[order])])
            self.flanks_are_counted = given.counted
        reached = [int(j) for j in np.unique(number[number >= 0])]
        for i, n_starts in enumerate(np.bincount(number[number >= 0]) if given.counted else ()):
            self.basins.count_starts(i, int(n_starts))
        up = starts.at(number < 0)
        reached += self.climb(up.points, first=up[1:], counted=given.counted, part=part,
                              coordinates=given.coordinates)  # fmt: skip
        if given.image_of is not None:
            for j in reached:
                self.basins.link(given.image_of, j)
        self.measure_new()

    def measure_new(self) -> None:
        """Look at the new places, for half of the share of curvatures: the rest is for the highest.

        The list grows while it is gone through.
        """
        for i, basin in enumerate(self.basins.known):
            if basin.converged and not basin.measured:
                if self.spent["curvatures"] >= self._share // 2:
                    return
                self.look_at(i)

    @property
    def _share(self) -> int:
        """Gradients of curvatures, and of variational fits."""
        return self.effort.n_gradients // 5

    def look_at(self, i: int) -> None:
        """Take the curvature at a new place, and ascend to both sides where it is a saddle.

        Starts with a symmetry of the model end in saddles. A place to which neither side comes back
        is none of the modes, and one from which the mode uphill took the number is looked at again.
        At an edge of the support, both sides of which are outside, nothing is found out.
        """
        basin = self.basins.known[i]
        found = self.measure(basin)
        if found is not None and not found.is_maximum:
            aside = found.base.draw(self.rng, 1) - found.base.mean
            places = np.repeat(found.base.mean[None], 2, axis=0)
            sides, n = pulled_inside(self.density, places, np.concatenate([aside, -aside]))
            self.spent["ascents"] += n
            reached = self.climb(sides.points, first=(sides.values, sides.grads))
            if (uphill := self.basins.known[i]) is not basin:
                self.measure(uphill)
            elif len(sides.points) and i not in reached:
                basin.is_saddle = True
                basin.fit = basin.curvature = None
        self.know(i)

    def know(self, i: int) -> None:
        """Compare later starts with a mode."""
        if (curvature := self.basins.known[i].curvature) is not None:
            self.known.add(i, curvature.base, curvature.variance)

    def measure(self, basin: Basin) -> Curvature | None:
        """Take the curvature at the end of an ascent, unless that still rose, or climbed noise."""
        if not basin.converged:
            return None
        basin.measured = True
        if self._is_noise(basin):
            return None
        found = curvature_at(self.density, basin.end, self.units)
        fit = assess(self.density, found.base, self.rng)
        self.spent["curvatures"] += found.n_gradients + N_DRAWS
        if fit is not None and not self._covers_noise(found.base, basin.end):
            basin.curvature = fit
            basin.fit = max(basin.fit or fit, fit, key=lambda one: one.elbo)
            self.best = max(self.best or fit, fit, key=lambda one: one.elbo)
        return found

    def _is_noise(self, basin: Basin) -> bool:
        """Whether the density is rounding noise at the end: that is no mode, and leads to none."""
        self.spent["curvatures"] += n_evaluations(basin.end)
        noise = is_noise(self.density, basin.end)
        basin.is_saddle |= noise
        return noise

    def _covers_noise(self, base: GaussianBase, beside: FloatArray | None = None) -> bool:
        """Whether a fit owes anything to places where the density is rounding noise.

        There is none at `beside`.
        """
        # a generator of its own leaves all other draws of the search as they are
        for z in (base.mean, *base.draw(np.random.default_rng(0), 3)):
            self.spent["fits"] += n_evaluations(z, beside)
            if is_noise(self.density, z, beside):
                return True
            beside = base.mean
        return False

    def fit_from(
        self, start: FloatArray, shape: GaussianBase | None = None,
        known: Sequence[GaussianBase] = (),
    ) -> LocalFit | None:  # fmt: skip
        """Variational fit of what an ascent from a start passes by, unless that is noise."""
        left = self.effort.most / 4 - self.spent["fits"]
        fit, n = refine(
            self.density, start, shape, self.coordinates, self.units, self.rng, left, known
        )
        self.spent["fits"] += n
        return None if fit is None or self._covers_noise(fit.base) else fit

    def improve(self, basin: Basin) -> None:
        """Fit a mode further, unless its fit is good; the better ELBO stays.

        But for one beyond a dip that fits a fair one's mode worse, and so has more mass for having
        left for others: put together with one of these, it would leave its own without a fit.
        """
        fit, curvature = basin.fit, basin.curvature
        if fit is not None and fit.variance <= GOOD:
            return
        better = self.fit_from(basin.start, curvature.base if curvature else None)
        if better is None or (fit is not None and better.elbo <= fit.elbo):
            return
        if fit is not None and fit.variance <= min(FAIR, better.variance):
            self.spent["fits"] += N_ON_LINE + 2
            if not joined(self.density, fit.base.mean, better.base.mean):
                return
        basin.fit = better

    def fit_modes(self) -> None:
        """Fit the highest modes that have no fit, and improve the poor fits of most mass.

        Beside a first mode that is known no variational fits are made: curvatures tell whether
        another has mass.
        """
        rest = [basin for basin in self.basins.known[1:] if not basin.is_saddle]
        rest.sort(key=lambda basin: basin.value, reverse=True)
        most = self.spent["curvatures"] + self._share
        highest = rest[:MOST_KNOWN]
        for i, basin in enumerate(highest):
            self.report("shapes of modes", i, len(highest), self.spent["curvatures"])
            if self.spent["curvatures"] < most and not basin.measured:
                self.measure(basin)
        if self.is_known:
            return
        poor = [basin for basin in rest if not basin.converged]
        # what a curvature has under it says nothing of the mass where it fits as poorly as most do
        poor += sorted(
            (b for b in rest if b.converged and b.fit is not None and b.fit.variance > GOOD),
            key=lambda b: b.most_mass,
            reverse=True,
        )
        if self.fits:
            # a thousand times as wide, in every direction, as the fit with most mass
            best = max(self.fits, key=lambda fit: fit.mass)
            widest = best.base.log_det_scale + best.base.dim * (np.log(1000.0) + 0.5 * LOG_2PI)
            least = best.mass - NEGLIGIBLE - widest
            poor = [basin for basin in poor if basin.value >= least]
        poor = poor[:MOST_REFINED]
        for i, basin in enumerate(poor):
            self.report("local fits", i, len(poor), self.spent["fits"])
            is_noise_free = basin.converged or not self._is_noise(basin)
            if is_noise_free and self.spent["fits"] < self._share:
                self.improve(basin)
        for basin in self.basins.known:
            fit = basin.fit
            if fit and fit.laplace is None and fit.variance > GOOD and basin.converged:
                laplace, n = laplace_at(self.density, basin.end, basin.value, self.units)
                self.spent["fits"] += n
                basin.fit = fit._replace(laplace=laplace)

    @property
    def n_modes(self) -> int:
        """Distinct modes without those that hold nothing, unless these have a third of the starts.

        Then the density is rugged, so that what holds most may have been missed.
        """
        modes = self.basins.modes
        if len(modes) < 2 or any(basin.fit is None for basin in modes):
            return len(modes)
        best = max(basin.most_mass for basin in modes)
        held = [basin for basin in modes if basin.most_mass >= best - NEGLIGIBLE]
        n_held = sum(basin.start_count for basin in held)
        if n_held < (1.0 - 1 / 3) * sum(basin.start_count for basin in modes):
            return len(modes)
        return n_places([basin.fit.base for basin in held if basin.fit is not None])

    @property
    def end(self) -> float:
        """Gradients after which the search ends, by what it knows."""
        modes = self.basins.modes
        highest = self.basins.highest - NEGLIGIBLE
        start_counts = [basin.start_count for basin in modes if basin.value >= highest]
        fitted = [basin for basin in self.basins.known if basin.fit is not None]
        once = mass_once([fit.mass for fit in self.fits], list(map(self.basins.found_by, fitted)))
        # one that is alone has all starts, or there are few yet
        seldom = len(modes) > 1 and (max(start_counts) < SELDOM or once > MOST_ONCE)
        return self.effort.end(self.density.dim, self.n_modes, seldom=seldom)
