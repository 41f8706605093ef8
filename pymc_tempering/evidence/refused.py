"""Estimates that a run cannot support: nothing is printed that somebody might use."""

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate

__all__ = ["refuse", "refused"]

_NUMBERS = tuple(f"log_marginal_likelihood{part}" for part in ("", "_se", "_lower", "_upper"))


def refused(diagnostics: Iterable[Diagnostic]) -> bool:
    """Whether one of the diagnostics leaves nothing of an estimate."""
    return any(diagnostic.refuses for diagnostic in diagnostics)


def refuse(estimate: LogZEstimate) -> LogZEstimate:
    """Take the numbers from an estimate whose warnings refuse it, also in the stored run.

    What each chain said stays in ``per_chain`` and in the warnings.

    Parameters
    ----------
    estimate : LogZEstimate
        Returned as it is where nothing refuses it.
    """
    if not refused(estimate.warnings) or np.isnan(estimate.log_z):
        return estimate
    idata = estimate.idata
    if idata is not None:
        idata = idata.copy()
        dataset = idata["tempering"].to_dataset()
        idata["tempering"] = dataset.assign(
            {name: dataset[name] * np.nan for name in _NUMBERS if name in dataset}
        )
    return replace(
        estimate, log_z=np.nan, se=np.nan, lower=None, upper=None, per_method={}, idata=idata
    )
