"""Flat unconstrained vector to named value variables and back: the only ravel in the package."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import tau
from typing import Any, Protocol

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.pytensorf import join_nonshared_inputs
from pytensor.graph.replace import graph_replace

from pymc_tempering.model.correlations import PartialCorrelations
from pymc_tempering.model.innovations import Innovations
from pymc_tempering.private.of_pymc import is_circular
from pymc_tempering.types import FloatArray, IntArray


class CoordinateMap(Protocol):
    """From other coordinates u of a flat vector to its own z, and back; ``digest`` tells which."""

    @property
    def digest(self) -> str:
        """Identity of the map: 16 hex digits."""

    def from_base(self, u: FloatArray) -> FloatArray:
        """Map ``u`` of shape (..., D) to ``z``."""

    def to_base(self, z: FloatArray) -> FloatArray:
        """Map ``z`` of shape (..., D) to ``u``."""

    def forward(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map ``u`` (n, D) to ``z``, with the log determinant of the map, shape (n,)."""


@dataclass(frozen=True)
class Angles:
    r"""Which entries of the flat vector are angles, and the coordinates that they get.

    Under PyMC's circular transform the density has period 2 pi on the whole line, and its integral
    there is infinite. The posterior is that of one period, and so is the evidence. The engine gets
    a coordinate that covers one period and no more,

    .. math:: \theta = c + \pi \tanh(z / 2),

    the log odds of where :math:`\theta` lies between the two ends. A uniform angle is nearly a
    Gaussian in it. The ends lie opposite to the model's initial value c. A mode there is two in z,
    which tempered replicas exchange.

    Examples
    --------
    >>> angles = Angles(np.array([1]), np.array([3.0]))
    >>> z = angles.to_line(np.array([5.0, -3.0]))  # -3 is 0.28 beyond 3, across the end at pi
    >>> z.round(3).tolist(), angles.from_line(z).round(12).tolist()
    ([5.0, 0.181], [5.0, -3.0])
    """

    index: IntArray  # (n_angles,)
    centre: FloatArray  # (n_angles,), middle of the period, in radians

    @classmethod
    def of(cls, model: pm.Model, initial: dict[str, np.ndarray]) -> "Angles":
        """Find the angles of a model, whose initial point is ``initial``."""
        flags = []
        for value in model.value_vars:
            transform = model.rvs_to_transforms.get(model.values_to_rvs[value])
            flags.append(np.full(np.size(initial[value.name]), is_circular(transform)))
        index = np.flatnonzero(np.concatenate(flags)) if flags else np.empty(0, dtype=np.int64)
        flat = [np.ravel(initial[value.name]) for value in model.value_vars]
        return cls(index, np.concatenate(flat)[index] if flat else np.empty(0))

    def to_line(self, values: FloatArray) -> FloatArray:
        """Coordinates ``z`` of PyMC's values, both of shape (..., D)."""
        z = np.array(values, dtype=np.float64)
        turns = (z[..., self.index] - self.centre) / tau
        # the ends themselves have no finite coordinate
        nearest = np.finfo(np.float64).epsneg
        share = np.clip(turns - np.round(turns) + 0.5, nearest, 1.0 - nearest)
        z[..., self.index] = np.log(share) - np.log1p(-share)
        return z

    def from_line(self, z: FloatArray) -> FloatArray:
        """PyMC's values, from -pi to pi, of coordinates ``z``, both of shape (..., D)."""
        values = np.array(z, dtype=np.float64)
        angle = self.centre + np.pi * np.tanh(0.5 * values[..., self.index])
        values[..., self.index] = angle - tau * np.round(angle / tau)
        return values

    def log_jacobian(self, z: FloatArray) -> FloatArray:
        """Log of the product of d theta / dz at ``z`` of shape (..., D), in nats."""
        line = z[..., self.index]
        slopes = np.log(tau) - np.logaddexp(0.0, line) - np.logaddexp(0.0, -line)
        return np.asarray(slopes.sum(axis=-1))

    def graph(self, z: Any) -> tuple[Any, Any]:
        """Graphs of PyMC's values and of the log Jacobian, from that of ``z``."""
        line = z[self.index]
        values = pt.set_subtensor(z[self.index], self.centre + np.pi * pt.tanh(0.5 * line))
        return values, (np.log(tau) - pt.softplus(line) - pt.softplus(-line)).sum()


@dataclass(frozen=True)
class PointMap:
    """Order, names and shapes of a model's value variables in the flat vector."""

    names: tuple[str, ...]  # of the value variables, transformed as `sigma_log__`
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]  # float64, or what a discrete variable has
    initial: dict[str, np.ndarray]  # the model's initial point, in these types
    # entries of which the flat vector holds other coordinates than PyMC's
    angles: Angles
    correlations: PartialCorrelations
    innovations: Innovations | None = None  # after these, if they are asked for
    map: CoordinateMap | None = None  # from the coordinates of the flat vector, if not its own

    @classmethod
    def from_model(cls, model: pm.Model) -> "PointMap":
        """Read names and shapes off a model's initial point, in the order of ``value_vars``."""
        # or a C++ compiler would run for each kind of Op in graphs inside of Ops
        with pytensor.config.change_flags(cxx=""):
            point = model.initial_point(random_seed=0)
        names = tuple(variable.name for variable in model.value_vars)
        dtypes = tuple("float64" if "float" in v.dtype else v.dtype for v in model.value_vars)
        initial = {n: np.asarray(point[n], dtype) for n, dtype in zip(names, dtypes, strict=True)}
        shapes = tuple(np.shape(initial[name]) for name in names)
        own = Angles.of(model, initial), PartialCorrelations.of(model, initial)
        return cls(names, shapes, dtypes, initial, *own)

    @cached_property
    def _changes(self) -> list[Angles | PartialCorrelations | Innovations]:
        """What leads from coordinates to PyMC's values, one after the other, as far as there is."""
        own = (each for each in (self.angles, self.correlations) if each.index.size)
        return [*own, *([] if self.innovations is None else [self.innovations])]

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
        return self.of_values(np.concatenate(values))

    def of_values(self, line: FloatArray) -> FloatArray:
        """Flat vectors of PyMC's values, both of shape (..., D), one variable after another."""
        for change in reversed(self._changes):
            line = change.to_line(line)
        return line if self.map is None else self.map.to_base(line)

    def values(self, z: FloatArray) -> FloatArray:
        """PyMC's values of flat vectors, both of shape (..., D), one variable after another."""
        line = z if self.map is None else self.map.from_base(z)
        for change in self._changes:
            line = change.from_line(line)
        return line

    def log_jacobian(self, z: FloatArray) -> FloatArray:
        """Log of the Jacobian of PyMC's values by flat vectors (n, D), in nats, shape (n,)."""
        line, log_det = (z, 0.0) if self.map is None else self.map.forward(z)
        own = np.zeros(line.shape[:-1])
        for change in self._changes:
            own = own + change.log_jacobian(line)
            line = change.from_line(line)
        return np.asarray(log_det + own)

    def unravel(self, z: FloatArray) -> dict[str, np.ndarray]:
        """Named values of a flat vector of shape (D,), as copies."""
        point, offset, values = {}, 0, self.values(z)
        layout = zip(self.names, self.shapes, self.dtypes, self.sizes, strict=True)
        for name, shape, dtype, size in layout:
            point[name] = values[offset : offset + size].reshape(shape).astype(dtype)
            offset += size
        return point

    def join(
        self, log_density: Any, others: Sequence[Any], value_vars: Sequence[Any]
    ) -> tuple[list[Any], Any]:
        """Write graphs of the value variables in terms of the flat vector.

        `value_vars` are in the order of ``names``. Returns the graphs and the flat vector ``z`` of
        shape (D,). The log density has the log Jacobian of coordinates that are not PyMC's own.
        """
        graphs = [log_density, *others]
        graphs, joined = join_nonshared_inputs(self.initial, graphs, value_vars, [])
        if not joined.dtype.startswith("float"):
            # whole numbers alone: the flat vector is of doubles all the same
            z = pt.vector(joined.name, dtype="float64", shape=joined.type.shape)
            return graph_replace(graphs, {joined: z.astype(joined.dtype)}, strict=False), z
        if not self._changes:
            return list(graphs), joined
        z = values = joined.type(joined.name)
        log_det: Any = 0.0
        for change in self._changes:
            values, more = change.graph(values)
            log_det += more
        first, *rest = graph_replace(graphs, {joined: values}, strict=False)
        return [first + log_det, *rest], z
