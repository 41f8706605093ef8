"""Posteriors of which draws cannot see all: tails like a power, and an integral without end."""

from collections.abc import Sequence

import numpy as np
import pymc as pm
import xarray as xr
from scipy.stats import norm

from pymc_tempering.engine.path.climb import climb
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Path
from pymc_tempering.engine.path.replicas import Replicas, evaluate, new_replicas
from pymc_tempering.engine.path.tempered import Density, TemperedPath
from pymc_tempering.errors import TemperingError
from pymc_tempering.estimators.doubt import Doubt
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.unconstrain import unconstrained_draws
from pymc_tempering.numerics import pareto_k
from pymc_tempering.types import FloatArray

__all__ = ["endless_doubts", "heavy_tail_doubts", "tail_doubts"]

MIN_TAIL_K = 0.45
"""Tail index of draws beyond which it is named. Default runs of ten models without such tails had
0.39 at most, six of a Student t with 1.5 degrees of freedom (index 0.67) 0.35 to 0.68, of Cauchy
and horseshoe 0.8 to 1.7; of 7000 runs of exact draws of seven light targets 10 were named
(2026-11-21)."""

_RATE = 3e-3
_MIN_DRAWS = 200
_MOST_NAMED = 3

N_CLIMBS = 3

MIN_WAY = 5.0
"""Standard deviations of the draws, beyond which the end of a climb is no mode that they know."""

BEYOND = 10.0
"""Standard deviations of the draws: the mass is looked at where it would be nothing, and twice as
far."""

MAX_DIM = 100
"""Widths cost 28 densities for each direction, at three points."""

# in standard deviations of the draws; each halving of the first gap is worth a bit
_LOG_WIDTHS = (-200.0, 7.0)
_HALVINGS = 14


def tail_doubts(model: pm.Model, idata: xr.DataTree) -> list[Doubt]:
    """Warnings about tails of the posterior on the unconstrained scale.

    Parameters
    ----------
    model : pymc.Model
    idata : xarray.DataTree
        Posterior draws of the model.

    Returns
    -------
    list of Doubt
        None where the draws cannot be mapped to that scale, as on the edge of a support.
    """
    try:
        density = compile_density(model)
        z = unconstrained_draws(idata, density)
    except TemperingError:
        return []
    points = density.points
    names = [
        f"{name}[{', '.join(map(str, index))}]" if index else name
        for name, shape in zip(points.names, points.shapes, strict=True)
        for index in np.ndindex(*shape)
    ]
    return heavy_tail_doubts(z, names) + endless_doubts(density, z, names)


def heavy_tail_doubts(z: FloatArray, names: Sequence[str]) -> list[Doubt]:
    r"""Warning about coordinates whose draws fall off like a power of the distance.

    Moves are made for tails like those of a Gaussian; along a power's they go step by step, and a
    run sees few excursions. Where it sees none, neither log Z nor its error knows of the rest.

    Parameters
    ----------
    z : ndarray of shape (n, D)
        Draws, all chains together.
    names : sequence of str
        Of the D coordinates.

    Returns
    -------
    list of Doubt
        One at most.

    Examples
    --------
    >>> z = np.random.default_rng(1).standard_t(1.0, size=(1000, 1))
    >>> [doubt] = heavy_tail_doubts(z, ["x"])
    >>> doubt.code, 0.7 < doubt.measured["tail index of x"] < 1.4
    ('heavy_tails', True)
    """
    if len(z) < _MIN_DRAWS:
        return []
    centred = z - np.median(z, axis=0)
    tails = [[x[x > 0.0], -x[x < 0.0]] for x in centred.T]
    k = np.array([[pareto_k(np.log(side)) for side in sides] for sides in tails])
    k = np.where(np.isfinite(k), k, -np.inf).max(axis=1)
    # the largest of many indices, each from the tail of half the draws
    n_tail = min(len(z) / 10, 3.0 * np.sqrt(len(z) / 2))
    limit = max(MIN_TAIL_K, norm.isf(_RATE / (2 * k.size)) / np.sqrt(n_tail))
    heavy = [i for i in np.argsort(-k) if k[i] > limit]
    if not heavy:
        return []
    listed = ", ".join(f"{names[i]} ({k[i]:.2f})" for i in heavy[:_MOST_NAMED])
    more = f" and {len(heavy) - _MOST_NAMED} more" if len(heavy) > _MOST_NAMED else ""
    doubt = Doubt(
        "heavy_tails",
        f"draws fall off like a power of the distance along {listed}{more}; in brackets the tail "
        f"index, beyond {limit:.2f}. Moves hardly travel such tails, so that log Z may lack their "
        "mass, and its error be too small.",
        "Raise `draws` and compare; put a prior on what lets the tail grow; or, where scales "
        "shrink and grow with it as in a horseshoe, pass explorer='gist', whose steps follow them.",
        {f"tail index of {names[i]}": float(k[i]) for i in heavy[:_MOST_NAMED]},
    )
    return [doubt]


def endless_doubts(density: Density, z: FloatArray, names: Sequence[str]) -> list[Doubt]:
    """Warning about a posterior whose mass still rises far beyond all draws.

    A narrow place may have any density; what counts is density times width. Draws that climb end at
    a mode, or in a neck that has the less mass the further one goes. Where it has more, as where a
    scale shrinks onto identical data, the integral has no end, and the sampler only stopped.

    Parameters
    ----------
    density : Density
    z : ndarray of shape (n, D)
        Draws.
    names : sequence of str
        Of the D coordinates.

    Returns
    -------
    list of Doubt
        One at most.
    """
    spread = z.std(axis=0)
    if len(z) < _MIN_DRAWS or z.shape[1] > MAX_DIM or not (spread > 0.0).all():
        return []
    base = GaussianBase(z.mean(axis=0), spread)
    path = TemperedPath.from_base(density, base).view
    for start in base.to_base(z[np.linspace(0, len(z) - 1, N_CLIMBS).astype(int)]):
        end, _ = climb(path, start)
        way = end - start
        far = int(np.abs(way).argmax())
        if not abs(way[far]) > MIN_WAY:
            continue
        step = np.sign(way[far]) * BEYOND
        masses = [_log_mass(path, start, far, start[far] + n * step) for n in range(3)]
        rises = np.diff(masses)
        if not (np.isfinite(masses).all() and (rises > 1.0).all()):
            continue
        doubt = Doubt(
            "posterior_without_end",
            f"along {names[far]} density and width together rise by {rises[0]:.0f} nats within "
            f"{BEYOND:.0f} standard deviations of the draws, and by {rises[1]:.0f} more within "
            "another as many: the posterior has no finite integral there, or nearly all of its "
            "mass where no draw is, whatever is printed.",
            "Look at what the density does there: a scale that can shrink onto data that are equal "
            "needs a prior that keeps it from zero, or data with their rounding.",
            {f"rise along {names[far]}": rises.tolist()},
        )
        return [doubt]
    return []


def _log_mass(path: Path, u: FloatArray, coordinate: int, value: float) -> float:
    """Log of density times widths across, at the highest point with a coordinate at a value.

    Up to a constant, and as if the axes were those of the widths; how the widths change along
    ``coordinate`` is what is asked for.
    """
    moved = u.copy()
    moved[coordinate] = value
    # a narrow place is entered from afar in several turns
    for _ in range(3):
        moved, top = climb(path, moved, fixed=coordinate)
    if not np.isfinite(top):
        return float("nan")
    point = new_replicas(path, moved[None])
    others = (i for i in range(u.size) if i != coordinate)
    return top + float(sum(_log_width(point, path, i, top) for i in others))


def _log_width(point: Replicas, path: Path, i: int, top: float) -> float:
    """Log of how far one coordinate goes, either way, until half a nat is lost."""
    centre = point.u[0, i]
    total = 0.0
    for sign in (-1.0, 1.0):
        low, high = _LOG_WIDTHS
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            point.u[0, i] = centre + sign * np.exp(middle)
            evaluate(path, point, 0)
            if point.log_target[0] > top - 0.5:
                low = middle
            else:
                high = middle
        total += 0.5 * low
    point.u[0, i] = centre
    return total
