"""Location and scale of draws of any target, robustly, as arrays."""

import numpy as np

from pymc_tempering.errors import BaseError, OptionError
from pymc_tempering.types import FloatArray

__all__ = ["TAIL", "robust_moments", "scale_from_correlation"]

TAIL = 0.005
"""Share of draws clipped on each side: what a chain that has not settled yet leaves there."""


def robust_moments(
    draws: FloatArray, *, full: bool | None = None, shrinkage: float | None = None,
    n_effective: float | None = None, min_scale: FloatArray | float | None = None,
) -> tuple[FloatArray, FloatArray]:  # fmt: skip
    r"""Mean (D,) and scale of draws (n, D), with scales that exist for any target.

    Each coordinate is winsorised at its 0.5 % and 99.5 % quantiles, so that Cauchy draws have a
    finite and stable scale, while a mode with one tenth of the mass counts in full; scales are
    corrected so that those of Gaussian draws are unbiased. Correlations R are shrunk linearly,
    :math:`(1 - \lambda) R + \lambda I`. With n effective draws,

    .. math:: \lambda = \max\Bigl(
        \frac{\sum_{i<j} (1 - r_{ij}^2)^2 / n}{\sum_{i<j} r_{ij}^2},\; 1 - \frac{n}{10 D}\Bigr),

    the first term being the intensity with the least expected squared error (Ledoit & Wolf 2004;
    Schäfer & Strimmer 2005, section 2.4, target D), the second the rule that a full covariance
    takes ten effective draws per dimension. `shrinkage` replaces it.

    The scale is (D,) standard deviations, at least 1e-8 times the larger of 1 and the mean and at
    least `min_scale`, or a lower triangular factor (D, D). Correlations are kept if `full` says so;
    by default with at least two effective draws per dimension and if they are worth 0.1 nats,
    :math:`-\tfrac12 \log |R| \ge 0.1`. Rows that are not finite are left out; with fewer than two a
    BaseError is raised.
    """
    x = np.asarray(draws, dtype=np.float64)
    if x.ndim != 2 or x.shape[1] == 0:
        raise BaseError(f"The draws have shape {x.shape}; expected (n, D): one row per draw.")
    x = x[np.isfinite(x).all(axis=1)]
    n, dim = x.shape
    if n < 2:
        raise BaseError(f"Only {n} of {len(draws)} draws are finite; a base needs at least two.")
    if shrinkage is not None and not 0.0 <= shrinkage <= 1.0:
        raise OptionError(f"shrinkage is {shrinkage}; it must lie between 0 and 1.")
    if n_effective is not None and not n_effective > 0.0:
        raise OptionError(f"n_effective is {n_effective}; it must be positive.")
    n_eff = float(n) if n_effective is None else min(float(n_effective), float(n))

    x = np.clip(x, *np.quantile(x, [TAIL, 1.0 - TAIL], axis=0))
    mean = x.mean(axis=0)
    raw = x.std(axis=0, ddof=1)
    # the square root of rounding
    floor = 1e-8 * np.maximum(1.0, np.abs(mean))
    # of a standard normal clipped at its 0.5 % and 99.5 % quantiles
    sd = np.maximum(raw / 0.9909, floor)
    if min_scale is not None:
        sd = np.maximum(sd, min_scale)
    if full is False or dim == 1 or (full is None and n_eff < 2 * dim):
        return mean, sd

    unit = (x - mean) / np.maximum(raw, floor)
    corr = unit.T @ unit / (n - 1)
    np.fill_diagonal(corr, 1.0)
    intensity = _shrinkage(corr, n_eff) if shrinkage is None else shrinkage
    # A rank-deficient matrix needs more than rounding to be inverted; others need only that.
    intensity = max(intensity, 0.05 if n <= dim else 1e-9)
    corr *= 1.0 - intensity
    np.fill_diagonal(corr, 1.0)
    return mean, scale_from_correlation(sd, corr, keep=full is True)


def scale_from_correlation(sd: FloatArray, corr: FloatArray, *, keep: bool) -> FloatArray:
    """Lower triangular factor (D, D) for standard deviations (D,) and correlations (D, D).

    Where correlations are worth less than 0.1 nats it is `sd`, unless `keep` says otherwise.
    """
    jitter = 0.0
    while True:
        try:
            factor = np.linalg.cholesky((corr + jitter * np.eye(len(corr))) / (1.0 + jitter))
            break
        except np.linalg.LinAlgError:
            # Perfectly correlated coordinates, up to rounding.
            jitter = max(10.0 * jitter, 1e-10)
    # a matrix doubles the cost of a cheap gradient
    if not keep and -float(np.log(np.diagonal(factor)).sum()) < 0.1:
        return sd
    return sd[:, None] * factor


def _shrinkage(corr: FloatArray, n_eff: float) -> float:
    r2 = corr[np.triu_indices_from(corr, 1)] ** 2
    expected_error = float(((1.0 - np.minimum(r2, 1.0)) ** 2).sum()) / n_eff
    total = float(r2.sum())
    least_error = expected_error / total if total > 0.0 else 1.0
    return min(1.0, max(least_error, 1.0 - n_eff / (10.0 * len(corr))))
