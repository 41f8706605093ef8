"""The distinct places where ascents end, with how many ended in each."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.references.ascent import Ascents
from pymc_tempering.references.same_mode import MAX_DIP, along, dip
from pymc_tempering.references.starts import evaluated
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["Basin", "Basins"]

LEAST_RISE = 1 / 8
"""Share of the way up from one end to a higher one by which the log density has risen midway, where
both are of one ridge: half where it rises evenly, a quarter where it rises from a flat end."""

_N_NEAREST = 3

# in coordinates of a fit, and nats; ends of one mode are a hundredth apart
_SAME, _SAME_VALUE, _CLOSE = 0.05, 1e-3, 0.3
_FEW_POINTS, _MANY_POINTS = 3, 17

MOST_RUNAWAYS = 4
"""Ridges and poles that are told apart."""


@dataclass
class Basin:
    """A place where ascents ended.

    Attributes
    ----------
    start, end : ndarray of shape (D,)
        Of the first of them, ``z``.
    value : float
        Log density at the end, in nats.
    converged : bool
        Whether the end is a maximum; otherwise the density rises on.
    hits : int
        Starts that led here, or to images of this mode.
    searches : int
        One bit for each search of which a start did.
    image_of : int, optional
        Number of the mode whose image this is, as far as starts are counted.
    is_gaussian : bool
        Whether a Gaussian was seen to fit what is around the end.
    measured : bool
        Whether the curvature was taken there.
    is_saddle : bool
        Whether ascents from both sides lead elsewhere.
    imaged : bool
        Whether its images were looked at.
    """

    start: FloatArray
    end: FloatArray
    value: float
    converged: bool
    start_count: int = 1
    searches: int = 1
    image_of: int | None = None
    is_gaussian: bool = False
    measured: bool = False
    is_saddle: bool = False
    imaged: bool = False

    @property
    def is_mode(self) -> bool:
        """Whether the end is a maximum, as far as is known."""
        return self.converged and not self.is_saddle


class Basins:
    """What ascents have found so far.

    Parameters
    ----------
    density : Density

    Attributes
    ----------
    known : list of Basin
    n_gradients : int
        That telling them apart took.
    n_lost : int
        Starts that led to no known place.
    search : int
        Number of the search under way, for which starts are counted.
    """

    def __init__(self, density: Density) -> None:
        self._density = density
        self.known: list[Basin] = []
        self.n_gradients = 0
        self.n_lost = 0
        self.search = 0

    def heights(self) -> FloatArray:
        """Log densities at the modes, in nats."""
        return np.array([basin.value for basin in self.known if basin.is_mode])

    def add_images(
        self, i: int, starts: FloatArray, found: Ascents, coordinates: Coordinates
    ) -> None:
        """Take note of ascents from images of a mode: none of them is a hit."""
        for j in self.add_uncounted(starts, found, coordinates):
            self.link(i, j)

    def add_uncounted(
        self, starts: FloatArray, found: Ascents, coordinates: Coordinates
    ) -> list[int]:
        """Take note of ascents that are no hits of any place, nor lost starts.

        Returns
        -------
        list of int
            Numbers of the places that they led to, the new ones included.
        """
        counted, n_lost = [(basin.start_count, basin.searches) for basin in self.known], self.n_lost
        self.add(starts, found, coordinates)
        self.n_lost = n_lost
        reached = [j for j, (n, _) in enumerate(counted) if self.known[j].start_count > n]
        n_new = len(self.known) - len(counted)
        for basin, before in zip(self.known, [*counted, *[(0, 0)] * n_new], strict=True):
            basin.start_count, basin.searches = before
        return [*reached, *range(len(counted), len(self.known))]

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

    def found_by(self, i: int) -> int:
        """Number of searches that found a place, or the one that it is an image of."""
        return self.known[self._origin(i)].searches.bit_count()

    def start_count(self, i: int) -> int:
        """Number of starts that belong to a known place, or to the one that it is an image of."""
        return self.known[self._origin(i)].start_count

    def _origin(self, i: int) -> int:
        image_of = self.known[i].image_of
        return i if image_of is None else image_of

    def add(self, starts: FloatArray, found: Ascents, coordinates: Coordinates) -> None:
        """Take note of ascents: each is one more of a known mode, or a new one.

        Where the density still rose at the end, and no known place is nearby, at most four such
        places are kept, and the others are counted in ``n_lost``.

        Parameters
        ----------
        starts : ndarray of shape (n, D)
        found : Ascents
        coordinates : Coordinates
            In which distances are measured.
        """
        u = coordinates.to_base(found.ends)
        places = np.empty((len(self.known) + len(u), self._density.dim))
        if self.known:
            ends = np.array([basin.end for basin in self.known])
            places[: len(ends)] = coordinates.to_base(ends)
        for i in self._count_same(u, found, places[: len(self.known)]):
            if not np.isfinite(found.values[i]):
                self.n_lost += 1
                continue
            distances = np.linalg.norm(places[: len(self.known)] - u[i], axis=1)
            converged = bool(found.converged[i])
            value = float(found.values[i])
            known = self._nearby(found.ends[i], distances, value if converged else None)
            if known is not None:
                self.count_starts(known)
                if converged and self._is_passed(known, found.ends[i], value):
                    # a saddle, or a halt: the mode takes its number
                    passed = self.known[known]
                    self.known[known] = Basin(
                        starts[i], found.ends[i], value, converged,
                        passed.start_count, passed.searches, passed.image_of,
                    )  # fmt: skip
                    places[known] = u[i]
            elif converged or sum(not b.converged for b in self.known) < MOST_RUNAWAYS:
                places[len(self.known)] = u[i]
                here = Basin(starts[i], found.ends[i], value, converged, searches=1 << self.search)
                self.known.append(here)
            else:
                self.n_lost += 1

    def _count_same(self, u: FloatArray, found: Ascents, places: FloatArray) -> IntArray:
        """Count ends that coincide with known ones, and return the others."""
        if not self.known:
            return np.arange(len(u))
        distances = cdist(u, places)
        nearest = distances.argmin(axis=1)
        heights = np.array([basin.value for basin in self.known])
        same = (distances.min(axis=1) < _SAME) & (
            np.abs(found.values - heights[nearest]) < _SAME_VALUE
        )
        for i, n in enumerate(np.bincount(nearest[same], minlength=len(places))):
            self.count_starts(i, int(n))
        return np.flatnonzero(~same)

    def _nearby(self, end: FloatArray, distances: FloatArray, maximum: float | None) -> int | None:
        for i in np.argsort(distances, kind="stable")[:_N_NEAREST]:
            known = self.known[i]
            if maximum is not None and self._stands_apart(end, maximum, known):
                continue
            # three points tell nearly all modes apart, and the others take no more
            if self._dip(end, i, _FEW_POINTS) <= MAX_DIP and (
                distances[i] < _CLOSE or self._dip(end, i, _MANY_POINTS) <= MAX_DIP
            ):
                return int(i)
        return None

    def _stands_apart(self, end: FloatArray, value: float, known: Basin) -> bool:
        """Whether an end and a known one, of unlike heights, are no ends of one ridge.

        A narrow mode may be tens of nats above a wide one without a dip on the line, where the wide
        one's mass is all around. A Gaussian is no ridge, and of none all the rise is at the end.
        """
        difference = abs(value - known.value)
        if not known.converged or difference <= MAX_DIP:
            return False
        if known.is_gaussian:
            return True
        self.n_gradients += 1
        midway = evaluated(self._density, 0.5 * (end + known.end)[None]).values
        return not (midway - min(value, known.value) >= LEAST_RISE * difference).any()

    def _is_passed(self, i: int, end: FloatArray, value: float) -> bool:
        """Whether a known place is no mode: from there all the way is up to the end of another.

        From a maximum, in the flank of which a higher one may stand, it goes down at first. A place
        where an ascent ran out of gradients is no maximum, and a higher one nearby is.
        """
        if not self.known[i].converged and value >= self.known[i].value:
            return True
        higher = value > self.known[i].value + MAX_DIP
        return higher and self._dip(end, i, _MANY_POINTS) <= _SAME_VALUE

    def _dip(self, end: FloatArray, i: int, n_points: int) -> float:
        self.n_gradients += n_points + 2
        return dip(along(self._density, end, self.known[i].end, n_points))
