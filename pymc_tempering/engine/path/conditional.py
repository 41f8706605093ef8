r"""A triangular map of hierarchies: a few global coordinates, and many local ones given them.

From independent standard normal u to z, the globals first,

.. math::
    t_i &= a_i + \sum_{j<i} A_{ij} u_j + \sum_{k \le j < i} B_{ijk} \hat u_j \hat u_k
        + e^{c_i + \sum_{j<i} S_{ij} \hat u_j} w(u_i; \epsilon_i, a_i), \qquad g = \mu + L t, \\
    x_j &= \ell_j(t) - \sum_{i \in P_j} \rho_{ji}(t) \, (x_i - \ell_i(t))
        + e^{-\lambda_j(t)} \left( m_j(t) + a_j + e^{c_j} w(u_j; \epsilon_j) \right),

where what bends and scales depend on saturates, :math:`\hat u = u / \sqrt{1 + (u / 3)^2}`, as
products extrapolate badly, l is affine, the parents P_j are what is left of a sparse Cholesky
factor of the locals' precision, and m, lambda and rho, or of most locals rho in standard
deviations, :math:`\rho_{ji} e^{\lambda_j - \lambda_i}`, are smooth functions of the globals,

.. math:: o_0 + W \left( \beta (1, v) + \alpha \, e^{-|(v - v_n) / \ell|^2 / 2} \right), \qquad
          v = t / \sqrt{1 + (t / C)^2},

few functions interpolated between nodes v_n, which all locals share. They are bounded, so that
whatever u is, scales are finite. Residuals are skewed, and those of globals have longer tails, by
:math:`w(u; \epsilon, a) = s + \epsilon \sqrt{1 + s^2}, s = \sinh(a \sinh^{-1} u) / a` with an a
for each side (Jones & Pewsey 2009, "Sinh-arcsinh distributions", Biometrika 96, with tanh of their
epsilon, and without its cosh), which has an inverse everywhere. The log determinant is exact; an
evaluation takes what the structure takes, and nothing of the order of D squared.

Where the precision is S + c a a' (:mod:`.sparse_precision`), all this is of S, and the sum of the
y = x - l at which a is 1 gets its smaller variance at the end, others moving with it,

.. math:: x = \ell + y - (1 - e^{-r}) \, \hat w \, a^T y, \qquad
          \hat w = S^{-1} a / a^T S^{-1} a, \quad r = \log(1 + c \, a^T S^{-1} a) / 2,

with r and w^ as smooth as the rest. As a'w^ = 1 between nodes too, the log determinant is -r. Such
maps bend locals with one parent p: to a_j and c_j come B_j u^_p^2 and S_j u^_p, as of globals.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pymc_tempering.engine.path.conditional_kernels import (
    Arrays,
    back_all,
    forward_all,
    pull_back_all,
)
from pymc_tempering.engine.path.conditional_laws import Laws
from pymc_tempering.errors import BaseError
from pymc_tempering.types import FloatArray

_DTYPES: dict[str, type[np.generic]] = {"loadings": np.float32}
_DTYPES |= dict.fromkeys(("order", "begins", "parents", "summed", "in_sd", "used"), np.uint32)
"""Loadings are most of the numbers of a map, and read for every evaluation. Code that knows of no
negative positions has not to look for them."""


@dataclass(frozen=True, eq=False)
class ConditionalMap:
    """A triangular map of hierarchies, as the arrays that compiled code takes.

    A BaseError is raised where these are not finite, or the globals' root has no inverse.

    Examples
    --------
    A funnel: log precisions, the second half of what locals depend on, have a slope of -1.

    >>> arrays = Arrays(
    ...     order=np.arange(3), begins=np.zeros(3),
    ...     parents=np.empty(0), summed=np.empty(0), in_sd=np.empty(0), used=np.empty(0),
    ...     mean=np.zeros(1), root=np.eye(1), nodes=np.zeros((1, 1)), lengths=np.ones(1),
    ...     trend=np.array([[0.0], [-1.0]]), weights=np.zeros((1, 1)),
    ...     affine=np.zeros((2, 2)), constants=np.zeros(4),
    ...     loadings=np.array([[0.0, 0.0, 1.0, 1.0]]),
    ...     **Laws.normal(3, 1)._asdict())
    >>> ConditionalMap(arrays).from_base(np.array([1.0, 2.0, -3.0])).round(2).tolist()
    [1.0, 5.43, -8.15]
    """

    arrays: Arrays

    def __post_init__(self) -> None:
        made: list[Any] = []
        arrays = self.arrays._replace(width=np.exp(self.arrays.log_scale))
        for name, array in zip(Arrays._fields, arrays, strict=True):
            made.append(np.array(array, dtype=_DTYPES.get(name, np.float64), order="C"))
        finite = all(np.isfinite(array).all() for array in made)
        if not finite or np.linalg.slogdet(made[Arrays._fields.index("root")])[0] == 0.0:
            raise BaseError(
                "A map of a hierarchy was given numbers that are not finite, or a root of its "
                "globals without an inverse."
            )
        object.__setattr__(self, "arrays", Arrays(*made))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.arrays,)

    @property
    def dim(self) -> int:
        """Number D of coordinates."""
        return int(self.arrays.order.size)

    @property
    def n_globals(self) -> int:
        """Number k of globals."""
        return int(self.arrays.mean.size)

    @property
    def laws(self) -> Laws:
        """Laws of the residuals."""
        return Laws(*(getattr(self.arrays, name) for name in Laws._fields))

    def with_laws(self, laws: Laws) -> "ConditionalMap":
        """Give the same map with other laws of its residuals."""
        return ConditionalMap(self.arrays._replace(**laws._asdict()))

    @cached_property
    def digest(self) -> str:
        """Identity of the map: 16 hex digits."""
        h = hashlib.sha256()
        for array in self.arrays:
            h.update(array.tobytes())
        return h.hexdigest()[:16]

    @cached_property
    def log_det_root(self) -> float:
        """Log determinant of the globals' root."""
        return float(np.linalg.slogdet(self.arrays.root)[1])

    def forward(self, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Map ``u`` (n, D) to ``z``, with the log determinant of the map, shape (n,)."""
        u = np.array(u, dtype=np.float64, order="C")
        z, log_det = np.empty_like(u), np.empty(len(u))
        forward_all(self.arrays, u, z, log_det)
        return z, log_det + self.log_det_root

    def from_base(self, u: FloatArray) -> FloatArray:
        """Map ``u`` of shape (..., D) to ``z``."""
        u = np.asarray(u, dtype=np.float64)
        return self.forward(u.reshape(-1, self.dim))[0].reshape(u.shape)

    def to_base(self, z: FloatArray) -> FloatArray:
        """Map ``z`` of shape (..., D) to ``u``, the inverse of :meth:`from_base`."""
        z = np.array(z, dtype=np.float64, order="C")
        flat = z.reshape(-1, self.dim)
        u = np.empty_like(flat)
        back_all(self.arrays, flat, u)
        return u.reshape(z.shape)

    def pulled_back(self, address: int, u: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Log density by u of a density of z at an address, (n,), and its gradient (n, D)."""
        u = np.array(u, dtype=np.float64, order="C")
        values, grads = np.empty(len(u)), np.empty_like(u)
        pull_back_all(address, self.arrays, u, values, grads)
        return values + self.log_det_root, grads
