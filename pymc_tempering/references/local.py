"""Local fits from dispersed starts, and their combination so that no mode is lost."""

from collections.abc import Callable, Sequence

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.errors import BaseError
from pymc_tempering.references.advi import AdviFit, run_advi
from pymc_tempering.references.elbo import dip_between, has_finite_density
from pymc_tempering.references.moments import match_moments, widen
from pymc_tempering.types import FloatArray

__all__ = [
    "combine_local_bases",
    "dispersed_starts",
    "drop_duplicates",
    "fit_each",
    "select_fits",
]

START_SCALES = (1.0, 2.0, 5.0)
MAX_DIP = 1.0


def dispersed_starts(
    density: Density,
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
    density : Density
        The target's compiled log density and gradient.
    start : array of shape (D,)
        Centre.
    rng : numpy.random.Generator
        Source of randomness.
    n : int
        Number of starts wanted, in mirrored pairs ``start ± jitter``: a start midway between two
        modes is common, and then each is reached from its own side.
    scales : sequence of float, default (1, 2, 5)
        Standard deviations of the jitter, taken in turn by the pairs: modes nearby need a small
        jitter, modes far away a large one.
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
    units = np.broadcast_to(np.asarray(units, dtype=np.float64), start.shape)
    kept: list[FloatArray] = []
    for pair in range((n + 1) // 2):
        jitter = scales[pair % len(scales)] * units * rng.standard_normal(start.size)
        for sign in (1.0, -1.0):
            for attempt in range(max_tries):
                z = start + sign * 0.5**attempt * jitter
                if len(kept) < n and has_finite_density(density, z):
                    kept.append(z)
                    break
    return np.array(kept).reshape(len(kept), start.size)


def fit_each(
    density: Density,
    starts: Sequence[FloatArray] | FloatArray,
    rng: np.random.Generator,
    *,
    n_iterations: int = 3000,
    on_fit: Callable[[], None] | None = None,
) -> list[AdviFit]:
    """Fit one mean-field Gaussian per start.

    Parameters
    ----------
    density, rng, n_iterations
        As for :func:`pymc_tempering.references.advi.run_advi`.
    starts : K arrays of shape (D,)
        Starting points; a fit that fails is left out.
    on_fit : callable, optional
        Called after each of them, also of those that fail.

    Raises
    ------
    BaseError
        If every fit failed; the message of the first is included.
    """
    fits: list[AdviFit] = []
    failures: list[str] = []
    for start in starts:
        try:
            fits.append(run_advi(density, start, rng, n_iterations=n_iterations))
        except BaseError as error:
            failures.append(str(error))
        if on_fit is not None:
            on_fit()
    if not fits:
        reason = failures[0] if failures else "No starts were given."
        raise BaseError(f"None of {len(failures)} local fits succeeded. {reason}")
    return fits


def select_fits(
    density: Density, fits: Sequence[AdviFit], distance: float = 1.0
) -> list[GaussianBase]:
    """Drop fits that were still moving, and duplicates; the best ELBO first.

    A fit that still drifts after all rounds is no mode, but on its way to one, along a ridge; it is
    kept only if its ELBO is the best.
    """
    best = max(_elbo(fit.base) for fit in fits)
    bases = [fit.base for fit in fits if fit.converged or _elbo(fit.base) == best]
    return drop_duplicates(bases, distance, density=density)


def drop_duplicates(
    fits: Sequence[GaussianBase], distance: float = 1.0, *, density: Density | None = None
) -> list[GaussianBase]:
    """Keep, of fits that found the same mode, the one with the best ELBO.

    Two fits are duplicates if no coordinate of their means differs by more than ``distance`` pooled
    standard deviations, or if the log density has no dip of more than one nat on the straight line
    between their means: mean-field fits stop at different points of one ridge, many of their own
    narrow standard deviations apart.

    Parameters
    ----------
    fits : sequence of GaussianBase
        Local fits with ``log_zeta``.
    distance : float, default 1
        Repeated fits of a mode without a ridge differ by a few tenths.
    density : Density, optional
        Of the target; without it only the distance is compared.

    Returns
    -------
    list of GaussianBase
        The best ELBO first.

    Raises
    ------
    BaseError
        If a fit has no ``log_zeta``.
    """
    kept: list[GaussianBase] = []
    for fit in sorted(fits, key=_elbo, reverse=True):
        if not any(
            _distance(fit, other) <= distance
            or (density is not None and dip_between(density, fit.mean, other.mean) <= MAX_DIP)
            for other in kept
        ):
            kept.append(fit)
    return kept


def _distance(a: GaussianBase, b: GaussianBase) -> float:
    pooled = np.sqrt(0.5 * (a.standard_deviation**2 + b.standard_deviation**2))
    return float(np.max(np.abs(a.mean - b.mean) / pooled))


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
