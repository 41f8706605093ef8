"""What a map of a hierarchy covers far along its globals, where it has no draws."""

import numpy as np

from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.references.nested_laplace import NestedLaplace
from pymc_tempering.references.nodes import FARTHEST, profiles

LEAST_ERROR = 0.001
"""Nats: the least error that runs report, and the share of the mass that a map may lose."""


def share_lost(nested: NestedLaplace, made: ConditionalMap) -> float:
    """Largest share of the mass along a global that a map loses, by Laplace's approximation."""
    return max(
        share_of_profile(log_mass, through(nested, made, i))
        for i, log_mass in enumerate(profiles(nested, made))
    )


def through(nested: NestedLaplace, made: ConditionalMap, i: int) -> np.ndarray:
    """Log density through the map along a global, in nats above what it is in the middle."""
    places = np.arange(-FARTHEST, FARTHEST + 1)
    u = np.zeros((len(places), made.dim))
    u[:, i] = places
    values = made.pulled_back(nested.density.address, u)[0]
    return values - values[len(places) // 2]


def share_of_profile(log_mass: np.ndarray, through: np.ndarray) -> float:
    """The same of one global: log densities along it, and those that the map has, in nats."""
    known, log_mass = np.isfinite(log_mass), log_mass.copy()
    middle = len(log_mass) // 2
    # a place without a mode of the locals may have what the one before it has, and loses it
    for j in range(middle + 1, len(log_mass)):
        for here, before in ((j, j - 1), (2 * middle - j, 2 * middle - j + 1)):
            if not known[here]:
                log_mass[here] = log_mass[before]
    share = np.exp(log_mass - log_mass.max())
    share /= share.sum()
    # a nat is what Laplace's approximation leaves out, which draws of the map show
    short = np.where(known, through - log_mass, -np.inf)
    lost = np.where(short < -1.0, share * -np.expm1(np.minimum(short, 0.0)), 0.0)
    # what the ends stand for lies beyond them
    lost[[0, -1]] = share[[0, -1]]
    return float(lost.sum())
