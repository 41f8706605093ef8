"""The evidence of a run: what its statistics say, checked once, and attached once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.checks import diagnose
from pymc_tempering.evidence.checks.check import AtHand
from pymc_tempering.evidence.checks.overlap import bounded
from pymc_tempering.evidence.common import run_of, with_warnings
from pymc_tempering.evidence.run import Request, Run, Unconstrained
from pymc_tempering.methods import METHOD_CODE, Method, load, method_of_code
from pymc_tempering.references.planted import MASSES, WIDTHS
from pymc_tempering.results.compact import compact
from pymc_tempering.results.concat import check_distinct_chains
from pymc_tempering.results.datatree import (
    DELTA,
    attach_estimate,
    group_of,
    label_dimensions,
    read_diagnostics,
    read_draws,
    read_statistics,
)
from pymc_tempering.results.statistics import read_search
from pymc_tempering.types import FloatArray

LOG_DENSITY = "the log density"
"""Name of a draw's own log density among the quantities in which chains may differ."""


def estimate_from_idata(idata: xr.DataTree, model: pm.Model | None = None) -> LogZEstimate:
    """Estimate log Z of a run from what it recorded, with every check that can be made.

    Its ``idata`` is a copy of the run with the estimate attached. Without `model` checks of it are
    left out, and what an earlier estimate found out about it is repeated.
    """
    return checked(read_run(idata), model=model)


def read_run(idata: xr.DataTree) -> Run:
    """Read a run and make its numbers, before any check; DataError where statistics are missing."""
    before = idata["tempering"].dataset if "tempering" in idata.children else None
    method, statistics = recorded_statistics(idata)  # a damaged run is refused by what was given
    tidy = compact(label_dimensions(idata))
    if tidy is not idata:
        idata = tidy
        method, statistics = recorded_statistics(idata)
    check_distinct_chains(statistics)
    parts = load(method.collect)(statistics)
    searched = read_search(statistics)
    spent = _spent(statistics, searched)
    # the last draw of each chain says which modes have none
    last = {
        name: statistics[name][:, -1].astype(float)
        for name in ("log_mass_unvisited", "n_unreached_modes")
        if name in statistics
    }
    parts.arrays.update(searched | spent | last)
    draws = read_draws(idata)
    if "lp" in statistics:
        draws[LOG_DENSITY] = statistics["lp"]
    run: AtHand = run_of(
        parts, method.label, statistics=statistics, draws=draws, idata=idata, before=before,
    )  # fmt: skip
    gradients = {name.removesuffix("_gradients"): int(n.sum()) for name, n in spent.items()}
    if spent:
        # chains of one run share a search; where runs were put together, each had its own
        gradients["search"] = int(np.unique(spent["search_gradients"]).sum())
    estimate = replace(run.estimate, search=search_line(searched), gradients=gradients)
    return replace(run, estimate=estimate)


def at_hand(run: AtHand, model: pm.Model) -> Run:
    """Add the model to a run, and its draws in the model's own coordinates, where they are not."""
    if run.unconstrained is not None:
        return run
    return replace(run, model=model, unconstrained=Unconstrained.of(model, run.idata))


def checked(
    run: AtHand,
    *,
    model: pm.Model | None = None,
    request: Request | None = None,
    inherited: Sequence[Diagnostic] = (),
) -> LogZEstimate:
    """Run all checks of a run, and attach the estimate with its warnings.

    Those ``inherited`` from the run that this one starts from are added where it has no own.
    """
    if model is not None:
        run = at_hand(run, model)
    diagnostics = [*diagnose(replace(run, request=request))]
    # what was found out about the model and the request when they were at hand
    before = () if run.before is None else read_diagnostics(run.before)
    now = {diagnostic.code for diagnostic in diagnostics}
    kept = (*inherited, *(d for d in before if d.lasting))
    diagnostics += [d for d in kept if d.code not in now]
    estimate = with_warnings(run.estimate, diagnostics)
    return replace(estimate, idata=attach_estimate(run.idata, estimate, dict(run.arrays)))


def recorded_statistics(idata: xr.DataTree) -> tuple[Method, dict[str, FloatArray]]:
    """Read the method of a run, and the statistics that its log Z is made from.

    Of shape (n_chains, n_draws, ...), from ``sample_stats``; for joint continuous tempering from
    the group ``tempering``, as its draws at all temperatures are not those of the result.
    """
    if "posterior" in idata.children and DELTA in idata["posterior"].dataset:
        raise DataError(
            "These draws are of a tempered model, at all temperatures. Pass them to `untemper`: "
            "its result has the posterior draws, and log Z in the group `tempering`."
        )
    statistics = read_statistics(idata)  # refuses a damaged run by what is missing
    method = method_of(idata)
    if method.read:
        statistics = load(method.read)(idata)
    missing = [name for name in method.needs if name not in statistics]
    if missing:
        raise DataError(
            f"The run lacks {missing}, which log Z of {method.name} is made from. Pass what "
            "sampling returned, whole."
        )
    return method, bounded(statistics)


def has_statistics(idata: xr.DataTree) -> bool:
    """Whether a run kept what its log Z is made from."""
    return METHOD_CODE in group_of(idata, "sample_stats")


def method_of(idata: xr.DataTree) -> Method:
    """Return the method that a run says it was sampled with.

    Refused with a DataError are runs of another sampler, NUTS by name, and chains of several
    methods, or of one that this version does not know.
    """
    statistics = group_of(idata, "sample_stats")
    if METHOD_CODE not in statistics:
        found = sorted(map(str, statistics.data_vars))
        sampler = "NUTS" if {"tree_depth", "depth"} & set(found) else "a sampler without tempering"
        raise DataError(
            f"These draws come from {sampler}: `sample_stats` has {found}, none of which determine "
            "log Z. As a quick second opinion, pass the model: `estimate_logz(idata, model=model)` "
            "is bridge sampling of these draws. Thorough, and for several modes: "
            "`pm.sample(step=pymc_tempering.ParallelTempering(base=idata))`, which takes its base "
            "from these draws."
        )
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


def _spent(
    statistics: Mapping[str, FloatArray], searched: Mapping[str, FloatArray]
) -> dict[str, FloatArray]:
    """Gradients of search, tuning and draws of each chain, where they were recorded."""
    if not searched or not {"gradients_so_far", "n_gradients"} <= set(statistics):
        return {}
    so_far, of_draw = statistics["gradients_so_far"], statistics["n_gradients"]
    return {
        "search_gradients": searched["search_gradients"],
        "tuning_gradients": so_far[:, 0] - of_draw[:, 0],
        "draws_gradients": of_draw.sum(axis=1),
    }


def search_line(arrays: Mapping[str, FloatArray]) -> str | None:
    r"""Say in one line what was searched; None where that is not known, or nothing was.

    The whole is in the group ``tempering``, as ``search_start_counts`` and ``search_planted``.

    Examples
    --------
    >>> planted = np.array([[1.0, 1.0, 1.0, 0.5, 0.6, 0.7, 0.0, 0.0, 0.0]])
    >>> found = {"search_starts": 41_615, "search_modes": 2, "search_left_out": 1}
    >>> found |= {"search_images": 1}
    >>> found = {name: np.array([value]) for name, value in found.items()}
    >>> line = search_line(found | {"search_planted": planted})
    >>> print(line.replace("; ", ";\n").replace(" would", "\nwould"))
    2 modes from 41,615 starts;
    a further mode with 5 % of the mass and half their width
    would have been found with probability 0.6
    """
    if "search_starts" not in arrays or not arrays["search_starts"].any():
        return None
    # where chains of several runs were put together, the search that went furthest
    chain = int(np.argmax(arrays["search_starts"]))
    get = {name.removeprefix("search_"): values[chain] for name, values in arrays.items()}
    n_modes = int(get["modes"] + max(get["images"], 0) - get["left_out"])
    n_starts = int(get["starts"])
    line = f"{n_modes} mode{'s' * (n_modes != 1)} from {n_starts:,} start{'s' * (n_starts != 1)}"
    planted = get["planted"]
    if not np.isfinite(planted).all():
        return line
    half = planted.reshape(len(WIDTHS), len(MASSES))[WIDTHS.index(0.5), MASSES.index(0.05)]
    return (
        f"{line}; a further mode with 5 % of the mass and half their width would have been found "
        f"with probability {half:.1f}"
    )
