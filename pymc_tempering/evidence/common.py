"""What the evidence of every method has in common: the parts of a run's estimate, and their sum."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from scipy.stats import chi2

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.estimators.uncertainty import (
    StandardError,
    chain_standard_errors,
    log_z_standard_error,
)
from pymc_tempering.evidence.agreement import agreement_diagnostics
from pymc_tempering.evidence.refused import refuse
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["Collector", "MethodEstimate", "combine", "combine_chains", "scans_of_ladder",
           "support_diagnostics"]  # fmt: skip

MIN_ESS = 100.0
"""Effective scans below which an error of log Z is itself too uncertain to be trusted."""

FULL_SUPPORT = 0.99
"""Share of the base on the support of the target beyond which the rest is not worth a warning."""

_DISAGREEMENT_RATE = 1e-5

APART, MOST_LOW = 1.0, 4
"""nats between chains which disagree, beyond which a mean of all of them is none; and one of how
many of them may be left out."""

type Collector = Callable[[Mapping[str, FloatArray]], "MethodEstimate"]


def scans_of_ladder(delta: FloatArray, n_levels: int) -> FloatArray:
    """Scans of one chain one after another, without the room that draws did not use.

    Parameters
    ----------
    delta : ndarray of shape (n_draws, n_scans, n)
        nan in scans that were not run and beyond the levels in use.
    n_levels : int
        In use.

    Returns
    -------
    ndarray of shape (n_scans of all draws, n_levels)
    """
    scans = delta[..., :n_levels].reshape(-1, n_levels)
    return np.asarray(scans[~np.isnan(scans[:, -1])])


@dataclass(frozen=True)
class MethodEstimate:
    """What a method makes of the recorded statistics, before chains are combined.

    Attributes
    ----------
    log_z : ndarray of shape (n_chains,)
        Estimate of each chain, in nats.
    influences : list of ndarray of shape (n_scans,) or (n_draws,)
        First-order contribution of each scan, or draw, to the error of its chain's estimate, in
        nats.
    per_method : dict
        Estimates by other methods from the same run, combined over chains.
    lower, upper : float or None
        Stochastic bounds.
    warnings : list of Diagnostic
        What speaks against the estimate.
    arrays : dict of ndarray
        What else the run says, for the group ``tempering``; the first dimension is the chain.
    """

    log_z: FloatArray
    influences: list[FloatArray]
    per_method: dict[str, float] = field(default_factory=dict)
    lower: float | None = None
    upper: float | None = None
    warnings: list[Diagnostic] = field(default_factory=list)
    arrays: dict[str, FloatArray] = field(default_factory=dict)


def combine(
    parts: MethodEstimate, method: str, draws: Mapping[str, FloatArray] | None = None
) -> LogZEstimate:
    """Combine the chains of a run into one estimate with its error.

    Parameters
    ----------
    parts : MethodEstimate
    method : str
        Sampler and estimator, as shown to the user.
    draws : mapping of str to ndarray of shape (n_chains, n_draws, ...), optional
        Posterior draws of the same chains: chains that differ in these are warned about too.

    Returns
    -------
    LogZEstimate
        Without its ``idata``.
    """
    kept = _chains_that_agree(parts)
    counted = kept if kept.size else np.arange(len(parts.log_z))
    error = log_z_standard_error(parts.log_z[counted], [parts.influences[i] for i in counted])
    # a mean of chains that say different things is what none of them says
    log_z = float(np.mean(parts.log_z[kept])) if kept.size else np.nan
    disagreement = agreement_diagnostics(draws or {}, _comparable_barriers(parts.arrays))
    estimate = LogZEstimate(
        log_z=log_z,
        se=float(error.se) if kept.size else np.nan,
        method=method,
        per_chain=np.array(parts.log_z, dtype=np.float64),
        warnings=(*parts.warnings, *_diagnostics(parts, error, kept), *disagreement),
        ess=float(error.ess),
        df=float(error.df),
        lower=parts.lower,
        upper=parts.upper,
        per_method=parts.per_method,
    )
    return refuse(estimate)


def _comparable_barriers(arrays: Mapping[str, FloatArray]) -> FloatArray | None:
    """Barriers of the chains, nan in those that start from another kind of base than most do."""
    barriers, components = arrays.get("global_barrier"), arrays.get("n_components")
    if barriers is None or components is None:
        return barriers
    from_mixture = components > 0
    most = from_mixture.mean() > 0.5
    return np.where(from_mixture == most, barriers, np.nan)


class ChainEstimate(Protocol):
    """What every estimator of arrays returns for one chain."""

    @property
    def log_z(self) -> FloatArray | float:
        """At every level, the target last; or of the target alone. In nats."""

    @property
    def influence(self) -> FloatArray:
        """Of each scan on log Z of the target, mean zero, in nats."""


def combine_chains(chains: Sequence[ChainEstimate], method: str) -> LogZEstimate:
    """Combine what an estimator of `pymc_tempering.estimators` made of each chain.

    For samplers of your own: the result has an error, warns where chains disagree, and can be given
    to :func:`pymc_tempering.compare`.

    Parameters
    ----------
    chains : sequence
        Results of one estimator, one for each independent chain. Lengths of chains may differ.
    method : str
        Sampler and estimator, as the estimate will show them.

    Returns
    -------
    LogZEstimate
        In nats, relative to the normalised base of the chains.

    Raises
    ------
    DataError
        If there is no chain, or an element is not the result of an estimator.

    Examples
    --------
    >>> from pymc_tempering.estimators.mbar import mbar
    >>> betas = [0.0, 0.5, 1.0]
    >>> deltas = np.random.default_rng(1).normal(-2.0, 0.1, size=(4, 500, 3))
    >>> combine_chains([mbar(delta, betas) for delta in deltas], "own sampler, mbar").method
    'own sampler, mbar'
    """
    wrong = [type(c).__name__ for c in chains if not hasattr(c, "influence")]
    if wrong or len(chains) == 0:
        raise DataError(
            f"Given were {wrong or 'no chains'}; expected the result of one estimator for each "
            "chain, as in combine_chains([mbar(delta, betas) for delta in deltas], 'own sampler')."
        )
    log_z = np.array([np.ravel(chain.log_z)[-1] for chain in chains])
    return combine(MethodEstimate(log_z, [chain.influence for chain in chains]), method)


def support_diagnostics(
    mass: float, text: str, *, least: float = FULL_SUPPORT
) -> Iterator[Diagnostic]:
    """Warning about a target that is zero on part of the base.

    Parameters
    ----------
    mass : float
        The base's mass on the support.
    text : str
        What the missing share is of, and what estimates make of it.
    least : float
        Mass below which to warn.
    """
    if mass < least:
        yield Diagnostic(
            "target_zero_on_base",
            f"{100 * (1 - mass):.1f} % of {text}",
            "With a small mass, choose a transform that keeps the sampler inside.",
            {"support_mass": float(mass)},
        )


def _diagnostics(
    parts: MethodEstimate, error: StandardError, kept: IntArray
) -> Iterator[Diagnostic]:
    if not np.isfinite(np.mean(parts.log_z)) or not np.isfinite(error.se):
        yield Diagnostic(
            "no_overlap",
            "neighbouring levels share no draws, so there is no estimate.",
            "Raise `n_levels` and `tune`; or write the model in coordinates that the data "
            "determine by themselves.",
            {"log_z_chain": np.asarray(parts.log_z, dtype=float).tolist()},
        )
        return
    ess = error.ess
    if ess < MIN_ESS:
        yield Diagnostic(
            "too_few_effective_draws",
            f"the error of log Z rests on {ess:.0f} independent scans, fewer than {MIN_ESS:.0f}.",
            "Raise `draws`, or pass `target_se`.",
            {"log_marginal_likelihood_ess": float(ess)},
        )
    statistic = _disagreement(parts, np.arange(len(parts.log_z)))
    if statistic is None:
        return
    said = f"their estimates {np.round(parts.log_z, 2).tolist()} differ by more than their own"
    left_out = sorted({*range(len(parts.log_z))} - set(kept.tolist()))
    if not kept.size:
        told = (
            f"{said} errors explain, and by more than {APART:g} nat: the highest may have found "
            "what the others lack. So there is no estimate."
        )
    elif left_out:
        told = (
            f"{said} errors explain. Chains {left_out} are lower than all others, or had no round "
            "trip. The others agree, and log Z is theirs alone; the draws are those of all."
        )
    else:
        told = f"{said} errors explain, so some have not found every mode."
    yield Diagnostic(
        "chains_disagree",
        told,
        "Raise `tune` and `draws`; look at the swap rates of each chain.",
        {"log_z_chain": parts.log_z.tolist(), "chi2": statistic, "chain": left_out},
    )


def _chains_that_agree(parts: MethodEstimate) -> IntArray:
    """Chains whose mean log Z is: all, or those without a few low ones, or none.

    A chain that is stuck misses mass, so that of chains which disagree the low ones are wrong. One
    that is higher than the others has more likely found what they lack than made it up, and then
    neither they nor their mean are right; unless it never went from the base to the target and
    back, so that its levels do not know of one another. A mean over chains less than a nat apart
    stays: its error says as much, and chains would have been left out by chance.
    """
    every = np.arange(len(parts.log_z))
    if not np.isfinite(parts.log_z).all() or np.ptp(parts.log_z) <= APART:
        return every
    if _disagreement(parts, every) is None:
        return every
    apart = parts.arrays.get("n_round_trips", np.ones(every.size)) == 0
    for worst_first in (np.argsort(parts.log_z, kind="stable"), np.lexsort((parts.log_z, ~apart))):
        for n_left_out in range(1, every.size // MOST_LOW + 1):
            rest = np.sort(worst_first[n_left_out:])
            if _disagreement(parts, rest) is None:
                return rest
    return every[:0]


def _disagreement(parts: MethodEstimate, chains: IntArray) -> float | None:
    """Chi-squared of estimates about their mean, where their own errors do not explain it."""
    if chains.size < 2:
        return None
    log_z, influences = parts.log_z[chains], [parts.influences[i] for i in chains]
    own = np.maximum(chain_standard_errors(influences), 1e-12)
    if not np.isfinite(own).all():
        return None
    weights = 1.0 / own**2
    centre = float(np.sum(weights * log_z) / weights.sum())
    statistic = float(np.sum(((log_z - centre) / own) ** 2))
    # an error from few effective scans is uncertain by itself: be lenient by that much
    ess = log_z_standard_error(log_z, influences).ess
    lenient = statistic / (1.0 + 20.0 / max(ess / chains.size, 1.0))
    return statistic if chi2.sf(lenient, chains.size - 1) < _DISAGREEMENT_RATE else None
