"""How far a search for modes went."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from pymc_tempering.engine.path.divergent import NO_RISE, Rise
from pymc_tempering.results.statistics import N_START_COUNTS

__all__ = ["MOST_ONCE", "NO_SEARCH", "N_SEARCHES", "Search", "mass_once"]

N_SEARCHES = 4
"""Searches that share what they know and what they may spend, and start each on its own: from
another place, with other random numbers."""

MOST_ONCE = 0.05
"""Share of the mass in modes that one search alone found, beyond which a search goes on: as much is
likely to lie in modes that none found."""


def mass_once(log_masses: Sequence[float], found_by: Sequence[int]) -> float:
    """Share of the mass in modes that one of the searches alone found.

    Good and Turing's argument (Good 1953), for mass in place of numbers: what one of several found
    stands for what none did.

    Parameters
    ----------
    log_masses : sequence of float
        Of the modes, in nats.
    found_by : sequence of int
        Searches that found each of them.

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
    hits : tuple of int
        For each distinct mode that starts led to how many, those of its images included; first the
        modes that were fitted, as in :attr:`.prepared.Prepared.fits`, then those left out.
    n_left_out : int
        Modes that the reference leaves out: their fits have negligible mass.
    n_unfinished : int
        Starts that led to no mode: up without end, or to a saddle.
    n_gradients : int
        Of all ascents and fits.
    mass_once : float
        Share of the modes' mass, as their fits have it, in modes that one of the
        :data:`N_SEARCHES` searches alone found.
    found_by : tuple of int
        How many of these searches found each of the modes, in the order of `hits`.
    planted : tuple of float
        Probability that one mode more would have been found, by width and mass; see
        :func:`.planted.found_if_there`.
    n_images : int
        Modes more that no counted start led to: images of others under a symmetry of the target,
        or around others.
    necks : float
        How deep the necks of the modes are that short runs were made in, in nats; see
        :func:`pymc_tempering.references.funnels.depth_of_funnels`.
    rise : Rise
        Where the mass rises without end along an ascent that ran away.
    log_mass, log_mass_se : float
        Of the well fitted modes together, in nats, and its error; -inf where it is not known. See
        :func:`.importance_evidence.importance_evidence`.
    """

    start_count: tuple[int, ...]
    n_left_out: int
    n_unfinished: int
    n_gradients: int
    mass_once: float
    found_by: tuple[int, ...] = ()
    planted: tuple[float, ...] = ()
    n_images: int = 0
    funnel_depth: float = 0.0
    rise: Rise = NO_RISE
    log_mass: float = -np.inf
    log_mass_se: float = 0.0

    @property
    def n_starts(self) -> int:
        """Number of starts; one in a mode's flank that led to another mode counts for both."""
        return sum(self.start_count) + self.n_unfinished

    def statistics(self) -> dict[str, Any]:
        """Those of :data:`pymc_tempering.results.statistics.STATISTICS` that say it."""
        fitted = len(self.start_count) - self.n_left_out
        return {
            "gradients": self.n_gradients,
            "starts": self.n_starts,
            "modes": len(self.start_count),
            "left_out": self.n_left_out,
            "images": self.n_images,
            "mass_once": self.mass_once,
            "funnel_depth": self.funnel_depth,
            "rise_along": self.rise.coordinate,
            "rise": self.rise.nats[0],
            "rise_beyond": self.rise.nats[1],
            "log_mass": self.log_mass,
            "log_mass_se": self.log_mass_se,
            "start_counts": np.array(self.start_count[:fitted][:N_START_COUNTS]),
            "found_by": np.array(self.found_by[:fitted][:N_START_COUNTS], dtype=np.int64),
            "planted": np.array(self.planted, dtype=np.float64),
        }


NO_SEARCH = Search(start_count=(), n_left_out=0, n_unfinished=0, n_gradients=0, mass_once=0.0)
"""Of a path that starts at the prior, and needs to know no mode."""
