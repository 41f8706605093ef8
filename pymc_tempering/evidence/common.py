"""What the evidence of every method has in common: chains combined into one estimate."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.evidence.checks import diagnose
from pymc_tempering.evidence.checks.chains import chains_that_agree
from pymc_tempering.evidence.checks.check import AtHand
from pymc_tempering.evidence.run import MethodEstimate, Run
from pymc_tempering.types import FloatArray

__all__ = ["MethodEstimate", "combine", "combine_chains", "ladders", "one_setting", "run_of",
           "with_warnings"]  # fmt: skip


def ladders(statistics: Mapping[str, FloatArray]) -> Iterator[tuple[FloatArray, FloatArray]]:
    """Scans (scan, level) of each chain, one after another, and its betas (level,).

    Of ``delta`` (chain, draw, scan, level) and the ``betas`` of the first draw. Scans that were not
    run are nan, and so is what is beyond the levels in use: both are left out.
    """
    for delta, betas in zip(statistics["delta"], statistics["betas"], strict=True):
        used = betas[0][np.isfinite(betas[0])]
        scans = delta[..., : used.size].reshape(-1, used.size)
        yield np.asarray(scans[~np.isnan(scans[:, -1])]), used


def one_setting(values: FloatArray, name: str) -> FloatArray:
    """Value of an adapted statistic in each chain, shape (chain, ...).

    Refused with a DataError where it changed during a chain, as it does in tuning.
    """
    for chain, own in enumerate(values):
        if not np.array_equal(own.min(axis=0), own.max(axis=0), equal_nan=True):
            raise DataError(
                f"`{name}` changes during chain {chain}, so it mixes tuning with sampling. Pass "
                "the draws after tuning only."
            )
    return values[:, 0]


def run_of(parts: MethodEstimate, label: str, **at_hand: Any) -> Run:
    """Combine chains into numbers; the run has them, and what else is at hand, for the checks."""
    kept = chains_that_agree(parts)
    counted = kept if kept.size else np.arange(len(parts.log_z))
    error = log_z_standard_error(parts.log_z[counted], [parts.influences[i] for i in counted])
    estimate = LogZEstimate(
        # a mean of chains that say different things is what none of them says
        log_z=float(np.mean(parts.log_z[kept])) if kept.size else np.nan,
        se=float(error.se) if kept.size else np.nan,
        method=label,
        per_chain=np.array(parts.log_z, dtype=np.float64),
        ess=float(error.ess),
        df=float(error.df),
        lower=parts.lower,
        upper=parts.upper,
        per_method=parts.per_method,
    )
    return Run(parts=parts, kept=kept, estimate=estimate, **at_hand)


def with_warnings(estimate: LogZEstimate, diagnostics: Sequence[Diagnostic]) -> LogZEstimate:
    """Add warnings, causes first; where one of them refuses the estimate, its numbers are nan.

    What each chain said stays in ``per_chain``: nothing is printed that somebody might use.
    """
    known = (*estimate.warnings, *estimate.of_comparison, *diagnostics)
    estimate = replace(estimate, warnings=tuple(sorted(known, key=lambda d: not d.is_cause)))
    if not any(diagnostic.refuses for diagnostic in estimate.warnings):
        return estimate
    return replace(estimate, log_z=np.nan, se=np.nan, lower=None, upper=None, per_method={})


def combine(
    parts: MethodEstimate, method: str, draws: Mapping[str, FloatArray] | None = None
) -> LogZEstimate:
    """Combine the chains of a run into one estimate with its error and warnings, without `idata`.

    `method` are sampler and estimator, as users read them; `draws` of the posterior are
    (chain, draw, ...) by variable: chains that differ in these are warned about too.
    """
    run: AtHand = run_of(parts, method, draws=draws)
    return with_warnings(run.estimate, diagnose(run))


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
