"""The law of a hierarchy's globals alone, where its locals are normal given them.

A map has the locals' moments interpolated. Slopes of a sum that data pin, or of a chain that does
not move, would have to be right to the width of what is pinned over that of what is summed: where a
scale may vanish no number of nodes suffices, and a map misses what mass there is. Locals that are
normal need no interpolation (:mod:`pymc_tempering.model.normal_locals`), for some ten gradients or
forty an evaluation in place of one.
"""

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.conditional import ConditionalMap
from pymc_tempering.engine.path.path import density_at
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.normal_locals import NormalLocals, are_normal, n_each, n_to_see
from pymc_tempering.model.structure import Structure
from pymc_tempering.references.conditional import least_variance, mend
from pymc_tempering.references.nodes import N_OF_LOCALS, Ridges, alone, with_tails
from pymc_tempering.references.quality import LADDER, N_MANY
from pymc_tempering.types import FloatArray

_N_LOOKED = 8
"""Draws of a map at which it is looked whether locals are normal."""

_N_OF_LAW = 3000
"""Evaluations that the law of up to ten globals takes, with those by which it is judged."""

_MOST_PRODUCTS = 35_000
"""Of numbers in the factorisations of an evaluation, for each value of the model: they take as long
as 400 gradients. A run has some 20,000 evaluations, and one without a map 3 million gradients."""


def normal_locals_of(
    density: CompiledDensity, structure: Structure, made: ConditionalMap,
    rng: np.random.Generator, most: float,
) -> tuple[NormalLocals | None, int]:  # fmt: skip
    """Coordinates without interpolation, with the globals' law of a map, and gradients.

    None where locals are not normal, and where fitting a law would take more than ``most``.
    """
    if _N_OF_LAW * n_each(structure) > most and not _may_be_cheap(structure, most):
        return None, 0
    z = made.from_base(rng.standard_normal((_N_LOOKED, structure.dim)))
    is_normal, n_gradients = are_normal(density, structure, z, rng)
    if not is_normal:
        return None, n_gradients
    law = alone(made.arrays.mean, made.arrays.root, made.laws)
    normal, n = NormalLocals.of(density, structure, law)
    n_gradients += n
    return normal if _N_OF_LAW * normal.n_each <= most else None, n_gradients


def _may_be_cheap(structure: Structure, most: float) -> bool:
    """Whether few matrices, of which all precisions may be sums, would make up for many colours."""
    k = len(structure.globals)
    products = (2 + k) * (np.diff(structure.system.begins) ** 2).sum() / 2
    dearest = _MOST_PRODUCTS * structure.dim
    return n_to_see(structure) + _N_OF_LAW * (2 * k + 3) <= most and products <= dearest


@density_guard()
def ridges_of_normal(normal: NormalLocals) -> tuple[Ridges, int]:
    """Ridges of the globals' density, and gradients."""
    n_evaluations = 0

    def evaluate(u: FloatArray, _: float) -> tuple[float, FloatArray]:
        nonlocal n_evaluations
        n_evaluations += 1
        values, grads = normal.of_globals.pulled_back(normal.marginal.address, u[None])
        return float(values[0]), grads[0]

    ridges = Ridges.of(evaluate, normal.n_globals)
    return ridges, normal.n_each * n_evaluations


def mass_missed(
    density: CompiledDensity, made: ConditionalMap, ridges: Ridges, normal: NormalLocals | None,
    rng: np.random.Generator,
) -> tuple[float, int]:  # fmt: skip
    """Share of the mass of which a map has less than it should, and gradients.

    Normal locals have draws of all of it. Ridges show little of where several scales vanish at
    once: of three coefficients that vary in time they said .6 %, draws say 10 %, and log Z was off
    by .07. With 2 nats for 8, 6 % of correlated slopes were missed, whose log Z was right: 1.2
    million gradients for 80,000.
    """
    if normal is None:
        return ridges.mass_missed(density, made, rng), N_OF_LOCALS * ridges.highest.size
    normal = replace(normal, of_globals=_with_tails_of(normal.of_globals, ridges))
    u = rng.standard_normal((N_MANY, normal.dim))
    z, log_det = normal.forward(u)
    values = density_at(density.address, z)[0]
    mapped = made.to_base(z)
    log_target, log_ratio = (
        values + more + 0.5 * (of * of).sum(axis=1)
        for of, more in ((u, log_det), (mapped, made.forward(mapped)[1]))
    )
    log_target[np.isnan(log_target)] = -np.inf
    log_mass = logsumexp(log_target) - np.log(N_MANY)
    lacks = ~(log_ratio <= log_mass + LADDER)
    return float(softmax(log_target) @ lacks), N_MANY * (normal.n_of_moments + 1)


def _with_tails_of(law: ConditionalMap, ridges: Ridges) -> ConditionalMap:
    return law.with_laws(with_tails(law.laws, ridges.log_mass))


def with_own_law(
    normal: NormalLocals, ridges: Ridges, rng: np.random.Generator
) -> tuple[NormalLocals, float, int]:
    """Fit the globals' law alone, as that of a map; V, and gradients.

    With locals that are right everywhere, scores of the globals are of these alone, in tails too.
    """
    law = _with_tails_of(normal.of_globals, ridges)
    mended, n = mend(normal.marginal, law, rng)
    lowest, best = least_variance(normal.marginal, (law, mended), rng)
    made = replace(normal, of_globals=mended if best is None else best)
    return made, lowest, normal.n_each * (n + 2 * N_MANY)
