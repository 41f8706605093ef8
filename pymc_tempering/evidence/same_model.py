"""Whether a model is the one that a stored run sampled: its data, and its density at the draws."""

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.unconstrain import unconstrained_draws
from pymc_tempering.results.digest import describe_observed, observed_digest
from pymc_tempering.types import FloatArray

__all__ = ["check_density", "check_observed", "draws_of_model", "log_density_at"]


def check_observed(model: pm.Model, idata: xr.DataTree, what: str) -> None:
    """Refuse a model whose observed data are not those of a run, where both have some.

    Parameters
    ----------
    model : pymc.Model
    idata : xarray.DataTree
    what : str
        What the error calls the one that differs.

    Raises
    ------
    DataError
    """
    ours, theirs = observed_digest(model), observed_digest(idata)
    if ours is not None and theirs is not None and ours != theirs:
        raise DataError(
            f"{what} and the model that was sampled have different observed data: "
            f"{describe_observed(model)} in the model, {describe_observed(idata)} in the run. "
            "Evidences of different data cannot be compared; pass the model with the data that "
            "were sampled."
        )


def check_density(idata: xr.DataTree, log_density: FloatArray) -> None:
    """Refuse a model whose log density at the draws is not what the run recorded as ``lp``.

    Parameters
    ----------
    idata : xarray.DataTree
        Without ``lp`` of one number for each draw, only a density of zero is refused.
    log_density : ndarray of shape (n_chains * n_draws,)
        In nats, with the Jacobian of the transforms.

    Raises
    ------
    DataError
    """
    impossible = int((~np.isfinite(log_density)).sum())
    if impossible:
        raise DataError(
            f"{impossible} of {log_density.size} posterior draws have no density under the model, "
            "so it is not the one that was sampled. Pass that one."
        )
    statistics = idata["sample_stats"].dataset if "sample_stats" in idata.children else {}
    if "lp" not in statistics or statistics["lp"].dims != ("chain", "draw"):
        return
    recorded = statistics["lp"].values.ravel()
    if recorded.shape != log_density.shape:
        return
    difference = np.abs(log_density - recorded)
    # densities are sums of many terms, and a sampler may work in single precision
    if np.median(difference) > 1e-3 + 1e-5 * np.median(np.abs(recorded)):
        raise DataError(
            "The model gives the posterior draws other log densities than the run recorded (they "
            f"differ by {np.median(difference):.3g} nats in the median), so it is not the model "
            "that was sampled, or its draws were changed afterwards (bambi shifts the intercept, "
            "unless `center_predictors=False`). Pass the model and the draws as they were sampled; "
            "changed priors go to the `alternatives` of `prior_sensitivity`."
        )


def draws_of_model(idata: xr.DataTree, density: CompiledDensity, *, max_draws: int) -> FloatArray:
    """Unconstrained posterior draws by chain, checked to be draws of the model.

    Parameters
    ----------
    idata : xarray.DataTree
        With a group ``posterior``; chains are thinned evenly beyond `max_draws` in all.
    density : CompiledDensity
    max_draws : int

    Returns
    -------
    ndarray of shape (n_chains, n_draws, D)

    Raises
    ------
    DataError
        If the draws have other variables or shapes than the model, or were recorded with another
        log density than the model's.
    """
    sizes = idata["posterior"].sizes if "posterior" in idata.children else {}
    n_all = sizes.get("chain", 1) * sizes.get("draw", 1)
    step = max(1, -(-n_all // max_draws))
    groups = {
        f"/{name}": idata[name].to_dataset().isel(draw=slice(None, None, step))
        for name in ("posterior", "sample_stats")
        if name in idata.children and "draw" in idata[name].dims
    }
    thinned = xr.DataTree.from_dict(groups)
    flat = unconstrained_draws(thinned, density, max_draws=n_all)
    # recorded densities are in PyMC's coordinates
    check_density(thinned, log_density_at(density, flat) - density.points.angles.log_jacobian(flat))
    return flat.reshape(sizes["chain"], -1, density.dim)


def log_density_at(density: CompiledDensity, z: FloatArray) -> FloatArray:
    """Log density (nats) at each row of `z`; ``-inf`` where it is nan, as in compiled kernels."""
    values = np.array([density.value_and_grad(point)[0] for point in z])
    return np.where(np.isnan(values), -np.inf, values)
