"""What log Z of a model means: powers of the likelihood, orders, and the largest likelihood."""

import math
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_tempering.errors import TemperingError
from pymc_tempering.evidence.checks.check import AtHand, Check, Finding, Findings
from pymc_tempering.model.at_draws import constrained_model, evaluate, stack_draws
from pymc_tempering.private.of_pymc import has_total_size, is_improper, is_ordered
from pymc_tempering.types import FloatArray


def powers(model: pm.Model) -> Findings:
    """Observed variables whose likelihood `total_size` raises to a power."""
    factors = {rv.name: _power(rv) for rv in model.observed_RVs}
    factors = {name: power for name, power in factors.items() if not np.isclose(power, 1.0)}
    if not factors:
        return
    listed = ", ".join(f"{name} (by {power:.3g})" for name, power in factors.items())
    yield Finding(
        f"`total_size` multiplies log likelihoods without a minibatch: {listed}. log Z is then the "
        "log normaliser of prior times likelihood to that power, and no marginal likelihood of the "
        "data.",
        {f"power of {name}": power for name, power in factors.items()},
    )


def _power(rv: Any) -> float:
    """Factor of the log likelihood of an observed variable."""
    if not has_total_size(rv):
        return 1.0
    inner, *sizes = rv.owner.inputs
    shape = inner.shape.eval()
    factors = [
        float(total.data) / length
        for total, length in zip(sizes, shape, strict=False)
        if isinstance(total, Constant) and total.data is not None
    ]
    return float(np.prod(factors))


def orders(model: pm.Model, idata: xr.DataTree) -> Findings:
    """Ordered variables, whose prior does not integrate to one."""
    ordered = [rv for rv in model.free_RVs if is_ordered(model.rvs_to_transforms.get(rv))]
    if not ordered:
        return
    names = [rv.name for rv in ordered]
    what = (
        f"the transform keeps {names} in increasing order without normalising the prior to that "
        "part of the space"
    )
    k = _components(ordered, idata)
    measured: dict[str, object] = {"variables": names}
    if k is not None and _orders_are_equivalent(model, idata, names, k):
        missing = math.log(math.factorial(k))
        measured["log k!"] = missing
        text = (
            f"{what}. All {k}! orders are equivalent here, so that log Z of the same model without "
            "an order, and with a prior normalised to this order, is higher by exactly "
            f"log {k}! = {missing:.4f}."
        )
        remedy = (
            "Add that before comparing with models without an order, or with another number of "
            "components."
        )
    else:
        text = (
            f"{what}, so log Z lacks the log of the prior's mass on it. `compare` is right only "
            "among models that have the same ordered variables with the same prior."
        )
        remedy = (
            "Order by a prior that is normalised, as of the smallest value and of positive "
            "differences."
        )
    yield Finding(text, measured, remedy=remedy)


def _components(ordered: list[Any], idata: xr.DataTree) -> int | None:
    """Length of the only ordered variable, if it is a vector; None otherwise."""
    name = ordered[0].name
    if len(ordered) > 1 or "posterior" not in idata.children or name not in idata["posterior"]:
        return None
    shape = idata["posterior"].dataset[name].shape[2:]
    return int(shape[0]) if len(shape) == 1 else None


def _orders_are_equivalent(model: pm.Model, idata: xr.DataTree, names: list[str], k: int) -> bool:
    """Whether permuting all variables with k components leaves the log density as it is.

    An exchange of two and a rotation of all generate every permutation, so these two are tried.
    """
    try:
        constrained = constrained_model(model)
        draws = stack_draws(idata, constrained)
    except TemperingError:
        return False
    picked = np.linspace(0, len(draws[names[0]]) - 1, 20).astype(int)
    draws = {name: values[picked] for name, values in draws.items()}
    joint = [constrained.varlogp + constrained.datalogp]
    [original] = evaluate(constrained, joint, draws)
    swapped = np.r_[1, 0, 2:k] if k > 1 else np.zeros(1, dtype=int)
    for order in (swapped, np.roll(np.arange(k), 1)):
        permuted = {name: _permute(values, order) for name, values in draws.items()}
        [value] = evaluate(constrained, joint, permuted)
        if not np.allclose(value, original, rtol=1e-9, atol=1e-8):
            return False
    return True


def _permute(values: FloatArray, order: np.ndarray) -> FloatArray:
    """Components of every draw in another order, along the first axis of their length."""
    axes = [axis for axis in range(1, values.ndim) if values.shape[axis] == order.size]
    return np.take(values, order, axis=axes[0]) if axes else values


def constants(model: pm.Model) -> Findings:
    """Laws of areas beside areas, whose densities PyMC gives up to a constant."""
    of_car, of_icar = (
        [rv.name for rv in model.basic_RVs if isinstance(rv.owner.op, type(law.rv_op))]
        for law in (pm.CAR, pm.ICAR)
    )
    random = set(model.basic_RVs)
    # a potential of no variable is the constant, added
    is_added = any(random.isdisjoint(ancestors([each])) for each in model.potentials)
    if of_car and not is_added:
        yield Finding(
            f"PyMC leaves a constant out of the density of `pm.CAR`, {of_car}, and so log Z lacks "
            "it.",
            {"variables": of_car},
            piece="CAR",
            remedy="Compare models that have the same graph of areas alone, or add "
            '`pm.Potential("constant", 0.5 * np.log(W.sum(axis=0)).sum() - 0.5 * len(W) * '
            "np.log(2 * np.pi))` for each vector of it.",
        )
    if of_icar:
        yield Finding(
            f"`pm.ICAR`, {of_icar}, has no normalised density but for that of its sum, nor one "
            "that a free `sigma` scales, and so log Z lacks a constant.",
            {"variables": of_icar},
            piece="ICAR",
            remedy="Compare models that have the same graph of areas alone, with `sigma` left at 1 "
            "and the values multiplied by their scale.",
        )


def above_likelihood(run: AtHand) -> Findings:
    """Whether log Z is above the log likelihood of every draw by four of its errors.

    The evidence is the mean of the likelihood under the prior, so it is at most the largest one.
    Not said of models with potentials, or with priors that are not known to be normalised. Asked
    only where another check warns: the likelihood of all draws takes the time of a small run.
    """
    model, estimate = run.model, run.estimate
    refused = any(warning.refuses for warning in run.warnings or ())
    custom = any("Custom" in type(rv.owner.op).__name__ for rv in model.free_RVs)
    custom = custom or any(constants(model))
    unknown = custom or any(map(is_improper, model.free_RVs)) or bool(model.potentials)
    if refused or unknown or not model.observed_RVs or np.isnan(estimate.log_z):
        return
    try:
        constrained = constrained_model(model)
        draws = stack_draws(run.idata, constrained)
        [log_likelihood] = evaluate(constrained, [constrained.datalogp], draws)
    except TemperingError:
        return
    largest = float(log_likelihood.max())
    error = estimate.se if np.isfinite(estimate.se) else 0.0
    if estimate.log_z > largest + 4.0 * error:
        yield Finding(
            f"log Z came out as {estimate.log_z:.2f}, and the largest log likelihood of all draws "
            f"is {largest:.2f}, which it cannot exceed with priors that integrate to one. So there "
            "is no estimate.",
            {"log_z": float(estimate.log_z), "largest log likelihood": largest},
        )


CHECKS = (
    Check(
        "power_likelihood",
        "`total_size=` without a minibatch raises a likelihood to a power, so log Z is no marginal "
        "likelihood of the data.",
        "Leave `total_size` away, or give all the data.",
        lambda run: powers(run.model),
        ("model",),
        lasting=True,
    ),
    Check(
        "ordered_variables",
        "The `ordered` transform cuts the prior without normalising it; log k! is missing where "
        "all orders are equivalent.",
        "Add log k! before comparing with models without an order, or order by a prior that is "
        "normalised.",
        lambda run: orders(run.model, run.idata),
        ("model", "idata"),
        lasting=True,
    ),
    Check(
        "dropped_constants",
        "`pm.CAR` and `pm.ICAR` have densities up to a constant, which log Z lacks: it grows with "
        "the number of areas.",
        "Compare models that have the same graph of areas alone, or add the constant of `pm.CAR`.",
        lambda run: constants(run.model),
        ("model",),
        lasting=True,
    ),
    Check(
        "above_likelihood",
        "Log Z came out above the log likelihood of every draw. With priors that integrate to one "
        "it cannot be: the evidence is the mean of the likelihood under the prior. There is no "
        "estimate (`nan`). Looked at where another check warns too, and not in models with "
        "potentials, whose meaning is not known.",
        "Look at the other warnings; write the model in coordinates that the data determine by "
        "themselves, or raise `n_levels` and `tune`.",
        above_likelihood,
        ("model", "estimate", "idata", "warnings"),
        lasting=True,
        refuses=True,
        words="above the largest likelihood",
    ),
)
