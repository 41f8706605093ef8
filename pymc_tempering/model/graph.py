"""A log density of named values as a graph of one flat vector, with its gradient."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedInputError, NullTypeGradError
from pytensor.graph.replace import graph_replace

from pymc_tempering.model.freeze import shared_values
from pymc_tempering.model.jumps import MOST_DIM, staircase_names
from pymc_tempering.model.point import PointMap
from pymc_tempering.private import rewrite_before_gradient

__all__ = ["DensityGraph", "density_graph"]


class DensityGraph(NamedTuple):
    """A log density and its gradient as PyTensor variables.

    Attributes
    ----------
    z : pytensor vector
        The flat vector that both depend on.
    log_density, gradient : pytensor variables
        In nats; of the shape of ``z``.
    no_gradient : str
        Why the gradient is zeros, where there is none that helps.
    """

    z: Any
    log_density: Any
    gradient: Any
    no_gradient: str


def density_graph(
    frozen: pm.Model, points: PointMap, term: Any, data: Mapping[Any, Any] | None = None
) -> DensityGraph:
    """Write a log density of named values as one of the flat vector, with its gradient.

    Parameters
    ----------
    frozen : pymc.Model
    points : PointMap
    term : pytensor variable
        Log density, of the value variables.
    data : mapping of constants of the graph to variables, optional
        That take their place.
    """
    # freezing knows the data that the model knows, not shared variables made without it
    given = {v: pt.as_tensor(v.get_value()) for v in shared_values([term])}
    term = graph_replace(term, given | dict(data or {}))
    [log_density], z = points.join(term, [], frozen.value_vars)
    log_density = rewrite_before_gradient(log_density).astype("float64")
    if points.dim <= MOST_DIM and (names := staircase_names(frozen)):
        reason = f"everything depends on {', '.join(names)} through comparisons alone"
        return DensityGraph(z, log_density, pt.zeros_like(z), reason)
    return DensityGraph(z, log_density, *_gradient(log_density, z))


def _gradient(log_density: Any, z: Any) -> tuple[Any, str]:
    """Gradient of a log density; where there is none zeros, with the reason."""
    try:
        return pytensor.gradient.grad(log_density, z), ""
    except (NotImplementedError, NullTypeGradError, DisconnectedInputError) as error:
        return pt.zeros_like(z), str(error).strip().split("\n")[0]
