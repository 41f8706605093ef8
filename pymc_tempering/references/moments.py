"""Gaussians by moments: one from several, and one that is widened."""

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.robust import scale_from_correlation
from pymc_tempering.errors import BaseError
from pymc_tempering.types import FloatArray

__all__ = ["expand_to_draws", "match_moments", "widen"]

_TAIL = 0.005  # draws beyond these quantiles are moved to them, so that no variance is infinite

_ONE_IN_A_THOUSAND = 3.3
"""Quantile of the Tracy-Widom law of real matrices."""


def match_moments(
    bases: Sequence[GaussianBase], log_weights: FloatArray, *, max_full_dim: int = 200
) -> GaussianBase:
    r"""Replace a mixture of local Gaussians by one Gaussian with its mean and covariance.

    For the mixture of eq. 26 of Graham & Storkey (2017), with weights
    :math:`w_i \propto \exp(\ell_i)`,

    .. math:: m = \sum_i w_i m_i, \qquad
        C = \sum_i w_i \bigl(C_i + (m_i - m)(m_i - m)^\top\bigr).

    Log weights, shape (K,), need not be normalised: they are ELBOs in nats. Above ``max_full_dim``
    dimensions diagonal fits give a diagonal. The ``log_zeta`` is that of the sum, None if one of
    the bases has none. Raises BaseError for weights that are none, or unlike dimensions.

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
    return GaussianBase(mean, scale_from_correlation(sd, corr, keep=any_full), log_zeta)


def widen(base: GaussianBase, min_scale: FloatArray | float) -> GaussianBase:
    """Raise the marginal standard deviations to a lower bound, keeping all correlations.

    Examples
    --------
    >>> widen(GaussianBase([0.0, 0.0], [1.0, 3.0]), 2.0).scale
    array([2., 3.])
    """
    ratio = np.maximum(1.0, min_scale / base.standard_deviation)
    scale = base.scale * (ratio if base.is_diagonal else ratio[:, None])
    return GaussianBase(base.mean, scale, base.log_zeta)


def expand_to_draws(base: GaussianBase, draws: FloatArray, n_effective: float) -> GaussianBase:
    r"""Widen a base along principal directions in which draws (n, D) spread further than it does.

    In base coordinates the draws of a perfectly fitted target have the identity as covariance, and
    sample eigenvalues up to :math:`(1 + \sqrt{D / n})^2` are noise (Marchenko & Pastur 1967); the
    largest exceeds that by a few of its own standard deviations (Johnstone 2001, "On the
    distribution of the largest eigenvalue in principal components analysis", Annals of Statistics
    29). Each direction above what one in a thousand exceeds gets its sample variance, and its mean
    is moved; all others keep the precision of the fit, which draws would estimate far worse.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> draws = rng.standard_normal((2000, 3)) * [1.0, 4.0, 0.5]
    >>> narrow = GaussianBase(np.zeros(3), np.ones(3))
    >>> expand_to_draws(narrow, draws, 2000).standard_deviation.round()
    array([1., 4., 1.])
    """
    u = base.to_base(draws[np.isfinite(draws).all(axis=1)])
    u = np.clip(u, *np.quantile(u, [_TAIL, 1.0 - _TAIL], axis=0))
    mean = u.mean(axis=0)
    # a funnel's draws have widths that a covariance cannot hold at once, and its roots can
    triangular = np.linalg.qr(np.concatenate([u - mean, np.zeros((base.dim, base.dim))]), mode="r")
    _, widths, rows = np.linalg.svd(triangular)
    eigenvalues, vectors = widths**2 / max(len(u) - 1, 1), rows.T
    wide = eigenvalues > _largest_of_noise(max(n_effective, 1.0), base.dim)
    if not wide.any():
        return base
    along = vectors[:, wide]
    upper = np.linalg.qr((vectors * np.sqrt(np.where(wide, eigenvalues, 1.0))).T, mode="r")
    factor = (np.sign(np.diagonal(upper))[:, None] * upper).T
    return GaussianBase(
        base.from_base(along @ (along.T @ mean)), np.tril(base.matrix @ factor), base.log_zeta
    )


def _largest_of_noise(n: float, dim: int) -> float:
    """Eigenvalue that one in a thousand sample covariances of n standard normal draws exceeds."""
    roots = np.sqrt(n), np.sqrt(dim)
    unit = sum(roots) * (1.0 / roots[0] + 1.0 / roots[1]) ** (1.0 / 3.0)
    return float((sum(roots) ** 2 + _ONE_IN_A_THOUSAND * unit) / n)
