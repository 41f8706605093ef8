"""Whether a mixture covers a target: by draws of both."""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.engine.path.transport import TransportMap
from pymc_tempering.references.elbo import trimmed_variance
from pymc_tempering.references.mixture import swap_rejection
from pymc_tempering.types import FloatArray

__all__ = ["TRIAL_DRAWS", "Trial", "every_fit_visited", "trial", "uncovered_share"]

TRIAL_DRAWS = 200
"""Evaluations of the density that a trial takes."""


class Trial(NamedTuple):
    """What a trial says.

    Attributes
    ----------
    rejection : float
        Rate at which swaps would be rejected, without levels in between.
    variance : float
        Of the log weights of a bent fit's own draws, in nats squared, without the lowest 2 %: of
        the worst; 0 without any.
    """

    rejection: float
    variance: float


_MOST_TARGET_DRAWS = 1000


def uncovered_share(mixture: Mixture, coordinates: Coordinates, positions: FloatArray) -> float:
    """Share of draws where the defensive component has ten times the density of any local fit.

    Weights do not enter, and a little more is not enough: a light fit about as wide as the
    defensive one covers its draws as well.

    Parameters
    ----------
    mixture : Mixture
    coordinates : Coordinates
        Whose scales the defensive component has.
    positions : ndarray of shape (n, D)
        Draws of the target.
    """
    weights = np.concatenate([[mixture.share], (1.0 - mixture.share) * mixture.weights])
    parts = mixture.log_parts(positions, coordinates) - np.log(weights)
    return float((parts[:, 0] > parts[:, 1:].max(axis=1) + np.log(10.0)).mean())


def every_fit_visited(mixture: Mixture, coordinates: Coordinates, positions: FloatArray) -> bool:
    """Tell whether each local fit explains one of some draws (n, D) best."""
    owner = mixture.responsibilities(positions, coordinates).argmax(axis=1)
    return set(range(1, len(mixture.fits) + 1)) <= set(owner.tolist())


def trial(
    ladder: Ladder,
    mixture: Mixture,
    positions: FloatArray,
    log_target: FloatArray,
    rng: np.random.Generator,
) -> Trial:
    """Try swaps between draws of a mixture and draws of the target.

    Parameters
    ----------
    ladder : Ladder
        Whose path it is to be the reference of.
    mixture : Mixture
    positions : ndarray of shape (n, D)
        Draws of the target.
    log_target : ndarray of shape (n,)
        There, in nats.
    rng : numpy.random.Generator
    """
    path = ladder.path.starting_from(mixture)
    places, component = path.draws_and_origins(TRIAL_DRAWS, rng)
    draws = new_replicas(path.view, places)
    n = len(positions)
    kept = np.linspace(0, n - 1, min(n, _MOST_TARGET_DRAWS)).astype(np.int64)
    own = mixture.log_density(positions[kept], path.coordinates)
    # weights are not known before the target has been drawn from, shapes are
    of_map = [
        trimmed_variance(draws.delta[component == k + 1])
        for k, fit in enumerate(mixture.fits)
        if isinstance(fit, TransportMap) and (component == k + 1).any()
    ]
    rejection = swap_rejection(draws.delta, log_target[kept] - own)
    return Trial(rejection, max(of_map, default=0.0))
