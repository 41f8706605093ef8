"""Laws of the independent residuals of a transport map: normal, with heavy tails, or skewed.

A skewed one is the log-gamma law of Prentice (1974), "A log gamma model and its maximum likelihood
estimation", Biometrika 61: r = log(G / a) / k with a = 1 / k^2 and G of a gamma density of shape a,

    log p(r) = (k r - exp(k r)) / k^2 + const,

which is normal for k to 0. Logarithms of variances, of precisions and of rates have it in conjugate
models. Its left tail is exponential where k is positive; the right one is far lighter than a
Gaussian's.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import (
    gammainc,
    gammaincc,
    gammainccinv,
    gammaincinv,
    gammaln,
    ndtr,
    ndtri,
    stdtr,
    stdtrit,
)

from pymc_tempering.jit import compiled
from pymc_tempering.numerics import LOG_2PI, log_t_constant
from pymc_tempering.types import FloatArray

TAIL, SKEW = 2, 3
"""Kinds of terms whose coefficient says what a residual is like: its degrees of freedom, or k."""

LEAST_SKEW, MOST_SKEW = 1e-3, 3.0
"""Bounds of the absolute value of k, within which quantiles have ten digits."""

MOST_EXPONENT = 40.0
"""Bound of exponents, and of logarithms of scales, so that nothing overflows."""

# probabilities stay above the first; of gamma quantiles below the second no digit is left
_LEAST_PROBABILITY, _TINY = 1e-300, 1e-200


@compiled
def log_residual(kind: int, parameter: float, r: float) -> tuple[float, float]:
    """Log density of a residual in nats minus what it is at zero, and minus its derivative.

    The law is of `kind` `TAIL` or `SKEW`, with its parameter, else standard normal.
    """
    if kind == TAIL:
        stretched = 1.0 + r * r / parameter
        fall = (parameter + 1.0) / (parameter * stretched) * r
        return -0.5 * (parameter + 1.0) * np.log(stretched), fall
    if kind == SKEW:
        exponent = parameter * r
        grown = np.expm1(min(exponent, MOST_EXPONENT))
        return (exponent - grown) / (parameter * parameter), grown / parameter
    return -0.5 * r * r, r


@dataclass(frozen=True, eq=False)
class Residuals:
    """Laws of all D residuals: ``dof`` (D,), inf without heavy tails; ``skew`` (D,), k or 0.

    Examples
    --------
    >>> laws = Residuals(np.array([np.inf, 1.0, np.inf]), np.array([0.0, 0.0, -1.0]))
    >>> laws.from_normal(np.array([[0.5, 0.5, 0.5]])).round(3).tolist()
    [[0.5, 0.686, 0.997]]
    >>> laws.to_normal(laws.from_normal(np.array([[0.5, 0.5, 0.5]]))).round(3).tolist()
    [[0.5, 0.5, 0.5]]
    """

    dof: FloatArray
    skew: FloatArray

    @property
    def log_constant(self) -> float:
        """Log density of all at zero, in nats."""
        dof, k = self.dof[np.isfinite(self.dof)], self.skew[self.skew != 0.0]
        a = 1.0 / k**2
        skewed = a * np.log(a) - a - gammaln(a) + np.log(np.abs(k))
        n_normal = self.dof.size - dof.size - k.size
        return float(log_t_constant(dof).sum() + skewed.sum() - 0.5 * n_normal * LOG_2PI)

    def log_density(self, r: FloatArray) -> FloatArray:
        """Normalised log density of all in nats, shape (n, D) to (n,)."""
        heavy, skewed = np.isfinite(self.dof), self.skew != 0.0
        normal = ~(heavy | skewed)
        dof, k = self.dof[heavy], self.skew[skewed]
        of_tails = 0.5 * (dof + 1.0) * np.log1p(r[:, heavy] ** 2 / dof)
        falls = (np.expm1(self._exponent(r)) - k * r[:, skewed]) / k**2
        squares = 0.5 * (r[:, normal] ** 2).sum(axis=1)
        return self.log_constant - of_tails.sum(axis=1) - falls.sum(axis=1) - squares

    def _exponent(self, r: FloatArray) -> FloatArray:
        skewed = self.skew != 0.0
        return np.minimum(self.skew[skewed] * r[:, skewed], MOST_EXPONENT)

    def fall(self, r: FloatArray) -> FloatArray:
        """Minus the derivative of the log density by each residual, shape (n, D)."""
        heavy, skewed = np.isfinite(self.dof), self.skew != 0.0
        falls = np.array(r)
        dof = self.dof[heavy]
        falls[:, heavy] *= (dof + 1.0) / (dof + r[:, heavy] ** 2)
        falls[:, skewed] = np.expm1(self._exponent(r)) / self.skew[skewed]
        return falls

    def from_normal(self, y: FloatArray) -> FloatArray:
        """Map standard normal ``y`` to residuals by their quantiles, shape (n, D)."""
        r = np.array(y)
        for i in np.flatnonzero(np.isfinite(self.dof)):
            # by the lower side, where probabilities are small and not nearly one
            r[:, i] = -np.sign(y[:, i]) * stdtrit(self.dof[i], ndtr(-np.abs(y[:, i])))
        for i in np.flatnonzero(self.skew):
            r[:, i] = _skewed_quantile(y[:, i], self.skew[i])
        return r

    def to_normal(self, r: FloatArray) -> FloatArray:
        """Map residuals to standard normal ``y``, the inverse of :meth:`from_normal`."""
        y = np.array(r)
        for i in np.flatnonzero(np.isfinite(self.dof)):
            y[:, i] = -np.sign(r[:, i]) * ndtri(stdtr(self.dof[i], -np.abs(r[:, i])))
        for i in np.flatnonzero(self.skew):
            y[:, i] = _of_skewed(r[:, i], self.skew[i])
        return y


def _skewed_quantile(y: FloatArray, k: float) -> FloatArray:
    side, a = np.sign(k), 1.0 / k**2
    u = side * y
    below = np.maximum(ndtr(np.minimum(u, 0.0)), _LEAST_PROBABILITY)
    above = np.maximum(ndtr(-np.maximum(u, 0.0)), _LEAST_PROBABILITY)
    of_gamma = np.where(u < 0.0, gammaincinv(a, below), gammainccinv(a, above))
    # of the smallest no digit but that of their logarithm is left
    log_tiny = (np.log(below) + gammaln(a + 1.0)) / a
    log_gamma = np.where(of_gamma < _TINY, log_tiny, np.log(np.maximum(of_gamma, _TINY)))
    return np.asarray((log_gamma - np.log(a)) / k)


def _of_skewed(r: FloatArray, k: float) -> FloatArray:
    a = 1.0 / k**2
    log_gamma = np.minimum(k * r, MOST_EXPONENT) + np.log(a)
    of_gamma = np.exp(log_gamma)
    tiny = np.exp(np.minimum(a * log_gamma - gammaln(a + 1.0), 0.0))
    below = np.where(of_gamma < _TINY, tiny, gammainc(a, of_gamma))
    above = gammaincc(a, of_gamma)
    bounded = np.maximum(np.minimum(below, above), _LEAST_PROBABILITY)
    return np.asarray(np.sign(k) * np.where(below < above, 1.0, -1.0) * ndtri(bounded))
