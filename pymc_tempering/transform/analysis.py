"""What the draws of a tempered model say: weights at beta = 1, log Z, and what is doubtful."""

from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from pymc_tempering.base.gaussian import GaussianBase
from pymc_tempering.errors import DataError
from pymc_tempering.estimators.continuous import continuous_tempering, log_beta_density
from pymc_tempering.estimators.stepping_stone import support_mass
from pymc_tempering.estimators.uncertainty import chain_standard_errors
from pymc_tempering.numerics import weight_ess
from pymc_tempering.transform.bias import Bias
from pymc_tempering.transform.bridge import bridged_log_z
from pymc_tempering.transform.names import BETA, DELTA, POSITION, PREFIX, RECORDS
from pymc_tempering.types import FloatArray

__all__ = ["TemperedRun", "analyse"]

_COLD, _HOT = 0.9, 0.1
_MIN_WEIGHT_ESS = 100.0
_MIN_BASE_ESS = 30.0
_MAX_BASE_Z = 6.0
_MAX_DIVERGING = 0.1
_FULL_SUPPORT = 0.99
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
        Per chain, for the group ``tempering``.
    constants : dict of ndarray
        What the run was made with.
    warnings : list of str
    """

    log_weights: FloatArray
    log_z: FloatArray
    log_z_continuous: FloatArray
    influences: list[FloatArray]
    arrays: dict[str, FloatArray]
    constants: dict[str, FloatArray]
    warnings: list[str] = field(default_factory=list)


def analyse(idata: xr.DataTree) -> TemperedRun:
    """Weigh the draws of a tempered model and estimate log Z of every chain.

    Parameters
    ----------
    idata : xarray.DataTree
        What ``pm.sample`` returned inside the model that :func:`temper` made, at once or read back
        from a file.

    Returns
    -------
    TemperedRun

    Raises
    ------
    DataError
        If a variable that the tempered model records is missing or was not sampled.
    """
    posterior, records = _find(idata)
    bias = Bias(records["knots"], records["bias"])
    base = GaussianBase(records["base_mean"], records["base_scale"])
    knots, values = bias.piecewise_linear()
    delta = posterior[DELTA].transpose("chain", "draw").values
    beta_name = PREFIX + BETA if PREFIX + BETA in posterior else BETA
    beta = posterior[beta_name].transpose("chain", "draw").values
    if np.isnan(delta).any() or not np.isfinite(delta).any(axis=1).all():
        raise DataError(
            f"`{DELTA}` has {int(np.isnan(delta).sum())} nan values and "
            f"{int((~np.isfinite(delta)).all(axis=1).sum())} chains without a finite one; expected "
            "finite values. Sample the tempered model from a start inside the support."
        )
    delta_base = records["base_delta"]
    mass = support_mass(delta_base).log_mass
    estimates = [
        # chains get draws of the base of their own, so that they stay independent
        bridged_log_z(row, part, knots, values)
        for row, part in zip(delta, np.array_split(delta_base, len(delta)), strict=True)
    ]
    continuous = [
        continuous_tempering(row, knots, values, betas=bias.knots, log_support_mass=mass).log_z
        for row in delta
    ]
    log_weights = np.stack([log_beta_density(row, knots, values, 1.0) for row in delta])
    log_weights_base = np.stack([log_beta_density(row, knots, values, 0.0) for row in delta])
    arrays = {
        "log_z_levels": np.stack(continuous),
        "weight_ess": np.array([weight_ess(row) for row in log_weights]),
        "base_weight_ess": np.array([weight_ess(row) for row in log_weights_base]),
        "n_round_trips": np.array([_round_trips(row) for row in beta], dtype=float),
        "n_divergences": _divergences(idata, len(delta)),
        "base_mean_error": np.full(len(delta), np.nan),
    }
    if POSITION in posterior:
        u = posterior[POSITION].transpose("chain", "draw", ...).values
        arrays["base_mean_error"] = np.array(
            [_base_mean_error(*pair) for pair in zip(u, log_weights_base, strict=True)]
        )
    return TemperedRun(
        log_weights=log_weights,
        log_z=np.array([estimate.log_z[-1] for estimate in estimates]),
        log_z_continuous=np.array([row[-1] for row in continuous]),
        influences=[estimate.influence for estimate in estimates],
        arrays=arrays | {"delta": delta, "beta": beta},
        constants={
            "knots": bias.knots,
            "bias": bias.values,
            "base_mean": base.mean,
            "base_scale": base.scale,
            "log_support_mass": np.array(mass),
        },
        warnings=_doubts(arrays, mass, beta.shape[1]),
    )


def _find(idata: xr.DataTree) -> tuple[xr.Dataset, dict[str, FloatArray]]:
    if not isinstance(idata, xr.DataTree):
        raise DataError(
            f"The argument is of type {type(idata).__name__}; expected the DataTree that "
            "`pm.sample` returns (`return_inferencedata=True`)."
        )
    remedy = (
        "Pass what `pm.sample` returned inside the model that `pymc_tempering.temper` made, with "
        "all its variables (no `var_names`); a result of `untemper` has them no longer."
    )
    if "posterior" not in idata.children:
        groups = sorted(idata.children)
        raise DataError(f"The DataTree has groups {groups}, no `posterior`. {remedy}")
    posterior = idata["posterior"].to_dataset()
    missing = [DELTA] if DELTA not in posterior else []
    if BETA not in posterior and PREFIX + BETA not in posterior:
        missing.append(BETA)
    constant = idata["constant_data"].to_dataset() if "constant_data" in idata.children else {}
    missing += [name for name in RECORDS if name not in constant]
    if missing:
        raise DataError(f"The DataTree lacks the recorded variables {missing}. {remedy}")
    return posterior, {name.removeprefix(PREFIX): constant[name].values for name in RECORDS}


def _round_trips(beta: FloatArray) -> int:
    """Count passages from the cold end to the hot one and back."""
    ends = np.where(beta >= _COLD, 1, np.where(beta <= _HOT, -1, 0))
    ends = ends[ends != 0]
    return int((np.diff(ends) != 0).sum() // 2)


def _divergences(idata: xr.DataTree, n_chains: int) -> FloatArray:
    if "sample_stats" not in idata.children or "diverging" not in idata["sample_stats"]:
        return np.full(n_chains, np.nan)
    diverging = np.asarray(idata["sample_stats"].to_dataset()["diverging"].sum("draw"))
    return diverging.astype(np.float64)


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


def _doubts(arrays: dict[str, FloatArray], log_mass: float, n_draws: int) -> list[str]:
    warnings = []
    stuck = np.flatnonzero(arrays["n_round_trips"] < 1)
    if stuck.size:
        warnings.append(
            f"no round trips: in chains {stuck.tolist()} beta never went from the posterior to the "
            "base and back, so modes may be missing. Raise `tune` and `draws`, or pass a wider "
            "`base`, or no `log_zeta`."
        )
    ess = float(arrays["weight_ess"].sum())
    if ess < _MIN_WEIGHT_ESS:
        warnings.append(
            f"few weights: posterior draws rest on {ess:.0f} effective weights, fewer than "
            f"{_MIN_WEIGHT_ESS:.0f}. Raise `draws`, or give a bias that lets beta spend more time "
            "near 1."
        )
    diverging = arrays["n_divergences"]
    # running into an edge of the target counts as a divergence too, and is harmless
    full = log_mass > np.log(_FULL_SUPPORT)
    if full and np.nansum(diverging) > _MAX_DIVERGING * n_draws * len(diverging):
        warnings.append(
            f"divergences: {int(np.nansum(diverging))} of {n_draws * len(diverging)} transitions "
            "diverged. Raise `target_accept`, or use a method whose moves do not need gradients."
        )
    if log_mass < np.log(_MIN_SUPPORT):
        warnings.append(
            f"small support: the target has density on only {np.exp(log_mass):.2g} of the base. "
            "Pass a `base` inside the support."
        )
    worst = np.nan_to_num(arrays["base_mean_error"])
    # beyond an edge the base is cut off, and its moments are no longer known
    if full and worst.max(initial=0.0) > _MAX_BASE_Z:
        warnings.append(
            f"base not recovered: draws weighted to beta = 0 miss the base's known mean by "
            f"{worst.max():.1f} standard errors in chain {int(worst.argmax())} (eq. 23), so the "
            "chain has not converged. Raise `tune` and `draws`."
        )
    return warnings
