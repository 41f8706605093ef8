"""What a search for modes is given, how far to go and whom to tell, and what it hands on."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import softmax

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.transport import TransportMap
from pymc_tempering.results.statistics import N_START_COUNTS
from pymc_tempering.types import FloatArray

N_SEARCHES = 4
"""Searches that share what they know and what they may spend. Each starts on its own: from another
place, with other random numbers."""

MOST_ONCE = 0.05
"""Share of the mass in modes that one search alone found, beyond which a search goes on: as much is
likely to lie in modes that none found."""


class Report(Protocol):
    """Told of a part of the work, how many of its steps are done, and how many there are to be.

    And of the gradients that it took so far, where the steps are none themselves.
    """

    def __call__(self, part: str, done: int, total: int, gradients: int = 0) -> None:
        """Take note of it."""


def unwatched(part: str, done: int, total: int, gradients: int = 0) -> None:
    """Report to nobody."""


class Effort(NamedTuple):
    """How far to search; gradients are those of starts, ascents, and telling apart where they end.

    A search takes ``n_starts``, unless its ``n_gradients`` are used up before. It ends after
    ``n_for_one_mode`` if it knows of one mode alone which may hold mass, and goes on to
    ``n_for_seldom`` where few starts led to any of the highest modes: others as high may have none.
    With those of all fits it may take ``most``.
    """

    n_starts: int
    n_gradients: int
    n_for_one_mode: float = math.inf
    most: float = math.inf
    n_for_seldom: float = 0.0

    def within(self, most: float) -> "Effort":
        """Effort of no more gradients than these, half of them for starts and ascents."""
        return self._replace(
            n_gradients=int(min(self.n_gradients, most / 2)),
            most=most,
            n_for_seldom=min(self.n_for_seldom, most / 2),
        )

    def for_one_mode(self, spent: int) -> "Effort":
        """Effort of what is known to have one mode of its globals: no more for many, or seldom.

        Half of it for starts and ascents, as in :meth:`within`, and at least a third of what one
        mode gets where as much was ``spent`` on the globals alone.
        """
        n = int(min(self.n_gradients, max(self.n_for_one_mode - spent, self.n_for_one_mode / 3)))
        return self._replace(n_gradients=n, most=min(self.most, 2.0 * n), n_for_seldom=0.0)

    def of(self, n_each: int) -> "Effort":
        """Effort in evaluations that take so many gradients each."""
        rest = (of / n_each for of in self[2:])
        return Effort(self.n_starts, self.n_gradients // n_each, *rest)

    def end(self, dim: int, n_modes: int, *, seldom: bool = False) -> float:
        """Gradients after which a search ends that knows of so many modes.

        ``seldom`` is whether few starts led to any of the highest.
        """
        if seldom:
            return max(self.n_gradients, self.n_for_seldom)
        if n_modes > 1 or math.isinf(self.n_for_one_mode):
            return self.n_gradients
        # in few dimensions every basin has a large share of the starts
        return min(self.n_gradients, self.n_for_one_mode, 6000.0 + 1500.0 * dim)


SEARCHES = {
    "none": Effort(1, 1000),
    "default": Effort(50_000, 50_000, 15_000, n_for_seldom=200_000),
    "thorough": Effort(500_000, 500_000),
}
"""Efforts by the names that users give."""


def mass_once(log_masses: Sequence[float], found_by: Sequence[int]) -> float:
    """Share of the mass in modes that one of the searches alone found.

    What one of several found stands for what none did (Good 1953, for mass in place of numbers).
    ``log_masses`` in nats, ``found_by`` the number of searches that found each mode.
    """
    if not len(log_masses):
        return 0.0
    return float(softmax(np.array(log_masses)) @ (np.array(found_by) == 1))


@dataclass(frozen=True)
class Search:
    """What a search for modes did; :data:`.statistics.SEARCH` says what each of it is.

    ``start_count`` and ``found_by`` are first of the modes of :attr:`Prepared.fits`, then of the
    ``n_left_out`` whose fits have negligible mass. ``n_unfinished`` starts led to no mode, but up
    without end, or to a saddle. ``log_mass`` is -inf where it is not known.
    """

    start_count: tuple[int, ...] = ()
    found_by: tuple[int, ...] = ()
    n_left_out: int = 0
    n_unfinished: int = 0
    n_gradients: int = 0
    mass_once: float = 0.0
    planted: tuple[float, ...] = ()
    n_images: int = 0
    funnel_depth: float = 0.0
    rise_along: int = -1
    rise: float = 0.0
    rise_beyond: float = 0.0
    log_mass: float = -np.inf
    log_mass_se: float = 0.0

    @property
    def n_starts(self) -> int:
        """Number of starts; one in a mode's flank that led to another mode counts for both."""
        return sum(self.start_count) + self.n_unfinished

    def statistics(self) -> dict[str, Any]:
        """Name to number or small array, as results keep them."""
        fitted = len(self.start_count) - self.n_left_out
        same = ("mass_once", "funnel_depth", "rise_along", "rise", "rise_beyond", "log_mass",
                "log_mass_se")  # fmt: skip
        return {name: getattr(self, name) for name in same} | {
            "gradients": self.n_gradients,
            "starts": self.n_starts,
            "modes": len(self.start_count),
            "left_out": self.n_left_out,
            "images": self.n_images,
            "start_counts": np.array(self.start_count[:fitted][:N_START_COUNTS]),
            "found_by": np.array(self.found_by[:fitted][:N_START_COUNTS], dtype=np.int64),
            "planted": np.array(self.planted, dtype=np.float64),
        }


NO_SEARCH = Search()
"""Of a path that starts at the prior, and needs to know no mode."""


@dataclass(frozen=True)
class Prepared:
    """What is known of a target before any tempering.

    - ``pooled`` are the local fits combined by matched moments, with an ELBO as ``log_zeta``.
    - ``fits`` are the distinct local fits, not widened, the best ELBO first; without those of
      negligible mass.
    - ``poorly_fitted`` are Laplace approximations of poorly fitted modes that may hold much of the
      mass; ``well_fitted`` good fits of the heaviest modes, with the log of their mass as
      ``log_zeta``, by mass.
    - ``place`` (D,) is where replicas start in place of the means, which between modes may have no
      density.
    - ``shapes`` are what a mixture is made of: the fits, with transport maps in place of some.
      ``needs_levels`` is whether one is too poor for a path without levels, as far as short runs
      have shown.
    - ``orbit`` are maps that leave the target as it is. Of the modes that these make of one another
      one stands for all; ``pooled`` is of all.
    - ``one_holds_all`` is whether no other mode may have a fiftieth of the mass of one, as far as
      fits and curvatures say.
    """

    pooled: GaussianBase
    fits: tuple[GaussianBase, ...]
    search: Search
    poorly_fitted: tuple[GaussianBase, ...] = ()
    place: FloatArray | None = None
    shapes: tuple[LocalDensity, ...] = ()
    needs_levels: bool = False
    well_fitted: tuple[GaussianBase, ...] = ()
    orbit: Orbit | None = None
    one_holds_all: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shapes", self.shapes or self.fits)

    @cached_property
    def modes(self) -> FloatArray:
        """Where replicas start, inside of the fits: ``z``, shape (n_modes, D), or the one place."""
        if self.place is not None:
            return self.place[None]
        return np.stack([centre(shape) for shape in self.shapes])


def centre(shape: LocalDensity) -> FloatArray:
    """Somewhere inside: the mean of a transport map may be outside of it."""
    if isinstance(shape, TransportMap):
        return shape.from_base(np.zeros((1, shape.dim)))[0]
    return shape.mean
