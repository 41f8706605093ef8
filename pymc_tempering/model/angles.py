r"""Angles: one period of a value that PyMC lets run round the circle.

Under PyMC's circular transform the density has period :math:`2\pi` on the whole line, and its
integral there is infinite. The posterior is that of one period, and so is the evidence. The engine
gets a coordinate that covers one period and no more,

.. math:: \theta = c + \pi \tanh(z / 2),

the log odds of where :math:`\theta` lies between the two ends: smooth, of finite mass, and a
uniform angle is nearly a Gaussian in it. The ends lie opposite to the model's initial value c. A
mode there is two in z, as far apart as its width says, which tempered replicas exchange.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_tempering.private import is_circular
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["Angles"]

_PERIOD = 2.0 * np.pi

# the ends themselves have no finite coordinate
_NEAREST_END = 2.0**-53


@dataclass(frozen=True)
class Angles:
    """Which entries of the flat vector are angles, and the coordinates that they get.

    Attributes
    ----------
    index : ndarray of int of shape (n_angles,)
    centre : ndarray of shape (n_angles,)
        Middle of the period, in radians.

    Examples
    --------
    >>> angles = Angles(np.array([1]), np.array([3.0]))
    >>> z = angles.to_line(np.array([5.0, -3.0]))  # -3 is 0.28 beyond 3, across the end at pi
    >>> z.round(3).tolist(), angles.from_line(z).round(12).tolist()
    ([5.0, 0.181], [5.0, -3.0])
    """

    index: IntArray
    centre: FloatArray

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
        if not self.index.size:
            return values
        z = np.array(values, dtype=np.float64)
        turns = (z[..., self.index] - self.centre) / _PERIOD
        share = np.clip(turns - np.round(turns) + 0.5, _NEAREST_END, 1.0 - _NEAREST_END)
        z[..., self.index] = np.log(share) - np.log1p(-share)
        return z

    def from_line(self, z: FloatArray) -> FloatArray:
        """PyMC's values, from -pi to pi, of coordinates ``z``, both of shape (..., D)."""
        if not self.index.size:
            return z
        values = np.array(z, dtype=np.float64)
        angle = self.centre + np.pi * np.tanh(0.5 * values[..., self.index])
        values[..., self.index] = angle - _PERIOD * np.round(angle / _PERIOD)
        return values

    def log_jacobian(self, z: FloatArray) -> FloatArray:
        """Log of the product of d theta / dz at ``z`` of shape (..., D), in nats."""
        line = z[..., self.index]
        slopes = np.log(_PERIOD) - np.logaddexp(0.0, line) - np.logaddexp(0.0, -line)
        return np.asarray(slopes.sum(axis=-1))

    def graph(self, z: Any) -> tuple[Any, Any]:
        """Graphs of PyMC's values and of the log Jacobian, from that of ``z``."""
        line = z[self.index]
        values = pt.set_subtensor(z[self.index], self.centre + np.pi * pt.tanh(0.5 * line))
        return values, (np.log(_PERIOD) - pt.softplus(line) - pt.softplus(-line)).sum()
