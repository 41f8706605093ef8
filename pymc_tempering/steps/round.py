"""What a round of tuning brought."""

from typing import NamedTuple

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.types import FloatArray

__all__ = ["Round", "log_reference"]


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
    barrier : float
    cost : float
        Variance of log Z times the number of gradients, in nats squared; nan where not known.
    n_restarts : int
    log_z, se : float
        From the round alone, in nats.
    """

    coordinates: Coordinates
    positions: FloatArray
    log_target: FloatArray
    barrier: float
    cost: float
    n_restarts: int
    log_z: float
    se: float
