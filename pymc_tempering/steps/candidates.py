"""Mixtures that a chain's draws propose as its reference: of bent fits, or of one fit for all.

Fits that chop a curved valley into pieces do not cover it, and one bent Gaussian may. It stands in
for all of them if it covers where they are, too; then no mode is left that it could miss.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.mixture import LocalDensity, Mixture
from pymc_tempering.references.independent import n_independent
from pymc_tempering.references.map_of_draws import map_of_draws
from pymc_tempering.references.mixture import mixture_of_maps
from pymc_tempering.references.prepared import centre
from pymc_tempering.steps.overlap import uncovered_share
from pymc_tempering.types import FloatArray

__all__ = ["MAX_UNCOVERED", "Candidate", "map_candidate"]

MAX_UNCOVERED = 0.1
"""Share of the target's draws at which the wide component has ten times the density of any local
fit, beyond which a mode has none: few levels would hardly ever lead there."""


_ENOUGH_TO_REPLACE = 150
"""Independent draws from which a bent mixture in use is fitted again: few would spoil it."""


class Candidate(NamedTuple):
    """A mixture that might be the reference.

    Attributes
    ----------
    mixture : Mixture
    uncovered : float
        Share of the draws that it leaves to its defensive component.
    is_whole : bool
        Whether one bent Gaussian covers all that is known.
    """

    mixture: Mixture
    uncovered: float
    is_whole: bool = False


def map_candidate(
    gaussian_fit: Mixture,
    fits: Sequence[LocalDensity],
    coordinates: Coordinates,
    positions: FloatArray,
    n_restarts: int,
) -> Candidate | None:
    """Find the bent mixture that leaves least of some draws uncovered; one Gaussian, if it does.

    Parameters
    ----------
    straight : Mixture
        Whose fits are bent, or bent again.
    fits : sequence of LocalDensity
        All that the search knows.
    coordinates : Coordinates
        Whose Gaussian is the defensive component.
    positions : ndarray of shape (n, D)
        Draws of the target, in the order of a chain.
    n_restarts : int
        Arrivals from the reference among them.

    Returns
    -------
    Candidate or None
        None where nothing bends.
    """
    n = max(n_independent(positions), float(min(n_restarts, len(positions))))
    if gaussian_fit.has_map and n < _ENOUGH_TO_REPLACE:
        return None
    whole = map_of_draws(positions, n)
    if whole is not None:
        mixture = Mixture((whole,), np.ones(1), gaussian_fit.share, gaussian_fit.dof)
        centres = np.stack([centre(fit) for fit in fits])
        uncovered = uncovered_share(mixture, coordinates, positions)
        if max(uncovered, uncovered_share(mixture, coordinates, centres)) <= MAX_UNCOVERED:
            return Candidate(mixture, uncovered, is_whole=True)
    if len(gaussian_fit.fits) == 1:
        return None
    mixture = mixture_of_maps(gaussian_fit, coordinates, positions)
    if not mixture.has_map:
        return None
    return Candidate(mixture, uncovered_share(mixture, coordinates, positions))
