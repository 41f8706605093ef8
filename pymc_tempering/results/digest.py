"""Identity of the data that a model, a run or an estimate belongs to."""

import hashlib
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant

__all__ = ["describe_observed", "observed_digest", "observed_values"]


def observed_digest(source: Any) -> str | None:
    """Digest of observed values: equal for models, runs and estimates of the same data.

    Neither names nor the order of observations' variables enter, since two models may call and
    arrange the same data differently.

    Parameters
    ----------
    source : pymc.Model, xarray.DataTree, or an estimate with an ``idata``

    Returns
    -------
    str or None
        None where there is nothing observed, as in models written with potentials.
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

    Parameters
    ----------
    source : pymc.Model, xarray.DataTree, or an estimate with an ``idata``

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
    """Give the observed values of a model, a run or an estimate by name.

    Parameters
    ----------
    source : pymc.Model, xarray.DataTree, or an estimate with an ``idata``
    """
    if isinstance(source, pm.Model):
        return {rv.name: _model_values(source, rv) for rv in source.observed_RVs}
    idata = source if isinstance(source, xr.DataTree) else getattr(source, "idata", None)
    if idata is None or "observed_data" not in idata.children:
        return {}
    variables = idata["observed_data"].dataset.data_vars
    return {str(name): variable.values for name, variable in variables.items()}


def _model_values(model: pm.Model, rv: Any) -> np.ndarray:
    value = model.rvs_to_values[rv]
    if isinstance(value, SharedVariable):
        return np.asarray(value.get_value())
    return np.asarray(value.data if isinstance(value, Constant) else value.eval())
