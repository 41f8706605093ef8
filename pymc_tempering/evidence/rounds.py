"""Chains added in rounds until the error of log Z is what was asked for."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import xarray as xr

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.interrupted import interruption
from pymc_tempering.evidence.stored import estimate_from_idata
from pymc_tempering.progress.plan import say
from pymc_tempering.results.concat import concat_chains
from pymc_tempering.steps.budget import Budget

__all__ = ["reach_target_se", "round_seeds"]

# room for the error to turn out larger than the first run said
_SAFETY = 1.15


def reach_target_se(
    estimate: LogZEstimate,
    idata: xr.DataTree,
    sample_chains: Callable[[int], xr.DataTree],
    *,
    target_se: float,
    max_chains: int,
    least: int,
    show: bool = False,
    budget: Budget | None = None,
) -> tuple[LogZEstimate, list[Diagnostic]]:
    """Add chains to a run until the standard error of log Z is at most `target_se`.

    Parameters
    ----------
    estimate : LogZEstimate
    idata : xarray.DataTree
        The run that it is of.
    sample_chains : callable
        Samples a number of new chains, as the run was sampled.
    target_se : float
        In nats.
    max_chains : int
        Of the run and what is added, together.
    least : int
        Chains of a round, unless `max_chains` allows fewer.
    show : bool
        Say before each round what it adds.
    budget : Budget, optional
        Whose gradients chains may not exceed.

    Returns
    -------
    estimate : LogZEstimate
        From all chains.
    diagnostics : list of Diagnostic
        Where the error was not reached, or the run was interrupted.
    """
    diagnostics: list[Diagnostic] = []
    while not estimate.se <= target_se:
        have = estimate.per_chain.size
        ratio = estimate.se / target_se if np.isfinite(estimate.se) else 2.0
        missing = int(np.ceil(_SAFETY * have * ratio**2)) - have
        more = min(max(missing, least), max_chains - have)
        if more <= 0:
            diagnostics.append(
                Diagnostic(
                    "target_se_not_reached",
                    f"the error is {estimate.se:.3g} after {have} chains, more than {target_se:g}.",
                    f"Raise `max_chains` (now {max_chains}) or `draws`.",
                    {"log_marginal_likelihood_se": float(estimate.se), "chains": have},
                )
            )
            break
        if budget is not None:
            more = budget.more_chains(more)
            if not more:
                break
        if show:
            say(
                f"The error of log Z is {estimate.se:.3g} nats after {have} chains; {more} more "
                f"to reach {target_se:g}."
            )
        draws = idata["posterior"].sizes["draw"]
        try:
            extra = sample_chains(more)
        except KeyboardInterrupt:
            return estimate, interruption(idata, draws=draws, chains=have + more, budget=budget)
        # after an interrupt chains may be shorter: cut all where that keeps more
        length = min(draws, extra["posterior"].sizes["draw"])
        if length * (have + extra["posterior"].sizes["chain"]) > draws * have:
            idata = concat_chains([_shortened(idata, length), _shortened(extra, length)])
            estimate = estimate_from_idata(idata)
        diagnostics = interruption(idata, draws=draws, chains=have + more, budget=budget)
        if diagnostics:
            break
    return estimate, diagnostics


def _shortened(idata: xr.DataTree, n_draws: int) -> xr.DataTree:
    """Return the first draws of a run, and the run itself where it has no more."""
    if idata["posterior"].sizes["draw"] == n_draws:
        return idata
    return idata.isel(draw=slice(n_draws), missing_dims="ignore")


def round_seeds(random_seed: Any) -> Iterator[Any]:
    """Seeds of successive rounds; the first is the user's own."""
    yield random_seed
    if isinstance(random_seed, np.random.Generator):
        while True:
            yield random_seed
    sequence = np.random.SeedSequence(random_seed)
    while True:
        yield int(sequence.spawn(1)[0].generate_state(1)[0])
