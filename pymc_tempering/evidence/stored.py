"""The evidence of a stored run: which method it was, and what its statistics say."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib import import_module

import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.doubt import Doubt
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.common import Collector, combine
from pymc_tempering.evidence.gradients import gradient_doubts
from pymc_tempering.results.compact import compact
from pymc_tempering.results.datatree import (
    attach_estimate,
    label_dimensions,
    read_draws,
    read_statistics,
)
from pymc_tempering.results.doubts import doubt_variables, read_doubts
from pymc_tempering.results.identical import check_distinct_chains
from pymc_tempering.transform.names import DELTA
from pymc_tempering.transform.record import is_untempered, stored_statistics
from pymc_tempering.transform.untempered import LABEL
from pymc_tempering.types import FloatArray

__all__ = [
    "COLLECTORS",
    "estimate_from_idata",
    "has_statistics",
    "recognise",
    "recorded_statistics",
    "with_doubts",
]

COLLECTORS: dict[str, tuple[str, str, str]] = {
    "pt": ("pymc_tempering.evidence.parallel", "pt, mbar", "swap_acceptance_rate"),
    "st": ("pymc_tempering.evidence.st", "st, rts", "log_level_weights"),
    "gibbs_ct": ("pymc_tempering.evidence.gibbs_ct", "gibbs_ct, eq. 21", "bias"),
    "hais": ("pymc_tempering.evidence.hais", "hais, bidirectional", "log_weight_forward"),
    "joint_ct": ("pymc_tempering.evidence.joint_ct", LABEL, "base_delta"),
}
"""For each method: module of its ``collect``, what users read, a statistic only it records."""


def recognise(statistics: Mapping[str, FloatArray]) -> str:
    """Name the method that recorded these statistics.

    Raises
    ------
    DataError
        For a run of another sampler, NUTS by name.
    """
    for method, (_, _, mark) in COLLECTORS.items():
        if mark in statistics and "base_id" in statistics:
            return method
    found = sorted(statistics)
    sampler = "NUTS" if {"tree_depth", "depth"} & set(statistics) else "a sampler without tempering"
    raise DataError(
        f"These draws come from {sampler}: `sample_stats` has {found}, none of which determine "
        "log Z. As a quick second opinion, pass the model: `estimate_logz(idata, model=model)` is "
        "bridge sampling of these draws. Thorough, and for several modes: "
        "`pm.sample(step=pymc_tempering.ParallelTempering(base=idata))`, which takes its base "
        "from these draws."
    )


def recorded_statistics(idata: xr.DataTree) -> tuple[str, dict[str, FloatArray]]:
    """Read what log Z of a run is made from.

    Returns
    -------
    method : str
        A key of :data:`COLLECTORS`.
    statistics : dict of ndarray
        Of shape (n_chains, n_draws, ...), from ``sample_stats``; for joint continuous tempering
        from the group ``tempering``, as its draws at all temperatures are not those of the result.

    Raises
    ------
    DataError
        If the statistics are not there.
    """
    if "posterior" in idata.children and DELTA in idata["posterior"].dataset:
        raise DataError(
            "These draws are of a tempered model, at all temperatures. Pass them to `untemper`: "
            "its result has the posterior draws, and log Z in the group `tempering`."
        )
    if is_untempered(idata):
        return "joint_ct", stored_statistics(idata)
    statistics = read_statistics(idata)
    return recognise(statistics), statistics


def has_statistics(idata: xr.DataTree) -> bool:
    """Whether a run kept what its log Z is made from."""
    recorded = "sample_stats" in idata.children and "base_id" in idata["sample_stats"].dataset
    return recorded or is_untempered(idata)


def estimate_from_idata(idata: xr.DataTree) -> LogZEstimate:
    """Estimate log Z from the statistics that a tempered run recorded, without sampling.

    Parameters
    ----------
    idata : xarray.DataTree

    Returns
    -------
    LogZEstimate
        Its ``idata`` is a copy of the run with the estimate attached.

    Raises
    ------
    DataError
        If the statistics are not there.
    """
    recorded_statistics(idata)  # a damaged run is refused by what was given
    idata = compact(label_dimensions(idata))
    method, statistics = recorded_statistics(idata)
    check_distinct_chains(statistics)
    module, label, _ = COLLECTORS[method]
    collect: Collector = import_module(module).collect
    parts = collect(statistics)
    parts.warnings.extend(gradient_doubts(statistics))
    estimate = combine(parts, label, read_draws(idata))
    estimate = replace(estimate, idata=attach_estimate(idata, estimate, parts.arrays))
    # what was found out about the model when it was at hand
    stored = read_doubts(idata["tempering"].dataset) if "tempering" in idata.children else ()
    return with_doubts(estimate, [doubt for doubt in stored if doubt.of_model])


def with_doubts(estimate: LogZEstimate, doubts: Sequence[Doubt]) -> LogZEstimate:
    """Add warnings that the statistics alone do not give, also to the stored run.

    Parameters
    ----------
    estimate : LogZEstimate
        With its ``idata``; not changed.
    doubts : sequence of Doubt
        Such as those of :func:`pymc_tempering.evidence.priors.prior_doubts`: later estimates from
        the same run, or from part of its draws, repeat those that are of the model.
    """
    if not doubts:
        return estimate
    every = (*estimate.warnings, *doubts)
    idata = estimate.idata.copy()
    dataset = idata["tempering"].to_dataset().drop_dims("warning", errors="ignore")
    idata["tempering"] = xr.DataTree(dataset.assign(doubt_variables(every)))
    return replace(estimate, warnings=every, idata=idata)
