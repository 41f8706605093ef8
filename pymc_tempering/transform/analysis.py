"""What tempered draws say: weights at beta = 1, and log Z of every chain.

The statistics that these functions take are what :func:`.untempered.stored_statistics` reads:
``delta`` and ``beta`` (chain, draw); ``base_delta`` (chain, base_draw), at independent draws from
the base, different ones for each chain, ``-inf`` outside the support and nan beyond the number of
a chain; ``knots`` and ``bias`` (chain, knot); ``diverging`` (chain, draw) where it was recorded;
``position`` (chain, draw, D) in base coordinates, of fresh draws only, and ``base_mean_error``
(chain,), which is made from it.
"""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.continuous import (
    bridged_log_z,
    continuous_tempering,
    log_beta_density,
)
from pymc_tempering.estimators.stepping_stone import support_mass
from pymc_tempering.estimators.uncertainty import chain_standard_errors
from pymc_tempering.evidence.common import MethodEstimate
from pymc_tempering.numerics import weight_ess
from pymc_tempering.transform.bias import Bias
from pymc_tempering.types import FloatArray


def collect(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Weigh tempered draws and estimate log Z of every chain."""
    delta, beta, base_delta = (statistics[name] for name in ("delta", "beta", "base_delta"))
    mass = support_mass(base_delta[~np.isnan(base_delta)]).log_mass
    pieces = _piecewise_linear(statistics)
    continuous = np.stack(
        [
            continuous_tempering(row, *bias, betas=knots, log_support_mass=mass).log_z
            for row, bias, knots in zip(delta, pieces, statistics["knots"], strict=True)
        ]
    )
    log_weights, log_weights_base = (
        np.stack([log_beta_density(row, *b, end) for row, b in zip(delta, pieces, strict=True)])
        for end in (1.0, 0.0)
    )
    arrays = {
        "log_z_levels": continuous,
        "log_z_continuous": continuous[:, -1],
        "weight_ess": np.array([weight_ess(row) for row in log_weights]),
        "base_weight_ess": np.array([weight_ess(row) for row in log_weights_base]),
        "n_round_trips": np.array([_round_trips(row) for row in beta], dtype=float),
        "n_divergences": np.full(len(delta), np.nan),
        "base_mean_error": np.full(len(delta), np.nan),
        "support_mass": np.full(len(delta), np.exp(mass)),
        "log_weights": log_weights,
    }
    arrays |= {n: statistics[n] for n in ("delta", "beta", "base_delta", "knots", "bias")}
    if "diverging" in statistics:
        arrays["diverging"] = statistics["diverging"]
        arrays["n_divergences"] = statistics["diverging"].sum(axis=1).astype(np.float64)
    if "position" in statistics:
        pairs = zip(statistics["position"], log_weights_base, strict=True)
        arrays["base_mean_error"] = np.array([_base_mean_error(u, row) for u, row in pairs])
    carried = {"base_mean_error", "base_mean", "base_scale", "tempered_draw"} & set(statistics)
    arrays |= {name: statistics[name] for name in sorted(carried)}
    parts = collect_bridge(statistics)
    parts.per_method["bridge"] = float(parts.log_z.mean())
    parts.per_method["continuous tempering"] = float(continuous[:, -1].mean())
    parts.arrays.update(arrays)
    return parts


def collect_bridge(statistics: Mapping[str, FloatArray]) -> MethodEstimate:
    """Estimate log Z as :func:`collect` does, and nothing else."""
    chains = [
        bridged_log_z(row, base[~np.isnan(base)], *bias)
        for row, base, bias in zip(
            statistics["delta"], statistics["base_delta"], _piecewise_linear(statistics),
            strict=True,
        )
    ]  # fmt: skip
    log_z = np.array([chain.log_z[-1] for chain in chains])
    influences = [chain.influence for chain in chains]
    # of 10,000 draws from the base, 500 are enough for its end of log Z
    return MethodEstimate(log_z, influences, least_support=0.05)


def _piecewise_linear(statistics: Mapping[str, FloatArray]) -> list[tuple[FloatArray, FloatArray]]:
    pairs = zip(statistics["knots"], statistics["bias"], strict=True)
    return [Bias(*pair).piecewise_linear() for pair in pairs]


def _round_trips(beta: FloatArray) -> int:
    """Count passages from the cold end, the last tenth of beta, to the first and back."""
    ends = np.where(beta >= 0.9, 1, np.where(beta <= 0.1, -1, 0))
    ends = ends[ends != 0]
    return int((np.diff(ends) != 0).sum() // 2)


def _base_mean_error(u: FloatArray, log_weights: FloatArray) -> float:
    """Largest error of the base's known mean by eq. 23, in standard errors, over coordinates.

    nan with fewer than 30 effective weights, of which there is no error to go by.
    """
    if weight_ess(log_weights) < 30.0:
        return np.nan
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.mean()
    used = weights > 0.0
    u = np.where(used[:, None], u.reshape(len(u), -1), 0.0)
    means = (weights[:, None] * u).mean(axis=0)
    influences = (weights[:, None] * (u - means)).T
    errors = np.abs(means) / np.maximum(chain_standard_errors(influences), 1e-12)
    return float(errors.max())
