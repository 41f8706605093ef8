"""A base from the draws of a run."""

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError
from pymc_tempering.options import as_numbers
from pymc_tempering.types import FloatArray

__all__ = ["base_from_draws"]


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
