"""Runs that have fewer draws than were asked for."""

import xarray as xr

from pymc_tempering.estimators.doubt import Doubt

__all__ = ["interruption"]


def interruption(idata: xr.DataTree, *, draws: int, chains: int) -> list[Doubt]:
    """Say that a run has fewer draws than were asked for; empty where it has all.

    PyMC returns what there is after Ctrl-C: the draws that most chains have, and those chains.

    Parameters
    ----------
    idata : xarray.DataTree
    draws, chains : int
        What was asked for.
    """
    sizes = idata["posterior"].sizes
    if sizes["chain"] >= chains and sizes["draw"] >= draws:
        return []
    doubt = Doubt(
        "interrupted",
        f"the run was stopped after {sizes['chain']} of {chains} chains with {sizes['draw']} of "
        f"{draws} draws, and log Z is from these alone.",
        "Run it again for the rest.",
        {"chains": sizes["chain"], "draws": sizes["draw"]},
    )
    return [doubt]
