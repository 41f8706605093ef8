"""The map from base coordinates to z in the form that compiled kernels evaluate fastest.

Any square root of the covariance serves, since N(0, I) is the same after a rotation. Kernels know
three forms, told apart by the number of rows: standard deviations; standard deviations and a
symmetric low-rank correction; a lower triangular factor.
"""

from dataclasses import dataclass

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.types import FloatArray


@dataclass(frozen=True)
class Coordinates:
    """Map from base coordinates ``u`` to ``z`` for one base.

    ``rows`` has one row: standard deviations s. D rows: a lower triangular factor. Otherwise
    ``1 + 2 k`` rows: s, orthonormal vectors v_j, and c_j v_j, for
    ``z = mean + s * (u + sum_j c_j v_j (v_j . u))``.
    """

    base: GaussianBase
    rows: FloatArray

    @classmethod
    def of(cls, base: GaussianBase) -> "Coordinates":
        """Choose the form for a base.

        In 40 and more dimensions the product with a dense factor costs as much as many a model's
        gradient. Where few directions of the correlation matrix have a variance more than 20 %
        from one, the others are set to one: ``coordinates.base`` is then a slightly different
        Gaussian, a proper density in its own right, to be used in place of ``base``.
        """
        if base.is_diagonal:
            return cls(base, np.ascontiguousarray(base.scale[None, :]))
        if base.dim >= 40:
            sd = base.standard_deviation
            correlations = base.covariance / np.outer(sd, sd)
            eigenvalues, vectors = np.linalg.eigh(correlations)
            # less, or a negative one, is rounding
            eigenvalues = np.maximum(eigenvalues, np.finfo(np.float64).eps)
            far = np.abs(np.log(eigenvalues)) > 0.2
            # up to this rank two products cost less than half the dense one
            if 0 < far.sum() <= 0.2 * base.dim:
                v = vectors[:, far].T
                # rounding would turn whole numbers into others
                v[:, np.count_nonzero(correlations, axis=1) == 1] = 0.0
                stretch = np.sqrt(eigenvalues[far])
                rows = np.vstack([sd, v, (stretch - 1.0)[:, None] * v])
                return cls.from_rows(base.mean, rows)
        return cls(base, np.ascontiguousarray(base.scale))

    @classmethod
    def from_rows(cls, mean: FloatArray, rows: FloatArray) -> "Coordinates":
        """Rebuild from the mean and the rows."""
        # in one order, so that a restored chain rounds alike and kernels are compiled once
        rows = np.array(rows, order="C")
        n_rows, dim = rows.shape
        if n_rows == 1:
            return cls(GaussianBase(mean, rows[0]), rows)
        if n_rows == dim:
            return cls(GaussianBase(mean, rows), rows)
        v, cv = np.split(rows[1:], 2)
        root = rows[0][:, None] * (np.eye(dim) + v.T @ cv)
        return cls(GaussianBase.from_root(mean, root), rows)

    @property
    def rank(self) -> int:
        """Number of directions of a low-rank correction; 0 for the other forms."""
        n_rows, dim = self.rows.shape
        return (n_rows - 1) // 2 if n_rows not in (1, dim) else 0

    @property
    def matrix(self) -> FloatArray:
        """S of ``z = mean + S u``, shape (D, D)."""
        if not self.rank:
            return np.diag(self.rows[0]) if len(self.rows) == 1 else self.rows
        v, cv = np.split(self.rows[1:], 2)
        return np.asarray(self.rows[0][:, None] * (np.eye(self.base.dim) + cv.T @ v))

    def from_base(self, u: FloatArray) -> FloatArray:
        """Map ``u`` of shape (..., D) to ``z``."""
        if not self.rank:
            return self.base.from_base(u)
        v, cv = np.split(self.rows[1:], 2)
        return self.base.mean + self.rows[0] * (u + (u @ v.T) @ cv)

    def to_base(self, z: FloatArray) -> FloatArray:
        """Map ``z`` of shape (..., D) to ``u``."""
        if not self.rank:
            return self.base.to_base(z)
        v, cv = np.split(self.rows[1:], 2)
        stretch = 1.0 + (cv * v).sum(axis=1)
        w = (z - self.base.mean) / self.rows[0]
        return w + ((w @ v.T) * (1.0 / stretch - 1.0)) @ v
