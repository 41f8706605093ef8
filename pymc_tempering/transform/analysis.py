"""What the draws of a tempered model say: weights at beta = 1, log Z, and what is doubtful."""

from dataclasses import dataclass

import numpy as np
import xarray as xr

from pymc_tempering.estimators.continuous import continuous_tempering, log_beta_density
from pymc_tempering.estimators.stepping_stone import support_mass
from pymc_tempering.estimators.uncertainty import chain_standard_errors
from pymc_tempering.evidence.common import MethodEstimate
from pymc_tempering.numerics import weight_ess
from pymc_tempering.transform.bias import Bias
from pymc_tempering.transform.bridge import bridged_log_z
from pymc_tempering.transform.record import JointRecord, record_of_draws
from pymc_tempering.types import FloatArray

__all__ = ["TemperedRun", "analyse", "analyse_record", "bridge_chains"]

_COLD, _HOT = 0.9, 0.1
_MIN_BASE_ESS = 30.0
_MIN_SUPPORT = 0.05


@dataclass(frozen=True)
class TemperedRun:
    """Draws of a tempered model, weighted.

    Attributes
    ----------
    log_weights : ndarray of shape (n_chains, n_draws)
        ``log p(beta = 1 | z)`` of each draw, in nats.
    log_z : ndarray of shape (n_chains,)
        By :func:`pymc_tempering.transform.bridge.bridged_log_z`.
    log_z_continuous : ndarray of shape (n_chains,)
        By eq. 21 of Graham & Storkey (2017), generalised to any bias.
    influences : list of ndarray of shape (n_draws,)
        First-order contribution of each draw to the error of its chain's log Z.
    arrays : dict of ndarray
        For the group ``tempering``: per chain, and all that the estimate was made from.
    """

    log_weights: FloatArray
    log_z: FloatArray
    log_z_continuous: FloatArray
    influences: list[FloatArray]
    arrays: dict[str, FloatArray]

    @property
    def parts(self) -> MethodEstimate:
        """The same in the form that all methods share."""
        return MethodEstimate(
            log_z=self.log_z,
            influences=self.influences,
            per_method={
                "bridge": float(self.log_z.mean()),
                "continuous tempering": float(self.log_z_continuous.mean()),
            },
            least_support=_MIN_SUPPORT,
            arrays=self.arrays,
        )


def analyse(idata: xr.DataTree) -> TemperedRun:
    """Weigh the draws of a tempered model and estimate log Z of every chain.

    Parameters
    ----------
    idata : xarray.DataTree
        What ``pm.sample`` returned inside the model that :func:`temper` made, at once or read back
        from a file.

    Raises
    ------
    DataError
        If a variable that the tempered model records is missing or was not sampled.
    """
    record, base = record_of_draws(idata)
    run = analyse_record(record)
    run.arrays.update(base)
    return run


def analyse_record(record: JointRecord) -> TemperedRun:
    """Weigh draws and estimate log Z of every chain, from what is kept of a run."""
    delta, beta = record.delta, record.beta
    mass = support_mass(record.base_delta[~np.isnan(record.base_delta)]).log_mass
    fine = _piecewise_linear(record)
    continuous = np.stack(
        [
            continuous_tempering(row, *bias, betas=knots, log_support_mass=mass).log_z
            for row, bias, knots in zip(delta, fine, record.knots, strict=True)
        ]
    )
    log_weights, log_weights_base = (
        np.stack([log_beta_density(row, *bias, end) for row, bias in zip(delta, fine, strict=True)])
        for end in (1.0, 0.0)
    )
    n_chains = len(delta)
    arrays = {
        "log_z_levels": continuous,
        "log_z_continuous": continuous[:, -1],
        "weight_ess": np.array([weight_ess(row) for row in log_weights]),
        "base_weight_ess": np.array([weight_ess(row) for row in log_weights_base]),
        "n_round_trips": np.array([_round_trips(row) for row in beta], dtype=float),
        "n_divergences": np.full(n_chains, np.nan),
        "base_mean_error": np.full(n_chains, np.nan),
        "support_mass": np.full(n_chains, np.exp(mass)),
        "log_weights": log_weights,
    }
    arrays |= {name: getattr(record, name) for name in ("delta", "beta", "base_delta")}
    arrays |= {"knots": record.knots, "bias": record.bias}
    if record.diverging is not None:
        arrays["diverging"] = record.diverging
        arrays["n_divergences"] = record.diverging.sum(axis=1).astype(np.float64)
    if record.position is not None:
        arrays["base_mean_error"] = np.array(
            [
                _base_mean_error(u, row)
                for u, row in zip(record.position, log_weights_base, strict=True)
            ]
        )
    elif record.base_mean_error is not None:
        arrays["base_mean_error"] = record.base_mean_error
    log_z, influences = bridge_chains(record)
    return TemperedRun(
        log_weights=log_weights,
        log_z=log_z,
        log_z_continuous=continuous[:, -1],
        influences=influences,
        arrays=arrays,
    )


def bridge_chains(record: JointRecord) -> tuple[FloatArray, list[FloatArray]]:
    """Estimate log Z of every chain by Bennett's ratio with draws from the base.

    Returns
    -------
    log_z : ndarray of shape (n_chains,)
    influences : list of ndarray of shape (n_draws,)
    """
    chains = [
        bridged_log_z(row, base[~np.isnan(base)], *bias)
        for row, base, bias in zip(
            record.delta, record.base_delta, _piecewise_linear(record), strict=True
        )
    ]
    log_z = np.array([chain.log_z[-1] for chain in chains])
    return log_z, [chain.influence for chain in chains]


def _piecewise_linear(record: JointRecord) -> list[tuple[FloatArray, FloatArray]]:
    return [Bias(*pair).piecewise_linear() for pair in zip(record.knots, record.bias, strict=True)]


def _round_trips(beta: FloatArray) -> int:
    """Count passages from the cold end to the hot one and back."""
    ends = np.where(beta >= _COLD, 1, np.where(beta <= _HOT, -1, 0))
    ends = ends[ends != 0]
    return int((np.diff(ends) != 0).sum() // 2)


def _base_mean_error(u: FloatArray, log_weights: FloatArray) -> float:
    """Largest error of the base's known mean by eq. 23, in standard errors, over coordinates."""
    if weight_ess(log_weights) < _MIN_BASE_ESS:
        return np.nan
    weights = np.exp(log_weights - log_weights.max())
    weights /= weights.mean()
    used = weights > 0.0
    u = np.where(used[:, None], u.reshape(len(u), -1), 0.0)
    means = (weights[:, None] * u).mean(axis=0)
    influences = (weights[:, None] * (u - means)).T
    errors = np.abs(means) / np.maximum(chain_standard_errors(influences), 1e-12)
    return float(errors.max())
