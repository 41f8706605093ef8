"""Which values the entries of discrete variables can have, where their distributions say so."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_tempering.engine.explorers.gibbs import Support
from pymc_tempering.errors import ModelError
from pymc_tempering.model.freeze import discrete_names
from pymc_tempering.model.point import PointMap
from pymc_tempering.private import constant_values

__all__ = ["MAX_VALUES", "finite_supports"]

MAX_VALUES = 500
"""Of one entry. A sweep evaluates the density at each, and steps between neighbours cost less."""

_BOUNDS: dict[Any, Callable[[list[Any]], tuple[Any, Any]]] = {
    pm.Bernoulli.rv_type: lambda _: (0, 1),
    pm.Categorical.rv_type: lambda p: (0, p[0].shape[-1] - 1),
    pm.DiscreteUniform.rv_type: lambda p: (p[0], p[1]),
    pm.Binomial.rv_type: lambda p: (0, p[0]),
    pm.BetaBinomial.rv_type: lambda p: (0, p[0]),
    pm.HyperGeometric.rv_type: lambda p: (0, p[2]),
}
"""Lowest and highest value, from the parameters of a distribution; values that cannot occur may be
among them."""


def finite_supports(model: pm.Model, points: PointMap) -> tuple[Support, ...]:
    """Place in the flat vector, lowest value and number of values of each discrete entry.

    ModelError says which variable is not known to have few values, and why.

    Examples
    --------
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x")
    ...     k = pm.DiscreteUniform("k", [-1, 2], 3)
    >>> finite_supports(model, PointMap.from_model(model))
    ((1, -1, 5), (2, 2, 2))
    """
    discrete, supports, place = set(discrete_names(model)), [], 0
    by_value = {model.rvs_to_values[rv].name: rv for rv in model.free_RVs}
    for name, shape, size in zip(points.names, points.shapes, points.sizes, strict=True):
        rv = by_value[name]
        if rv.name in discrete:
            ends = [np.broadcast_to(end, shape).ravel() for end in _bounds(rv)]
            for i, (lowest, highest) in enumerate(zip(*ends, strict=True)):
                supports.append((place + i, int(lowest), _n_values(rv, lowest, highest)))
        place += size
    return tuple(supports)


def _bounds(rv: Any) -> tuple[np.ndarray, np.ndarray]:
    op = rv.owner.op
    kind = getattr(op, "_print_name", (type(op).__name__,))[0]
    if type(op) not in _BOUNDS:
        raise ModelError(f"{rv.name!r} ({kind}) is not known to have finitely many values.")
    ends = _BOUNDS[type(op)](op.dist_params(rv.owner))
    values = constant_values([pt.as_tensor(end) for end in ends])
    if values is None:
        raise ModelError(
            f"The values that {rv.name!r} ({kind}) can have depend on other variables."
        )
    return values[0], values[1]


def _n_values(rv: Any, lowest: float, highest: float) -> int:
    n_values = int(highest) - int(lowest) + 1
    if n_values > MAX_VALUES:
        raise ModelError(f"{rv.name!r} has {n_values} values in an entry, more than {MAX_VALUES}.")
    return n_values
