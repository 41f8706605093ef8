"""The law of a hierarchy's globals alone, where its locals are normal given them.

A map has the locals' moments interpolated. Slopes of a sum that data pin, or of a chain that does
not move, would have to be right to the width of what is pinned over that of what is summed: where a
scale may vanish no number of nodes suffices, and a map misses what mass there is. Locals that are
normal need no interpolation (:mod:`pymc_tempering.model.normal_locals`), for some ten gradients or
forty an evaluation in place of one.
"""

from dataclasses import replace
from itertools import product
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.normal_locals import NormalLocals, are_normal, n_each
from pymc_tempering.model.structure import Structure
from pymc_tempering.references.conditional import least_variance, mend
from pymc_tempering.references.nodes import FARTHEST, alone, with_tails
from pymc_tempering.references.quality import LADDER, N_MANY, TRIMMED
from pymc_tempering.types import FloatArray

__all__ = ["found_normal"]

_N_LOOKED = 8
"""Draws of a map at which it is looked whether locals are normal."""

_N_OF_LAW = 3000
"""Evaluations that the law of up to ten globals takes, with those by which it is judged."""


def found_normal(
    density: CompiledDensity, structure: Structure, made: ConditionalMap,
    rng: np.random.Generator, most: float, *, is_used: bool,
) -> tuple[NormalLocals | None, float, int]:  # fmt: skip
    """Coordinates without interpolation, V of their law, and gradients.

    None where locals are not normal, where fitting the law would take more than ``most``, and where
    the map ``made`` ``is_used`` and lacks no mass.
    """
    if _N_OF_LAW * n_each(structure) > most:
        return None, np.inf, 0
    z = made.from_base(rng.standard_normal((_N_LOOKED, structure.dim)))
    is_normal, n_gradients = are_normal(density, structure, z, rng)
    if not is_normal:
        return None, np.inf, n_gradients
    law = alone(made.arrays.mean, made.arrays.root, made.laws)
    normal, n = NormalLocals.of(density, structure, law)
    n_gradients += n
    ridges = _Ridges.of(normal.marginal, law)
    n_gradients += normal.n_each * ridges.n_evaluations
    if is_used:
        n_gradients += ridges.highest.size
        if ridges.mass_missed(density, made, rng) <= TRIMMED:
            return None, np.inf, n_gradients
    law = law.with_laws(with_tails(law.laws, ridges.highest - ridges.highest[:, FARTHEST, None]))
    # with locals that are right everywhere, scores of globals are of these alone, in tails too
    mended, n = mend(normal.marginal, law, rng)
    lowest, best = least_variance(normal.marginal, (law, mended), rng)
    n_gradients += normal.n_each * (n + 2 * N_MANY)
    return replace(normal, of_globals=mended if best is None else best), lowest, n_gradients


class _Ridges(NamedTuple):
    """Places ``u`` (k, 11, k) of the largest log density at whole deviations of each global.

    ``highest`` (k, 11) is in nats, -inf where there is none. Where a scale vanishes the others are
    elsewhere: along an axis there was none of the mass of which a tenth was 5 to 60 standard
    deviations out.
    """

    u: FloatArray
    highest: FloatArray
    n_evaluations: int

    @classmethod
    @density_guard()
    def of(cls, marginal: CompiledDensity, law: ConditionalMap) -> "_Ridges":
        """Follow them outwards, by a density of the globals in the coordinates of their law."""
        k, n_evaluations = law.n_globals, 0
        places = np.zeros((k, 2 * FARTHEST + 1, k))
        highest = np.full(places.shape[:2], -np.inf)

        def falling(others: FloatArray, i: int, r: float) -> tuple[float, FloatArray]:
            nonlocal n_evaluations
            n_evaluations += 1
            values, grads = law.pulled_back(marginal.address, np.insert(others, i, r)[None])
            if not np.isfinite(values[0]):
                return 1e300, np.zeros(k - 1)
            return -values[0], -np.delete(grads[0], i)

        for i, side in product(range(k), (1, -1)):
            others = np.zeros(k - 1)
            for r in range(0, side * (FARTHEST + 1), side):
                lowest, _ = falling(others, i, float(r))
                if k > 1:
                    found = minimize(falling, others, (i, float(r)), jac=True, method="BFGS",
                                     options={"gtol": 0.1, "maxiter": 20})  # fmt: skip
                    lowest, others = found.fun, found.x
                places[i, FARTHEST + r] = np.insert(others, i, r)
                highest[i, FARTHEST + r] = -lowest if lowest < 1e300 else -np.inf
        return cls(places, highest, n_evaluations)

    @density_guard()
    def mass_missed(
        self, density: CompiledDensity, made: ConditionalMap, rng: np.random.Generator
    ) -> float:
        """Share of the mass along one of them where a map's locals lack it; the largest.

        V leaves out the lowest of its draws, and half of the mass was where 2 % of them are.
        """
        k = made.n_globals
        normal = rng.standard_normal((self.highest.size, made.dim - k))
        by_map, _ = made.pulled_back(density.address, np.hstack([self.u.reshape(-1, k), normal]))
        # the constant that the density of the globals lacks is that of the locals' normals
        by_globals = self.highest.ravel() - 0.5 * (normal**2).sum(axis=1)
        lacks = ~(by_map >= by_globals - LADDER).reshape(self.highest.shape)
        return float((softmax(self.highest, axis=1) * lacks).sum(axis=1).max())
