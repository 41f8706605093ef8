"""Draws that chains made without any scan, after their gradients had run out."""

import xarray as xr

__all__ = ["without_idle_draws"]

_WARMUP = "warmup"


def without_idle_draws(idata: xr.DataTree) -> xr.DataTree:
    """Keep the draws up to the first that some chain made without a scan.

    Parameters
    ----------
    idata : xarray.DataTree
        With labelled dimensions; not changed.

    Returns
    -------
    xarray.DataTree
        The run itself where every chain has all its draws.
    """
    delta = idata["sample_stats"]["delta"]
    first = delta.isel({dim: 0 for dim in delta.dims if dim not in ("chain", "draw")})
    made = first.notnull().all("chain").values
    if made.all():
        return idata
    n_draws = int(made.argmin())
    kept = {
        f"/{name}": node.to_dataset()
        if name.startswith(_WARMUP)
        else node.to_dataset().isel(draw=slice(n_draws), missing_dims="ignore")
        for name, node in idata.children.items()
    }
    return xr.DataTree.from_dict(kept)
