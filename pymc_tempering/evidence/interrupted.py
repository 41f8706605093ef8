"""Runs that have fewer draws than were asked for."""

import xarray as xr

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.steps.budget import Budget

__all__ = ["interruption"]


def interruption(
    idata: xr.DataTree, *, draws: int, chains: int, budget: Budget | None = None
) -> list[Diagnostic]:
    """Say that a run has fewer draws than were asked for; empty where it has all.

    PyMC returns what there is after Ctrl-C: the draws that most chains have, and those chains.

    Parameters
    ----------
    idata : xarray.DataTree
    draws, chains : int
        What was asked for.
    budget : Budget, optional
        Which may not have been enough for all of the draws.
    """
    if budget is not None and budget.n_draws is not None:
        draws = min(draws, budget.n_draws)
    sizes = idata["posterior"].sizes
    if sizes["chain"] >= chains and sizes["draw"] >= draws:
        return []
    diagnostic = Diagnostic(
        "interrupted",
        f"the run was stopped after {sizes['chain']} of {chains} chains with {sizes['draw']} of "
        f"{draws} draws, and log Z is from these alone.",
        "Run it again for the rest.",
        {"chains": sizes["chain"], "draws": sizes["draw"]},
    )
    return [diagnostic]
