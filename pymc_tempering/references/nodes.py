"""Where globals of a hierarchy are looked at: nodes of its map, and how far its tails reach."""

import numpy as np
from scipy.stats import norm, qmc

from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.conditional_kernels import Arrays
from pymc_tempering.engine.path.conditional_laws import Laws
from pymc_tempering.references.nested_laplace import NestedLaplace
from pymc_tempering.types import FloatArray

__all__ = ["FARTHEST", "N_NODES", "alone", "nodes_in_tails", "nodes_of", "profiles", "with_tails"]

N_NODES = 128
"""Nodes of the globals, half as many up to four, and twice as many beyond eight; a power of 2, as
Sobol's points are."""

_WIDER = 1.25
"""Times the globals' standard deviations, over which nodes are spread."""

FARTHEST = 5
"""Standard deviations along each global, up to which there are nodes too: what lies beyond all
nodes is extrapolated, and where that is wrong, mass is lost of which draws of the map say nothing.
"""

_MOST_PAIRS = 20
"""Of nodes in a tail; an exponential one reaches 25, and has no use for more."""

_TAILS = np.linspace(0.0, 1.5, 16)
"""Tails that are tried: at 1 they fall like an exponential, as that of the logarithm of a scale."""

_MOST_SHORT = 1.0
"""Nats by which the density far along a global may be above that of the map, in the middle 0."""


def nodes_of(tail: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Places of standard normal globals (N, k): from the middle outwards, and far along each."""
    k = len(tail)
    n_nodes = N_NODES // 2 if k <= 4 else N_NODES if k <= 8 else 2 * N_NODES
    spread = _WIDER * norm.ppf(qmc.Sobol(k, rng=rng).random(n_nodes))
    spread = spread[np.argsort((spread**2).sum(axis=1))]
    r = np.arange(1.0, FARTHEST + 1)
    near = [_along(of, r, tail, rng) for of in np.ndindex(tail.shape)]
    far = nodes_in_tails(np.zeros_like(tail), tail, rng)
    return np.vstack([np.zeros(k), spread, *near, far])


def nodes_in_tails(before: FloatArray, tail: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Places (N, k) between those that tails reached before and those that they reach.

    In pairs, as near to each other as single ones where there is no tail: where locals shrink by a
    factor of 100, means between nodes or beside them were up to 200 standard deviations off.
    """
    nodes = [np.empty((0, len(tail)))]
    for of in np.ndindex(tail.shape):
        reach, least = _reach(tail[of]), _reach(before[of])
        n_pairs = min(max(0, round(reach - least)), _MOST_PAIRS)
        r = np.linspace(reach, least, n_pairs, endpoint=False)
        beside = _along(of, r, tail, rng)
        other = -beside
        other[:, of[0]] *= -1.0
        nodes += [beside, other][: len(tail)]
    return np.vstack(nodes)


def _along(
    of: tuple[int, ...], r: FloatArray, tail: FloatArray, rng: np.random.Generator
) -> FloatArray:
    """Places (n, k) at distances ``r`` (n,) of one side of a global, with the others drawn."""
    places = rng.standard_normal((r.size, len(tail)))
    places[:, of[0]] = (2 * of[1] - 1) * _shortened(r, tail[of])
    return places


def alone(mean: FloatArray, root: FloatArray, laws: Laws) -> ConditionalMap:
    """The map of the globals without locals."""
    k = mean.size
    return ConditionalMap(Arrays(
        np.arange(k), np.zeros(1, np.int64), np.empty(0, np.int64), np.empty(0, np.int64),
        np.empty(0, np.int64), np.empty(0, np.int64), mean, root,
        np.zeros((1, k)), np.ones(k),
        np.zeros((1 + k, 1)), np.zeros((1, 1)), np.empty((0, 1 + k)), np.empty(0),
        np.empty((0, 1)),
        laws.shift[:k], laws.log_scale[:k], laws.skew[:k], *laws[3:-1], np.empty((0, 2)),
    ))  # fmt: skip


def with_tails(laws: Laws, log_mass: FloatArray) -> Laws:
    """Laws whose globals have the shortest tails that leave no mass beyond, on either side.

    Of each global, ``log_mass`` (k, 11) is the log density at whole standard deviations, ascending.
    """
    tail = np.array(laws.tail)
    places = np.arange(-FARTHEST, FARTHEST + 1)
    for i in range(len(log_mass)):
        for side, far in enumerate((places <= -3.0, places >= 3.0)):
            u = np.abs(places[far])
            # without the tail that is there: the density by r, of which u is a function
            r, slope = _lengthened(u, laws.tail[i, side])
            by_r = log_mass[i, far] - np.log(slope)
            for longer in _TAILS:
                other = _shortened(r, longer)
                above = by_r + np.log(_lengthened(other, longer)[1]) + 0.5 * other**2
                tail[i, side] = longer
                if above.max() <= _MOST_SHORT:
                    break
    return laws._replace(tail=tail)


def _reach(longer: FloatArray) -> float:
    return float(_lengthened(FARTHEST, longer)[0])


def _lengthened(u: FloatArray | float, longer: FloatArray | float) -> tuple[FloatArray, FloatArray]:
    """Positive residuals with a longer tail, and their derivatives."""
    power = 1.0 + longer
    y = power * np.arcsinh(u)
    return np.sinh(y) / power, np.cosh(y) / np.sqrt(1.0 + u * u)


def _shortened(r: FloatArray, longer: FloatArray | float) -> FloatArray:
    """Positive residuals that :func:`_lengthened` leads to others from."""
    power = 1.0 + longer
    return np.sinh(np.arcsinh(power * r) / power)


def profiles(nested: NestedLaplace, made: ConditionalMap) -> FloatArray:
    """Log marginal density (k, 11) along each global, where all others are in their middle.

    In nats above what it is in the middle; -inf where there is no mode of the locals.
    """
    k, places = made.n_globals, np.arange(-FARTHEST, FARTHEST + 1)
    law = alone(made.arrays.mean, made.arrays.root, made.laws)
    units = np.sqrt((made.arrays.root**2).sum(axis=1))
    # the middle first, from which the others start
    order = np.argsort(np.abs(places), kind="stable")
    log_mass = np.full((k, len(places)), -np.inf)
    for i in range(k):
        u = np.zeros((len(places), k))
        u[:, i] = places
        g, log_det = law.forward(u)
        along = np.empty(len(places))
        along[order] = nested.at(g[order], units).log_marginal + log_det[order]
        if np.isfinite(middle := along[order[0]]):
            log_mass[i] = along - middle
    return log_mass
