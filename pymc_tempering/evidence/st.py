"""The evidence of a run of simulated tempering, from its recorded statistics."""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.rts import rts, rts_bias_and_variance
from pymc_tempering.estimators.thermodynamic import thermodynamic_integration_rb
from pymc_tempering.evidence.common import MethodEstimate, one_setting, pair_arrays
from pymc_tempering.types import FloatArray

__all__ = ["collect"]


def collect(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
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
        **pair_arrays(statistics),
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
        if np.isfinite(ladder[0]).all():
            ti_rb[chain] = thermodynamic_integration_rb(*ladder).log_z[-1]
    per_method = {"rts": float(log_z.mean())}
    if np.isfinite(ti_rb).all():
        per_method["ti-rb"] = float(ti_rb.mean())
    return MethodEstimate(log_z, influences, per_method, arrays=arrays)
