"""Posterior and evidence of more data without chains: a fit to the old draws, and weights."""

from dataclasses import replace

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.common import with_warnings
from pymc_tempering.evidence.many_result import labelled_draws
from pymc_tempering.evidence.many_worker import IMPORTANCE
from pymc_tempering.model.at_draws import constrained_draws
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.identity import Identity
from pymc_tempering.model.open_data import value_of
from pymc_tempering.model.point import PointMap
from pymc_tempering.numerics import one_blas_thread, weight_ess
from pymc_tempering.references.importance import (
    N_DRAWS,
    OneMode,
    QuickEvidence,
    evidence_at_mode,
    log_mean_weight,
)
from pymc_tempering.references.posterior import PosteriorDraws
from pymc_tempering.references.prepare import prepare
from pymc_tempering.results.datatree import attach_estimate
from pymc_tempering.results.identity import observed_values, with_identity

__all__ = ["by_weights", "run_of_weights"]

TARGET_SE = 0.02
"""Nats, as of `estimate_many`, and what a run has that is sampled with defaults."""


def by_weights(
    density: CompiledDensity,
    known: PosteriorDraws,
    rng: np.random.Generator,
    n_draws: int,
    most: float,
) -> tuple[QuickEvidence | None, int, int]:
    """Weighted draws of the one mode, or None; gradients of the search for it, and of all.

    The draws and the ascents around them are to have found the same one mode.
    """
    if density.no_gradient or most <= N_DRAWS:
        return None, 0, 0
    with one_blas_thread():
        prepared = prepare(density, density.start, rng, draws=known, most=most)
        n = prepared.search.n_gradients
        several = len(prepared.fits) > 1 or prepared.poorly_fitted
        if several or prepared.search.mass_once > 0.0 or most - n <= N_DRAWS:
            return None, n, n
        # of equal weight, none comes twice
        found = evidence_at_mode(
            density, OneMode(prepared.fits[0], 0), rng, target_se=TARGET_SE, n_draws=2 * n_draws,
            most=most - n,
        )  # fmt: skip
    return None if found.doubt else found, n, n + found.n_gradients


def run_of_weights(
    model: pm.Model,
    found: QuickEvidence,
    points: PointMap,
    rng: np.random.Generator,
    *,
    draws: int,
    chains: int,
    n_search: int,
    warnings: list[Diagnostic],
) -> LogZEstimate:
    """Estimate with a run of independent draws, dealt out to chains.

    ``points`` are those of the density that was weighted.
    """
    names = [v.name for v in (*model.free_RVs, *model.deterministics)]
    z = found.draws(draws * chains, rng)
    # copies of a draw are neighbours otherwise, as in a slow chain
    values = constrained_draws(model, names, points)(rng.permutation(z))
    arrays = {name: v.reshape(chains, draws, *v.shape[1:]) for name, v in values.items()}
    held = [d for d in model.data_vars if d not in model.values_to_rvs]
    constants = {d.name: np.asarray(value_of(d)) for d in held}
    groups = {
        "posterior": labelled_draws(model, arrays, ("chain", "draw")),
        "observed_data": labelled_draws(model, observed_values(model), ()),
        "constant_data": labelled_draws(model, constants, ()),
    }
    for name, data in groups.items():
        # numbers where there are no labels, as PyMC has them
        numbers = {d: np.arange(n) for d, n in data.sizes.items() if d not in data.coords}
        groups[name] = data.assign_coords(numbers)
    log_weights = found.weighted[1]
    estimate = LogZEstimate(
        found.log_z, found.se, IMPORTANCE,
        np.array([log_mean_weight(part)[0] for part in np.array_split(log_weights, chains)]),
        ess=weight_ess(log_weights), gradients={"search": n_search, "draws": found.n_gradients},
    )  # fmt: skip
    estimate = with_warnings(estimate, warnings)
    run = with_identity(
        xr.DataTree.from_dict({name: data for name, data in groups.items() if data}),
        Identity.of(model),
    )
    return replace(estimate, idata=attach_estimate(run, estimate, {}))
