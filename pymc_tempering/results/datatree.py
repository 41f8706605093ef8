"""Reading recorded statistics from a DataTree and writing estimates into it."""

import os
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.methods import METHOD_CODE, METHODS
from pymc_tempering.results.compact import compress, has_ladder, pad_ladder
from pymc_tempering.results.diagnostics import diagnostic_variables
from pymc_tempering.results.digest import observed_digest
from pymc_tempering.results.identical import check_distinct_chains
from pymc_tempering.results.identity import check_one_model, recorded_identity, with_identity
from pymc_tempering.results.schema import SAMPLE_STATS, TEMPERING
from pymc_tempering.results.statistics import LABELS, unpacked
from pymc_tempering.types import FloatArray

__all__ = [
    "attach_estimate",
    "concat_chains",
    "label_dimensions",
    "open_hint",
    "read_draws",
    "read_statistics",
]

# the CF conventions' way to say what codes mean, for readers without this package
_CODES = {
    "flag_values": [row.code for row in METHODS.values()],
    "flag_meanings": " ".join(METHODS),
}


def label_dimensions(idata: xr.DataTree) -> xr.DataTree:
    """Give the statistics of a tempered step their dimension names.

    PyMC numbers the dimensions of vector statistics; here ``delta_dim_0`` becomes ``scan`` and so
    on, by the schema.
    """
    idata = idata.copy()
    for group in ("sample_stats", "warmup_sample_stats"):
        if group not in idata.children or _is_labelled(idata[group].dataset):
            continue
        dataset = idata[group].dataset
        renamed = {}
        for name in dataset.data_vars:
            entry = SAMPLE_STATS.get(str(name))
            if entry is None:
                continue
            variable = dataset[name]
            dims = entry.dims[: variable.ndim - 2]
            if variable.dims[2:] != dims and variable.ndim == 2 + len(dims):
                # numbered coordinates say nothing and would keep the dimensions apart
                variable = variable.drop_vars(
                    [d for d in variable.dims[2:] if d in variable.coords]
                )
                variable = variable.rename(dict(zip(variable.dims[2:], dims, strict=True)))
            attrs: dict[str, Any] = {"units": entry.unit, "long_name": entry.meaning}
            if name == METHOD_CODE:
                attrs |= _CODES
            renamed[name] = variable.assign_attrs({k: v for k, v in attrs.items() if v})
        keep = {n: v for n, v in dataset.data_vars.items() if n not in renamed}
        labelled = xr.Dataset(keep | renamed, attrs=dataset.attrs)
        named = {dim: labels for dim, labels in LABELS.items() if dim in labelled.dims}
        idata[group] = xr.DataTree(labelled.assign_coords(named))
    return idata


def _is_labelled(dataset: xr.Dataset) -> bool:
    """Whether every statistic of a tempered step has its dimensions and its meaning."""
    return all(
        variable.attrs.get("long_name") == SAMPLE_STATS[str(name)].meaning
        and variable.dims[2:] == SAMPLE_STATS[str(name)].dims[: variable.ndim - 2]
        for name, variable in dataset.variables.items()
        if str(name) in SAMPLE_STATS
    )


def open_hint(value: Any) -> str:
    """Say what to do where a path or a function was given instead of a run; empty otherwise.

    Examples
    --------
    >>> open_hint("run.nc")
    ' Read a stored run with `xarray.open_datatree(path)` first.'
    """
    if callable(value):
        return (
            " A log density of your own goes into a model, as "
            '`pm.Potential("density", op(x))` with an Op that computes it.'
        )
    if not isinstance(value, str | os.PathLike):
        return ""
    return " Read a stored run with `xarray.open_datatree(path)` first."


def read_statistics(idata: xr.DataTree) -> dict[str, FloatArray]:
    """Arrays of ``sample_stats`` with leading dimensions (chain, draw).

    Raises
    ------
    DataError
        If the group or one of its leading dimensions is missing, or chains have unequal numbers of
        draws.
    """
    if "sample_stats" not in idata.children:
        raise DataError(
            f"The DataTree has the groups {sorted(map(str, idata.children))} but no "
            "`sample_stats`, which hold what the estimate is made of. Pass the result of "
            "`pm.sample` with a tempered step, whole."
        )
    dataset = idata["sample_stats"].dataset
    absent = [name for name in ("chain", "draw") if not dataset.sizes.get(name, 0)]
    if absent:
        raise DataError(
            f"`sample_stats` has nothing along {absent}; expected chains and draws. Select with "
            "lists or slices, as in `idata.isel(chain=[0])`, which keep the dimension."
        )
    identity = dataset.get(METHOD_CODE)
    if identity is not None and identity.isnull().any():
        raise DataError(
            "The chains have unequal numbers of draws, filled with nan. Cut the runs to the same "
            "number before putting them together, as in `idata.isel(draw=slice(100))`."
        )
    stored = {
        str(name): variable.transpose("chain", "draw", ...).values
        for name, variable in dataset.data_vars.items()
        if {"chain", "draw"} <= set(variable.dims)
    }
    return unpacked(stored)


def read_draws(idata: xr.DataTree) -> dict[str, FloatArray]:
    """Posterior draws by variable, leading dimensions (chain, draw); none if there are none."""
    if "posterior" not in idata.children:
        return {}
    return {
        str(name): variable.transpose("chain", "draw", ...).values
        for name, variable in idata["posterior"].dataset.data_vars.items()
        if {"chain", "draw"} <= set(variable.dims)
    }


def attach_estimate(
    idata: xr.DataTree, estimate: LogZEstimate, arrays: Mapping[str, np.ndarray]
) -> xr.DataTree:
    """Add an estimate to a run: the group ``tempering`` and one statistic per chain.

    Parameters
    ----------
    idata : xarray.DataTree
        Not changed.
    estimate : LogZEstimate
    arrays : dict of ndarray
        See :class:`pymc_tempering.evidence.common.MethodEstimate`.

    Returns
    -------
    xarray.DataTree
        A copy that shares the draws.
    """
    idata = label_dimensions(idata)
    chain = (
        idata["sample_stats" if "sample_stats" in idata.children else "posterior"]
        .dataset["chain"]
        .values
    )
    values = {
        "log_marginal_likelihood": estimate.log_z,
        "log_marginal_likelihood_se": estimate.se,
        "log_marginal_likelihood_df": estimate.df,
        "log_marginal_likelihood_ess": estimate.ess,
        "log_marginal_likelihood_lower": np.nan if estimate.lower is None else estimate.lower,
        "log_marginal_likelihood_upper": np.nan if estimate.upper is None else estimate.upper,
        "log_z_chain": estimate.per_chain,
        **arrays,
    }
    variables = {}
    for name, value in values.items():
        entry = TEMPERING.get(name)
        array = np.asarray(value)
        if array.dtype.kind not in "bi":
            array = array.astype(np.float64)
        dims = entry.dims[: array.ndim] if entry is not None else ("chain",)
        if entry is None or len(dims) != array.ndim:
            dims = ("chain", *(f"{name}_dim_{i}" for i in range(array.ndim - 1)))[: array.ndim]
        attrs = {} if entry is None else {"units": entry.unit, "long_name": entry.meaning}
        variables[name] = (dims, array, attrs)
    dataset = xr.Dataset(
        variables | diagnostic_variables((*estimate.warnings, *estimate.of_comparison)),
        coords={"chain": chain} | _draws_of(idata, variables),
        attrs={"method": estimate.method},
    )
    idata["tempering"] = xr.DataTree(dataset)
    per_chain = xr.DataArray(
        np.array(estimate.per_chain), dims=("chain",), coords={"chain": chain},
        attrs={"units": "nats", "long_name": SAMPLE_STATS["log_marginal_likelihood"].meaning},
    )  # fmt: skip
    if "sample_stats" in idata.children:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            idata["sample_stats"] = xr.DataTree(
                idata["sample_stats"].to_dataset().assign(log_marginal_likelihood=per_chain)
            )
    return compress(idata)


def _check_runs(runs: Any) -> list[xr.DataTree]:
    if isinstance(runs, xr.DataTree) or not isinstance(runs, Sequence) or isinstance(runs, str):
        raise DataError(
            f"concat_chains was given a {type(runs).__name__}; expected a list of runs, as in "
            f"concat_chains([run_1, run_2]).{open_hint(runs)}"
        )
    if len(runs) == 0:
        raise DataError("concat_chains was given an empty list; expected at least one run.")
    for i, run in enumerate(runs):
        if not isinstance(run, xr.DataTree):
            hint = " The run of a LogZEstimate is its `.idata`." if hasattr(run, "idata") else ""
            raise DataError(
                f"Run {i} is a {type(run).__name__}; expected a DataTree.{hint}{open_hint(run)}"
            )
        read_statistics(run)
    variables = [
        sorted(map(str, run["posterior"].dataset.data_vars)) if "posterior" in run.children else []
        for run in runs
    ]
    statistics = [sorted(map(str, run["sample_stats"].dataset.data_vars)) for run in runs]
    recorded = [
        set(names) & set(SAMPLE_STATS) - {"log_marginal_likelihood"} for names in statistics
    ]
    _check_one_model(runs)
    different = "variables" if any(v != variables[0] for v in variables) else ""
    different = different or ("samplers" if any(r != recorded[0] for r in recorded) else "")
    # of runs that were stored without identity
    known = {digest for digest in map(observed_digest, runs) if digest is not None}
    different = different or ("data" if len(known) > 1 else "")
    if different:
        raise DataError(
            f"The runs have different {different}, so they are not of one model and sampler: "
            f"{variables if different == 'variables' else ''} Put chains of the same model and "
            "step together; models are compared with `compare`."
        )
    return list(runs)


def _check_one_model(runs: Sequence[xr.DataTree]) -> None:
    check_one_model(
        {f"run {i}": run for i, run in enumerate(runs)},
        "The runs are of different models",
        "Put chains of the same model together; models are compared with `compare`.",
    )


def _draws_of(idata: xr.DataTree, variables: dict[str, Any]) -> dict[str, Any]:
    """Coordinate of the draws, for an estimate that keeps arrays of every draw."""
    sizes = {array.shape[dims.index("draw")] for dims, array, _ in variables.values()
             if "draw" in dims}  # fmt: skip
    posterior = idata["posterior"].dataset if "posterior" in idata.children else xr.Dataset()
    fits = "draw" in posterior.coords and sizes == {posterior.sizes["draw"]}
    return {"draw": posterior["draw"].values} if fits else {}


def concat_chains(runs: list[xr.DataTree]) -> xr.DataTree:
    """Put the chains of several runs of one model together, numbered afresh.

    Parameters
    ----------
    runs : list of xarray.DataTree
        With equal numbers of draws. Levels and scans of parallel tempering that only some runs use
        are nan in the others.

    Raises
    ------
    DataError
        If there is no run, something else than a run, runs that differ in the number of draws or
        scans, in their variables, their data or another part of their models, which is named; or
        the same chain more than once, as from jobs that share a seed.

    Returns
    -------
    xarray.DataTree
        Groups without chains are taken from the first run; estimates are left out, since they
        belong to each run alone.
    """
    runs = [label_dimensions(run) for run in _check_runs(runs)]
    may_differ = {"chain", "level", "pair"}
    if all(has_ladder(run["sample_stats"].dataset) for run in runs):
        may_differ.add("scan")
    sizes = [
        {k: v for k, v in run["sample_stats"].dataset.sizes.items() if k not in may_differ}
        for run in runs
    ]
    if any(size != sizes[0] for size in sizes):
        raise DataError(
            f"The runs have sizes {sizes}; expected the same in all. Sample them with the same "
            "step, and cut them to equal numbers of draws, as in `idata.isel(draw=slice(100))`."
        )
    names = [
        f"chain {chain} of run {i}"
        for i, run in enumerate(runs)
        for chain in run["sample_stats"].dataset["chain"].values
    ]
    groups = {}
    for name, node in runs[0].children.items():
        if name == "tempering":
            continue
        if "chain" not in node.dataset.dims:
            groups[f"/{name}"] = node.to_dataset()
            continue
        parts, first = [], 0
        most = {
            dim: max(run[name].dataset.sizes.get(dim, 0) for run in runs)
            for dim in may_differ & {"level", "scan"}
        }
        for run in runs:
            part = pad_ladder(run[name].to_dataset(), most)
            part = part.assign_coords(chain=np.arange(first, first + part.sizes["chain"]))
            first += part.sizes["chain"]
            parts.append(part)
        groups[f"/{name}"] = xr.concat(parts, dim="chain", combine_attrs="override")
    together = xr.DataTree.from_dict(groups)
    if any(recorded_identity(run) is None for run in runs):
        together = with_identity(together, None)
    # after levels were padded: a run and its file differ in the levels that they have room for
    check_distinct_chains(read_statistics(together), names)
    return together
