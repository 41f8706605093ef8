"""A Gaussian from the curvature at a point: differences of gradients, two for each coordinate."""

import math
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Density, call_density
from pymc_tempering.jit import compiled
from pymc_tempering.references.full_rank import MAX_FULL_RANK_DIM
from pymc_tempering.types import FloatArray

MOST_DIM = 1000
"""Beyond it a fit is diagonal: a dense one takes 8 MB, and an evaluation a millisecond."""

WORTH_ALL = 1.0
"""nats of Kullback-Leibler divergence from the Gaussian that a diagonal fit leaves, above which one
in more than 200 dimensions is dense, too."""


@compiled(borrows=True, inside=True)
def _fall(value: float, above: float, below: float, rise: float) -> float:
    """Nats by which the density falls over a step; beside an edge of the support of one side."""
    if math.isfinite(above) and math.isfinite(below):
        fall = abs(value - 0.5 * (above + below))
    else:
        other = above if math.isfinite(above) else below
        ahead = rise if math.isfinite(above) else -rise
        fall = abs(value + (ahead if math.isfinite(ahead) else 0.0) - other)
    # rounding may put the end of an ascent itself beyond an edge
    return math.inf if math.isnan(fall) else fall


@compiled
def _second_differences(
    address: int, z: FloatArray, steps: FloatArray, longest: FloatArray, wanted_fall: float
) -> tuple[FloatArray, FloatArray, int]:
    """Precision, gradient, and the number of gradients; ``steps`` become those that were taken.

    Of the precision in many dimensions its diagonal alone, (D, 1).
    """
    dim, there, columns = z.size, z.copy(), z.size if z.size <= MOST_DIM else 1
    precision = np.empty((dim, columns))
    here, up, down = np.empty(dim), np.empty(dim), np.empty(dim)
    value = call_density(address, there, here)
    n_gradients = 1
    for i in range(dim):
        has_up = has_down = False
        # each try changes a step a thousandfold at most
        for _ in range(12):
            there[i] = z[i] + steps[i]
            above = call_density(address, there, up)
            there[i] = z[i] - steps[i]
            below = call_density(address, there, down)
            there[i] = z[i]
            n_gradients += 2
            has_up, has_down = math.isfinite(above), math.isfinite(below)
            if not (has_up or has_down):
                steps[i] *= 0.1
                continue
            fall = _fall(value, above, below, here[i] * steps[i])
            factor = math.sqrt(wanted_fall / max(fall, 1e-12))
            factor = min(max(factor, 1e-3), longest[i] / steps[i])
            # so near to it the curvature is that of the mode
            if 0.02 <= fall / wanted_fall <= 10.0 or 0.99 < factor < 1.01:
                break
            steps[i] *= factor
        if not has_up:
            up[:] = here
        if not has_down:
            down[:] = here
        length = (has_up + has_down) * steps[i]
        for column in range(columns):
            j = column if columns == dim else i
            precision[i, column] = (down[j] - up[j]) / length
    return precision, here, n_gradients


def _wants_all(precision: FloatArray) -> bool:
    """Whether all entries of a precision are worth a dense map, or those of its diagonal do."""
    dim = len(precision)
    if dim <= MAX_FULL_RANK_DIM:
        return dim > 1
    eigenvalues = np.linalg.eigvalsh(precision)
    # at a saddle they say where down is
    if eigenvalues[0] <= 0.0:
        return True
    loss = 0.5 * (np.log(np.diagonal(precision)).sum() - np.log(eigenvalues).sum())
    return bool(loss > WORTH_ALL)


class Curvature(NamedTuple):
    """What differences of gradients say about a point, the mean of ``base``.

    Above 200 dimensions that Gaussian is diagonal where this is nearly as good, with the precisions
    of a mean-field fit, and above 1000 always. Directions of negative curvature, of which a maximum
    has none, have the absolute value. ``newton_decrement`` are the nats that a Newton step
    promises; where there are many, the point is on a slope.
    """

    base: GaussianBase
    is_maximum: bool
    newton_decrement: float
    n_gradients: int


@density_guard()
def curvature_at(
    density: Density, z: FloatArray, units: FloatArray, fall: float = 0.05
) -> Curvature:
    """Fit a Gaussian to the curvature of the log density at a maximum.

    ``units``, rough standard deviations, are where the search for the size of differences begins; a
    hundred of them are the longest, and a flat direction gets ten thousand at most. ``fall`` are
    the nats by which the density is to fall over a difference, far above rounding: over a twentieth
    the curvature is that of the mode, over fewer that of its maximum.
    """
    steps = 0.3 * units
    precision, gradient, n_gradients = _second_differences(
        density.address, np.array(z), steps, 100.0 * units, fall
    )
    precision[~np.isfinite(precision)] = 0.0
    slope = np.nan_to_num(gradient, posinf=0.0, neginf=0.0) * steps
    vectors = None
    if z.size > MOST_DIM:
        eigenvalues = precision[:, 0] * steps**2
    else:
        scaled = precision * np.outer(steps, steps)
        scaled = 0.5 * (scaled + scaled.T)
        eigenvalues = np.diagonal(scaled)
        if _wants_all(scaled):
            eigenvalues, vectors = np.linalg.eigh(scaled)
    # in units of the steps, where a curvature is about 0.1, less is flat
    sizes = np.maximum(np.abs(eigenvalues), 1e-4)
    if vectors is None:
        base, along = GaussianBase(z, steps / np.sqrt(sizes)), slope
    else:
        base = GaussianBase.from_root(z, steps[:, None] * (vectors / np.sqrt(sizes)))
        along = vectors.T @ slope
    newton_decrement = float(0.5 * (along**2 / sizes).sum())
    # down is a curvature of a tenth of those of the mode, with the other sign
    return Curvature(base, bool(eigenvalues.min() > -1e-2), newton_decrement, n_gradients)
