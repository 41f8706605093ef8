"""The identity of the model that a run is of, kept with its draws."""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.model.identity import Identity, listed

__all__ = ["IDENTITY", "check_one_model", "recorded_identity", "with_identity"]

IDENTITY = "model_identity"
"""Attribute of the group ``posterior``."""


def recorded_identity(source: Any) -> Identity | None:
    """Identity that a run, or the run of an estimate, was stored with; None without one.

    Parameters
    ----------
    source : xarray.DataTree, or an estimate with an ``idata``
    """
    idata = source if isinstance(source, xr.DataTree) else getattr(source, "idata", None)
    if not isinstance(idata, xr.DataTree) or "posterior" not in idata.children:
        return None
    return Identity.from_json(idata["posterior"].attrs.get(IDENTITY))


def with_identity(idata: xr.DataTree, identity: Identity | None) -> xr.DataTree:
    """Give a run the identity of its model.

    Parameters
    ----------
    idata : xarray.DataTree
        Not changed.
    identity : Identity or None
        None takes one away.
    """
    if "posterior" not in idata.children:
        return idata
    idata = idata.copy()
    dataset = idata["posterior"].to_dataset()
    dataset.attrs.pop(IDENTITY, None)
    if identity is not None:
        dataset.attrs[IDENTITY] = identity.to_json()
    idata["posterior"] = xr.DataTree(dataset)
    return idata


def check_one_model(runs: Mapping[str, Any], what: str, remedy: str) -> None:
    """Refuse runs that were stored with the identities of different models.

    Parameters
    ----------
    runs : mapping of str to DataTree or estimate
        By what the error calls each.
    what, remedy : str
        Of the error: what is refused, and what to do.

    Raises
    ------
    DataError
        Naming the first two runs that differ, and what of their models does.
    """
    first: tuple[str, Identity] | None = None
    for name, run in runs.items():
        identity = recorded_identity(run)
        if identity is None:
            continue
        first = first or (name, identity)
        if changes := first[1].changes(identity):
            raise DataError(
                f"{what}: what differs between {first[0]} and {name} is {listed(changes)}. {remedy}"
            )
