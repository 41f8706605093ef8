"""Identity of the data that a model, a run or an estimate belongs to."""

import hashlib
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.compile.sharedvalue import SharedVariable

__all__ = ["observed_digest"]


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
    if isinstance(source, pm.Model):
        arrays = [_model_values(source, rv) for rv in source.observed_RVs]
    else:
        idata = source if isinstance(source, xr.DataTree) else getattr(source, "idata", None)
        if idata is None or "observed_data" not in idata.children:
            return None
        dataset = idata["observed_data"].dataset
        arrays = [variable.values for variable in dataset.data_vars.values()]
    if not arrays:
        return None
    parts = []
    for array in arrays:
        values = np.ascontiguousarray(array, dtype=np.float64)
        parts.append(repr(values.shape).encode() + values.tobytes())
    return hashlib.sha256(b"".join(sorted(parts))).hexdigest()[:16]


def _model_values(model: pm.Model, rv: Any) -> np.ndarray:
    value = model.rvs_to_values[rv]
    if isinstance(value, SharedVariable):
        return np.asarray(value.get_value())
    return np.asarray(value.eval())
