"""Divergent integrals: whether density times width rises without end on the way of an ascent.

A narrow place may have any density; what counts is density times width, the mass. An ascent ends at
a mode, or in the narrow part of a funnel, where the mass falls. Where the mass rises, as where a
scale shrinks onto identical data, the integral diverges, and where a sampler stops means nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.climb import MAX_EVALUATIONS, climb
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.noise import is_noise, n_evaluations
from pymc_tempering.engine.path.path import Density, Path
from pymc_tempering.engine.path.replicas import evaluate, new_replicas
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.types import FloatArray

MIN_WAY = 5.0
"""Standard deviations, beyond which the end of an ascent is no mode that is known."""

BEYOND = 10.0
"""Standard deviations: the mass is looked at where it would be nothing, and up to four times as
far."""

_WAYS = (1, 2, 3, 4)
"""Times as far, at which each mass has to be larger than the one before. Ascents that are not at
their ends, or lead beside the way, make the first three rise as well; much farther out true rises
may end where numbers do."""

MAX_DIM = 100
"""Widths cost 28 densities for each direction, three times at four points or five."""

_RISE = 1.0
"""Nats by which each mass has to be larger, and up to which a Newton step rises at a top."""

_STEP = 0.1  # of a width, over which slopes are compared
_HALVINGS = 14  # of the interval of log widths, so that one is known to 0.013
_N_MOVES = 3  # to the top across the way; each begins with the widths that the last one found


class Rise(NamedTuple):
    """A direction in which the mass rises, if there is one."""

    coordinate: int = -1  # -1 where the mass does not rise
    # from `BEYOND` standard deviations away to twice, and from there to three times as many
    nats: tuple[float, float] = (0.0, 0.0)
    n_gradients: int = 0  # that the look took


NO_RISE = Rise()


def rise_beyond(density: Density, base: GaussianBase, end: FloatArray) -> Rise:
    """Look at the mass on the way to `end` (D,), that of an ascent, and further.

    `base` is an independent Gaussian like what is known of the target. No rise is found where the
    ascent ended within 5 standard deviations, where the mass falls, and in more than 100
    dimensions.
    """
    way = base.to_base(end[None])[0]
    far = int(np.abs(way).argmax())
    if way.size > MAX_DIM or not MIN_WAY < abs(way[far]) < np.inf:
        return NO_RISE
    step = np.sign(way[far]) * BEYOND * base.standard_deviation[far]
    masses: list[float] = []
    n_gradients = 0
    # a mode so far away is an end: as far behind it there is less than before it
    behind = 2.0 * abs(way[far]) / BEYOND
    for n in (*_WAYS, behind)[: len(_WAYS) + (behind > _WAYS[-1])]:
        at = end.copy()
        at[far] = base.mean[far] + n * step
        mass, n_more = _log_mass(density, at, base.standard_deviation, far)
        n_gradients += n_more
        if np.isnan(mass) and n == behind:
            # numbers end there, and say nothing of the mass
            break
        if not np.isfinite(mass) or (masses and mass - masses[-1] <= _RISE):
            return Rise(n_gradients=n_gradients)
        masses.append(mass)
    return Rise(far, (masses[1] - masses[0], masses[2] - masses[1]), n_gradients)


def first_rise(
    density: Density, base: GaussianBase, ends: Sequence[FloatArray], most: float = np.inf
) -> Rise:
    """Return the first rise on the way to several ends, with the gradients that all took.

    Those for which there might not be enough left of `most` are not looked at.
    """
    rise, n_gradients = NO_RISE, 0
    of_mass = _N_MOVES * (MAX_EVALUATIONS + 2 * _HALVINGS * base.dim) + 2 * base.dim
    for end in ends:
        if n_gradients + (len(_WAYS) + 1) * of_mass > most:
            break
        n_gradients += n_evaluations(end)
        if is_noise(density, end):
            continue
        rise = rise_beyond(density, base, end)
        n_gradients += rise.n_gradients
        if rise.coordinate >= 0:
            break
    return rise._replace(n_gradients=n_gradients)


def _log_mass(
    density: Density, z: FloatArray, scale: FloatArray, coordinate: int
) -> tuple[float, int]:
    """Log of density times widths across, at the highest point with a coordinate where it is.

    Up to a constant; how the widths change along ``coordinate`` is what is asked for. It is nan
    where the highest point was not reached. Also the number of gradients.
    """
    n_gradients = 0
    # steps in units of the widths: a narrow place is left at once by steps of any other size
    for _ in range(_N_MOVES):
        path = TemperedPath.from_base(density, GaussianBase(z, scale)).view
        moved, top, n = climb(path, np.zeros(z.size), fixed=coordinate)
        n_gradients += n
        if not np.isfinite(top):
            return float("nan"), n_gradients
        widths = _log_widths(path, moved, top, coordinate)
        n_gradients += 2 * _HALVINGS * (z.size - 1)
        z, scale = z + scale * moved, scale * np.exp(widths)
    path = TemperedPath.from_base(density, GaussianBase(z, scale)).view
    return _log_mass_across(path, z.size, coordinate), n_gradients + 2 * z.size - 1


def _log_mass_across(path: Path, dim: int, coordinate: int) -> float:
    """Log mass about the origin of a path whose units are widths; nan where that is no top.

    By the determinant of the curvature: axes are not those of the widths.
    """
    across = np.delete(np.eye(dim), coordinate, axis=0)
    points = new_replicas(path, _STEP * np.vstack([np.zeros(dim), across, -across]))
    slopes = points.grad @ across.T
    if not np.isfinite(slopes).all():
        return float("nan")
    precision = (slopes[dim:] - slopes[1:dim]) / (2.0 * _STEP)
    eigenvalues, vectors = np.linalg.eigh(0.5 * (precision + precision.T))
    along = vectors.T @ slopes[0]
    if eigenvalues.min(initial=1.0) <= 0.0 or 0.5 * (along**2 / eigenvalues).sum() > _RISE:
        return float("nan")
    return float(points.log_target[0] - 0.5 * np.log(eigenvalues).sum())


def _log_widths(path: Path, u: FloatArray, top: float, coordinate: int) -> FloatArray:
    """Log of how far each other coordinate goes until half a nat is lost, mean of both ways."""
    point = new_replicas(path, u[None])
    widths = np.zeros(u.size)
    for i in range(u.size):
        if i == coordinate:
            continue
        for sign in (-1.0, 1.0):
            low, high = -200.0, 7.0  # in the units of the path
            for _ in range(_HALVINGS):
                middle = 0.5 * (low + high)
                point.u[0, i] = u[i] + sign * np.exp(middle)
                evaluate(path, point, 0)
                if point.log_target[0] > top - 0.5:
                    low = middle
                else:
                    high = middle
            widths[i] += 0.5 * low
        point.u[0, i] = u[i]
    return widths
