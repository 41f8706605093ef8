"""The evidence of runs with one tempered replica beside one at the target: gibbs_ct and st."""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.continuous import bridged_log_z, continuous_tempering
from pymc_tempering.estimators.rts import rts, rts_bias_and_variance
from pymc_tempering.estimators.thermodynamic import thermodynamic_integration_rb
from pymc_tempering.evidence.common import MethodEstimate, one_setting
from pymc_tempering.numerics import MAX_PARETO_K, pareto_k
from pymc_tempering.types import FloatArray


def collect_gibbs_ct(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Estimate log Z of each chain by a bridge from the base over z to y.

    Beside it is eq. 21 of Graham & Storkey (2017). Where the target is zero on part of the base,
    the tempered replica never goes there, and the log of the base's mass on the support is added to
    it; it comes from the draws from the base of every scan. Refused with a DataError are draws from
    more than one bias, as those of tuning are.
    """
    knots, bias = (one_setting(statistics[name], name) for name in ("knots", "bias"))
    delta = statistics["delta"]
    n_chains = len(delta)
    log_z, influences = np.empty(n_chains), []
    log_z_levels = np.empty(knots.shape)
    common = _pair_arrays(statistics)
    mass = common["support_mass"]
    occupancy = np.empty(n_chains)
    for chain in range(n_chains):
        x = delta[chain].ravel()
        with np.errstate(divide="ignore"):
            log_mass = float(np.log(mass[chain]))
        log_z_levels[chain] = continuous_tempering(
            x, knots[chain], bias[chain], knots[chain], log_support_mass=log_mass
        ).log_z
        of_base, of_target = (statistics[n][chain].ravel() for n in ("base_delta", "target_delta"))
        estimate = bridged_log_z(x, of_base, knots[chain], bias[chain], of_target)
        log_z[chain] = estimate.log_z[-1]
        influences.append(estimate.influence)
        # few knots do not resolve where beta is: then eight bins do
        edges = knots[chain] if knots.shape[1] > 8 else np.linspace(0.0, 1.0, 9)
        counts, _ = np.histogram(statistics["beta"][chain], edges)
        occupancy[chain] = counts.min() * counts.size / statistics["beta"][chain].size
    arrays = {
        "betas": knots,
        "bias": bias,
        "log_z_levels": log_z_levels,
        "lowest_occupancy": occupancy,
        **common,
    }
    return MethodEstimate(
        log_z,
        influences,
        {
            "bridge": float(log_z.mean()),
            "continuous tempering": float(log_z_levels[:, -1].mean()),
        },
        arrays=arrays,
    )


def collect_st(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Estimate log Z of each chain by Rao-Blackwellised tempered sampling, others beside it.

    Eq. 12, 15, 16 and 21 of Carlson et al. (2016). Refused with a DataError are draws from more
    than one schedule, as those of tuning are.
    """
    betas, weights = (one_setting(statistics[n], n) for n in ("betas", "log_level_weights"))
    delta = statistics["delta"]
    n_chains = len(delta)
    log_z, influences = np.empty(n_chains), []
    ti_rb = np.full(n_chains, np.nan)
    by_level = ("log_z_levels", "level_probability", "log_z_bias", "log_z_variance")
    arrays = {name: np.full(betas.shape, np.nan) for name in by_level} | {
        "betas": betas,
        "log_level_weights": weights,
        **_pair_arrays(statistics),
    }
    for chain in range(n_chains):
        used = np.isfinite(betas[chain])
        ladder = delta[chain].ravel(), betas[chain][used], weights[chain][used]
        estimate = rts(*ladder)
        log_z[chain] = estimate.log_z[-1]
        influences.append(estimate.influence)
        bias, variance = rts_bias_and_variance(*ladder)
        for name, values in zip(
            by_level, (estimate.log_z, estimate.level_probability, bias, variance), strict=True
        ):
            arrays[name][chain, used] = values
        # from a mixture with the tails of a Cauchy delta has no mean
        with np.errstate(divide="ignore"):
            k = pareto_k(np.log(ladder[0].max() - ladder[0]))
        if np.isfinite(ladder[0]).all() and not k > MAX_PARETO_K:
            ti_rb[chain] = thermodynamic_integration_rb(*ladder).log_z[-1]
    per_method = {"rts": float(log_z.mean())}
    if np.isfinite(ti_rb).all():
        per_method["ti-rb"] = float(ti_rb.mean())
    return MethodEstimate(log_z, influences, per_method, arrays=arrays)


def _pair_arrays(statistics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """What both methods say of each chain; shape (chain,) each."""
    draws = statistics["n_base_draws"].sum(axis=1)
    return {
        "support_mass": statistics["n_base_support"].sum(axis=1) / np.maximum(draws, 1),
        "exchange_rate": statistics["exchange_rate"].mean(axis=1),
        "n_round_trips": statistics["n_round_trips"].sum(axis=1).astype(float),
        "n_tempered_restarts": statistics["n_tempered_restarts"].sum(axis=1).astype(float),
    }
