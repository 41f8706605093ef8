"""Which model and which data a run, an estimate or a model is of."""

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.model.identity import Identity, listed
from pymc_tempering.model.open_data import value_of
from pymc_tempering.results.datatree import group_of

IDENTITY = "model_identity"
"""Attribute of the group ``posterior``."""


def _group_of(source: Any, name: str) -> xr.Dataset:
    idata = source if isinstance(source, xr.DataTree) else getattr(source, "idata", None)
    return group_of(idata, name) if isinstance(idata, xr.DataTree) else xr.Dataset()


def recorded_identity(source: Any) -> Identity | None:
    """Identity that a run, or the run of an estimate, was stored with; None without one."""
    return Identity.from_json(_group_of(source, "posterior").attrs.get(IDENTITY))


def with_identity(idata: xr.DataTree, identity: Identity | None) -> xr.DataTree:
    """Copy of a run with the identity of its model; None takes one away."""
    if "posterior" not in idata.children:
        return idata
    idata = idata.copy()
    attrs = idata["posterior"].attrs
    attrs.pop(IDENTITY, None)
    if identity is not None:
        attrs[IDENTITY] = identity.to_json()
    return idata


def check_one_model(runs: Mapping[str, Any], what: str, remedy: str) -> None:
    """Refuse runs that were stored with the identities of different models.

    The DataError names the first two that differ, and what of their models does: `runs` are by what
    it calls each; `what` and `remedy` are the rest of its text.
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


def observed_digest(source: Any) -> str | None:
    """Digest of observed values: equal for models, runs and estimates of the same data.

    Neither names nor the order of observations' variables enter, since two models may call and
    arrange the same data differently.

    None where nothing is observed, as in models written with potentials.
    """
    observed = observed_values(source)
    if not observed:
        return None
    parts = []
    for array in observed.values():
        values = np.ascontiguousarray(array, dtype=np.float64)
        parts.append(repr(values.shape).encode() + values.tobytes())
    return hashlib.sha256(b"".join(sorted(parts))).hexdigest()[:16]


def describe_observed(source: Any) -> str:
    """Say what a model, a run or an estimate observes: names, shapes and means.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     y = pm.Normal("y", 0.0, 1.0, observed=[1.0, 2.0])
    >>> describe_observed(model)
    '(y of shape (2,) and mean 1.5)'
    """
    parts = [
        f"{name} of shape {np.shape(array)} and mean {np.mean(array):.6g}"
        for name, array in observed_values(source).items()
    ]
    return f"({', '.join(parts) or 'nothing observed'})"


def observed_values(source: Any) -> dict[str, np.ndarray]:
    """Observed values of a model, a run or an estimate by name."""
    if isinstance(source, pm.Model):
        values = {rv.name: source.rvs_to_values[rv] for rv in source.observed_RVs}
        return {name: np.asarray(value_of(value)) for name, value in values.items()}
    variables = _group_of(source, "observed_data").data_vars
    return {str(name): variable.values for name, variable in variables.items()}
