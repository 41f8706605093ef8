"""One Gaussian from draws, or from several Gaussians, by matching moments."""

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_tempering.base.gaussian import GaussianBase
from pymc_tempering.errors import BaseError, OptionError
from pymc_tempering.types import FloatArray

__all__ = ["match_moments", "robust_gaussian", "widen"]

TAIL = 0.005
# Standard deviation of a standard normal clipped at its 0.5 % and 99.5 % quantiles.
WINSORISED_NORMAL_SD = 0.9909
RELATIVE_FLOOR = 1e-8
# A matrix doubles the cost of a cheap gradient; correlations worth less are not kept by default.
MIN_GAIN = 0.1


def robust_gaussian(
    draws: FloatArray,
    *,
    full: bool | None = None,
    shrinkage: float | None = None,
    n_effective: float | None = None,
    min_scale: FloatArray | float | None = None,
) -> GaussianBase:
    r"""Fit a Gaussian to draws, with scales that exist for any target.

    Each coordinate is winsorised at its 0.5 % and 99.5 % quantiles, so that Cauchy draws have a
    finite and stable scale, while a mode with one tenth of the mass counts in full; scales are
    corrected so that those of Gaussian draws are unbiased. Correlations R are shrunk linearly,
    :math:`(1 - \lambda) R + \lambda I`. With n effective draws,

    .. math:: \lambda = \max\Bigl(
        \frac{\sum_{i<j} (1 - r_{ij}^2)^2 / n}{\sum_{i<j} r_{ij}^2},\; 1 - \frac{n}{10 D}\Bigr),

    the first term being the intensity with the least expected squared error (Ledoit & Wolf 2004;
    Schäfer & Strimmer 2005, section 2.4, target D), the second the rule that a full covariance
    takes ten effective draws per dimension.

    Parameters
    ----------
    draws : array of shape (n, D)
        Draws of the flat unconstrained vector; rows that are not finite are left out.
    full : bool, optional
        Whether to keep correlations. By default they are kept with at least two effective draws
        per dimension and if they are worth 0.1 nats, :math:`-\tfrac12 \log |R| \ge 0.1`.
    shrinkage : float in [0, 1], optional
        Replaces :math:`\lambda`.
    n_effective : float, optional
        Effective number of draws; by default their number, right for independent draws only.
    min_scale : float or array of shape (D,), optional
        Lower bound of the marginal standard deviations, e.g. those of the widest local fit.

    Returns
    -------
    GaussianBase
        Always positive definite; scales are at least 1e-8 times the larger of 1 and the mean.

    Raises
    ------
    BaseError
        If ``draws`` is not two-dimensional or has fewer than two finite rows.
    OptionError
        If ``shrinkage`` lies outside [0, 1] or ``n_effective`` is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> cauchy = np.random.default_rng(3).standard_cauchy((5000, 1))
    >>> base = robust_gaussian(cauchy)
    >>> bool(1.0 < base.scale[0] < 20.0), bool(cauchy.std() > 20.0)
    (True, True)
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
    floor = RELATIVE_FLOOR * np.maximum(1.0, np.abs(mean))
    sd = np.maximum(raw / WINSORISED_NORMAL_SD, floor)
    if min_scale is not None:
        sd = np.maximum(sd, min_scale)
    if full is False or dim == 1 or (full is None and n_eff < 2 * dim):
        return GaussianBase(mean, sd)

    unit = (x - mean) / np.maximum(raw, floor)
    corr = unit.T @ unit / (n - 1)
    np.fill_diagonal(corr, 1.0)
    intensity = _shrinkage(corr, n_eff) if shrinkage is None else shrinkage
    # A rank-deficient matrix needs more than rounding to be inverted; others need only that.
    intensity = max(intensity, 0.05 if n <= dim else 1e-9)
    corr *= 1.0 - intensity
    np.fill_diagonal(corr, 1.0)
    return _from_correlation(mean, sd, corr, keep=full is True)


def match_moments(
    bases: Sequence[GaussianBase], log_weights: FloatArray, *, max_full_dim: int = 200
) -> GaussianBase:
    r"""Replace a mixture of local Gaussians by one Gaussian with its mean and covariance.

    For the mixture of eq. 26 of Graham & Storkey (2017), with weights
    :math:`w_i \propto \exp(\ell_i)`,

    .. math:: m = \sum_i w_i m_i, \qquad
        C = \sum_i w_i \bigl(C_i + (m_i - m)(m_i - m)^\top\bigr).

    Parameters
    ----------
    bases : sequence of K GaussianBase
        Local fits of equal dimension D.
    log_weights : array of shape (K,)
        Log weights in nats, not necessarily normalised: the ELBOs of the fits.
    max_full_dim : int, default 200
        Above this dimension diagonal fits are combined into a diagonal: a matrix product per
        gradient then costs more than the spread between modes is worth.

    Returns
    -------
    GaussianBase
        Full if a fit is full or the spread between modes correlates coordinates by at least 0.1
        nats. ``log_zeta`` is :math:`\log \sum_i \exp(\ell_i)` over the fits' own ``log_zeta``,
        None if one of them has none.

    Raises
    ------
    BaseError
        If there are no bases, dimensions differ, or weights are not K numbers of which at least
        one is positive.

    Examples
    --------
    >>> import numpy as np
    >>> left, right = GaussianBase([-2.0], [1.0]), GaussianBase([2.0], [1.0])
    >>> round(float(match_moments([left, right], np.zeros(2)).covariance[0, 0]), 6)
    5.0
    """
    logw = np.asarray(log_weights, dtype=np.float64)
    if len(bases) == 0 or logw.shape != (len(bases),):
        raise BaseError(
            f"{len(bases)} bases and log weights of shape {logw.shape} were given; expected one "
            "log weight for each of at least one base."
        )
    dims = {base.dim for base in bases}
    if len(dims) != 1:
        raise BaseError(f"The bases have dimensions {sorted(dims)}; they must agree.")
    if np.isnan(logw).any() or not np.isfinite(logw.max()):
        raise BaseError("Log weights must be numbers below infinity, at least one of them finite.")
    zetas = [base.log_zeta for base in bases if base.log_zeta is not None]
    log_zeta = float(logsumexp(zetas)) if len(zetas) == len(bases) else None

    weights = softmax(logw)
    means = np.stack([base.mean for base in bases])
    mean = weights @ means
    spread = means - mean
    variances = np.stack([base.standard_deviation**2 for base in bases])
    sd = np.sqrt(weights @ (variances + spread**2))
    any_full = not all(base.is_diagonal for base in bases)
    if not any_full and mean.size > max_full_dim:
        return GaussianBase(mean, sd, log_zeta)
    cov = (spread.T * weights) @ spread
    for weight, base in zip(weights, bases, strict=True):
        cov += weight * base.covariance
    corr = cov / np.outer(sd, sd)
    np.fill_diagonal(corr, 1.0)
    return _from_correlation(mean, sd, corr, keep=any_full, log_zeta=log_zeta)


def widen(base: GaussianBase, min_scale: FloatArray | float) -> GaussianBase:
    """Raise the marginal standard deviations to a lower bound, keeping all correlations.

    Parameters
    ----------
    base : GaussianBase
        Left unchanged.
    min_scale : float or array of shape (D,)
        Lower bound of the marginal standard deviations.

    Returns
    -------
    GaussianBase
        The same mean and ``log_zeta``.

    Examples
    --------
    >>> widen(GaussianBase([0.0, 0.0], [1.0, 3.0]), 2.0).scale
    array([2., 3.])
    """
    ratio = np.maximum(1.0, min_scale / base.standard_deviation)
    scale = base.scale * (ratio if base.is_diagonal else ratio[:, None])
    return GaussianBase(base.mean, scale, base.log_zeta)


def _shrinkage(corr: FloatArray, n_eff: float) -> float:
    r2 = corr[np.triu_indices_from(corr, 1)] ** 2
    expected_error = float(((1.0 - np.minimum(r2, 1.0)) ** 2).sum()) / n_eff
    total = float(r2.sum())
    least_error = expected_error / total if total > 0.0 else 1.0
    return min(1.0, max(least_error, 1.0 - n_eff / (10.0 * len(corr))))


def _from_correlation(
    mean: FloatArray,
    sd: FloatArray,
    corr: FloatArray,
    *,
    keep: bool,
    log_zeta: float | None = None,
) -> GaussianBase:
    jitter = 0.0
    while True:
        try:
            factor = np.linalg.cholesky((corr + jitter * np.eye(len(corr))) / (1.0 + jitter))
            break
        except np.linalg.LinAlgError:
            # Perfectly correlated coordinates, up to rounding.
            jitter = max(10.0 * jitter, 1e-10)
    if not keep and -float(np.log(np.diagonal(factor)).sum()) < MIN_GAIN:
        return GaussianBase(mean, sd, log_zeta)
    return GaussianBase(mean, sd[:, None] * factor, log_zeta)
