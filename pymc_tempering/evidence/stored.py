"""The evidence of a stored run: which method it was, and what its statistics say."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.controls import LEAST_DRAWS
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.arrivals import arrival_diagnostics, arrivals_of_wide_base
from pymc_tempering.evidence.common import Collector, combine
from pymc_tempering.evidence.gradients import gradient_diagnostics
from pymc_tempering.evidence.importance import importance_diagnostics
from pymc_tempering.evidence.infinite import infinite_diagnostics
from pymc_tempering.evidence.overlap import bounded, overlap_diagnostics
from pymc_tempering.evidence.parallel import LEAST_CONTROLLED
from pymc_tempering.evidence.refused import refuse
from pymc_tempering.evidence.search import search_diagnostics, search_line
from pymc_tempering.evidence.spent import gradients_spent, spent_arrays
from pymc_tempering.evidence.unvisited import unvisited_arrays, unvisited_diagnostics
from pymc_tempering.methods import METHOD_CODE, Method, load, method_of_code
from pymc_tempering.results.compact import compact
from pymc_tempering.results.concat import check_distinct_chains
from pymc_tempering.results.datatree import (
    DELTA,
    attach_estimate,
    label_dimensions,
    read_draws,
    read_statistics,
)
from pymc_tempering.results.diagnostics import diagnostic_variables, read_diagnostics
from pymc_tempering.results.statistics import read_search
from pymc_tempering.types import FloatArray

__all__ = [
    "estimate_from_idata",
    "has_statistics",
    "method_of",
    "recorded_statistics",
    "with_diagnostics",
]

LOG_DENSITY = "the log density"
"""Name of a draw's own log density among the quantities in which chains may differ."""


def _statistics(idata: xr.DataTree) -> xr.Dataset:
    return idata["sample_stats"].dataset if "sample_stats" in idata.children else xr.Dataset()


def _is_older(idata: xr.DataTree) -> bool:
    """Whether a version of this package recorded the run that did not record its method."""
    joint = "tempering" in idata.children and "tempered_draw" in idata["tempering"].dataset
    statistics = _statistics(idata)
    return METHOD_CODE not in statistics and ("base_id" in statistics or joint)


def has_statistics(idata: xr.DataTree) -> bool:
    """Whether a run kept what its log Z is made from."""
    return METHOD_CODE in _statistics(idata) or _is_older(idata)


def method_of(idata: xr.DataTree) -> Method:
    """Return the method that a run says it was sampled with.

    Raises
    ------
    DataError
        For a run of another sampler, NUTS by name; for chains of several methods; for a run of
        another version, of which the method is not known.
    """
    if _is_older(idata):
        raise DataError(
            "The run does not say which method sampled it: a version of pymc_tempering wrote it "
            f"that did not record `{METHOD_CODE}`. Sample again with this version, or read it with "
            "the version that wrote it. From the draws alone and their model, "
            "`estimate_logz(idata, model=model, method='bridge')` is bridge sampling."
        )
    statistics = _statistics(idata)
    if METHOD_CODE not in statistics:
        raise DataError(_foreign(sorted(map(str, statistics.data_vars))))
    codes = np.unique(statistics[METHOD_CODE].values)
    if codes.size > 1:
        names = [getattr(method_of_code(code), "name", f"code {code:g}") for code in codes]
        raise DataError(
            f"The run has chains of several methods, {names}. Chains of two methods make no run: "
            "estimate each by itself."
        )
    method = method_of_code(codes[0])
    if method is None:
        raise DataError(
            f"The run was sampled with a method of code {codes[0]:g}, which this version of "
            "pymc_tempering does not know. Read it with the version that wrote it."
        )
    return method


def _foreign(found: list[str]) -> str:
    sampler = "NUTS" if {"tree_depth", "depth"} & set(found) else "a sampler without tempering"
    return (
        f"These draws come from {sampler}: `sample_stats` has {found}, none of which determine "
        "log Z. As a quick second opinion, pass the model: `estimate_logz(idata, model=model)` is "
        "bridge sampling of these draws. Thorough, and for several modes: "
        "`pm.sample(step=pymc_tempering.ParallelTempering(base=idata))`, which takes its base "
        "from these draws."
    )


def recorded_statistics(idata: xr.DataTree) -> tuple[Method, dict[str, FloatArray]]:
    """Read what log Z of a run is made from.

    Returns
    -------
    method : Method
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
    read_statistics(idata)  # refuses a damaged run by what is missing
    method = method_of(idata)
    statistics: dict[str, FloatArray] = bounded(load(method.read)(idata))
    missing = [name for name in method.needs if name not in statistics]
    if missing:
        raise DataError(
            f"The run lacks {missing}, which log Z of {method.name} is made from. Pass what "
            "sampling returned, whole."
        )
    return method, statistics


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
    collect: Collector = load(method.collect)
    parts = collect(statistics)
    searched = read_search(statistics)
    spent = spent_arrays(statistics)
    parts.arrays.update(searched | spent | unvisited_arrays(statistics))
    parts.warnings.extend([*gradient_diagnostics(statistics), *infinite_diagnostics(statistics)])
    draws = read_draws(idata)
    parts.warnings.extend(overlap_diagnostics(_statistics(idata)))
    parts.warnings.extend(search_diagnostics(searched, arrivals_of_wide_base(statistics)))
    unvisited = unvisited_diagnostics(statistics, parts.log_z)
    parts.warnings.extend(unvisited)
    if "lp" in statistics:
        draws[LOG_DENSITY] = statistics["lp"]
    arrivals = (statistics.get(name) for name in ("n_tempered_restarts", "tempered_restart"))
    parts.warnings.extend(arrival_diagnostics(draws, *arrivals))
    estimate = combine(parts, method.label, draws)
    # that draws come from none of a mode says as much
    lacking = [] if unvisited else importance_diagnostics(searched, estimate.log_z, estimate.se)
    estimate = replace(estimate, search=search_line(searched), gradients=gradients_spent(spent))
    estimate = replace(estimate, idata=attach_estimate(idata, estimate, parts.arrays))
    if "tempering" not in idata.children:
        return with_diagnostics(estimate, lacking)
    before = idata["tempering"].dataset
    # what was found out about the model when it was at hand
    stored = [diagnostic for diagnostic in read_diagnostics(before) if diagnostic.lasting]
    return with_diagnostics(estimate, [*lacking, *stored, *_lost_controls(before, parts.arrays)])


def _lost_controls(before: xr.Dataset, arrays: Mapping[str, FloatArray]) -> Iterator[Diagnostic]:
    """Say that part of a run has too few draws for what made the error of the whole run small."""
    # one chain without them makes the error of all as large as its own
    if "n_controls" not in before or arrays["n_controls"].min() >= before["n_controls"].min():
        return
    error = float(before["log_marginal_likelihood_se"])
    yield Diagnostic(
        "too_few_effective_draws",
        "what is left of the run has too few draws for all control variates, with which the error "
        f"of log Z was {error:.2g}.",
        f"Keep {LEAST_DRAWS} draws of a chain, and {LEAST_CONTROLLED:.0f} of all.",
        {"n_controls": arrays["n_controls"].tolist()},
    )


def with_diagnostics(estimate: LogZEstimate, diagnostics: Sequence[Diagnostic]) -> LogZEstimate:
    """Add warnings that the statistics alone do not give, also to the stored run.

    Parameters
    ----------
    estimate : LogZEstimate
        With its ``idata``; not changed.
    diagnostics : sequence of Diagnostic
        Such as those of :func:`.priors.prior_diagnostics`; later estimates of
        the same run, or from part of its draws, repeat those that are of the model.
    """
    if not diagnostics:
        return estimate
    known = (*estimate.warnings, *estimate.of_comparison)
    every = tuple(sorted((*known, *diagnostics), key=lambda diagnostic: not diagnostic.is_cause))
    idata = estimate.idata.copy()
    dataset = idata["tempering"].to_dataset().drop_dims("warning", errors="ignore")
    idata["tempering"] = xr.DataTree(dataset.assign(diagnostic_variables(every)))
    return refuse(replace(estimate, warnings=every, idata=idata))
