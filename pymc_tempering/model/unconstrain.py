"""From posterior draws in a DataTree back to flat unconstrained vectors."""

import numpy as np
import xarray as xr
from pytensor.graph.replace import graph_replace

from pymc_tempering.errors import DataError
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.interpreted import interpreted
from pymc_tempering.types import FloatArray

__all__ = ["unconstrained_draws"]


def unconstrained_draws(
    idata: xr.DataTree, density: CompiledDensity, *, max_draws: int = 4000
) -> FloatArray:
    """Posterior draws of any sampler as flat unconstrained vectors, shape (n, D).

    More than `max_draws`, plenty for moments, are thinned evenly. DataError if the group
    ``posterior`` or a free variable is missing, or has another shape.
    """
    model = density.model
    if "posterior" not in idata.children:
        raise DataError(
            f"The DataTree has the groups {sorted(idata.children)} but no `posterior`; pass the "
            "result of `pm.sample`."
        )
    posterior = idata["posterior"].dataset
    names = [rv.name for rv in model.free_RVs]
    missing = [name for name in names if name not in posterior]
    if missing:
        raise DataError(
            f"The posterior lacks the free variables {missing} of the model; it has "
            f"{sorted(map(str, posterior.data_vars))}. Pass draws of the same model, with all its "
            "free variables (bambi leaves some out: see `omit_offsets` of its `fit`)."
        )
    shapes = dict(zip(density.points.names, density.points.shapes, strict=True))
    outputs = []
    inputs = []
    for rv in model.free_RVs:
        value = rv.clone()
        inputs.append(value)
        transform = model.rvs_to_transforms[rv]
        outputs.append(value if transform is None else transform.forward(value, *rv.owner.inputs))
    # bounds of one variable may be other variables, whose drawn values are meant
    outputs = graph_replace(outputs, dict(zip(model.free_RVs, inputs, strict=True)), strict=False)
    forward = interpreted(inputs, outputs, on_unused_input="ignore")
    n = posterior.sizes["chain"] * posterior.sizes["draw"]
    picked = np.unique(np.linspace(0, n - 1, min(n, max_draws)).astype(int))
    arrays = {name: posterior[name].transpose("chain", "draw", ...).values for name in names}
    # not by xarray, which cannot stack variables without entries
    values = {name: array.reshape(n, *array.shape[2:]) for name, array in arrays.items()}
    value_names = [model.rvs_to_values[rv].name for rv in model.free_RVs]
    draws = np.empty((picked.size, density.dim))
    for row, i in enumerate(picked):
        try:
            results = forward(*(values[name][i] for name in names))
        except TypeError as error:
            raise DataError(
                "The shapes of the posterior's variables, "
                f"{ {name: values[name].shape[1:] for name in names} }, are not those of this "
                f"model, whose unconstrained values have {shapes}. Pass draws of the same model."
            ) from error
        draws[row] = density.points.ravel(dict(zip(value_names, results, strict=True)))
    if not np.isfinite(draws).all():
        raise DataError("Some posterior draws lie outside the support of this model.")
    return draws
