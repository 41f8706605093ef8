"""Masses on the ways of ascents, which none of them ends in.

Where the density rises from one mode into another, as from a wide group scale into the neck of a
narrow one, all ascents end in one place. The way there leads through what holds the mass.
"""

from collections.abc import Sequence

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.references.local import LocalFit, refine
from pymc_tempering.references.quality import FAIR
from pymc_tempering.references.same_mode import which_mode
from pymc_tempering.types import FloatArray

__all__ = ["N_PATHS", "masses_on_paths"]

N_PATHS = 6
"""Starts of which the way is looked at. What each second one goes by is missed in two of a hundred
searches."""


def masses_on_paths(
    density: Density,
    known: Sequence[LocalFit],
    starts: FloatArray,
    coordinates: Coordinates,
    units: FloatArray,
    rng: np.random.Generator,
    most: float,
) -> tuple[list[LocalFit], list[int], int]:
    """Fit what a few starts go by.

    Parameters
    ----------
    density : Density
    known : sequence of LocalFit
    starts : ndarray of shape (n, D)
    coordinates, units
        As for :func:`.local.refine`.
    rng : numpy.random.Generator
    most : float
        Gradients; with too few left no further start is looked at.

    Returns
    -------
    passed : list of LocalFit
        Of other modes than those of known fits.
    n_by : list of int
        How many starts go by each of the known fits, and of these.
    n_gradients : int
    """
    fits, n_by = list(known), [0] * len(known)
    n_gradients = 0
    for start in starts:
        fit, n_fit = refine(density, start, None, coordinates, units, rng, most - n_gradients)
        n_gradients += n_fit
        if fit is None or fit.variance > FAIR:
            continue
        # what is known stays as it is (benchmarks/README.md)
        same, n_compared = which_mode(density, fit, fits, rng)
        n_gradients += n_compared
        if same is None:
            fits.append(fit)
            n_by.append(1)
        else:
            n_by[same] += 1
    return fits[len(known) :], n_by, n_gradients
