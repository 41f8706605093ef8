"""What the draws of a tempered model say: weights at beta = 1, log Z, and what is doubtful."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import xarray as xr

from pymc_tempering.estimators.continuous import continuous_tempering, log_beta_density
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.stepping_stone import support_mass
from pymc_tempering.estimators.uncertainty import chain_standard_errors
from pymc_tempering.evidence.common import FULL_SUPPORT, MethodEstimate
from pymc_tempering.numerics import weight_ess
from pymc_tempering.transform.bias import Bias
from pymc_tempering.transform.bridge import bridged_log_z
from pymc_tempering.transform.record import JointRecord, record_of_draws
from pymc_tempering.types import FloatArray

__all__ = ["TemperedRun", "analyse", "analyse_record", "bridge_chains"]

_COLD, _HOT = 0.9, 0.1
_MIN_WEIGHT_ESS = 100.0
_MIN_BASE_ESS = 30.0
_MAX_BASE_Z = 6.0
_MAX_DIVERGING = 0.1
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
    warnings : list of Diagnostic
    """

    log_weights: FloatArray
    log_z: FloatArray
    log_z_continuous: FloatArray
    influences: list[FloatArray]
    arrays: dict[str, FloatArray]
    warnings: list[Diagnostic] = field(default_factory=list)

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
            warnings=self.warnings,
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
        warnings=[*_diagnostics(arrays, mass, beta.shape[1])],
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


def _diagnostics(
    arrays: dict[str, FloatArray], log_mass: float, n_draws: int
) -> Iterator[Diagnostic]:
    stuck = np.flatnonzero(arrays["n_round_trips"] < 1).tolist()
    if stuck:
        yield Diagnostic(
            "no_round_trips",
            f"in chains {stuck} beta never went from the posterior to the base and back, so "
            "modes may be missing.",
            "Raise `tune` and `draws`, or pass a wider `base`, or no `log_zeta`.",
            {"n_round_trips": arrays["n_round_trips"][stuck].tolist(), "chain": stuck},
        )
    ess = float(arrays["weight_ess"].sum())
    if ess < _MIN_WEIGHT_ESS:
        yield Diagnostic(
            "few_weights",
            f"posterior draws rest on {ess:.0f} effective weights, fewer than "
            f"{_MIN_WEIGHT_ESS:.0f}.",
            "Raise `draws`, or give a bias that lets beta spend more time near 1.",
            {"weight_ess": ess},
        )
    diverging = arrays["n_divergences"]
    # running into an edge of the target counts as a divergence too, and is harmless
    full = log_mass > np.log(FULL_SUPPORT)
    n_diverging, n_transitions = int(np.nansum(diverging)), n_draws * len(diverging)
    if full and n_diverging > _MAX_DIVERGING * n_transitions:
        yield Diagnostic(
            "divergences",
            f"{n_diverging} of {n_transitions} transitions diverged.",
            "Raise `target_accept`, or use a method whose moves do not need gradients.",
            {"n_divergences": n_diverging, "transitions": n_transitions},
        )
    if log_mass < np.log(_MIN_SUPPORT):
        yield Diagnostic(
            "small_support",
            f"the target has density on only {np.exp(log_mass):.2g} of the base.",
            "Pass a `base` inside the support.",
            {"support_mass": float(np.exp(log_mass))},
        )
    worst = np.nan_to_num(arrays["base_mean_error"])
    # beyond an edge the base is cut off, and its moments are no longer known
    if full and worst.max(initial=0.0) > _MAX_BASE_Z:
        yield Diagnostic(
            "base_not_recovered",
            "draws weighted to beta = 0 miss the base's known mean by "
            f"{worst.max():.1f} standard errors in chain {int(worst.argmax())} (eq. 23), so "
            "the chain has not converged.",
            "Raise `tune` and `draws`.",
            {"base_mean_error": float(worst.max()), "chain": [int(worst.argmax())]},
        )
