"""What a round of tuning brought."""

from typing import NamedTuple

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.schedule.adapt import round_trip_rate
from pymc_tempering.types import FloatArray

__all__ = ["Round", "log_reference"]

_ENOUGH_EXPECTED = 20.0
"""Arrivals that have to be expected before their absence means anything."""

_MOST_OF_EXPECTED = 0.15
"""Share of the expected arrivals below which a path is blocked. Schedules and step sizes that are
not yet tuned have a third."""


def log_reference(path: TemperedPath, z: FloatArray) -> FloatArray:
    """Log density of a path's Gaussian or mixture at ``z`` of shape (n, D), in nats."""
    if path.mixture is None:
        return path.base.log_density(z)
    return path.mixture.log_density(z, path.coordinates)


class Round(NamedTuple):
    """What a round of tuning brought.

    Attributes
    ----------
    coordinates : Coordinates
        Of the round, whose Gaussian has not seen its draws.
    positions : ndarray of shape (n, D)
        At beta = 1.
    log_target : ndarray of shape (n,)
        There, in nats.
    rejection_rates : ndarray of shape (n_levels - 1,)
        Of swaps.
    cost : float
        Variance of log Z times the number of gradients, in nats squared; nan where not known.
    n_restarts : int
    log_z, se : float
        From the round alone, in nats.
    """

    coordinates: Coordinates
    positions: FloatArray
    log_target: FloatArray
    rejection_rates: FloatArray
    cost: float
    n_restarts: int
    log_z: float
    se: float

    @property
    def barrier(self) -> float:
        """Communication barrier."""
        return float(self.rejection_rates.sum())

    @property
    def is_blocked(self) -> bool:
        """Whether far fewer replicas arrive than swap rates promise.

        Where a part of the target is met on the other side of a transition of first order, pairs
        of levels swap, and no replica gets through.

        Examples
        --------
        >>> import numpy as np
        >>> from pymc_tempering.engine.path.gaussian import GaussianBase
        >>> path = Coordinates.of(GaussianBase([0.0], [1.0]))
        >>> rates = np.full(6, 0.5)
        >>> ended = Round(path, np.zeros((400, 1)), np.zeros(400), rates, 1.0, 2, 0.0, 0.1)
        >>> ended.is_blocked, ended._replace(n_restarts=15).is_blocked
        (True, False)
        """
        expected = len(self.positions) * round_trip_rate(self.rejection_rates)
        return expected >= _ENOUGH_EXPECTED and self.n_restarts < _MOST_OF_EXPECTED * expected
