"""Gaussians from draws and from other Gaussians, and how many draws count as independent."""

from collections.abc import Sequence

import numpy as np
from arviz_stats.base import array_stats
from scipy.special import logsumexp, softmax

from pymc_tempering.engine.path.gaussian import TAIL, GaussianBase, scale_from_correlation
from pymc_tempering.errors import BaseError
from pymc_tempering.options import as_numbers
from pymc_tempering.references.full_rank import MAX_FULL_RANK_DIM
from pymc_tempering.types import FloatArray


def base_from_draws(
    draws: FloatArray, *, full: bool | None = None, min_scale: FloatArray | float | None = None
) -> GaussianBase:
    """Make a base from the draws of an earlier run, of any sampler.

    The effective number of draws, which decides how much of the correlations is kept, is estimated
    from batch means. A base from a run that saw one mode confirms itself: check that the run did
    not, or pass ``min_scale``.

    Parameters
    ----------
    draws : array of shape (n, D) or (chains, n, D)
        Draws of the flat unconstrained vector in the order in which they were made.
    full, min_scale
        As for :meth:`pymc_tempering.GaussianBase.from_draws`.

    Returns
    -------
    GaussianBase
        Without ``log_zeta``: draws alone say nothing about log Z.

    Raises
    ------
    BaseError
        If the shape is wrong or fewer than two draws are finite.

    Examples
    --------
    >>> import numpy as np
    >>> draws = np.random.default_rng(1).normal([0.0, 5.0], [1.0, 3.0], size=(4, 1000, 2))
    >>> base = base_from_draws(draws)
    >>> base.is_diagonal, bool(abs(base.scale[1] - 3.0) < 0.3)
    (True, True)
    """
    x = as_numbers("draws", draws, BaseError)
    if x.ndim == 2:
        x = x[None]
    if x.ndim != 3 or x.size == 0:
        raise BaseError(
            f"The draws have shape {x.shape}; expected (n, D) or (chains, n, D) arrays of "
            "unconstrained values."
        )
    flat = x.reshape(-1, x.shape[2])
    return GaussianBase.from_draws(
        flat, full=full, n_effective=_n_effective(x), min_scale=min_scale
    )


def _n_effective(x: FloatArray) -> float | None:
    """Lower quartile over coordinates of the effective number of draws, from batch means."""
    n = x.shape[1]
    # Long batches: short ones overstate what a slowly moving chain has seen.
    size = round(n ** (2 / 3))
    if n < 2 * size or size < 4 or not np.isfinite(x).all():
        return None
    means = x[:, : n - n % size].reshape(-1, size, x.shape[2]).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = x.reshape(-1, x.shape[2]).var(axis=0) / (size * means.var(axis=0, ddof=1))
    share = share[np.isfinite(share)]
    if share.size == 0:
        return None
    return float(np.clip(np.quantile(share, 0.25), 1e-6, 1.0)) * x.shape[0] * n


def match_moments(bases: Sequence[GaussianBase], log_weights: FloatArray) -> GaussianBase:
    r"""Replace a mixture of local Gaussians by one Gaussian with its mean and covariance.

    For the mixture of eq. 26 of Graham & Storkey (2017), with weights
    :math:`w_i \propto \exp(\ell_i)`,

    .. math:: m = \sum_i w_i m_i, \qquad
        C = \sum_i w_i \bigl(C_i + (m_i - m)(m_i - m)^\top\bigr).

    Log weights, shape (K,), need not be normalised: they are ELBOs in nats. Above 200 dimensions
    diagonal fits give a diagonal. The ``log_zeta`` is that of the sum, None if one of the bases has
    none. Raises BaseError for unlike dimensions.
    """
    dims = {base.dim for base in bases}
    if len(dims) != 1:
        raise BaseError(f"The bases have dimensions {sorted(dims)}; they must agree.")
    zetas = [base.log_zeta for base in bases if base.log_zeta is not None]
    log_zeta = float(logsumexp(zetas)) if len(zetas) == len(bases) else None

    weights = softmax(log_weights)
    means = np.stack([base.mean for base in bases])
    mean = weights @ means
    spread = means - mean
    variances = np.stack([base.standard_deviation**2 for base in bases])
    sd = np.sqrt(weights @ (variances + spread**2))
    any_full = not all(base.is_diagonal for base in bases)
    if not any_full and mean.size > MAX_FULL_RANK_DIM:
        return GaussianBase(mean, sd, log_zeta)
    cov = (spread.T * weights) @ spread
    for weight, base in zip(weights, bases, strict=True):
        cov += weight * base.covariance
    corr = cov / np.outer(sd, sd)
    np.fill_diagonal(corr, 1.0)
    return GaussianBase(mean, scale_from_correlation(sd, corr, keep=any_full), log_zeta)


def widen(base: GaussianBase, min_scale: FloatArray | float) -> GaussianBase:
    """Raise the marginal standard deviations to a lower bound, keeping all correlations."""
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
    """
    u = base.to_base(draws[np.isfinite(draws).all(axis=1)])
    # so that no variance is infinite
    u = np.clip(u, *np.quantile(u, [TAIL, 1.0 - TAIL], axis=0))
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
    """Eigenvalue that one in a thousand sample covariances of n standard normal draws exceeds.

    Of the Tracy-Widom law of real matrices, 3.3 is that quantile.
    """
    roots = np.sqrt(n), np.sqrt(dim)
    unit = sum(roots) * (1.0 / roots[0] + 1.0 / roots[1]) ** (1.0 / 3.0)
    return float((sum(roots) ** 2 + 3.3 * unit) / n)


def n_independent(positions: FloatArray) -> float:
    """Number of draws (n, D) of a chain that count as independent: of coordinates and squares.

    The least of the two, in the median over coordinates. Long before a chain has seen all of a
    target it has seen enough to tell its shape where it was.
    """
    n, dim = positions.shape
    # fewer have no autocorrelation
    if n < 4:
        return 0.0
    centred = positions - positions.mean(axis=0)
    sizes = effective_sizes(np.column_stack([centred, centred**2])).reshape(2, dim)
    # of constant columns there are none
    return float(np.nan_to_num(np.median(sizes.min(axis=0))))


def effective_sizes(columns: FloatArray) -> FloatArray:
    """Effective sizes of the means of columns, as :func:`arviz_stats.ess` has them of one chain.

    ArviZ goes from column to column in the interpreter, where it took a third of the time of a run
    with many modes: every round asks for that of each of them. Columns (n, T) are draws of one
    chain, at least four, whose halves count as two. Geyer's initial monotone sequence (1992,
    "Practical Markov chain Monte Carlo", section 3.3) and eq. 10-13 of Vehtari et al. (2021,
    "Rank-normalization, folding, and localization: an improved R-hat").
    """
    n = len(columns) // 2
    halves = np.stack([columns[:n], columns[-n:]])
    covariances = array_stats.autocov(halves, axis=1).mean(axis=0)
    within = covariances[0] * n / (n - 1.0)
    total = covariances[0] + halves.mean(axis=1).var(axis=0, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        correlations = 1.0 - (within - covariances) / total
    correlations[0] = 1.0
    n_pairs = max((n - 1) // 2, 1)
    pairs = correlations[: 2 * n_pairs].reshape(n_pairs, 2, -1)
    sums = pairs.sum(axis=1)
    # the first pair that noise turns negative ends the sum, and the last one does
    negative = sums <= 0.0
    negative[-1] = True
    last = negative.argmax(axis=0)
    kept = np.arange(n_pairs)[:, None] < last
    monotone = np.where(kept, np.minimum.accumulate(sums, axis=0), 0.0).sum(axis=0)
    at_last = np.take_along_axis(pairs, last[None, None], axis=0)[0]
    ends = np.where(at_last.sum(axis=0) >= 0.0, at_last[0], np.maximum(at_last[0], 0.0))
    times = -1.0 + 2.0 * monotone + ends
    sizes = 2 * n / np.maximum(times, 1.0 / np.log10(2 * n))
    constant = np.ptp(halves, axis=(0, 1)) < np.finfo(np.float64).resolution
    return np.asarray(np.where(constant, 2.0 * n, sizes))
