"""Images of the modes that a search knows, under symmetries that the target may have.

Where a target has a symmetry, starts lead to a mode and to its image by chance: ten to the one and
none to the other, and the mass of the other is missed. The image costs one evaluation.
"""

from collections.abc import Callable

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.basins import Basins
from pymc_tempering.references.known import KnownModes
from pymc_tempering.references.starts import evaluated
from pymc_tempering.types import FloatArray

__all__ = ["MOST_IMAGED", "Images", "add_images", "no_images"]

MOST_IMAGED = 24
"""Modes beyond which there are enough: those of five labels are 120, alike in all but the order."""

type Images = Callable[[FloatArray], FloatArray]
"""From a place of shape (D,) to those of shape (P, D) where symmetries would have its like."""


def no_images(z: FloatArray) -> FloatArray:
    """Of a target of which no symmetries are known."""
    return np.empty((0, z.size))


def add_images(
    images: Images,
    basins: Basins,
    owners: KnownModes,
    coordinates: Coordinates,
    *,
    density: Density,
    negligible: float,
    most: float,
) -> int:
    """Ascend from images of the highest modes, and of what that finds, if they are nearly as high.

    Parameters
    ----------
    images : callable
    basins : Basins
        What is found is added without hits: it says nothing of how seldom a mode is.
    owners : KnownModes
        Images that belong to these are left alone.
    coordinates : Coordinates
        As for :func:`.ascent.ascend`.
    density : Density
    negligible : float
        nats by which a mode may be lower than the highest, and an image than its mode.
    most : float
        Evaluations; images that would take more are left away.

    Returns
    -------
    int
        Evaluations.
    """
    n_gradients = 0
    heights = basins.heights()
    for i, basin in enumerate(basins.known):
        highest = heights.max(initial=-np.inf) - negligible
        if basin.imaged or not basin.is_mode or basin.value < highest:
            continue
        basin.imaged = True
        points = images(basin.end)
        too_many = (heights >= highest).sum() > MOST_IMAGED
        if too_many or n_gradients + len(points) > most or not len(points):
            continue
        n_gradients += len(points)
        starts = evaluated(density, points)
        starts = starts.at(starts.values >= basin.value - negligible)
        number = owners.owners(starts).number
        for j in np.unique(number[number >= 0]):
            basins.link(i, int(j))
        starts = starts.at(number < 0)
        if len(starts.points):
            found = ascend(density, starts.points, coordinates, first=(starts.values, starts.grads))
            n_gradients += found.n_gradients
            basins.add_images(i, starts.points, found, coordinates)
            heights = basins.heights()
    return n_gradients
