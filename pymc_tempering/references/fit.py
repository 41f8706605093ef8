"""The base of a model: fitted from dispersed starts, or taken from the draws of a run."""

import contextlib
from typing import TYPE_CHECKING

import numpy as np

from pymc_tempering.engine.guard import density_guard
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.errors import BaseError
from pymc_tempering.options import check_choice, check_positive, check_random_seed, resolve_model
from pymc_tempering.references.elbo import has_finite_density
from pymc_tempering.references.full_rank import fit_full_rank
from pymc_tempering.references.local import (
    combine_local_bases,
    dispersed_starts,
    drop_duplicates,
    fit_each,
    fit_local_bases,
    select_fits,
)
from pymc_tempering.references.watch import Report, Tally, unwatched
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm

__all__ = [
    "base_from_draws",
    "combine_local_bases",
    "dispersed_starts",
    "fit_base",
    "fit_from_dispersed_starts",
    "fit_local_bases",
]

METHODS = ("advi",)


_SEARCH_SCALES = (1.0, 2.0, 5.0, 10.0)

MOST_FULL_RANK_FITS = 8
"""With more modes than these, their places decide the base and not their shapes."""


def fit_base(
    model: "pm.Model | None" = None,
    method: str = "advi",
    *,
    n_starts: int = 7,
    n_iterations: int = 3000,
    random_seed: int | np.random.Generator | None = None,
) -> GaussianBase:
    """Fit a Gaussian base to a model.

    1. Mean-field ADVI from the model's initial point.
    2. The same from ``n_starts - 1`` points in mirrored pairs around it, at 1, 2 and 5 times the
       larger of 1 and the standard deviation of the first fit.
    3. Duplicates are dropped, the rest combined (:func:`combine_local_bases`).

    Parameters
    ----------
    model : pymc.Model, optional
        By default the model of the current context.
    method : str, default "advi"
        How each local fit is found. Valid: "advi".
    n_starts : int, default 7
        Number of local fits: one from the initial point and three mirrored pairs, one pair per
        scale of the jitter. One fit finds one mode; seven missed the lighter of two modes (weight
        0.3, 10 dimensions) in 1 % of runs. 1 for targets known to be unimodal.
    n_iterations : int, default 3000
        As for :func:`pymc_tempering.references.advi.fit_advi`.
    random_seed : int or numpy.random.Generator, optional
        Seed of starts and fits.

    Returns
    -------
    GaussianBase
        With ``log_zeta`` the log sum of the local ELBOs, in nats.

    Raises
    ------
    OptionError
        If the method is unknown or ``n_starts`` is below 1.
    BaseError
        If no fit succeeded.
    ModelError
        If the model cannot be compiled.

    References
    ----------
    Graham & Storkey, Continuously tempered Hamiltonian Monte Carlo, UAI 2017, section 6, eq. 26.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model():
    ...     x = pm.Normal("x", 3.0, 2.0)
    ...     base = fit_base(random_seed=1)
    >>> bool(abs(base.mean[0] - 3.0) < 0.3), bool(abs(base.scale[0] - 2.0) < 0.3)
    (True, True)
    """
    model = resolve_model(model, "fit_base")
    check_choice("method", method, METHODS)
    check_positive("n_starts", n_starts, integer=True)
    check_positive("n_iterations", n_iterations, integer=True)
    check_random_seed(random_seed)

    from pymc_tempering.model.compile import compile_density

    density = compile_density(model)
    rng = np.random.default_rng(random_seed)
    base, _ = fit_from_dispersed_starts(
        density, density.start, rng, n_starts, n_iterations=n_iterations
    )
    return base


@density_guard()
def fit_from_dispersed_starts(
    density: Density,
    start: FloatArray,
    rng: np.random.Generator,
    n_starts: int = 7,
    *,
    n_iterations: int = 3000,
) -> tuple[GaussianBase, int]:
    """Fit a base to a compiled density; the algorithm of :func:`fit_base`.

    Parameters
    ----------
    density, start, rng, n_iterations
        As for :func:`pymc_tempering.references.advi.fit_advi`.
    n_starts : int, default 7
        Number of local fits, that from ``start`` included.

    Returns
    -------
    base : GaussianBase
        Combined base.
    n_gradients : int
        Evaluations of the density, all fits together.

    Raises
    ------
    BaseError
        If no fit succeeded.
    """
    fits, n_gradients = local_fits(
        density, start, rng, n_starts, full_rank=False, n_iterations=n_iterations
    )
    return combine_local_bases(fits), n_gradients


def local_fits(
    density: Density,
    start: FloatArray,
    rng: np.random.Generator,
    n_starts: int = 7,
    *,
    most_starts: int | None = None,
    prior_points: FloatArray | None = None,
    full_rank: bool = True,
    n_iterations: int = 3000,
    report: Report = unwatched,
) -> tuple[list[GaussianBase], int]:
    """Distinct local fits from dispersed starts.

    Parameters
    ----------
    density, start, rng, n_iterations
        As for :func:`pymc_tempering.references.advi.fit_advi`.
    n_starts : int, default 7
        Number of starts, ``start`` included.
    most_starts : int, optional
        Go on in batches of ``n_starts - 1`` up to this number while each batch finds a new mode.
    prior_points : array of shape (n, D), optional
        Further starts, that know how far apart modes may lie.
    full_rank : bool, default True
        Improve the best ``MOST_FULL_RANK_FITS`` distinct mean-field fits by
        :func:`.full_rank.fit_full_rank`, after which more of them may turn out to be the same mode.
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
    n_later = n_iterations // 3 if full_rank else n_iterations
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
    if full_rank:
        improved = []
        tally = Tally(report, "shapes of modes", min(len(fits), MOST_FULL_RANK_FITS))
        for fit in fits[:MOST_FULL_RANK_FITS]:
            improved.append(fit_full_rank(density, fit, rng))
            tally.add()
        n_gradients += sum(n for _, n in improved)
        fits = [fit for fit, _ in improved] + fits[MOST_FULL_RANK_FITS:]
        fits = drop_duplicates(fits, density=density)
    return fits, n_gradients


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
