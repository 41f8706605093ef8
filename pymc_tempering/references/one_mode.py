"""The one mode that a few ascents lead to, and its curvature; or why there is none."""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.references.ascent import MOST_GRADIENTS, ascend
from pymc_tempering.references.local import laplace_at
from pymc_tempering.references.same_mode import owner
from pymc_tempering.references.starts import Starts, jitter, pulled_inside
from pymc_tempering.types import FloatArray

__all__ = ["OneMode", "mode_near", "one_mode"]

N_PLACES = 64
"""Where the density is looked at for ascents to begin: less than a sixth of all gradients."""

_SPENT = "the gradients allowed are spent"
_NO_MAXIMUM = "an ascent found no maximum with a curvature"


class OneMode(NamedTuple):
    """Laplace's approximation at a mode, or None and why; and the gradients it took."""

    base: GaussianBase | None
    n_gradients: int
    doubt: str = ""


def one_mode(
    density: Density, start: FloatArray, prior_points: FloatArray, rng: np.random.Generator,
    n_starts: int, most: float,
) -> OneMode:  # fmt: skip
    """Ascend from several starts; there is a mode where all lead to one place."""
    dim = start.size
    # of the places, halved inwards once, the differences for the curvature, and the ascents, which
    # finish a search along a line
    others_take = 2 * N_PLACES + 24 * dim
    each = int(min(MOST_GRADIENTS, (most - others_take) / n_starts - 20))
    if each < 1:
        return OneMode(None, 0, _SPENT)
    places, n_gradients = _places(density, start, prior_points, rng)
    if not len(places.points):
        return OneMode(None, n_gradients, "the density is zero at every start")
    # the start, where the density is finite there
    near = GaussianBase(places.points[0], np.ones(dim))
    mode, value, base, n_ascent = _maximum(density, near, np.ones(dim), each)
    n_gradients += n_ascent
    if base is None:
        return OneMode(None, n_gradients, _NO_MAXIMUM)
    others = places.at(owner([base], places.points) < 0)
    others = others.at(np.argsort(-others.values, kind="stable")[: n_starts - 1])
    if not len(others.points):
        return OneMode(base, n_gradients)
    found = ascend(
        density, others.points, Coordinates.of(base), most_gradients=each, first=others[1:],
        known=(mode, value),
    )  # fmt: skip
    n_gradients += found.n_gradients
    if not (found.converged & np.isfinite(found.values)).all():
        return OneMode(None, n_gradients, _NO_MAXIMUM)
    # a standard deviation, as ascents tell modes apart
    away = np.abs(base.to_base(found.ends)).max(axis=1) > 1.0
    if away.any():
        doubt = f"{away.sum()} of {1 + len(away)} ascents ended elsewhere than the first"
        return OneMode(None, n_gradients, doubt)
    return OneMode(base, n_gradients)


def mode_near(density: Density, near: GaussianBase, most: float) -> OneMode:
    """Ascend once, from the mean of a Gaussian and in its coordinates; look nowhere else."""
    # of the differences for the curvature, and the end of a search along a line
    left = int(min(MOST_GRADIENTS, most - 24 * near.dim - 20))
    if left < 1:
        return OneMode(None, 0, _SPENT)
    _, _, base, n_gradients = _maximum(density, near, near.standard_deviation, left)
    return OneMode(base, n_gradients, "" if base else _NO_MAXIMUM)


def _maximum(
    density: Density, near: GaussianBase, units: FloatArray, most: int
) -> tuple[FloatArray, float, GaussianBase | None, int]:
    """End of an ascent from a Gaussian's mean, value, Laplace's approximation, and gradients."""
    found = ascend(density, near.mean[None], Coordinates.of(near), most_gradients=most)
    mode, value = found.ends[0], float(found.values[0])
    if not (found.converged[0] and np.isfinite(value)):
        return mode, value, None, found.n_gradients
    base, n_curvature = laplace_at(density, mode, value, units)
    return mode, value, base, found.n_gradients + n_curvature


def _places(
    density: Density, start: FloatArray, prior_points: FloatArray, rng: np.random.Generator
) -> tuple[Starts, int]:
    """The start, then in turn draws of the prior and points around the start; and the gradients.

    Those outside the support come nearer to the start by halves, and are left out where that does
    not help.
    """
    offsets = jitter(rng, N_PLACES, np.ones((N_PLACES, start.size)))
    if len(prior_points):
        chosen = rng.integers(len(prior_points), size=N_PLACES // 2)
        offsets[::2] = prior_points[chosen] - start
    centres = np.repeat(start[None], N_PLACES + 1, axis=0)
    return pulled_inside(density, centres, np.vstack([np.zeros_like(start), offsets]))
