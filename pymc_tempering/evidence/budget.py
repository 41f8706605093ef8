"""Runs that ended because their gradients were spent."""

import math

import numpy as np
import xarray as xr

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.steps.budget import Budget
from pymc_tempering.steps.scans import CHAIN_ERROR, MOST_CHAIN_ERROR

__all__ = ["budget_diagnostics"]

_SPARE = 1.2


def budget_diagnostics(
    estimate: LogZEstimate, budget: Budget | None, *, draws: int, target_se: float | None = None
) -> list[Diagnostic]:
    """Say what gradients were not enough for; empty where they were, or without a limit.

    Parameters
    ----------
    estimate : LogZEstimate
        With its ``idata``.
    budget : Budget, optional
    draws : int
        That were asked for, of each chain.
    target_se : float, optional
        In nats; by default what the scans of a draw aim at.
    """
    if budget is None:
        return []
    made, wanted = _scans(estimate.idata["sample_stats"].dataset)
    # what the scans that were asked for would have reached
    reached = estimate.se * (made / wanted) ** 0.5
    bounds = np.array([CHAIN_ERROR, MOST_CHAIN_ERROR]) / estimate.per_chain.size**0.5
    aim = target_se or float(np.clip(reached, *bounds))
    n_draws = estimate.idata["posterior"].sizes["draw"]
    missed = not estimate.se <= aim
    short = []
    if budget.n_draws is not None:
        short.append(f"{n_draws} of {draws} draws of each chain")
    if missed and made < wanted:
        short.append(
            f"{made:.3g} of the {wanted:.3g} scans a draw that an error of {aim:.2g} takes"
        )
    if missed and budget.refused_chains:
        short.append(f"{estimate.per_chain.size} chains, and no more")
    if not short:
        return []
    factor = draws / n_draws * wanted / made
    if missed:
        factor = max(factor, (estimate.se / aim) ** 2)
    group = estimate.idata["tempering"]
    # chains have equal shares, so that the dearest one counts
    of_chain = group["tuning_gradients"] + factor * group["draws_gradients"]
    enough = estimate.gradients["search"] + _SPARE * of_chain.size * float(of_chain.max())
    enough = _rounded_up(max(enough, _SPARE * budget.most))
    diagnostic = Diagnostic(
        "max_gradients_reached",
        f"{budget.n_spent:,} gradients, of the {budget.most:,} that were allowed, were enough for "
        f"{' with '.join(short)}; the error of log Z is {estimate.se:.2g}.",
        f"Raise `max_gradients`; about {enough:,} would do.",
        {
            "max_gradients": budget.most,
            "gradients": budget.n_spent,
            "draws": n_draws,
            "scans": made,
            "log_marginal_likelihood_se": float(estimate.se),
        },
    )
    return [diagnostic]


def _scans(statistics: xr.Dataset) -> tuple[float, float]:
    """Scans of a draw, and those that were asked for; the same where that is not known."""
    delta = statistics["delta"]
    first = delta.isel({dim: 0 for dim in delta.dims if dim not in ("chain", "draw", "scan")})
    made = float(first.notnull().sum("scan").mean())
    if "tuned" not in statistics:
        return made, made
    return made, float(statistics["tuned"].sel(tuned_entry="scans_requested").mean())


def _rounded_up(n: float) -> int:
    """Two digits of a number.

    Examples
    --------
    >>> _rounded_up(123_456)
    130000
    """
    unit = 10 ** (int(math.log10(n)) - 1)
    return math.ceil(n / unit) * unit
