"""What a run keeps: no digits, levels, scans and draws that say nothing.

Nearly all of a run of parallel tempering is ``delta``: one number for every scan and level. Scans
cannot be left out, since they are what the error of log Z is made from; digits, unused levels and
room for scans that were not run can.
"""

import numpy as np
import xarray as xr

from pymc_tempering.types import FloatArray

DELTA_DIGIT = 2.0**-16
"""Last digit of a recorded ``delta``, in nats.

Log z changes by no more than every delta does, which is half of this, 8e-6 nats; rounding errors of
many scans cancel, and less than 1e-7 is left."""

_GROUPS = ("sample_stats", "warmup_sample_stats")
_LEVEL_DIMS = {"level": 0, "pair": 1}
"""Dimensions of the ladder, and by how much they are shorter than it."""

# level 4 is twice as fast as 9 and as small; shuffled, the bytes that are zero lie side by side
_DEFLATE = {"zlib": True, "complevel": 4, "shuffle": True}


def round_delta(delta: FloatArray) -> FloatArray:
    """Round differences of log densities to :data:`DELTA_DIGIT`, so that files can be compressed.

    Examples
    --------
    >>> round_delta(np.array([-3.14159265, -np.inf])).tolist()
    [-3.1415863037109375, -inf]
    """
    # beyond 1e11 nats a float has no smaller digits, and far beyond the quotient overflows
    with np.errstate(over="ignore"):
        rounded = np.rint(delta / DELTA_DIGIT) * DELTA_DIGIT
    return np.where(np.abs(delta) < 1e11, rounded, delta)


def compact(idata: xr.DataTree) -> xr.DataTree:
    """Run without levels and scans that no chain uses, compressed in files; itself if it is so."""
    smaller = {}
    for group in (group for group in _GROUPS if group in idata.children):
        dataset = idata[group].to_dataset()
        sizes = _used(dataset)
        if any(length < dataset.sizes[dim] for dim, length in sizes.items()):
            kept = {dim: slice(length) for dim, length in sizes.items() if dim in dataset.dims}
            # a view would keep all that is left out
            smaller[group] = dataset.isel(kept).copy(deep=True)
    if smaller:
        idata = idata.copy()
    for group, dataset in smaller.items():
        idata[group].dataset = dataset
    return compress(idata)


def has_ladder(dataset: xr.Dataset) -> bool:
    """Whether the statistics are of all levels of a ladder, whose chains may differ in length."""
    if "delta" not in dataset or dataset["delta"].dims[-2:] != ("scan", "level"):
        return False
    # a budget may end before the first scan
    return bool(dataset.sizes["level"])


def _used(dataset: xr.Dataset) -> dict[str, int]:
    """Lengths of the dimensions of a ladder that some chain uses."""
    sizes: dict[str, int] = {}
    if "betas" in dataset and dataset["betas"].dims[-1:] == ("level",):
        other = [d for d in dataset["betas"].dims if d != "level"]
        used = max(int(dataset["betas"].notnull().any(other).sum()), 1)
        sizes = {dim: used - less for dim, less in _LEVEL_DIMS.items() if dim in dataset.dims}
    if has_ladder(dataset):
        first = dataset["delta"].isel(level=0)
        sizes["scan"] = max(int(first.notnull().any(["chain", "draw"]).sum()), 1)
    return sizes


def compress(idata: xr.DataTree) -> xr.DataTree:
    """Run whose numbers ``to_netcdf`` compresses without loss, as Zarr does; itself if it is so."""
    loose = [
        (group, name)
        for group, node in idata.children.items()
        for name in node.data_vars
        if not _is_compressed(node.variables[name])
    ]
    if loose:
        idata = idata.copy()
    for group, name in loose:
        variable = idata[group].variables[name]
        variable.encoding = variable.encoding | _DEFLATE
    return idata


def _is_compressed(variable: xr.Variable) -> bool:
    """Whether files compress a variable, or have no need to."""
    if not variable.ndim or variable.dtype.kind not in "biuf":
        return True
    return _DEFLATE.items() <= variable.encoding.items()


def without_idle_draws(idata: xr.DataTree) -> xr.DataTree:
    """Keep the draws up to the first that some chain made without a scan, its gradients spent."""
    delta = idata["sample_stats"]["delta"]
    first = delta.isel({dim: 0 for dim in delta.dims if dim not in ("chain", "draw")})
    made = first.notnull().all("chain").values
    if made.all():
        return idata
    n_draws = int(made.argmin())
    kept = {
        f"/{name}": node.to_dataset()
        if name.startswith("warmup")
        else node.to_dataset().isel(draw=slice(n_draws), missing_dims="ignore")
        for name, node in idata.children.items()
    }
    return xr.DataTree.from_dict(kept)
