"""Where globals of a hierarchy are looked at: nodes of its map, tails, and how much mass it lacks.

Along an axis of their law all other globals stay in the middle. Where a scale vanishes they are
several standard deviations from there, so that axes show none of the mass of which a tenth was 5 to
60 standard deviations out. A ridge is where the density is largest at each place of one global.
"""

from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax
from scipy.stats import norm, qmc

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.conditional_kernels import Arrays
from pymc_tempering.engine.path.conditional_laws import Laws
from pymc_tempering.engine.path.path import Density
from pymc_tempering.references.nested_laplace import NestedLaplace
from pymc_tempering.references.quality import LADDER
from pymc_tempering.types import FloatArray

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

_STEP = 1e-2
"""Standard deviations of differences of the globals' density, of which eight digits are right."""

N_OF_LOCALS = 5
"""Draws of the locals at each place of a ridge; lacking is what over half of them lack. By a single
one that is below in one case of eleven, at a place with .3 of the mass, `volatility_vague` lost the
map of V 1.7 that it had, and took 2.8 million gradients for 100,000 (2026-12-01)."""

_HEAD_START = 0.1
"""Share of the gradients that the first places may take, in which factors are computed. With half
of it four models that take 5,000 to 7,000 were given up, such as `capture_recapture`."""


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


class Ridges(NamedTuple):
    """Places ``u`` (k, 11, k) of the largest log density at whole deviations of each global.

    ``highest`` (k, 11) is that by the coordinates of the globals' law, in nats and without a
    constant; -inf where there is none.
    """

    u: FloatArray
    highest: FloatArray

    @classmethod
    def of(
        cls, evaluate: Callable[[FloatArray, float], tuple[float, FloatArray]], k: int
    ) -> "Ridges":
        """Follow them outwards from the middle.

        ``evaluate`` takes a place (k,) and the share of places that are done, and gives the log
        density there with its gradient.
        """
        places = np.zeros((k, 2 * FARTHEST + 1, k))
        highest = np.full(places.shape[:2], -np.inf)
        n_done = 0

        def falling(others: FloatArray, i: int, r: float) -> tuple[float, FloatArray]:
            value, grad = evaluate(np.insert(others, i, r), n_done / highest.size)
            if not np.isfinite(value):
                return 1e300, np.zeros(k - 1)
            return -value, -np.delete(grad, i)

        for i, r in product(range(k), (*range(FARTHEST + 1), *range(-1, -FARTHEST - 1, -1))):
            if r in {0, -1}:
                others = np.delete(places[i, FARTHEST], i)
            lowest, _ = falling(others, i, float(r))
            if k > 1:
                found = minimize(falling, others, (i, float(r)), jac=True, method="BFGS",
                                 options={"gtol": 0.3, "maxiter": 10})  # fmt: skip
                lowest, others = found.fun, found.x
            places[i, FARTHEST + r] = np.insert(others, i, r)
            highest[i, FARTHEST + r] = -lowest if lowest < 1e300 else -np.inf
            n_done += 1
        return cls(places, highest)

    @property
    def log_mass(self) -> FloatArray:
        """The same (k, 11) above the middle of each."""
        return self.highest - self.highest[:, FARTHEST, None]

    @density_guard()
    def mass_missed(
        self, density: Density, made: ConditionalMap, rng: np.random.Generator
    ) -> float:
        """Share of the mass along one of them where a map's locals lack it; the largest.

        It takes :data:`N_OF_LOCALS` gradients for each place. V leaves out the lowest of its draws,
        and half of the mass was where 2 % of them are.
        """
        k = made.n_globals
        places = np.repeat(self.u.reshape(-1, k), N_OF_LOCALS, axis=0)
        normal = rng.standard_normal((len(places), made.dim - k))
        by_map, _ = made.pulled_back(density.address, np.hstack([places, normal]))
        # the constant that the density of the globals lacks is that of the locals' normals
        by_globals = np.repeat(self.highest.ravel(), N_OF_LOCALS) - 0.5 * (normal**2).sum(axis=1)
        below = ~(by_map >= by_globals - LADDER).reshape(*self.highest.shape, N_OF_LOCALS)
        lacks = below.mean(axis=-1) > 0.5
        return float((softmax(self.highest, axis=1) * lacks).sum(axis=1).max())


def ridges_by_nested(nested: NestedLaplace, made: ConditionalMap, most: float) -> Ridges | None:
    """Ridges of the globals' marginal density, by differences; None where they are too dear.

    That is where they would take more gradients than ``most`` at the rate of those that are done.
    """
    law, k = alone(made.arrays.mean, made.arrays.root, made.laws), made.n_globals
    units = np.sqrt((made.arrays.root**2).sum(axis=1))
    apart = np.vstack([np.zeros(k), _STEP * np.eye(k)])

    def evaluate(u: FloatArray, done: float) -> tuple[float, FloatArray]:
        if nested.n_gradients > most * (done + _HEAD_START):
            raise _TooDearError
        g, log_det = law.forward(u + apart)
        values = nested.at(g, units).log_marginal + log_det
        slopes = (values[1:] - values[0]) / _STEP
        return float(values[0]), np.where(np.isfinite(slopes), slopes, 0.0)

    try:
        with np.errstate(all="ignore"):
            return Ridges.of(evaluate, k)
    except _TooDearError:
        return None


class _TooDearError(Exception):
    pass
