"""Whether a model is the one that a run sampled: by identity, and by density at the draws."""

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.model.at_draws import (
    constrained_model,
    differing,
    evaluate,
    log_jacobian,
    size_of_terms,
    stack_draws,
    unconstrained_draws,
)
from pymc_tempering.model.compile import CompiledDensity
from pymc_tempering.model.identity import Identity, listed
from pymc_tempering.results.datatree import group_of
from pymc_tempering.results.identity import (
    describe_observed,
    observed_digest,
    observed_values,
    recorded_identity,
)
from pymc_tempering.types import FloatArray, IntArray


def check_identity(model: pm.Model, idata: xr.DataTree, what: str) -> bool:
    """Refuse a model whose identity or observed data are not those of a run, naming what differs.

    `what` is what the error calls the run. Returns whether the model is known to be the one; where
    it is not, all draws have to be looked at.
    """
    theirs, ours = recorded_identity(idata), Identity.of(model)
    if theirs is not None and (changes := theirs.changes(ours)):
        seen = [observed_digest(each) for each in (model, idata)]
        observed = "" if None in seen or seen[0] == seen[1] else (
            f" They have different observed data: {describe_observed(model)} in the model, "
            f"{describe_observed(idata)} in the run."
        )  # fmt: skip
        raise DataError(
            f"{what} is of another model than the one that was passed: what differs is "
            f"{listed(changes)}.{observed} Pass the model and its data as they were sampled; "
            "changed priors go to the `alternatives` of `prior_sensitivity`."
        )
    if theirs is None:
        check_observed(model, idata, what)
    return theirs is not None and theirs.digest == ours.digest and ours.is_certain


def check_observed(model: pm.Model, idata: xr.DataTree, what: str) -> None:
    """Refuse a model whose observed data are not those of a run, where both have some."""
    ours, theirs = observed_digest(model), observed_digest(idata)
    if ours is not None and theirs is not None and ours != theirs:
        raise DataError(
            f"{what} and the model that was sampled have different observed data: "
            f"{describe_observed(model)} in the model, {describe_observed(idata)} in the run. "
            "Evidences of different data cannot be compared; pass the model with the data that "
            "were sampled."
        )


def check_density(idata: xr.DataTree, model: pm.Model, log_density: FloatArray) -> None:
    """Refuse a model whose log density at any draw is not what the run recorded as ``lp``.

    `log_density` (chain * draw,) is in nats, with the Jacobian of the transforms. Without ``lp`` of
    one number for each draw, only a density of zero is refused.
    """
    impossible = int((~np.isfinite(log_density)).sum())
    if impossible:
        raise DataError(
            f"{impossible} of {log_density.size} posterior draws have no density under the model, "
            "so it is not the one that was sampled. Pass that one."
        )
    statistics = group_of(idata, "sample_stats")
    if "lp" not in statistics or statistics["lp"].dims != ("chain", "draw"):
        return
    recorded = statistics["lp"].values.ravel()
    if recorded.shape != log_density.shape:
        return
    now = log_density - _offset(log_density - recorded, model, idata)
    sizes = partial(_rounding_at_draws, model, idata)
    other = differing(recorded, now, sizes, _precision(idata, recorded))
    if other.any():
        largest = np.nanmax(np.abs(log_density - recorded)[other])
        raise DataError(
            "The model gives the posterior draws other log densities than the run recorded (at "
            f"{int(other.sum())} of {other.size} draws, by up to {largest:.3g} nats), so it is not "
            "the model that was sampled, or its draws were changed afterwards (bambi shifts the "
            "intercept, unless `center_predictors=False`). Pass the model and the draws as they "
            "were sampled; changed priors go to the `alternatives` of `prior_sensitivity`."
        )


def _offset(difference: FloatArray, model: pm.Model, idata: xr.DataTree) -> float:
    """Offset of all draws that the constants of a density explain.

    PyTensor writes numbers such as 2.0 down in single precision, and takes logarithms of them
    there, which compilers round in other ways.
    """
    draw = (v.isel(chain=0, draw=0) for v in idata["posterior"].dataset.data_vars.values())
    n_terms = sum(np.size(each) for each in (*observed_values(model).values(), *draw))
    offset = float(np.median(difference))
    return offset if abs(offset) <= n_terms * np.finfo(np.float32).eps else 0.0


def _precision(idata: xr.DataTree, recorded: FloatArray) -> float:
    """Relative precision that a run was made with: a sampler may work in single precision."""
    draws = [v.values for v in idata["posterior"].dataset.data_vars.values() if v.dtype.kind == "f"]
    single = any(np.array_equal(x, x.astype(np.float32), equal_nan=True) for x in (recorded, *draws)
                 if x.size > 1 and np.ptp(x[np.isfinite(x)]) > 0.0)  # fmt: skip
    return float(np.finfo(np.float32 if single else np.float64).eps)


def _rounding_at_draws(model: pm.Model, idata: xr.DataTree, index: IntArray) -> FloatArray:
    """Magnitude of what is summed at the draws of these positions.

    What rounding a draw itself does to the density counts too, as close to the end of an interval
    or where a covariance is nearly singular: it is tried.
    """
    constrained = constrained_model(model)
    draws = {n: v[index] for n, v in stack_draws(idata, constrained).items()}
    jacobian = log_jacobian(model, constrained)
    joint = constrained.varlogp + constrained.datalogp + jacobian
    size, here = evaluate(
        constrained, [size_of_terms(constrained) + pt.abs(jacobian), joint], draws
    )
    # units of the last digit: what transforms and back may do to a draw
    moved_by, rng = 4.0 * _precision(idata, here), np.random.default_rng(0)
    noise = np.zeros_like(here)
    # the largest of three random moves counts
    for _ in range(3):
        moved = {
            name: v * (1.0 + moved_by * rng.choice([-1.0, 1.0], v.shape))
            if v.dtype.kind == "f" else v
            for name, v in draws.items()
        }  # fmt: skip
        [there] = evaluate(constrained, [joint], moved)
        noise = np.maximum(noise, np.nan_to_num(np.abs(there - here), posinf=0.0))
    return size + noise / moved_by


def draws_of_model(
    idata: xr.DataTree, density: CompiledDensity, model: pm.Model, *, max_draws: int | None
) -> FloatArray:
    """Unconstrained posterior draws (chain, draw, D), checked to be draws of the model.

    `density` was compiled from `model`. Chains are thinned evenly to `max_draws` in all, None for
    all. Refused with a DataError are draws of other variables or shapes than the model's, or that
    were recorded with another log density.
    """
    sizes = idata["posterior"].sizes if "posterior" in idata.children else {}
    n_all = sizes.get("chain", 1) * sizes.get("draw", 1)
    step = 1 if max_draws is None else max(1, -(-n_all // max_draws))
    groups = {
        f"/{name}": idata[name].to_dataset().isel(draw=slice(None, None, step))
        for name in ("posterior", "sample_stats")
        if name in idata.children and "draw" in idata[name].dims
    }
    thinned = xr.DataTree.from_dict(groups)
    flat = unconstrained_draws(thinned, density, max_draws=n_all)
    # recorded densities are in PyMC's coordinates
    here = log_density_at(density, flat) - density.points.log_jacobian(flat)
    check_density(thinned, model, here)
    return flat.reshape(sizes["chain"], -1, density.dim)


def log_density_at(density: CompiledDensity, z: FloatArray) -> FloatArray:
    """Log density (nats) at each row of `z`; ``-inf`` where it is nan, as in compiled kernels."""
    values = np.array([density.value_and_grad(point)[0] for point in z])
    return np.where(np.isnan(values), -np.inf, values)
