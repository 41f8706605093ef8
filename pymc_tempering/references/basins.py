"""The distinct places where ascents end, with how many starts led to each."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.path import Density
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references.ascent import Ascents
from pymc_tempering.references.local import LocalFit
from pymc_tempering.references.quality import GOOD
from pymc_tempering.references.same_mode import MAX_DIP, N_NEAREST, N_ON_LINE, along, dip
from pymc_tempering.types import FloatArray, IntArray

LEAST_RISE = 1 / 8
"""Share of the rise from one end to a higher one that lies before the middle of the line, where
both are of one ridge: half where it rises evenly, a quarter where it rises from a flat end."""

MOST_RUNAWAYS = 4
"""Ridges and poles, where the density rises on, that are told apart."""

_SAME, _SAME_VALUE = 0.05, 1e-3
"""In coordinates of a fit, and nats; ends of one mode are a hundredth apart."""


@dataclass
class Basin:
    """A place where ascents ended, and the fit of its mode.

    ``start`` and ``end`` (D,) are of the first ascent, and ``value`` is the log density at the end,
    in nats; unless it ``converged`` the density rises on. ``start_count`` starts led here, or to
    images of this mode; ``searches`` has one bit for each search they are of. ``image_of`` is the
    number of the mode whose image this is, as far as starts are counted. ``curvature`` is the fit
    from the curvature at the end, ``fit`` the best one so far; ``measured`` and ``imaged`` are
    whether its curvature was taken, and its images were looked at. At a saddle ascents from both
    sides lead elsewhere, or it is rounding noise.
    """

    start: FloatArray
    end: FloatArray
    value: float
    converged: bool
    start_count: int = 0
    searches: int = 0
    image_of: int | None = None
    curvature: LocalFit | None = None
    fit: LocalFit | None = None
    measured: bool = False
    imaged: bool = False
    is_saddle: bool = False

    @property
    def is_mode(self) -> bool:
        """Whether the end is a maximum, as far as is known."""
        return self.converged and not self.is_saddle

    @property
    def is_gaussian(self) -> bool:
        """Whether the curvature at the end describes the mode."""
        return self.curvature is not None and self.curvature.variance <= GOOD

    @property
    def most_mass(self) -> float:
        """Log of what the mass may be, in nats: by the fit, or by the curvature at the end."""
        assert self.fit is not None
        if self.curvature is None:
            return self.fit.mass
        shape = self.curvature.base
        by_curvature = self.value + shape.log_det_scale + 0.5 * shape.dim * LOG_2PI
        return max(self.fit.mass, by_curvature)


class Basins:
    """What ascents have found so far: ``known`` places, and ``n_lost`` starts that led to none.

    Starts are counted for the ``search`` under way. Telling places apart took ``n_gradients``.
    """

    def __init__(self, density: Density) -> None:
        self._density = density
        self.known: list[Basin] = []
        self.n_gradients = 0
        self.n_lost = 0
        self.search = 0

    @property
    def modes(self) -> list[Basin]:
        """Those whose ends are maxima."""
        return [basin for basin in self.known if basin.is_mode]

    @property
    def highest(self) -> float:
        """Log density at the highest mode, in nats."""
        return max((basin.value for basin in self.modes), default=-np.inf)

    def link(self, i: int, j: int) -> None:
        """Count starts of two places together, if these are images of one another."""
        i, j = self._origin(i), self._origin(j)
        if i != j and abs(self.known[i].value - self.known[j].value) < _SAME_VALUE:
            for basin in self.known:
                if basin is self.known[j] or basin.image_of == j:
                    basin.image_of = i
            self.known[i].start_count += self.known[j].start_count
            self.known[i].searches |= self.known[j].searches
            self.known[j].start_count = self.known[j].searches = 0

    def count_starts(self, i: int, n: int = 1) -> None:
        """Count starts that belong to a known place, or to the one that it is an image of."""
        if n:
            basin = self.known[self._origin(i)]
            basin.start_count += n
            basin.searches |= 1 << self.search

    def found_by(self, basin: Basin) -> int:
        """Number of searches that found a place, or the one that it is an image of."""
        origin = basin if basin.image_of is None else self.known[basin.image_of]
        return origin.searches.bit_count()

    def _origin(self, i: int) -> int:
        image_of = self.known[i].image_of
        return i if image_of is None else image_of

    def add(
        self, starts: FloatArray, found: Ascents, coordinates: Coordinates, *, counted: bool = True
    ) -> list[int]:
        """Take note of ascents: each led to a known mode, or to a new one.

        Where the density still rose at the end, and no known place is nearby, at most four such
        places are kept; starts that led to the others are lost. Distances are measured in the
        coordinates. Returns the numbers of the places that were reached, each once.
        """
        u = coordinates.to_base(found.ends)
        places = np.empty((len(self.known) + len(u), self._density.dim))
        if self.known:
            places[: len(self.known)] = coordinates.to_base(np.array([b.end for b in self.known]))
        numbers = self._coinciding(u, found, places[: len(self.known)])
        for i in np.flatnonzero(numbers < 0):
            if not np.isfinite(found.values[i]):
                continue
            distances = np.linalg.norm(places[: len(self.known)] - u[i], axis=1)
            new = Basin(starts[i], found.ends[i], float(found.values[i]), bool(found.converged[i]))
            nearest = np.argsort(distances, kind="stable")[:N_NEAREST].tolist()
            known = next(
                (j for j in nearest if self._are_one(new, self.known[j], distances[j])), None
            )
            if known is None:
                rises_on = not new.converged
                if rises_on and sum(not b.converged for b in self.known) >= MOST_RUNAWAYS:
                    continue
                known = len(self.known)
                self.known.append(new)
                places[known] = u[i]
            elif new.converged and self._is_passed(self.known[known], new):
                # a saddle, or a halt: the mode takes its number, and what is known of its mass
                passed = self.known[known]
                new.start_count, new.searches = passed.start_count, passed.searches
                new.image_of, new.fit = passed.image_of, passed.fit
                self.known[known], places[known] = new, u[i]
            numbers[i] = known
        if counted:
            self.n_lost += int((numbers < 0).sum())
            for j, n in enumerate(np.bincount(numbers[numbers >= 0])):
                self.count_starts(j, int(n))
        return [int(i) for i in np.unique(numbers[numbers >= 0])]

    def _coinciding(self, u: FloatArray, found: Ascents, places: FloatArray) -> IntArray:
        """Number of the known end that each end coincides with, or -1."""
        if not self.known:
            return np.full(len(u), -1)
        distances = cdist(u, places)
        nearest = distances.argmin(axis=1)
        heights = np.array([basin.value for basin in self.known])
        same = (distances.min(axis=1) < _SAME) & (
            np.abs(found.values - heights[nearest]) < _SAME_VALUE
        )
        return np.where(same, nearest, -1)

    def _are_one(self, new: Basin, known: Basin, distance: float) -> bool:
        """Whether two ends are of one mode: the log density does not dip in between.

        Between maxima of unlike heights it has to rise by midway, too. A narrow mode may be tens of
        nats above a wide one without a dip, where the wide one's mass is all around. A Gaussian is
        no ridge, and of no ridge all the rise is at the end.
        """
        difference = abs(new.value - known.value)
        unlike = new.converged and known.converged and difference > MAX_DIP
        if unlike and known.is_gaussian:
            return False
        # few points tell nearly all modes apart, and all of those that are close
        line = self._line(new, known, 3)
        if dip(line) > MAX_DIP:
            return False
        if unlike and not line[2] - min(new.value, known.value) >= LEAST_RISE * difference:
            return False
        return distance < 0.3 or dip(self._line(new, known, N_ON_LINE)) <= MAX_DIP

    def _is_passed(self, known: Basin, new: Basin) -> bool:
        """Whether a known place is no mode: from there the line only rises to another end.

        From a maximum, in the flank of which a higher one may stand, it goes down at first. A place
        where an ascent ran out of gradients is no maximum, and a higher one nearby is.
        """
        if not known.converged and new.value >= known.value:
            return True
        higher = new.value > known.value + MAX_DIP
        return higher and dip(self._line(new, known, N_ON_LINE)) <= _SAME_VALUE

    def _line(self, a: Basin, b: Basin, n_points: int) -> FloatArray:
        self.n_gradients += n_points + 2
        return along(self._density, a.end, b.end, n_points)
