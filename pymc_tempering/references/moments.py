"""One Gaussian from several, by matching moments."""

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.robust import scale_from_correlation
from pymc_tempering.errors import BaseError
from pymc_tempering.types import FloatArray

__all__ = ["match_moments", "widen"]


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
    return GaussianBase(mean, scale_from_correlation(sd, corr, keep=any_full), log_zeta)


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
