"""The prior of one variable with its scale multiplied, as a graph."""

from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors

from pymc_tempering.errors import ModelError, OptionError
from pymc_tempering.private.of_pymc import is_improper, is_log_transform

# distributions on the whole real line, by the place of their location among the parameters
_LOCATIONS: dict[Any, int] = {
    type(distribution.rv_op): place
    for distribution, place in (
        (pm.Normal, 0), (pm.Cauchy, 0), (pm.Laplace, 0), (pm.Logistic, 0), (pm.Gumbel, 0),
        (pm.Moyal, 0), (pm.SkewNormal, 0), (pm.MvNormal, 0), (pm.StudentT, 1), (pm.MvStudentT, 1),
    )
}  # fmt: skip


def why_not_scalable(model: pm.Model, name: str) -> str | None:
    """Say why the prior of a free variable has no scale to multiply; None where it has."""
    rv = model[name]
    kind = getattr(rv.owner.op, "_print_name", (type(rv.owner.op).__name__,))[0]
    transform = model.rvs_to_transforms[rv]
    if rv.dtype not in ("float64", "float32"):
        return f"{kind} is discrete"
    if is_improper(rv):
        return f"{kind} is improper and has no scale"
    if is_log_transform(transform):
        return None
    if transform is not None:
        return (
            f"{kind} has bounds or a constraint ({type(transform).__name__}), and a wider prior "
            "would lie beyond"
        )
    if type(rv.owner.op) not in _LOCATIONS:
        return f"{kind} is not known as a distribution with a location and a scale"
    return None


def scalable_names(model: pm.Model) -> list[str]:
    """Free variables whose prior can be scaled and depends on no other free variable."""
    free = set(model.free_RVs)
    return [
        rv.name
        for rv in model.free_RVs
        if why_not_scalable(model, rv.name) is None
        and not (free - {rv}) & set(ancestors(rv.owner.inputs))
    ]


def log_prior_ratio(model: pm.Model, constrained: pm.Model, name: str, factor: float) -> Any:
    r"""Graph of the log ratio (nats) of the scaled prior of a variable to its prior.

    The prior p of n entries about its location m (zero for positive variables) becomes

    .. math:: p_s(x) = s^{-n}\, p(m + (x - m) / s),

    normalised for every factor s. m and p are those given the values of the variables that they
    depend on. The graph is in the values of `constrained`, the `constrained_model` of `model`.
    OptionError if `name` is no free variable, ModelError if its prior cannot be scaled.
    """
    names = [rv.name for rv in model.free_RVs]
    if name not in names:
        raise OptionError(f"{name!r} is no free variable of the model; these are {names}.")
    reason = why_not_scalable(model, name)
    if reason is not None:
        raise ModelError(
            f"The prior of {name!r} cannot be scaled: {reason}. Write the model with the other "
            'prior and pass it as alternatives={"a name": that_model}.'
        )
    rv = constrained[name]
    x = constrained.rvs_to_values[rv]
    place = _LOCATIONS.get(type(rv.owner.op))
    is_positive = is_log_transform(model.rvs_to_transforms[model[name]])
    location = 0.0 if is_positive or place is None else rv.owner.op.dist_params(rv.owner)[place]
    shrunk = location + (x - location) / factor
    ratio = pm.logp(rv, shrunk).sum() - pm.logp(rv, x).sum() - x.size * float(np.log(factor))
    return constrained.replace_rvs_by_values([ratio])[0]
