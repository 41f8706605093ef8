"""Estimates that runs carry, and tables of them; nothing is sampled."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.stored import estimate_from_idata
from pymc_tempering.results.datatree import open_hint, read_diagnostics


def check_tree(idata: Any) -> xr.DataTree:
    """Return `idata` if it is a DataTree, and refuse it with a DataError otherwise."""
    if not isinstance(idata, xr.DataTree):
        raise DataError(
            f"Given was a {type(idata).__name__}; expected the DataTree of a tempered run, as "
            "`pymc_tempering.sample` returns it. The run of a LogZEstimate is its `.idata`."
            f"{open_hint(idata)}"
        )
    return idata


def with_estimate(idata: Any) -> xr.DataTree:
    """Return the run with the group ``tempering``, computed where it was not stored."""
    tree = check_tree(idata)
    return tree if "tempering" in tree.children else estimate_from_idata(tree).idata


def stored_estimate(idata: Any) -> LogZEstimate:
    """Read the estimate that a DataTree carries; compute it where there is none.

    Without the estimates by other methods, which are not stored.
    """
    tree = with_estimate(idata)
    dataset = tree["tempering"].dataset

    stem = "log_marginal_likelihood"

    def number(name: str) -> float:
        return float(dataset[stem + name]) if stem + name in dataset else np.nan

    bounds = [None if np.isnan(value) else value for value in (number("_lower"), number("_upper"))]
    return LogZEstimate(
        log_z=number(""), se=number("_se"), method=str(dataset.attrs.get("method", "unknown")),
        per_chain=np.asarray(dataset["log_z_chain"].values, dtype=np.float64),
        warnings=read_diagnostics(dataset), ess=number("_ess"), df=number("_df"), lower=bounds[0],
        upper=bounds[1], idata=tree,
    )  # fmt: skip


def evidence_of(models: Mapping[str, Any]) -> dict[str, LogZEstimate]:
    """Estimate of every model of a mapping to estimates or runs, none sampled anew."""
    estimates = {}
    for name, value in models.items():
        if not isinstance(value, LogZEstimate | xr.DataTree):
            raise DataError(
                f"{name!r} is a {type(value).__name__}; expected a LogZEstimate or the DataTree of "
                "a tempered run. Estimate models first, with `estimate_logz` or `compare`."
            )
        estimates[name] = value if isinstance(value, LogZEstimate) else stored_estimate(value)
    return estimates


def evidence_intervals(models: Any, prob: float = 0.95) -> pd.DataFrame:
    """Log Z of several models with intervals, best first.

    Of the table of :func:`pymc_tempering.compare`, whose intervals are normal, or of a mapping of
    names to estimates or runs, whose intervals are Student's. Columns ``log_z``, ``se``, ``low``,
    ``high`` in nats and ``warning``.
    """
    if isinstance(models, pd.DataFrame):
        needed = ["log_marginal_likelihood", "se", "warning"]
        if not set(needed) <= set(models.columns):
            raise DataError(
                f"The table has the columns {list(models.columns)}; expected {needed}, as in the "
                "table of `compare`."
            )
        estimates = {
            str(name): (LogZEstimate(float(z), float(se), "", np.empty(0)), bool(warning))
            for name, z, se, warning in models[needed].itertuples(name=None)
        }
    elif isinstance(models, Mapping) and models:
        estimates = {name: (e, bool(e.warnings)) for name, e in evidence_of(models).items()}
    else:
        raise DataError(
            f"Given was a {type(models).__name__}; expected the table of `compare`, or a mapping "
            "of names to estimates or runs."
        )
    rows = [(e.log_z, e.se, *e.interval(prob), warned) for e, warned in estimates.values()]
    table = pd.DataFrame(
        rows, index=list(estimates), columns=["log_z", "se", "low", "high", "warning"]
    )
    return table.sort_values("log_z", ascending=False, kind="stable")
