r"""Covariances by standard deviations and partial correlations, for PyMC's packed Cholesky factors.

Under PyMC's transform of ``LKJCholeskyCov`` the flat vector has the entries below the diagonal of
the factor L, and logarithms of the diagonal. Of three or more dimensions the density has a pole
there, where a standard deviation goes to zero: entries of its row have to be as small as that, in a
funnel. Here it has, row by row, logarithms of standard deviations :math:`s_i` and partial
correlations :math:`\tanh x_{ij}` given the columns before (Lewandowski, Kurowicka & Joe 2009,
"Generating random correlation matrices based on vines and extended onion method", Journal of
Multivariate Analysis 100),

.. math:: L_{ij} = e^{s_i} \tanh x_{ij} \prod_{k < j} \frac{1}{\cosh x_{ik}}, \qquad
          \log L_{ii} = s_i - \sum_{k < i} \log \cosh x_{ik},

which are independent under the LKJ prior, and bounded in density.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from pymc_tempering.private.of_pymc import is_packed_cholesky
from pymc_tempering.types import FloatArray, IntArray


@dataclass(frozen=True)
class PartialCorrelations:
    """Which entries of the flat vector are a packed Cholesky factor, and the coordinates they get.

    Examples
    --------
    >>> factor = PartialCorrelations(np.arange(3), np.array([0, 1, 1]), np.array([0, 2, 2]))
    >>> z = factor.to_line(np.array([0.0, 0.6, np.log(0.8)]))  # variances 1, correlation .6
    >>> np.tanh(z).round(12).tolist(), factor.from_line(z).round(4).tolist()
    ([0.0, 0.6, 0.0], [0.0, 0.6, -0.2231])
    """

    index: IntArray  # (m,), rows of all factors one after the other, as PyMC packs them
    first: IntArray  # (m,), where among these the row of each begins
    last: IntArray  # (m,), and where it ends, on the diagonal

    @classmethod
    def of(cls, model: pm.Model, initial: dict[str, np.ndarray]) -> "PartialCorrelations":
        """Find the packed factors of a model, whose initial point is ``initial``."""
        index, first, last = ([np.empty(0, dtype=np.int64)] for _ in range(3))
        offset = n_before = 0
        for value in model.value_vars:
            shape = np.shape(initial[value.name])
            transform = model.rvs_to_transforms.get(model.values_to_rvs[value])
            # batches have no density in PyMC
            if len(shape) == 1 and is_packed_cholesky(transform):
                # row i is of i + 1 entries
                n = int(np.sqrt(2 * shape[0]))
                row = np.repeat(np.arange(n), np.arange(1, n + 1))
                index.append(offset + np.arange(shape[0]))
                first.append(n_before + row * (row + 1) // 2)
                last.append(first[-1] + row)
                n_before += shape[0]
            offset += int(np.prod(shape))
        return cls(*map(np.concatenate, (index, first, last)))

    @property
    def _is_last(self) -> np.ndarray:
        return self.last == np.arange(self.last.size)

    def to_line(self, values: FloatArray) -> FloatArray:
        """Coordinates ``z`` of PyMC's values, both of shape (..., D)."""
        z = np.array(values, dtype=np.float64)
        packed = z[..., self.index]
        found = packed.copy()
        # squares of the rest of a row, over that of its diagonal, from the right
        rest = np.zeros(packed.shape[:-1])
        for i in reversed(range(self.index.size)):
            if i == self.last[i]:
                diagonal, rest = packed[..., i], np.zeros(packed.shape[:-1])
                continue
            with np.errstate(divide="ignore"):
                size = np.log(np.abs(packed[..., i])) - diagonal
            # arcsinh of a number of which the logarithm is known
            ratio = size - 0.5 * rest
            magnitude = np.logaddexp(ratio, 0.5 * np.logaddexp(2.0 * ratio, 0.0))
            found[..., i] = np.copysign(magnitude, packed[..., i])
            rest = np.logaddexp(rest, 2.0 * size)
            found[..., self.last[i]] = diagonal + 0.5 * rest
        z[..., self.index] = found
        return z

    def from_line(self, z: FloatArray) -> FloatArray:
        """PyMC's values of coordinates ``z``, both of shape (..., D)."""
        values = np.array(z, dtype=np.float64)
        x = values[..., self.index]
        log_cosh = np.where(self._is_last, 0.0, np.logaddexp(x, -x) - np.log(2.0))
        before = np.cumsum(log_cosh, axis=-1) - log_cosh
        sizes = x[..., self.last] - (before - before[..., self.first])
        values[..., self.index] = np.where(self._is_last, sizes, np.exp(sizes) * np.tanh(x))
        return values

    def log_jacobian(self, z: FloatArray) -> FloatArray:
        """Log of the determinant of PyMC's values by ``z`` of shape (..., D), in nats."""
        x = z[..., self.index]
        log_cosh = np.logaddexp(x, -x) - np.log(2.0)
        return np.asarray((self._weights * np.where(self._is_last, x, log_cosh)).sum(axis=-1))

    @property
    def _weights(self) -> FloatArray:
        """What the log Jacobian has of each log standard deviation, and of each log cosh."""
        place = np.arange(self.index.size) - self.first
        below = self.last - self.first
        return np.where(self._is_last, below, place + 1.0 - below)

    def graph(self, z: Any) -> tuple[Any, Any]:
        """Graphs of PyMC's values and of the log Jacobian, from that of ``z``."""
        x = z[self.index]
        log_cosh = x + pt.softplus(-2.0 * x) - np.log(2.0)
        log_cosh = pt.switch(self._is_last, 0.0, log_cosh)
        before = pt.cumsum(log_cosh) - log_cosh
        sizes = x[self.last] - (before - before[self.first])
        packed = pt.switch(self._is_last, sizes, pt.exp(sizes) * pt.tanh(x))
        terms = self._weights * pt.switch(self._is_last, x, log_cosh)
        return pt.set_subtensor(z[self.index], packed), terms.sum()
