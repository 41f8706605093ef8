"""Triangular transport maps: Gaussians with conditional means that curve and scales that change.

Its tails may be those of t densities, or one side longer than the other, coordinate by coordinate.
In coordinates ``x = root (z - mean)``, taken in an order in which each depends on those before it,

    x_i = q_i(x_1, ..., x_{i-1}) + exp(s_i(x_1, ..., x_{i-1})) r_i

with independent r_i of the laws of :mod:`.residuals`, standard normal unless a term says else, and
sums q and s of few constants, coordinates and products of two of them. The map from x to r is
triangular, so its log determinant is ``-sum_i s_i``: the density is normalised, and drawn from
directly. See Marzouk, Moselhy, Parno & Spantini (2016), "Sampling via measure transport", on
triangular maps. Kernels are given the terms as arrays.
"""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from pymc_tempering.engine.path.residuals import (
    LEAST_SKEW,
    MOST_EXPONENT,
    MOST_SKEW,
    SKEW,
    TAIL,
    Residuals,
    log_residual,
)
from pymc_tempering.errors import BaseError
from pymc_tempering.jit import compiled
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["MEAN", "NOTHING", "NO_TERMS", "SCALE", "SKEW", "TAIL", "Terms",
           "TransportMap", "log_map", "products"]  # fmt: skip

MEAN, SCALE = 0, 1
"""What a term is a part of: the conditional mean, or the logarithm of the conditional scale. Those
of other kinds, `TAIL` and `SKEW`, have the parameter of a residual as coefficient."""

NOTHING = -1
"""In place of a factor of a product: 1."""


class Terms(NamedTuple):
    """Terms of the sums q and s."""

    # (T, 4): coordinate i whose sum it is in, ascending; kind; two factors before i, or `NOTHING`
    what: IntArray
    coefficients: FloatArray  # (T,)


NO_TERMS = Terms(np.empty((0, 4), dtype=np.int64), np.empty(0))
"""Of a Gaussian."""


@compiled(borrows=True, inside=True)
def _factor(x: FloatArray, index: int) -> float:
    return 1.0 if index < 0 else x[index]


@compiled(borrows=True, apart=True, inside=True)
def log_map(
    what: IntArray, coefficients: FloatArray, first: int, last: int, x: FloatArray,
    gradient: FloatArray,
) -> float:  # fmt: skip
    """Log density in nats at ``x`` of shape (D,), and its gradient in ``gradient``.

    Of the terms ``first <= t < last``, and without constants: ``-(r r / 2 + sum s)`` where all
    coordinates are normal.
    """
    log_density = 0.0
    for i in range(x.shape[0]):
        gradient[i] = 0.0
    start = first
    for i in range(x.shape[0]):
        end = start
        mean, log_scale = 0.0, 0.0
        law, parameter = MEAN, 0.0
        while end < last and what[end, 0] == i:
            term = coefficients[end] * _factor(x, what[end, 2]) * _factor(x, what[end, 3])
            if what[end, 1] == MEAN:
                mean += term
            elif what[end, 1] == SCALE:
                log_scale += term
            else:
                law, parameter = what[end, 1], term
            end += 1
        bounded = min(max(log_scale, -MOST_EXPONENT), MOST_EXPONENT)
        shrink = np.exp(-bounded)
        residual = (x[i] - mean) * shrink
        own, pull = log_residual(law, parameter, residual)
        log_density += own - bounded
        gradient[i] -= pull * shrink
        of_scale = residual * pull - 1.0 if bounded == log_scale else 0.0
        for t in range(start, end):
            slope = coefficients[t] * (pull * shrink if what[t, 1] == MEAN else of_scale)
            a, b = what[t, 2], what[t, 3]
            if a >= 0:
                gradient[a] += slope * _factor(x, b)
            if b >= 0:
                gradient[b] += slope * _factor(x, a)
        start = end
    return log_density


def products(x: FloatArray, first: IntArray, second: IntArray) -> FloatArray:
    """Products of pairs of coordinates, `NOTHING` counting as 1: (n, D) to (n, T)."""
    padded = _padded(x)
    return np.asarray(padded[:, first] * padded[:, second])


def _padded(x: FloatArray) -> FloatArray:
    """Copy of x with ones in a last column, which an index of `NOTHING` takes: (n, D + 1)."""
    return np.column_stack([x, np.ones(len(x))])


@dataclass(frozen=True, eq=False)
class TransportMap:
    """A Gaussian under a triangular map of few terms, with tails and skews where there are any.

    ``root`` (D, D) maps ``z - mean`` to the coordinates of the terms; ``log_zeta`` is a guess of
    the target's log normaliser in nats, or None. A BaseError is raised if the root is singular, a
    term depends on a coordinate that does not come before its own, or the parameter of a residual
    is out of bounds or one of two.

    Examples
    --------
    >>> square = Terms(np.array([[1, MEAN, 0, 0]]), np.array([2.0]))
    >>> banana = TransportMap(np.zeros(2), np.eye(2), square)
    >>> banana.from_base(np.array([[1.5, 0.1]])).round(3).tolist()
    [[1.5, 4.6]]
    >>> banana.log_density(np.array([[1.5, 4.6]])).round(3).tolist()
    [-2.968]
    """

    mean: FloatArray
    root: FloatArray
    terms: Terms
    log_zeta: float | None = None

    def __post_init__(self) -> None:
        mean, root = (np.array(a, dtype=np.float64, order="C") for a in (self.mean, self.root))
        what = np.array(self.terms.what, dtype=np.int64).reshape(-1, 4)
        coefficients = np.array(self.terms.coefficients, dtype=np.float64)
        finite = all(np.isfinite(a).all() for a in (mean, root, coefficients))
        if root.shape != (mean.size, mean.size) or not finite or np.linalg.slogdet(root)[0] == 0:
            raise BaseError(
                f"A transport map was given a mean of shape {mean.shape} and a root of shape "
                f"{root.shape}; expected finite numbers, and a square matrix that has an inverse."
            )
        i, kind, a, b = what.T
        ordered = (np.diff(i) >= 0).all() and np.isin(kind, (MEAN, SCALE, TAIL, SKEW)).all()
        if not i.size or not ordered or (np.maximum(a, b) >= i).any() or (i >= mean.size).any():
            raise BaseError(
                "A transport map was given no terms, or terms that are not in the order of their "
                "coordinates or depend on a coordinate that does not come before their own."
            )
        _check_residuals(what, coefficients)
        for array in (mean, root, what, coefficients):
            array.setflags(write=False)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "root", root)
        object.__setattr__(self, "terms", Terms(what, coefficients))

    # read-only arrays are writeable again after a pickle, so it is rebuilt through the constructor
    def __reduce__(self) -> tuple[Any, ...]:
        what, coefficients = self.terms
        terms = Terms(np.array(what), np.array(coefficients))
        return type(self), (np.array(self.mean), np.array(self.root), terms, self.log_zeta)

    @property
    def dim(self) -> int:
        """Number of coordinates D."""
        return int(self.mean.size)

    @property
    def digest(self) -> str:
        """Identity of the density: 16 hex digits."""
        h = hashlib.sha256()
        for array in (self.mean, self.root, *self.terms):
            h.update(array.tobytes())
        return h.hexdigest()[:16]

    @cached_property
    def log_det_root(self) -> float:
        """Log determinant of the map from z to x, without its sign."""
        return float(np.linalg.slogdet(self.root)[1])

    @cached_property
    def residuals(self) -> Residuals:
        """Laws of the coordinates' residuals."""
        what, coefficients = self.terms
        tail, skew = (what[:, 1] == law for law in (TAIL, SKEW))
        laws = Residuals(np.full(self.dim, np.inf), np.zeros(self.dim))
        laws.dof[what[tail, 0]] = coefficients[tail]
        laws.skew[what[skew, 0]] = coefficients[skew]
        return laws

    @cached_property
    def _factors(self) -> dict[tuple[int, int], tuple[IntArray, IntArray, FloatArray]]:
        """By coordinate and kind, of those that have terms: both factors, and coefficients."""
        what, coefficients = self.terms
        factors = {}
        for i, kind in np.unique(what[:, :2], axis=0).tolist():
            mine = (what[:, 0] == i) & (what[:, 1] == kind)
            factors[i, kind] = what[mine, 2], what[mine, 3], coefficients[mine]
        return factors

    def _sum(self, padded: FloatArray, i: int, kind: int) -> FloatArray | None:
        """Sum of a coordinate's terms of a kind, shape (n,); None where it has none."""
        if (factors := self._factors.get((i, kind))) is None:
            return None
        first, second, coefficients = factors
        total = (padded[:, first] * padded[:, second]) @ coefficients
        return total if kind == MEAN else np.clip(total, -MOST_EXPONENT, MOST_EXPONENT)

    def from_base(self, y: FloatArray) -> FloatArray:
        """Map standard normal ``y`` to ``z``: (n, D) to (n, D)."""
        padded = _padded(self.residuals.from_normal(y))
        x = padded[:, :-1]
        for i in range(self.dim):
            mean, log_scale = (self._sum(padded, i, kind) for kind in (MEAN, SCALE))
            if log_scale is not None:
                x[:, i] *= np.exp(log_scale)
            if mean is not None:
                x[:, i] += mean
        return np.asarray(self.mean + np.linalg.solve(self.root, x.T).T)

    def _residuals(self, z: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Independent ``r`` of ``z`` (n, D), and the log determinant of the map, shape (n,)."""
        padded = _padded((z - self.mean) @ self.root.T)
        r, log_det = padded[:, :-1].copy(), np.full(len(padded), self.log_det_root)
        for i in range(self.dim):
            mean, log_scale = (self._sum(padded, i, kind) for kind in (MEAN, SCALE))
            if mean is not None:
                r[:, i] -= mean
            if log_scale is not None:
                r[:, i] *= np.exp(-log_scale)
                log_det -= log_scale
        return r, log_det

    def to_base(self, z: FloatArray) -> FloatArray:
        """Map ``z`` to standard normal ``y``, the inverse of :meth:`from_base`."""
        return self.residuals.to_normal(self._residuals(z)[0])

    def log_density(self, z: FloatArray) -> FloatArray:
        """Evaluate the normalised log density in nats: (n, D) to (n,)."""
        r, log_det = self._residuals(z)
        return np.asarray(log_det + self.residuals.log_density(r))

    def pulled_back(self, z: FloatArray, gradient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Residuals at ``z`` (n, D), and the gradient of log weights by them, both (n, D).

        `gradient` (n, D) is that of a target's log density at ``z``; log weights are the target's
        log density minus this one, so that the result is zero where both are the same.
        """
        r, x = self._residuals(z)[0], _padded((z - self.mean) @ self.root.T)
        by_x = np.column_stack([np.linalg.solve(self.root.T, gradient.T).T, np.zeros(len(z))])
        for i in range(self.dim - 1, -1, -1):
            log_scale = self._sum(x, i, SCALE)
            moved = by_x[:, i].copy()
            if log_scale is not None:
                by_x[:, i] *= np.exp(log_scale)
            for kind, slope in ((MEAN, moved), (SCALE, by_x[:, i] * r[:, i] + 1.0)):
                for a, b, c in zip(*self._factors.get((i, kind), ((), (), ())), strict=True):
                    # the last column, of the ones, is of no coordinate
                    by_x[:, a] += c * slope * x[:, b]
                    by_x[:, b] += c * slope * x[:, a]
        return r, by_x[:, :-1] + self.residuals.fall(r)


def _check_residuals(what: IntArray, coefficients: FloatArray) -> None:
    """Raise a BaseError unless each coordinate has one law at most, with a parameter in bounds."""
    i, kind, *factors = what.T
    tail, skew = kind == TAIL, kind == SKEW
    dof, k = coefficients[tail], coefficients[skew]
    alone = all((factor[tail | skew] == NOTHING).all() for factor in factors)
    once = np.unique(i[tail | skew]).size == tail.sum() + skew.sum()
    bounded = (
        (dof > 0.0).all() and (np.abs(k) >= LEAST_SKEW).all() and (np.abs(k) <= MOST_SKEW).all()
    )
    if not (alone and once and bounded):
        raise BaseError(
            f"A transport map was given tails with {dof} degrees of freedom and skews {k}; "
            f"expected positive numbers, and of absolute value {LEAST_SKEW} to {MOST_SKEW}, that "
            "depend on no coordinate, and one of them for a coordinate at most."
        )
