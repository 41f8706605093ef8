"""Widening a fitted base along the directions in which draws spread further than it does.

A variational fit is narrower than its target: in a funnel, the scale parameter's tail is left out,
and replicas that get there find no way back to the base. Directions in which the draws agree with
the fit keep its precision, which draws alone would estimate far worse.
"""

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.types import FloatArray

__all__ = ["expand_to_draws"]

_TAIL = 0.005

_ONE_IN_A_THOUSAND = 3.3
"""Quantile of the Tracy-Widom law of real matrices."""


def expand_to_draws(base: GaussianBase, draws: FloatArray, n_effective: float) -> GaussianBase:
    r"""Widen a base along principal directions of draws that noise cannot explain.

    In base coordinates the draws of a perfectly fitted target have the identity as covariance, and
    sample eigenvalues up to :math:`(1 + \sqrt{D / n})^2` are noise (Marchenko & Pastur 1967); the
    largest exceeds that by a few of its own standard deviations (Johnstone 2001, "On the
    distribution of the largest eigenvalue in principal components analysis", Annals of Statistics
    29). Each direction above what one in a thousand exceeds gets its sample variance, and its mean
    is moved; all others are left alone, so that a base is never narrowed here.

    Parameters
    ----------
    base : GaussianBase
    draws : ndarray of shape (n, D)
        Draws of the target; winsorised at 0.5 % and 99.5 %, so that a target without variance has
        a finite scale.
    n_effective : float
        Effective number of draws.

    Returns
    -------
    GaussianBase
        With a full covariance, or ``base`` itself if no direction stands out.

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
