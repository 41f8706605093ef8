"""What a search for modes hands on."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import softmax

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity
from pymc_tempering.engine.path.transport import TransportMap
from pymc_tempering.results.statistics import N_START_COUNTS
from pymc_tempering.types import FloatArray

__all__ = ["MOST_ONCE", "NO_SEARCH", "N_SEARCHES", "Prepared", "Search", "centre", "mass_once"]

N_SEARCHES = 4
"""Searches that share what they know and what they may spend. Each starts on its own: from another
place, with other random numbers."""

MOST_ONCE = 0.05
"""Share of the mass in modes that one search alone found, beyond which a search goes on: as much is
likely to lie in modes that none found."""


def mass_once(log_masses: Sequence[float], found_by: Sequence[int]) -> float:
    """Share of the mass in modes that one of the searches alone found.

    What one of several found stands for what none did (Good 1953, for mass in place of numbers).
    ``log_masses`` in nats, ``found_by`` the number of searches that found each mode.

    Examples
    --------
    >>> round(mass_once([0.0, -1.0, -1.0], [4, 1, 3]), 2)
    0.21
    """
    if not len(log_masses):
        return 0.0
    return float(softmax(np.array(log_masses)) @ (np.array(found_by) == 1))


@dataclass(frozen=True)
class Search:
    """What a search for modes did.

    Attributes
    ----------
    start_count, found_by : tuple of int
        Starts that led to each distinct mode, those of its images included, and how many of the
        :data:`N_SEARCHES` searches found it; first the modes of :attr:`Prepared.fits`, then those
        left out.
    n_left_out : int
        Modes that the reference leaves out: their fits have negligible mass.
    n_unfinished : int
        Starts that led to no mode: up without end, or to a saddle.
    n_gradients : int
        Of all ascents and fits.
    mass_once : float
        Share of the modes' mass, as their fits have it, in modes that one search alone found.
    planted : tuple of float
        Probability that one mode more would have been found, by width and mass (:mod:`.planted`).
    n_images : int
        Modes more that no counted start led to: images of others, or around others.
    funnel_depth : float
        In nats, of the modes that short runs were made in; see :mod:`.funnels`.
    rise_along, rise, rise_beyond
        Coordinate along which the mass rises without end, -1 for none, and by how many nats over
        two stretches far outside; see :mod:`pymc_tempering.engine.path.divergent`.
    log_mass, log_mass_se : float
        Importance-sampled evidence of the well fitted modes and its error, in nats; -inf where it
        is not known.
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
        return {
            "gradients": self.n_gradients,
            "starts": self.n_starts,
            "modes": len(self.start_count),
            "left_out": self.n_left_out,
            "images": self.n_images,
            "mass_once": self.mass_once,
            "funnel_depth": self.funnel_depth,
            "rise_along": self.rise_along,
            "rise": self.rise,
            "rise_beyond": self.rise_beyond,
            "log_mass": self.log_mass,
            "log_mass_se": self.log_mass_se,
            "start_counts": np.array(self.start_count[:fitted][:N_START_COUNTS]),
            "found_by": np.array(self.found_by[:fitted][:N_START_COUNTS], dtype=np.int64),
            "planted": np.array(self.planted, dtype=np.float64),
        }


NO_SEARCH = Search()
"""Of a path that starts at the prior, and needs to know no mode."""


@dataclass(frozen=True)
class Prepared:
    """What is known of a target before any tempering.

    Attributes
    ----------
    pooled : GaussianBase
        The local fits combined by matched moments, with an ELBO as ``log_zeta``.
    fits : tuple of GaussianBase
        The distinct local fits, not widened, the best ELBO first; without those of negligible mass.
    search : Search
    poorly_fitted : tuple of GaussianBase
        Laplace approximations of poorly fitted modes that may hold much of the mass.
    place : ndarray of shape (D,), optional
        Where replicas start in place of the means, which between modes may have no density.
    shapes : tuple of LocalDensity
        What a mixture is made of: the fits, with transport maps in place of some.
    needs_levels : bool
        Whether a shape is too poor for a path without levels, as far as short runs have shown.
    well_fitted : tuple of GaussianBase
        Good fits of the heaviest modes, with the log of their mass as ``log_zeta``, by mass.
    """

    pooled: GaussianBase
    fits: tuple[GaussianBase, ...]
    search: Search
    poorly_fitted: tuple[GaussianBase, ...] = ()
    place: FloatArray | None = None
    shapes: tuple[LocalDensity, ...] = ()
    needs_levels: bool = False
    well_fitted: tuple[GaussianBase, ...] = ()

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
