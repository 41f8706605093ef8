"""Reading statistics and diagnostics from a DataTree, and writing estimates into it."""

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import methodcaller
from typing import Any

import numpy as np
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.diagnostic import Diagnostic, kinds
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.methods import METHOD_CODE, METHODS
from pymc_tempering.results.compact import compress
from pymc_tempering.results.schema import SAMPLE_STATS, TEMPERING
from pymc_tempering.results.statistics import LABELS, unpacked
from pymc_tempering.types import FloatArray

# names under which a tempered model and its draws carry what `untemper` needs
PREFIX = "tempering_"
BETA = "beta"
POSITION = PREFIX + "u"
DELTA = PREFIX + "delta"
OBSERVED = PREFIX + "observed_"
RECORDS = tuple(PREFIX + n for n in ("knots", "bias", "base_mean", "base_scale", "base_delta"))

# the CF conventions' way to say what codes mean, for readers without this package
_CODES = {"flag_values": [row.code for row in METHODS.values()], "flag_meanings": " ".join(METHODS)}

_OF_DIAGNOSTIC = ("warning_code", "warning_text", "warning_remedy", "warning_measured")


def label_dimensions(idata: xr.DataTree) -> xr.DataTree:
    """Give the statistics of a tempered step their dimension names.

    PyMC numbers the dimensions of vector statistics; here ``delta_dim_0`` becomes ``scan`` and so
    on, by the schema. A run whose statistics have their names is given back itself.
    """
    groups = [g for g in ("sample_stats", "warmup_sample_stats") if g in idata.children]
    bare = [group for group in groups if not _is_labelled(idata[group].dataset)]
    if not bare:
        return idata
    idata = idata.copy()
    for group in bare:
        idata[group].dataset = _labelled(idata[group].dataset)
    return idata


def _labelled(dataset: xr.Dataset) -> xr.Dataset:
    keep, renamed = {}, {}
    for name in dataset.data_vars:
        # without coordinates: those of numbered dimensions say nothing and would keep these apart
        variable, entry = dataset.variables[name], SAMPLE_STATS.get(str(name))
        if entry is None:
            keep[name] = variable
            continue
        dims = entry.dims[: variable.ndim - 2]
        attrs: dict[str, Any] = {"units": entry.unit, "long_name": entry.meaning}
        if name == METHOD_CODE:
            attrs |= _CODES
        renamed[name] = xr.Variable(
            (*variable.dims[:2], *dims) if variable.ndim == 2 + len(dims) else variable.dims,
            variable.data,
            variable.attrs | {k: v for k, v in attrs.items() if v},
            variable.encoding,
        )
    labelled = xr.Dataset(keep | renamed, attrs=dataset.attrs)
    coords = {n: c for n, c in dataset.coords.items() if {*c.dims} <= {*labelled.dims}}
    named = {dim: labels for dim, labels in LABELS.items() if dim in labelled.dims}
    return labelled.assign_coords(coords | named)


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

    Refused with a DataError where the group or one of these dimensions is missing, or chains have
    unequal numbers of draws.
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
    return unpacked(by_chain_and_draw(dataset))


def group_of(idata: xr.DataTree, name: str) -> xr.Dataset:
    """Content of a group; an empty Dataset where there is none."""
    return idata[name].dataset if name in idata.children else xr.Dataset()


def read_draws(idata: xr.DataTree) -> dict[str, FloatArray]:
    """Posterior draws by variable, leading dimensions (chain, draw); none if there are none."""
    return by_chain_and_draw(group_of(idata, "posterior"))


def by_chain_and_draw(dataset: xr.Dataset) -> dict[str, FloatArray]:
    """Values of all variables with these dimensions, which come first."""
    return {
        str(name): dataset.variables[name].transpose("chain", "draw", ...).values
        for name in dataset.data_vars
        if {"chain", "draw"} <= set(dataset.variables[name].dims)
    }


def named_entries(
    shapes: Mapping[str, Sequence[int]], labels: Mapping[str, Sequence[Any]] | None = None
) -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Name each scalar of variables of these shapes, with its variable and its index there.

    `labels` are by variable those of the places along each of its dimensions; by default numbers.

    Examples
    --------
    >>> list(named_entries({"x": (), "y": (1, 2)}))
    [('x', 'x', ()), ('y[0, 0]', 'y', (0, 0)), ('y[0, 1]', 'y', (0, 1))]
    """
    for name, shape in shapes.items():
        along = labels[name] if labels else [range(n) for n in shape]
        for index in np.ndindex(*shape):
            inner = ", ".join(str(axis[i]) for axis, i in zip(along, index, strict=True))
            yield (f"{name}[{inner}]" if index else name), name, index


def attach_estimate(
    idata: xr.DataTree, estimate: LogZEstimate, arrays: Mapping[str, np.ndarray]
) -> xr.DataTree:
    """Copy of a run with an estimate: the group ``tempering`` and one statistic per chain.

    `arrays` are those of :class:`pymc_tempering.evidence.run.MethodEstimate`.
    """
    idata = label_dimensions(idata).copy()
    home = "sample_stats" if "sample_stats" in idata.children else "posterior"
    chain = idata[home].dataset["chain"].values
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
        entry, array = TEMPERING[name], np.asarray(value)
        if array.dtype.kind not in "bi":
            array = array.astype(np.float64)
        attrs = {"units": entry.unit, "long_name": entry.meaning}
        variables[name] = (entry.dims[: array.ndim], array, attrs)
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
        with warnings.catch_warnings(action="ignore"):
            statistics = idata["sample_stats"].to_dataset()
            idata["sample_stats"].dataset = statistics.assign(log_marginal_likelihood=per_chain)
    return compress(idata)


def _draws_of(idata: xr.DataTree, variables: dict[str, Any]) -> dict[str, Any]:
    """Coordinate of the draws, for an estimate that keeps arrays of every draw."""
    sizes = {array.shape[dims.index("draw")] for dims, array, _ in variables.values()
             if "draw" in dims}  # fmt: skip
    posterior = group_of(idata, "posterior")
    fits = "draw" in posterior.coords and sizes == {posterior.sizes["draw"]}
    return {"draw": posterior["draw"].values} if fits else {}


def diagnostic_variables(diagnostics: Iterable[Diagnostic]) -> dict[str, xr.Variable]:
    """Variables of the group ``tempering`` that say the diagnostics.

    Strings of dimension ``warning``, also where there is none; ``warning_measured`` is JSON.

    Examples
    --------
    >>> diagnostic = Diagnostic("no_overlap", "none.", "Raise `tune`.", {"log_z": float("-inf")})
    >>> stored = xr.Dataset(diagnostic_variables([diagnostic]))
    >>> stored["warning_code"].values.tolist(), stored["warning_measured"].values.tolist()
    (['no_overlap'], ['{"log_z": -Infinity}'])
    >>> read_diagnostics(stored) == (diagnostic,)
    True
    """
    rows = [
        # numbers of NumPy, where one was left, as Python's
        (d.code, d.text, d.remedy, json.dumps(dict(d.measured), default=methodcaller("tolist")))
        for d in diagnostics
    ]
    columns = np.array(rows, dtype=str).reshape(-1, len(_OF_DIAGNOSTIC)).T
    return {
        name: xr.Variable(TEMPERING[name].dims, values, {"long_name": TEMPERING[name].meaning})
        for name, values in zip(_OF_DIAGNOSTIC, columns, strict=True)
    }


def read_diagnostics(dataset: xr.Dataset) -> tuple[Diagnostic, ...]:
    """Diagnostics that a group ``tempering`` has; those of another version are a DataError."""
    if not set(_OF_DIAGNOSTIC) <= set(dataset.data_vars):
        return ()
    columns = [np.atleast_1d(dataset[name].values).astype(str).tolist() for name in _OF_DIAGNOSTIC]
    if unknown := sorted(set(columns[0]) - set(kinds())):
        raise DataError(
            f"The run was stored with the warnings {unknown}, by another version of "
            "pymc_tempering. Take that estimate off and make it anew, as in "
            "`estimate_logz(idata.drop_nodes('tempering'))`; what concerns the model is found "
            "again where it is passed. Or read the run with the version that wrote it."
        )
    return tuple(
        Diagnostic(code, text, remedy, json.loads(measured))
        for code, text, remedy, measured in zip(*columns, strict=True)
    )
