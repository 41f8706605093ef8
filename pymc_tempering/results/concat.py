"""Chains of several runs put together, and chains refused that are copies of one another."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.results.compact import has_ladder
from pymc_tempering.results.datatree import (
    group_of,
    label_dimensions,
    open_hint,
    read_statistics,
)
from pymc_tempering.results.identity import (
    check_one_model,
    observed_digest,
    recorded_identity,
    with_identity,
)
from pymc_tempering.results.schema import SAMPLE_STATS
from pymc_tempering.types import FloatArray

# what random numbers decide, by method; times and counts may coincide or differ for other reasons
_RANDOM = ("delta", "target_delta", "base_delta", "beta", "log_weight_forward", "lp")


def concat_chains(runs: list[xr.DataTree]) -> xr.DataTree:
    """Put the chains of several runs of one model together, numbered afresh.

    Parameters
    ----------
    runs : list of xarray.DataTree
        With equal numbers of draws. Levels and scans of parallel tempering that only some runs use
        are nan in the others.

    Returns
    -------
    xarray.DataTree
        Groups without chains are taken from the first run. Estimates are left out, since they
        belong to each run alone.

    Raises
    ------
    DataError
        If runs differ in the number of draws or scans, or in any part of their models, which is
        named; or the same chain is there more than once, as from jobs that share a seed.
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
        most = {
            dim: max(run[name].dataset.sizes.get(dim, 0) for run in runs)
            for dim in may_differ & {"level", "scan"}
        }
        groups[f"/{name}"] = side_by_side(pad_ladder(run[name].to_dataset(), most) for run in runs)
    together = xr.DataTree.from_dict(groups)
    if any(recorded_identity(run) is None for run in runs):
        together = with_identity(together, None)
    # after levels were padded: a run and its file differ in the levels that they have room for
    check_distinct_chains(read_statistics(together), names)
    return together


def side_by_side(parts: Iterable[xr.Dataset]) -> xr.Dataset:
    """Chains of several data sets in one, numbered in order."""
    unnumbered = [part.drop_vars("chain", errors="ignore") for part in parts]
    whole = xr.concat(unnumbered, dim="chain", combine_attrs="override")
    return whole.assign_coords(chain=np.arange(whole.sizes["chain"]))


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
    check_one_model(
        {f"run {i}": run for i, run in enumerate(runs)},
        "The runs are of different models",
        "Put chains of the same model together; models are compared with `compare`.",
    )
    digests = [observed_digest(run) for run in runs]
    must_agree: dict[str, list[Any]] = {
        "variables": [sorted(map(str, group_of(run, "posterior").data_vars)) for run in runs],
        "samplers": [
            {*map(str, run["sample_stats"].data_vars)}
            & {*SAMPLE_STATS} - {"log_marginal_likelihood"}
            for run in runs
        ],
        # of runs that were stored without identity
        "data": [digest for digest in digests if digest is not None],
    }
    for what, found in must_agree.items():
        if any(each != found[0] for each in found):
            raise DataError(
                f"The runs have different {what}, so they are not of one model and sampler: "
                f"{found if what == 'variables' else ''} Put chains of the same model and "
                "step together; models are compared with `compare`."
            )
    return list(runs)


def pad_ladder(dataset: xr.Dataset, sizes: Mapping[str, int]) -> xr.Dataset:
    """Statistics of a ladder with room for `sizes` levels or scans: nan, or -1 in whole numbers."""
    wanted = {
        dim: sizes[of] - less
        for dim, of, less in (("level", "level", 0), ("pair", "level", 1), ("scan", "scan", 0))
        if dim in dataset.dims and of in sizes
    }
    missing = {dim: (0, length - dataset.sizes[dim]) for dim, length in wanted.items()}
    if not any(more for _, more in missing.values()):
        return dataset
    fill = {
        name: -1 if variable.dtype.kind in "iu" else np.nan
        for name, variable in dataset.data_vars.items()
    }
    ladder = [name for name, v in dataset.data_vars.items() if set(missing) & set(v.dims)]
    padded = dataset[ladder].pad(missing, constant_values=fill)
    return dataset.drop_vars(ladder).merge(padded)


def check_distinct_chains(
    statistics: Mapping[str, FloatArray], names: Sequence[object] | None = None
) -> None:
    """Refuse chains that are copies, by `names` or positions: every error would be too small.

    Chains whose recorded statistics never change say nothing.
    """
    arrays = [np.asarray(statistics[name]) for name in _RANDOM if name in statistics]
    n_chains = len(arrays[0]) if arrays else 0
    called = names or range(n_chains)
    seen: dict[str, int] = {}
    repeats = []
    for chain in range(n_chains):
        rows = [np.ascontiguousarray(array[chain]) for array in arrays]
        flat = [row.reshape(len(row), -1) for row in rows]
        if not any((row != row[:1])[~np.isnan(row)].any() for row in flat):
            continue
        digest = hashlib.sha256(b"".join(row.tobytes() for row in rows)).hexdigest()
        first = seen.setdefault(digest, chain)
        if first != chain:
            repeats.append(f"{called[chain]} repeats {called[first]}")
    if repeats:
        raise DataError(
            f"The same chain is there more than once: {', '.join(repeats)} (chains in order). "
            "Copies carry no information, and log Z would get too small an error. Give every run a "
            "`random_seed` of its own, or leave the copies out, as in `idata.isel(chain=[0, 1])`."
        )
