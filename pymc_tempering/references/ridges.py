"""Where the globals of a hierarchy have mass, and how much of it a map lacks.

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

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.references.nested_laplace import NestedLaplace
from pymc_tempering.references.nodes import FARTHEST, alone
from pymc_tempering.references.quality import LADDER
from pymc_tempering.types import FloatArray

__all__ = ["Ridges", "ridges_by_nested"]

_STEP = 1e-2
"""Standard deviations of differences of the globals' density, of which eight digits are right."""

_HEAD_START = 0.1
"""Share of the gradients that the first places may take, in which factors are computed. With half
of it four models that take 5,000 to 7,000 were given up, such as `capture_recapture`."""


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

        It takes a gradient for each place. V leaves out the lowest of its draws, and half of the
        mass was where 2 % of them are.
        """
        k = made.n_globals
        normal = rng.standard_normal((self.highest.size, made.dim - k))
        by_map, _ = made.pulled_back(density.address, np.hstack([self.u.reshape(-1, k), normal]))
        # the constant that the density of the globals lacks is that of the locals' normals
        by_globals = self.highest.ravel() - 0.5 * (normal**2).sum(axis=1)
        lacks = ~(by_map >= by_globals - LADDER).reshape(self.highest.shape)
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
