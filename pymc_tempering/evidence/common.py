"""What the evidence of every method has in common: the parts of a run's estimate, and their sum."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import chi2

from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.estimators.uncertainty import chain_standard_errors, log_z_standard_error
from pymc_tempering.types import FloatArray

__all__ = ["Collector", "MethodEstimate", "combine"]

MIN_ESS = 100.0
"""Effective scans below which an error of log Z is itself too uncertain to be trusted."""

_DISAGREEMENT_RATE = 1e-5

type Collector = Callable[[Mapping[str, FloatArray]], "MethodEstimate"]


@dataclass(frozen=True)
class MethodEstimate:
    """What a method makes of the recorded statistics, before chains are combined.

    Attributes
    ----------
    log_z : ndarray of shape (n_chains,)
        Estimate of each chain, in nats.
    influences : list of ndarray of shape (n_scans,)
        First-order contribution of each scan to the error of its chain's estimate, in nats.
    per_method : dict
        Estimates by other methods from the same run, combined over chains.
    lower, upper : float or None
        Stochastic bounds.
    warnings : list of str
        What speaks against the estimate, each with a remedy.
    arrays : dict of ndarray
        What else the run says, for the group ``tempering``; the first dimension is the chain.
    """

    log_z: FloatArray
    influences: list[FloatArray]
    per_method: dict[str, float] = field(default_factory=dict)
    lower: float | None = None
    upper: float | None = None
    warnings: list[str] = field(default_factory=list)
    arrays: dict[str, FloatArray] = field(default_factory=dict)


def combine(parts: MethodEstimate, method: str) -> LogZEstimate:
    """Combine the chains of a run into one estimate with its error.

    Parameters
    ----------
    parts : MethodEstimate
    method : str
        Sampler and estimator, as shown to the user.

    Returns
    -------
    LogZEstimate
        Without its ``idata``.
    """
    error = log_z_standard_error(parts.log_z, parts.influences)
    warnings = list(parts.warnings)
    log_z = float(np.mean(parts.log_z))
    if not np.isfinite(log_z) or not np.isfinite(error.se):
        warnings.append(
            "no overlap: neighbouring levels share no draws, so log Z has no error. Raise "
            "`n_levels` and `tune`."
        )
    else:
        warnings += _doubts(parts, error.ess)
    return LogZEstimate(
        log_z=log_z,
        se=float(error.se),
        method=method,
        per_chain=np.array(parts.log_z, dtype=np.float64),
        warnings=tuple(warnings),
        ess=float(error.ess),
        df=float(error.df),
        lower=parts.lower,
        upper=parts.upper,
        per_method=parts.per_method,
    )


def _doubts(parts: MethodEstimate, ess: float) -> list[str]:
    warnings = []
    if ess < MIN_ESS:
        warnings.append(
            f"too few effective draws: the error of log Z rests on {ess:.0f} independent scans, "
            f"fewer than {MIN_ESS:.0f}. Raise `draws`, or pass `target_se`."
        )
    if len(parts.log_z) > 1:
        own = np.maximum(chain_standard_errors(parts.influences), 1e-12)
        weights = 1.0 / own**2
        centre = float(np.sum(weights * parts.log_z) / weights.sum())
        statistic = float(np.sum(((parts.log_z - centre) / own) ** 2))
        # an error from few effective scans is uncertain by itself: be lenient by that much
        lenient = statistic / (1.0 + 20.0 / max(ess / len(parts.log_z), 1.0))
        if chi2.sf(lenient, len(parts.log_z) - 1) < _DISAGREEMENT_RATE:
            warnings.append(
                f"chains disagree: their estimates {np.round(parts.log_z, 2).tolist()} differ by "
                "more than their own errors explain, so some have not found every mode. Raise "
                "`tune` and `draws`; look at the swap rates of each chain."
            )
    return warnings
