"""The law of a hierarchy's globals alone, where its locals are normal given them.

A map has the locals' moments interpolated. Slopes of a sum that data pin, or of a chain that does
not move, would have to be right to the width of what is pinned over that of what is summed: where a
scale may vanish no number of nodes suffices, and a map misses what mass there is. Locals that are
normal need no interpolation (:mod:`pymc_tempering.model.normal_locals`), for some ten gradients or
forty an evaluation in place of one.
"""

from dataclasses import replace

import numpy as np
from scipy.special import softmax

from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.normal_locals import NormalLocals, are_normal, n_each
from pymc_tempering.model.structure import Structure
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references.conditional import Draws, least_variance, mend
from pymc_tempering.references.nested_laplace import NestedLaplace
from pymc_tempering.references.nodes import alone, with_tails
from pymc_tempering.references.quality import LADDER, N_DRAWS, N_MANY, TRIMMED

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
    if is_used:
        missed, n = _mass_missed(density, structure, made, rng)
        n_gradients += n
        if missed <= TRIMMED:
            return None, np.inf, n_gradients
    found, lowest, n = _with_own_law(density, structure, made, rng)
    return found, lowest, n_gradients + n


def _with_own_law(
    density: CompiledDensity, structure: Structure, before: ConditionalMap,
    rng: np.random.Generator,
) -> tuple[NormalLocals, float, int]:  # fmt: skip
    """Fit the globals' law alone, as that of a map, with locals that are normal; V, and gradients.

    With locals that are right everywhere, scores of the globals are of these alone, in tails too.
    """
    place = before.from_base(np.zeros(structure.dim))
    law = alone(before.arrays.mean, before.arrays.root, before.laws)
    nested = NestedLaplace(density, structure, place)
    law = law.with_laws(with_tails(nested, law))
    made, n_of_span = NormalLocals.of(density, structure, law, place)
    mended, n = mend(made.marginal, law, rng)
    lowest, best = least_variance(made.marginal, (law, mended), rng)
    law = mended if best is None else best
    made = replace(made, of_globals=law.with_laws(with_tails(nested, law)))
    n_gradients = nested.n_gradients + n_of_span + made.n_each * (n + 2 * N_MANY)
    return made, lowest, n_gradients


def _mass_missed(
    density: Density, structure: Structure, made: ConditionalMap, rng: np.random.Generator
) -> tuple[float, int]:
    """Share of the mass where a map lacks it, and the gradients that tell; locals are normal.

    V leaves out the lowest of its draws. Weights of their globals alone say what mass they are of:
    where several scales may vanish, half of it was where 2 % of the draws are.
    """
    draws = Draws.of(density, made, rng, N_DRAWS)
    nested = NestedLaplace(density, structure, made.from_base(np.zeros(structure.dim)))
    law, k = alone(made.arrays.mean, made.arrays.root, made.laws), made.n_globals
    u = np.vstack([np.zeros(k), draws.u[:, :k]])
    g, log_det = law.forward(u)
    by_globals = nested.at(g, np.sqrt((made.arrays.root**2).sum(axis=1))).log_marginal + log_det
    by_globals += 0.5 * (u * u).sum(axis=1) + 0.5 * structure.dim * LOG_2PI
    weights = softmax(by_globals[1:])
    lacks = draws.log_weights < by_globals[1:] - LADDER
    return float(weights[lacks].sum()), nested.n_gradients + N_DRAWS
