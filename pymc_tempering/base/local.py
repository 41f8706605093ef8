"""Local fits from dispersed starts, and their combination so that no mode is lost."""

from collections.abc import Sequence

import numpy as np

from pymc_tempering.base.advi import fit_advi
from pymc_tempering.base.elbo import has_finite_density
from pymc_tempering.base.gaussian import GaussianBase
from pymc_tempering.base.moments import match_moments, widen
from pymc_tempering.errors import BaseError
from pymc_tempering.types import FloatArray

__all__ = ["combine_local_bases", "dispersed_starts", "drop_duplicates", "fit_local_bases"]

START_SCALES = (1.0, 2.0, 5.0)


def dispersed_starts(
    address: int,
    start: FloatArray,
    rng: np.random.Generator,
    n: int,
    scales: Sequence[float] = START_SCALES,
    *,
    units: FloatArray | float = 1.0,
    max_tries: int = 20,
) -> FloatArray:
    """Jitter a start at several scales, keeping points with a finite density and gradient.

    Parameters
    ----------
    address : int
        Address of the target's log density and gradient.
    start : array of shape (D,)
        Centre.
    rng : numpy.random.Generator
        Source of randomness.
    n : int
        Number of starts wanted.
    scales : sequence of float, default (1, 2, 5)
        Standard deviations of the jitter, taken in turn: near modes need small jitter, and a far
        mode is reached only from its own side.
    units : float or array of shape (D,), default 1
        What ``scales`` are multiples of, per coordinate.
    max_tries : int, default 20
        Tries per start; each failure halves the jitter, so that narrow supports are still found.

    Returns
    -------
    array of shape (m, D)
        The starts, m <= n.
    """
    start = np.asarray(start, dtype=np.float64)
    kept = []
    for i in range(n):
        scale = scales[i % len(scales)] * np.asarray(units)
        for attempt in range(max_tries):
            z = start + 0.5**attempt * scale * rng.standard_normal(start.size)
            if has_finite_density(address, z):
                kept.append(z)
                break
    return np.array(kept).reshape(len(kept), start.size)


def fit_local_bases(
    address: int,
    dim: int,
    starts: Sequence[FloatArray] | FloatArray,
    rng: np.random.Generator,
    *,
    n_iterations: int = 3000,
    distance: float = 1.0,
) -> tuple[list[GaussianBase], int]:
    """Fit one mean-field Gaussian per start and drop duplicates.

    Parameters
    ----------
    address, dim, rng, n_iterations
        As for :func:`pymc_tempering.base.advi.fit_advi`.
    starts : K arrays of shape (D,)
        Starting points; a fit that fails is left out.
    distance : float, default 1
        As for :func:`drop_duplicates`.

    Returns
    -------
    bases : list of GaussianBase
        Distinct fits, the best ELBO (``log_zeta``) first.
    n_gradients : int
        Evaluations of the density, all fits together.

    Raises
    ------
    BaseError
        If every fit failed; the message of the first is included.
    """
    fits: list[GaussianBase] = []
    failures: list[str] = []
    n_gradients = 0
    for start in starts:
        try:
            base, n = fit_advi(address, dim, start, rng, n_iterations=n_iterations)
        except BaseError as error:
            failures.append(str(error))
            continue
        fits.append(base)
        n_gradients += n
    if not fits:
        reason = failures[0] if failures else "No starts were given."
        raise BaseError(f"None of {len(failures)} local fits succeeded. {reason}")
    return drop_duplicates(fits, distance), n_gradients


def drop_duplicates(fits: Sequence[GaussianBase], distance: float = 1.0) -> list[GaussianBase]:
    """Keep, of fits that found the same mode, the one with the best ELBO.

    Parameters
    ----------
    fits : sequence of GaussianBase
        Local fits with ``log_zeta``.
    distance : float, default 1
        Two fits are duplicates if no coordinate of their means differs by more than this many
        pooled standard deviations; repeated fits of one mode differ by a few tenths.

    Returns
    -------
    list of GaussianBase
        The best ELBO first.
    """
    kept: list[GaussianBase] = []
    for fit in sorted(fits, key=_elbo, reverse=True):
        var = fit.standard_deviation**2
        if all(
            np.max(np.abs(fit.mean - b.mean) / np.sqrt(0.5 * (var + b.standard_deviation**2)))
            > distance
            for b in kept
        ):
            kept.append(fit)
    return kept


def combine_local_bases(
    fits: Sequence[GaussianBase], *, window: float = 10.0, min_weight: float = 0.05
) -> GaussianBase:
    """Combine local fits into one Gaussian that is wide enough for every mode.

    Moments are matched (eq. 26 of Graham & Storkey 2017) with weights proportional to
    ``exp(ELBO)``, except that a fit within ``window`` of the best ELBO has at least ``min_weight``:
    an ELBO misses log Z by a different number of nats in each mode. No coordinate is narrower than
    in the widest of these fits. Fits below the window are ignored.

    Parameters
    ----------
    fits : sequence of GaussianBase
        Distinct local fits with their ELBO in ``log_zeta``.
    window : float, default 10
        In nats. Mean-field ELBOs are commonly wrong by several nats, rarely by more than ten in one
        mode and not in another.
    min_weight : float, default 0.05
        Before normalisation.

    Returns
    -------
    GaussianBase
        With ``log_zeta`` the log sum of the local ELBOs.

    Raises
    ------
    BaseError
        If there are no fits, or one has no ``log_zeta``.

    Examples
    --------
    >>> left = GaussianBase([-4.0], [1.0], log_zeta=-8.0)
    >>> right = GaussianBase([4.0], [2.0], log_zeta=0.0)
    >>> base = combine_local_bases([left, right])
    >>> bool(base.scale[0] > 2.5)
    True
    """
    if not fits:
        raise BaseError("There are no local fits to combine; fit at least one.")
    elbos = np.array([_elbo(fit) for fit in fits])
    inside = elbos >= elbos.max() - window
    kept = [fit for fit, keep in zip(fits, inside, strict=True) if keep]
    if len(kept) == 1:
        return kept[0]
    elbos = elbos[inside]
    weights = np.exp(elbos - elbos.max())
    weights = np.maximum(weights / weights.sum(), min_weight)
    matched = match_moments(kept, np.log(weights))
    return widen(matched, np.stack([fit.standard_deviation for fit in kept]).max(axis=0))


def _elbo(fit: GaussianBase) -> float:
    if fit.log_zeta is None:
        raise BaseError("A local fit has no log_zeta; combining fits takes their ELBOs.")
    return fit.log_zeta
