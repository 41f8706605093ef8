r"""Laplace approximation of locals given the globals, and of the globals' marginal density.

At globals g the locals have a conditional mode x(g), by Newton steps, and there the precision
Q(g), which a few coloured directions show. Laplace's approximation of the marginal density is

.. math:: \log \tilde p(g) = \log p(g, x(g)) - \tfrac12 \log \det Q(g) + \text{const}

(Tierney & Kadane 1986; Rue, Martino & Chopin 2009, eq. 3). Its gradient takes that of the log
density at (g, x(g)), where the one by x is zero, and of the log determinant along x(g + h) = x(g) +
Q^{-1} (d^2 log p / dx dg) h: third derivatives twice along columns of L^{-T}, Q = L L^T.
"""

from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.marginal import marginal_density, solve_at_nodes
from pymc_tempering.engine.path.path import Density
from pymc_tempering.model.structure import Structure
from pymc_tempering.types import BoolArray, FloatArray


class Conditionals(NamedTuple):
    """Conditional modes and precisions of the locals, by node.

    ``z`` (N, D) has the globals of the nodes and the locals' modes, ``factors`` (N, nnz) entries of
    Cholesky factors, and what the sum of locals adds to them (:mod:`.sparse_precision`),
    ``log_marginal`` (N,) Laplace's approximation in nats without a constant, -inf where there is no
    mode: nothing else of such a node means anything.
    """

    z: FloatArray
    factors: FloatArray
    log_marginal: FloatArray

    def at(self, rows: BoolArray) -> "Conditionals":
        """Return some of the nodes."""
        return Conditionals(*(of[rows] for of in self))


class NestedLaplace:
    """A density's locals at any globals, by Newton steps; counts the gradients that it takes.

    Once it has taken ``most``, no globals have a marginal density any more.
    """

    def __init__(
        self, density: Density, structure: Structure, start: FloatArray, most: float = np.inf
    ) -> None:
        self.density, self.structure, self.n_gradients = density, structure, 0
        self.most = most
        self.system = structure.system
        # of the latest place where there was a mode; none of the first has a factor
        self.z = np.array(start)
        self.scale = np.ones(len(structure.locals))
        n_of_sum = len(structure.locals) + 1 if structure.summed.size else 0
        self.factor = np.zeros(self.system.rows.size + n_of_sum)

    @property
    def _is_near(self) -> bool:
        """Whether the factor is that of a place."""
        return bool(self.factor.any())

    @density_guard()
    def marginal(self, g: FloatArray, steps: FloatArray) -> tuple[float, FloatArray]:
        """Log marginal density at globals (k,), without a constant, and its gradient; or -inf.

        ``steps`` (k,) are those of the differences.
        """
        if self.n_gradients > self.most:
            return -np.inf, np.zeros(g.size)
        z, scale, factor = self.z.copy(), self.scale.copy(), self.factor.copy()
        z[self.structure.globals] = g
        slope = np.zeros(g.size)
        done, value, n = marginal_density(
            self.density.address, self.system, z, scale, self._is_near, factor, steps, slope
        )
        self.n_gradients += n
        if not done or not np.isfinite(slope).all():
            return -np.inf, np.zeros(g.size)
        self.z, self.scale, self.factor = z, scale, factor
        return value, slope

    @density_guard()
    def at(self, g: FloatArray, units: FloatArray) -> Conditionals:
        """Solve at globals (N, k), of which the first has the mode that others start from.

        ``units`` (k,) are rough standard deviations.
        """
        z = np.repeat(self.z[None], len(g), axis=0)
        z[:, self.structure.globals] = g
        factors, values = np.repeat(self.factor[None], len(g), axis=0), np.empty(len(g))
        self.n_gradients += solve_at_nodes(
            self.density.address, self.system, z, units, self.scale, self._is_near, factors, values
        )
        values[~np.isfinite(factors).all(axis=1)] = -np.inf
        return Conditionals(z, factors, values)
