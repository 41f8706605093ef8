"""Flat unconstrained vector to named value variables and back: the only ravel in the package."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.pytensorf import join_nonshared_inputs
from pytensor.graph.replace import graph_replace

from pymc_tempering.model.angles import Angles
from pymc_tempering.types import FloatArray

__all__ = ["PointMap"]


@dataclass(frozen=True)
class PointMap:
    """Order, names and shapes of a model's value variables in the flat vector.

    Attributes
    ----------
    names : tuple of str
        Names of the value variables, transformed names such as ``sigma_log__`` included.
    shapes : tuple of tuple of int
    dtypes : tuple of str
        ``float64``, or what a discrete variable has.
    initial : dict
        The model's initial point, in these types.
    angles : Angles
        Entries of which the flat vector holds another coordinate than PyMC's.
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    initial: dict[str, np.ndarray]
    angles: Angles

    @classmethod
    def from_model(cls, model: pm.Model) -> "PointMap":
        """Read names and shapes off a model's initial point, in the order of ``value_vars``."""
        point = model.initial_point(random_seed=0)
        names = tuple(variable.name for variable in model.value_vars)
        dtypes = tuple(
            "float64" if variable.dtype.startswith("float") else variable.dtype
            for variable in model.value_vars
        )
        initial = {
            name: np.asarray(point[name], dtype) for name, dtype in zip(names, dtypes, strict=True)
        }
        shapes = tuple(np.shape(initial[name]) for name in names)
        return cls(names, shapes, dtypes, initial, Angles.of(model, initial))

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of entries of every value variable."""
        return tuple(int(np.prod(shape)) for shape in self.shapes)

    @cached_property
    def dim(self) -> int:
        """Number D of unconstrained values."""
        return sum(self.sizes)

    def ravel(self, point: Mapping[str, np.ndarray]) -> FloatArray:
        """Flat vector of shape (D,) of a point; entries other than value variables are ignored."""
        values = [np.ravel(np.asarray(point[name], dtype=np.float64)) for name in self.names]
        return self.angles.to_line(np.concatenate(values))

    def unravel(self, z: FloatArray) -> dict[str, np.ndarray]:
        """Named values of a flat vector of shape (D,), as copies."""
        point, offset, values = {}, 0, self.angles.from_line(z)
        layout = zip(self.names, self.shapes, self.dtypes, self.sizes, strict=True)
        for name, shape, dtype, size in layout:
            point[name] = values[offset : offset + size].reshape(shape).astype(dtype)
            offset += size
        return point

    def join(
        self, log_density: Any, others: Sequence[Any], value_vars: Sequence[Any]
    ) -> tuple[list[Any], Any]:
        """Write graphs of the value variables in terms of the flat vector.

        Parameters
        ----------
        log_density : TensorVariable
            Gets the log Jacobian of the coordinates that are not PyMC's own.
        others : sequence of TensorVariable
        value_vars : sequence of TensorVariable
            In the order of ``names``.

        Returns
        -------
        outputs : list of TensorVariable
            The log density first.
        z : TensorVariable
            The flat vector, of shape (D,).
        """
        graphs = [log_density, *others]
        graphs, joined = join_nonshared_inputs(self.initial, graphs, value_vars, [])
        if not joined.dtype.startswith("float"):
            # whole numbers alone: the flat vector is of doubles all the same
            z = pt.vector(joined.name, dtype="float64", shape=joined.type.shape)
            return graph_replace(graphs, {joined: z.astype(joined.dtype)}, strict=False), z
        if not self.angles.index.size:
            return list(graphs), joined
        z = joined.type(joined.name)
        values, log_jacobian = self.angles.graph(z)
        first, *rest = graph_replace(graphs, {joined: values}, strict=False)
        return [first + log_jacobian, *rest], z
