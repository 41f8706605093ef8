"""Local fits: from what an ascent found to a Gaussian, and how well that fits."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.errors import BaseError
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references.ascent import MOST_GRADIENTS, ascend
from pymc_tempering.references.basins import Basin
from pymc_tempering.references.curvature import curvature_at
from pymc_tempering.references.elbo import evaluate_elbo
from pymc_tempering.references.full_rank import fit_gaussian
from pymc_tempering.references.moments import match_moments, widen
from pymc_tempering.results.statistics import N_WELL_FITTED
from pymc_tempering.types import FloatArray

__all__ = [
    "FAIR",
    "GAUSSIAN",
    "N_DRAWS",
    "LocalFit",
    "assess",
    "combine_local_bases",
    "laplace_at",
    "poorly_fitted_modes",
    "refine",
    "well_fitted_modes",
]  # fmt: skip

GAUSSIAN = 0.25
"""Variance of ``log_target - log_base`` under the base, in squared nats, below which a fit is good:
its ELBO then misses about an eighth of a nat."""

FAIR = 1.0
"""Variance below which a fit stands for itself, good or not: modes of a group scale have 0.2 to 0.9
(``benchmarks/ways.py``), pieces of eight ridges at once, of which there is no end, 2 and more."""

N_DRAWS, _N_REFINED_DRAWS, _N_CANDIDATE_DRAWS = 100, 400, 16
_N_PATH = 64
_CANDIDATES = (0, 1, 2, 4, 8, 16, 32, 63)
_FIRST_SCALE = 0.1
_AT_MAXIMUM = 1e-3

# nats that a Newton step promises: a hundredth or less at maxima, ten to a million where an ascent
# halted on the slope of a funnel's neck, whose curvature says nothing of a mass
_MOST_DECREMENT = 1.0

_MOST_HALF_VARIANCE = 10.0

# Laplace's approximation of a mode is wrong by factors: of 80 modes of two sinusoids two or three
# were given a tenth, and hold nothing, where the bent mode that was missed has nine tenths
_MUCH = 1 / 3

# of the largest: what is less matters to no log Z
_LITTLE = 0.02

# An ELBO says little about the weight of a mode, and a base that is too wide costs less than one
# that leaves a mode out.
_MIN_MODE_WEIGHT = 0.3


class LocalFit(NamedTuple):
    """A Gaussian near a mode.

    Attributes
    ----------
    base : GaussianBase
        With its ELBO as ``log_zeta``.
    variance : float
        Of ``log_target - log_base`` under it; see :class:`.elbo.Elbo`.
    hits : int
        Starts that led to the mode.
    peak : GaussianBase, optional
        Of a poor fit, from its maximum; see :func:`laplace_at`.
    searches : int
        One bit for each search that found the mode.
    """

    base: GaussianBase
    variance: float
    start_count: int
    laplace: GaussianBase | None = None
    searches: int = 0

    @property
    def elbo(self) -> float:
        """The ELBO, in nats."""
        assert self.base.log_zeta is not None
        return self.base.log_zeta

    @property
    def mass(self) -> float:
        """ELBO plus what it misses, to second order: log of the mode's mass, in nats."""
        return self.elbo + min(0.5 * self.variance, _MOST_HALF_VARIANCE)

    @property
    def most(self) -> float:
        """What the mass may be: the larger of :attr:`mass` and that of :attr:`peak`, in nats."""
        if self.laplace is None or self.laplace.log_zeta is None:
            return self.mass
        return max(self.mass, self.laplace.log_zeta)


def assess(
    density: Density,
    base: GaussianBase,
    start_count: int,
    rng: np.random.Generator,
    n_draws: int = N_DRAWS,
) -> LocalFit | None:
    """Measure how well a Gaussian fits; None where the density has no mass under it."""
    elbo = evaluate_elbo(density, base, rng, n_draws)
    if not np.isfinite(elbo.value):
        return None
    return LocalFit(GaussianBase(base.mean, base.scale, elbo.value), elbo.variance, start_count)


def laplace_at(
    density: Density, basin: Basin, units: FloatArray
) -> tuple[GaussianBase | None, int]:
    """Gaussian of the curvature at a maximum itself, with Laplace's approximation of the mass.

    Of a curved mode a Gaussian inside has next to no mass, and so has an ELBO; the curvature at the
    maximum does not know of the bend, nor of the mass beyond it.

    Parameters
    ----------
    density : Density
    basin : Basin
    units : ndarray of shape (D,)
        Rough standard deviations.

    Returns
    -------
    peak : GaussianBase or None
        With the log of the mass as ``log_zeta``; None where there is no maximum, but a saddle or a
        slope on which an ascent halted.
    n_gradients : int
    """
    if not basin.converged:
        return None, 0
    found = curvature_at(density, basin.end, units, _AT_MAXIMUM)
    if not found.is_maximum or found.newton_decrement > _MOST_DECREMENT:
        return None, found.n_gradients
    log_mass = basin.value + found.base.log_det_scale + 0.5 * density.dim * LOG_2PI
    return GaussianBase(found.base.mean, found.base.scale, log_mass), found.n_gradients


def refine(
    density: Density,
    start: FloatArray,
    shape: GaussianBase | None,
    coordinates: Coordinates,
    units: FloatArray,
    rng: np.random.Generator,
    most: float = np.inf,
) -> tuple[LocalFit | None, int]:
    """Fit a mode that is no Gaussian, from the best place on the way to it.

    The density's maximum may be far from where the mass is, and without mass, as that of a funnel
    is; an ascent from the prior's or the user's start passes by the mass on the way (Zhang et al.
    2022, "Pathfinder").

    Parameters
    ----------
    density : Density
    start : ndarray of shape (D,)
        From which an ascent leads to it.
    shape : GaussianBase, optional
        From the curvature at its end.
    coordinates : Coordinates
        As for :func:`.ascent.ascend`.
    units : ndarray of shape (D,)
        Rough standard deviations.
    rng : numpy.random.Generator
    most : float
        Gradients; with too few nothing is fitted.

    Returns
    -------
    fit : LocalFit or None
        Without hits.
    n_gradients : int
    """
    # an ascent, the candidates, and what tells how good the fit is
    beside = MOST_GRADIENTS + (len(_CANDIDATES) + 1) * _N_CANDIDATE_DRAWS + _N_REFINED_DRAWS
    if most < beside:
        return None, 0
    path = ascend(density, start[None], coordinates, n_path=_N_PATH)
    candidates = [GaussianBase(path.path[0, i], _FIRST_SCALE * units) for i in _CANDIDATES]
    if shape is not None:
        candidates.append(shape)
    elbos = [evaluate_elbo(density, base, rng, _N_CANDIDATE_DRAWS).value for base in candidates]
    n_gradients = path.n_gradients + len(candidates) * _N_CANDIDATE_DRAWS
    base, n_fit = fit_gaussian(density, candidates[int(np.argmax(elbos))], rng, most - beside)
    fit = assess(density, base, 0, rng, _N_REFINED_DRAWS)
    return fit, n_gradients + n_fit + _N_REFINED_DRAWS


def poorly_fitted_modes(fits: Sequence[LocalFit]) -> tuple[GaussianBase, ...]:
    """Peaks of the modes with poor fits that may have a third of the mass or more.

    Without that of the fit with most mass, from which draws come for certain.

    Parameters
    ----------
    fits : sequence of LocalFit
        Of distinct modes, one at least.
    """
    first = max(fits, key=lambda fit: fit.mass)
    least = logsumexp([fit.most for fit in fits]) + np.log(_MUCH)
    others = [fit for fit in fits if fit is not first and fit.most >= least]
    return tuple(fit.laplace for fit in others if fit.laplace is not None)


def well_fitted_modes(fits: Sequence[LocalFit]) -> tuple[GaussianBase, ...]:
    """Good fits of the heaviest modes, with the log of their mass as ``log_zeta``, by mass.

    Their mass is known, whatever else there is: where log Z is not much more, draws lie in them.

    Parameters
    ----------
    fits : sequence of LocalFit
        Of distinct modes, one at least.
    """
    least = max(fit.mass for fit in fits) + np.log(_LITTLE)
    good = [fit for fit in fits if fit.variance <= GAUSSIAN and fit.mass >= least]
    heaviest = sorted(good, key=lambda fit: fit.mass, reverse=True)[:N_WELL_FITTED]
    return tuple(GaussianBase(fit.base.mean, fit.base.scale, fit.mass) for fit in heaviest)


def combine_local_bases(
    fits: Sequence[GaussianBase], min_weight: float = _MIN_MODE_WEIGHT
) -> GaussianBase:
    """Combine local fits into one Gaussian that is wide enough for every mode.

    Moments are matched (eq. 26 of Graham & Storkey 2017) with weights proportional to
    ``exp(ELBO)``, but each at least ``min_weight``: an ELBO misses log Z by a different number of
    nats in each mode. No coordinate is narrower than in the widest of these fits.

    Parameters
    ----------
    fits : sequence of GaussianBase
        Distinct local fits with their ELBO in ``log_zeta``.
    min_weight : float, default 0.3
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
    if not fits or any(fit.log_zeta is None for fit in fits):
        raise BaseError(
            f"Of {len(fits)} local fits all must have a log_zeta, and there must be one at least: "
            "combining fits takes their ELBOs."
        )
    if len(fits) == 1:
        return fits[0]
    weights = softmax([fit.log_zeta for fit in fits])
    matched = match_moments(fits, np.log(np.maximum(weights, min_weight)))
    return widen(matched, np.stack([fit.standard_deviation for fit in fits]).max(axis=0))
