"""Local fits from dispersed starts, and bases from the draws of a run."""

import contextlib

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.errors import BaseError
from pymc_tempering.references.elbo import has_finite_density
from pymc_tempering.references.full_rank import fit_full_rank
from pymc_tempering.references.local import (
    combine_local_bases,
    dispersed_starts,
    drop_duplicates,
    fit_each,
    select_fits,
)
from pymc_tempering.references.watch import Report, Tally, unwatched
from pymc_tempering.types import FloatArray

__all__ = [
    "base_from_draws",
    "combine_local_bases",
    "dispersed_starts",
    "local_fits",
]

_SEARCH_SCALES = (1.0, 2.0, 5.0, 10.0)

MOST_FULL_RANK_FITS = 8
"""With more modes than these, their places decide the base and not their shapes."""


def local_fits(
    density: Density,
    start: FloatArray,
    rng: np.random.Generator,
    n_starts: int = 7,
    *,
    most_starts: int | None = None,
    prior_points: FloatArray | None = None,
    n_iterations: int = 3000,
    report: Report = unwatched,
) -> tuple[list[GaussianBase], int]:
    """Distinct local fits from dispersed starts.

    The best ``MOST_FULL_RANK_FITS`` distinct mean-field fits are improved by
    :func:`.full_rank.fit_full_rank`, after which more of them may turn out to be the same mode.

    Parameters
    ----------
    density, start, rng, n_iterations
        As for :func:`pymc_tempering.references.advi.run_advi`.
    n_starts : int, default 7
        Number of starts, ``start`` included.
    most_starts : int, optional
        Go on in batches of ``n_starts - 1`` up to this number while each batch finds a new mode.
    prior_points : array of shape (n, D), optional
        Further starts, that know how far apart modes may lie.
    report : callable
        See :data:`pymc_tempering.references.watch.Report`.

    Returns
    -------
    fits : list of GaussianBase
        The best ELBO first; never empty.
    n_gradients : int
        Evaluations of the density, all fits together.

    Raises
    ------
    BaseError
        If no fit succeeded.
    """
    if not has_finite_density(density, start):
        nearby = dispersed_starts(density, start, rng, 1)
        start = nearby[0] if len(nearby) else start
    tally = Tally(report, "local fits", n_starts)
    each = fit_each(density, [start], rng, n_iterations=n_iterations, on_fit=tally.add)
    # what follows has to find modes; their shapes are fitted again by the full-rank fits
    n_later = n_iterations // 3
    inside = (
        [z for z in prior_points if has_finite_density(density, z)]
        if (prior_points is not None)
        else []
    )
    tally.total = n_starts + len(inside)
    if inside:
        with contextlib.suppress(BaseError):
            each += fit_each(density, np.array(inside), rng, n_iterations=n_later, on_fit=tally.add)
    fits = select_fits(density, each)
    n_starts, most_starts = n_starts + len(inside), (most_starts or 0) + len(inside)
    units = np.maximum(1.0, each[0].base.scale)
    wanted = n_starts
    while len(each) < wanted:
        n_known = len(fits)
        n_new = min(max(n_starts - len(inside) - 1, 1), wanted - len(each))
        starts = dispersed_starts(density, start, rng, n_new, _SEARCH_SCALES, units=units)
        # The first fit stands if none of the others succeeds.
        with contextlib.suppress(BaseError):
            each += fit_each(density, starts, rng, n_iterations=n_later, on_fit=tally.add)
        fits = select_fits(density, each)
        if len(starts) < n_new:
            break
        if len(fits) > n_known:
            wanted = tally.total = max(n_starts, most_starts)
        elif len(each) >= n_starts:
            break
    n_gradients = sum(fit.n_gradients for fit in each)
    improved = []
    tally = Tally(report, "shapes of modes", min(len(fits), MOST_FULL_RANK_FITS))
    for fit in fits[:MOST_FULL_RANK_FITS]:
        improved.append(fit_full_rank(density, fit, rng))
        tally.add()
    n_gradients += sum(n for _, n in improved)
    fits = [fit for fit, _ in improved] + fits[MOST_FULL_RANK_FITS:]
    return drop_duplicates(fits, density=density), n_gradients


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
        As for :func:`pymc_tempering.engine.path.robust.robust_moments`.

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
    x = np.asarray(draws, dtype=np.float64)
    if x.ndim == 2:
        x = x[None]
    if x.ndim != 3:
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
