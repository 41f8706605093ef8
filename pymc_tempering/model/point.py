"""Flat unconstrained vector to named value variables and back: the only ravel in the package."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pymc as pm

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
    """

    names: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    dtypes: tuple[str, ...]
    initial: dict[str, np.ndarray]

    @classmethod
    def from_model(cls, model: pm.Model) -> "PointMap":
        """Read names and shapes off a model's initial point, in the order of ``value_vars``."""
        point = model.initial_point(random_seed=0)
        names = tuple(variable.name for variable in model.value_vars)
        dtypes = tuple(
            "float64" if variable.dtype.startswith("float") else variable.dtype
            for variable in model.value_vars
        )
        return cls(
            names=names,
            shapes=tuple(np.shape(point[name]) for name in names),
            dtypes=dtypes,
            initial={
                name: np.asarray(point[name], dtype)
                for name, dtype in zip(names, dtypes, strict=True)
            },
        )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of entries of every value variable."""
        return tuple(int(np.prod(shape)) for shape in self.shapes)

    @property
    def dim(self) -> int:
        """Number D of unconstrained values."""
        return sum(self.sizes)

    def ravel(self, point: Mapping[str, np.ndarray]) -> FloatArray:
        """Flat vector of shape (D,) of a point; entries other than value variables are ignored."""
        return np.concatenate(
            [np.ravel(np.asarray(point[name], dtype=np.float64)) for name in self.names]
        )

    def unravel(self, z: FloatArray) -> dict[str, np.ndarray]:
        """Named values of a flat vector of shape (D,), as copies."""
        point, offset = {}, 0
        layout = zip(self.names, self.shapes, self.dtypes, self.sizes, strict=True)
        for name, shape, dtype, size in layout:
            point[name] = z[offset : offset + size].reshape(shape).astype(dtype)
            offset += size
        return point
