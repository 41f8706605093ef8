"""Posteriors of which draws cannot see all: tails like a power, and an integral without end."""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np
import pymc as pm
import xarray as xr
from scipy.stats import norm

from pymc_tempering.engine.path.climb import climb
from pymc_tempering.engine.path.divergent import BEYOND, MAX_DIM, rise_beyond
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.engine.path.tempered import Density, TemperedPath
from pymc_tempering.errors import TemperingError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.evidence.noise import noise_diagnostics
from pymc_tempering.evidence.overlap import base_reaches
from pymc_tempering.evidence.stored import recorded_statistics
from pymc_tempering.model.compile import density_at_hand
from pymc_tempering.model.unconstrain import unconstrained_draws
from pymc_tempering.numerics import pareto_k
from pymc_tempering.results.statistics import read_search
from pymc_tempering.types import FloatArray, IntArray

__all__ = [
    "divergent_diagnostics",
    "heavy_tail_diagnostics",
    "plateau_diagnostics",
    "runaway_diagnostics",
    "tail_diagnostics",
]

MIN_TAIL_K = 0.45
"""Tail index of draws beyond which it is named. Default runs of ten models without such tails had
0.39 at most, six of a Student t with 1.5 degrees of freedom (index 0.67) 0.35 to 0.68, of Cauchy
and horseshoe 0.8 to 1.7; of 7000 runs of exact draws of seven light targets 10 were named
(2026-11-21)."""

_RATE = 3e-3
_MIN_DRAWS = 200
_MOST_NAMED = 3

_N_OUTERMOST, _OUTWARD = 9, 10.0
_MORE_ROOM = float(np.log(_OUTWARD))
"""Nats that the volume gains there for each coordinate that goes along."""

MAX_DROP = 9.0
"""Nats that the density may lose there: a power of index 0.45 loses 7.4, of 0.35 as many as 9, and
a Gaussian from half of its standard deviations on 12."""

N_CLIMBS = 3

# the last three are beyond the width of any funnel that has not fallen by MAX_FALL where it is as
# wide; squares of them are numbers still
_DOUBLINGS = 2.0 ** np.array([*range(21), 40, 80, 160])
_LEAST_SEEN = 4
_FAR, MAX_FALL = 6, 700.0
"""Doublings after which a density that has fallen by so many nats holds nothing beyond."""

MAX_LOSS = 1e-3
"""Nats that density times distance may lose with each doubling of the distance: a tail with the
index of 500 loses more."""


def tail_diagnostics(model: pm.Model, idata: xr.DataTree) -> list[Diagnostic]:
    """Warnings about tails of the posterior on the unconstrained scale.

    Parameters
    ----------
    model : pymc.Model
    idata : xarray.DataTree
        Posterior draws of the model.

    Returns
    -------
    list of Diagnostic
        None where the draws cannot be mapped to that scale, as on the edge of a support.
    """
    try:
        density = density_at_hand(model)
        z = unconstrained_draws(idata, density)
    except TemperingError:
        return []
    points = density.points
    names = [
        f"{name}[{', '.join(map(str, index))}]" if index else name
        for name, shape in zip(points.names, points.shapes, strict=True)
        for index in np.ndindex(*shape)
    ]
    if noise := noise_diagnostics(density, z, names):
        return noise
    statistics = _recorded(idata)
    endless = (
        runaway_diagnostics(read_search(statistics), names)
        or divergent_diagnostics(density, z, names)
        or plateau_diagnostics(density, z, names)
    )
    heavy = [] if base_reaches(statistics) else heavy_tail_diagnostics(density, z, names)
    return heavy + endless


def _recorded(idata: xr.DataTree) -> dict[str, FloatArray]:
    """What a run recorded; empty for draws of another sampler."""
    try:
        _, statistics = recorded_statistics(idata)
    except TemperingError:
        return {}
    return statistics


def heavy_tail_diagnostics(
    density: Density, z: FloatArray, names: Sequence[str]
) -> list[Diagnostic]:
    r"""Warning about coordinates along which draws and density fall off like a power of distance.

    Moves are made for tails like those of a Gaussian; along a power's they go step by step, and a
    run sees few excursions. Where it sees none, neither log Z nor its error knows of the rest.

    Draws alone do not tell a tail from a light mode far away, or a slab from the spike beside it.
    So the density is asked too: ten times as far out it is lower by ``(1 + 1 / k) log 10`` where
    the tail index is k, and by far more where draws simply end.

    Parameters
    ----------
    density : Density
    z : ndarray of shape (n, D)
        Draws, all chains together.
    names : sequence of str
        Of the D coordinates.

    Returns
    -------
    list of Diagnostic
        One at most.

    Examples
    --------
    >>> from pymc_tempering.testing import heavy_tail
    >>> target = heavy_tail(dof=(1.1,), loc=(0.0,), scale=(1.0,))
    >>> z = target.draw(np.random.default_rng(1), 1000)
    >>> [diagnostic] = heavy_tail_diagnostics(target, z, ["x"])
    >>> diagnostic.code, 0.7 < diagnostic.measured["tail index of x"] < 1.4
    ('heavy_tails', True)
    """
    if len(z) < _MIN_DRAWS:
        return []
    distance = z - np.median(z, axis=0)
    k = np.array([[_tail_index(sign * x) for x in distance.T] for sign in (1.0, -1.0)])
    # the largest of many indices, each from the tail of half the draws
    n_tail = min(len(z) / 10, 3.0 * np.sqrt(len(z) / 2))
    limit = max(MIN_TAIL_K, norm.isf(_RATE / (2 * k.shape[1])) / np.sqrt(n_tail))
    heavy: dict[int, float] = {}
    for side, i in zip(*np.unravel_index(np.argsort(-k, axis=None), k.shape), strict=True):
        if k[side, i] <= limit or len(heavy) == _MOST_NAMED:
            break
        outermost = np.argsort((1.0, -1.0)[side] * distance[:, i])[-_N_OUTERMOST:]
        if i not in heavy and _falls_like_a_power(density, z, int(i), outermost):
            heavy[int(i)] = float(k[side, i])
    if not heavy:
        return []
    listed = ", ".join(f"{names[i]} ({index:.2f})" for i, index in heavy.items())
    diagnostic = Diagnostic(
        "heavy_tails",
        f"draws fall off like a power of the distance along {listed}; in brackets the tail "
        f"index, beyond {limit:.2f}. Moves hardly travel such tails, so that log Z may lack their "
        "mass, and its error be too small.",
        "Raise `draws` and compare; put a prior on what lets the tail grow; or, where scales "
        "shrink and grow with it as in a horseshoe, pass explorer='gist', whose steps follow them.",
        {f"tail index of {names[i]}": index for i, index in heavy.items()},
    )
    return [diagnostic]


def _tail_index(distance: FloatArray) -> float:
    """Pareto k of the draws beyond the median; -inf where there is none."""
    k = float(pareto_k(np.log(distance[distance > 0.0])))
    return k if np.isfinite(k) else -np.inf


def _falls_like_a_power(density: Density, z: FloatArray, i: int, rows: IntArray) -> bool:
    """Whether the density lasts ten times as far out, the others kept, taken along, or fitted."""
    centre, spread = np.median(z, axis=0), z.std(axis=0)
    path = TemperedPath.from_base(density, GaussianBase(centre, spread)).view
    near = (z[rows] - centre) / spread
    far = near.copy()
    far[:, i] *= _OUTWARD
    top = new_replicas(path, near).log_target
    drop = top - new_replicas(path, far).log_target
    # all coordinates of a multivariate t are far out at once, where there is more room
    together = top - new_replicas(path, _OUTWARD * near).log_target - near.shape[1] * _MORE_ROOM
    if min(np.median(drop), np.median(together)) <= MAX_DROP:
        return True
    # a scale that governs the coordinate, and grows with it, is a part of the same tail
    tops = [[climb(path, u[row], fixed=i)[1] for u in (near, far)]
            for row in range(len(rows))[:: max(len(rows) // N_CLIMBS, 1)]
            if np.isfinite(drop[row])]  # fmt: skip
    fitted = np.array([top[0] - top[1] for top in tops])
    return bool(fitted.size and 0.0 <= np.median(fitted) <= MAX_DROP)


def runaway_diagnostics(arrays: Mapping[str, FloatArray], names: Sequence[str]) -> list[Diagnostic]:
    """Warning where the search for modes saw the mass rise without end.

    Parameters
    ----------
    arrays : mapping of ndarray
        From :func:`pymc_tempering.results.statistics.read_search`.
    names : sequence of str
        Of the unconstrained values.

    Returns
    -------
    list of Diagnostic
        One at most.
    """
    along = arrays.get("search_rise_along", np.array([-1]))
    chain = along.argmax()
    if along[chain] < 0:
        return []
    rises = [arrays[name][chain] for name in ("search_rise", "search_rise_beyond")]
    return [_divergent_diagnostic(names[int(along[chain])], rises)]


def divergent_diagnostics(
    density: Density, z: FloatArray, names: Sequence[str]
) -> list[Diagnostic]:
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
    list of Diagnostic
        One at most.
    """
    if (spread := _spread(z)) is None:
        return []
    base = GaussianBase(z.mean(axis=0), spread)
    path = TemperedPath.from_base(density, base).view
    for start in base.to_base(z[np.linspace(0, len(z) - 1, N_CLIMBS).astype(int)]):
        end = base.mean + base.standard_deviation * climb(path, start)[0]
        rise = rise_beyond(density, base, end)
        if rise.coordinate >= 0:
            return [_divergent_diagnostic(names[rise.coordinate], rise.nats)]
    return []


def _spread(z: FloatArray) -> FloatArray | None:
    """Standard deviations of draws; None for draws that are too few, or too wide to look around."""
    spread: FloatArray = z.std(axis=0)
    if len(z) < _MIN_DRAWS or z.shape[1] > MAX_DIM or not (spread > 0.0).all():
        return None
    return spread


def _divergent_diagnostic(name: str, rises: Sequence[float]) -> Diagnostic:
    """Warning that the mass rises by so many nats beyond all draws, and by so many beyond that."""
    first, second = map(float, rises)
    return Diagnostic(
        "divergent_integral",
        f"along {name} density and width together rise by {first:.0f} nats from {BEYOND:.0f} to "
        f"{2 * BEYOND:.0f} standard deviations away, and by {second:.0f} more within as many: "
        "it has no finite integral there, or nearly all of its mass where no draw is, whatever is "
        "printed.",
        "Look at what the density does there: a scale that can shrink onto data that are equal "
        "needs a prior that keeps it from zero, or data with their rounding.",
        {f"rise along {name}": [first, second]},
    )


def plateau_diagnostics(density: Density, z: FloatArray, names: Sequence[str]) -> list[Diagnostic]:
    """Warning about a coordinate along which the density lasts, so that its integral has no end.

    As of a scale with a flat prior and a single observation, on the scale of its logarithm.

    Parameters
    ----------
    density : Density
    z : ndarray of shape (n, D)
        Draws.
    names : sequence of str
        Of the D coordinates.

    Returns
    -------
    list of Diagnostic
        One at most.
    """
    if (spread := _spread(z)) is None:
        return []
    centre = np.median(z, axis=0)
    path = TemperedPath.from_base(density, GaussianBase(centre, spread)).view
    way = np.tile((z[len(z) // 2] - centre) / spread, (_DOUBLINGS.size, 1))
    top = new_replicas(path, way[:1]).log_target[0]
    for i, sign in product(range(z.shape[1]), (1.0, -1.0)):
        u = way.copy()
        u[:, i] = sign * _DOUBLINGS
        far = new_replicas(path, u[_FAR : _FAR + 1]).log_target[0]
        if np.isfinite(far) and far < top - MAX_FALL:
            continue
        masses = new_replicas(path, u).log_target + np.log(_DOUBLINGS)
        # beyond the first that is not finite numbers overflow, or the support ends
        n = int(np.append(np.isfinite(masses), False).argmin())
        if n >= _LEAST_SEEN and np.diff(masses[n - _LEAST_SEEN : n]).min() > -MAX_LOSS:
            return [_plateau_diagnostic(names[i], float(_DOUBLINGS[n - 1]))]
    return []


def _plateau_diagnostic(name: str, reach: float) -> Diagnostic:
    return Diagnostic(
        "divergent_integral",
        f"along {name} the density falls no faster than one over the distance, as far as "
        f"{reach:.3g} standard deviations of the draws: it has no finite integral there, whatever "
        "is printed.",
        "Give the variable a proper prior, or more data than leave it free.",
        {f"distance along {name}": reach},
    )
