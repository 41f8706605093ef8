"""The evidence of a changed model from the weights of a run, with its error."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.reweighting import mbar_powers, reweight
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.evidence.common import MIN_ESS, scans_of_ladder
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.evidence.stored import recorded_statistics
from pymc_tempering.methods import load
from pymc_tempering.numerics import MAX_PARETO_K, pareto_k, weight_ess
from pymc_tempering.results.compact import DELTA_DIGIT
from pymc_tempering.types import FloatArray

__all__ = ["MIN_WEIGHTS", "Original", "Row", "from_draws", "from_ladder", "original_of"]

MIN_WEIGHTS = 20.0
"""Effective weights below which nothing is known of them, not even that their tail is light."""

HEAVY_PARETO_K = 0.5
"""Tail index beyond which weights have no variance, so that a standard error means little."""


class Original(NamedTuple):
    """The evidence of the run itself.

    Attributes
    ----------
    log_z, se : float
        In nats; nan where the run has none.
    per_chain : ndarray of shape (n_chains,), or None
    influence : ndarray of shape (n_chains, n_draws), or None
        Of every recorded draw; None where only the result was kept.
    """

    log_z: float
    se: float
    per_chain: FloatArray | None = None
    influence: FloatArray | None = None


class Row(NamedTuple):
    """The evidence of one changed model; in the order of the table."""

    log_z: float
    se: float
    log_bayes_factor: float
    log_bayes_factor_se: float
    weight_ess_share: float
    pareto_k: float
    source: str
    warning: str


def original_of(idata: xr.DataTree) -> Original:
    """Evidence of a run, with the influence of its draws where its statistics are there."""
    try:
        method, statistics = recorded_statistics(idata)
        parts = load(method.collect)(statistics)
    except DataError:
        return _stored(idata)
    if method.per_draw:
        # the estimate is from other draws than those of the result
        return _stored(idata)
    n_draws = statistics[method.needs[0]].shape[1]
    error = log_z_standard_error(parts.log_z, parts.influences)
    influence = None
    if all(len(series) % n_draws == 0 for series in parts.influences):
        influence = np.stack([s.reshape(n_draws, -1).mean(axis=1) for s in parts.influences])
    return Original(float(np.mean(parts.log_z)), error.se, parts.log_z, influence)


def _stored(idata: xr.DataTree) -> Original:
    try:
        estimate = stored_estimate(idata)
    except DataError:
        # draws of another sampler: ratios of evidences need no more than these
        return Original(np.nan, np.nan)
    return Original(estimate.log_z, estimate.se)


def from_draws(original: Original, log_weights: FloatArray) -> Row:
    """Evidence of a changed model from the weights of posterior draws.

    Parameters
    ----------
    original : Original
    log_weights : ndarray of shape (n_chains, n_draws)
        In nats.
    """
    ratio = reweight(log_weights)
    error = log_z_standard_error(np.zeros(len(log_weights)), ratio.influence)
    influence, per_chain = original.influence, original.per_chain
    if per_chain is not None and influence is not None and influence.shape == log_weights.shape:
        # both come from the same scans: their errors add scan by scan
        se = log_z_standard_error(per_chain, influence + ratio.influence).se
    else:
        # how they are correlated is not known, so the bound is given
        se = original.se + error.se
    return Row(
        original.log_z + ratio.log_ratio,
        se,
        ratio.log_ratio,
        error.se,
        ratio.weight_ess / log_weights.size,
        ratio.pareto_k,
        "draws",
        _diagnostic(ratio.pareto_k, ratio.weight_ess, error.ess),
    )


def from_ladder(
    idata: xr.DataTree, powers: list[float], log_likelihood: FloatArray
) -> list[Row] | None:
    """Evidence under likelihood powers from all levels, where delta is the log likelihood.

    Parameters
    ----------
    idata : xarray.DataTree
    powers : list of float
    log_likelihood : ndarray of shape (n_chains, n_draws)
        At the recorded draws.

    Returns
    -------
    list of Row, or None
        None where the run is not one of parallel tempering, or its base is not the prior.
    """
    try:
        method, statistics = recorded_statistics(idata)
        if method.name != "pt":
            return None
    except DataError:
        return None
    if not _base_is_prior(statistics, log_likelihood):
        return None
    chains = []
    for delta, betas in zip(statistics["delta"], statistics["betas"], strict=True):
        n = int(np.isfinite(betas[0]).sum())
        chains.append(mbar_powers(scans_of_ladder(delta, n), betas[0, :n], [*powers, 1.0]))
    rows = []
    for i in range(len(powers)):
        log_z = [chain.log_z[i] for chain in chains]
        log_ratio = [chain.log_z[i] - chain.log_z[-1] for chain in chains]
        differences = [chain.influence[i] - chain.influence[-1] for chain in chains]
        error = log_z_standard_error(log_ratio, differences)
        weights = np.concatenate([chain.log_weights[i] for chain in chains])
        k, ess = pareto_k(weights), weight_ess(weights)
        rows.append(
            Row(
                float(np.mean(log_z)),
                log_z_standard_error(log_z, [chain.influence[i] for chain in chains]).se,
                float(np.mean(log_ratio)),
                error.se,
                ess / weights.size,
                k,
                "ladder",
                _diagnostic(k, ess, error.ess),
            )
        )
    return rows


def _base_is_prior(statistics: Mapping[str, FloatArray], log_likelihood: FloatArray) -> bool:
    # the last scan of a draw ends in the recorded draw, at the highest level in use
    top = np.isfinite(statistics["betas"]).sum(axis=-1) - 1
    target = np.take_along_axis(statistics["delta"], top[..., None, None], axis=-1)[..., 0]
    scan = np.isfinite(target).sum(axis=-1, keepdims=True) - 1
    last = np.take_along_axis(target, scan, axis=-1)[..., 0]
    if last.shape != log_likelihood.shape:
        return False
    return bool(np.allclose(last, log_likelihood, rtol=1e-6, atol=DELTA_DIGIT))


def _diagnostic(k: float, ess: float, independent: float) -> str:
    if not np.isfinite(ess) or ess < MIN_WEIGHTS or np.isnan(k) or k > MAX_PARETO_K:
        return "weights_collapse"
    if k > HEAVY_PARETO_K:
        return "heavy_tailed_weights"
    if min(ess, independent) < MIN_ESS:
        return "too_few_effective_draws"
    return ""
