"""Local fits: from what an ascent found to a Gaussian, and how well that fits."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp, softmax

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.path import Density
from pymc_tempering.errors import BaseError
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.references.ascent import MOST_GRADIENTS, ascend
from pymc_tempering.references.curvature import curvature_at
from pymc_tempering.references.fit import match_moments, widen
from pymc_tempering.references.full_rank import fit_gaussian
from pymc_tempering.references.quality import GOOD, N_DRAWS, N_MANY, N_ROUGH, evaluate_elbo
from pymc_tempering.results.statistics import N_WELL_FITTED
from pymc_tempering.types import FloatArray

LEAST_SHARE = 0.02
"""Of the largest mass of a mode, below which one matters to no log Z."""

_CANDIDATES = (0, 1, 2, 4, 8, 16, 32, 63)
"""Steps of an ascent after which a fit may begin."""


class LocalFit(NamedTuple):
    """A Gaussian near a mode, with its ELBO as ``log_zeta``, in nats.

    ``variance`` is V (see :mod:`.quality`); ``start_count`` the starts that led to the mode, and
    ``searches`` one bit for each search of which one did. A poorly fitted mode has a Laplace
    approximation at its maximum, too.
    """

    base: GaussianBase
    variance: float
    start_count: int = 0
    laplace: GaussianBase | None = None
    searches: int = 0

    @property
    def elbo(self) -> float:
        """The ELBO, in nats."""
        assert self.base.log_zeta is not None
        return self.base.log_zeta

    @property
    def mass(self) -> float:
        """Log of the mode's mass in nats: the ELBO and half of V, which it misses.

        Ten nats at most: of a V beyond that nothing is known.
        """
        return self.elbo + min(0.5 * self.variance, 10.0)

    @property
    def most(self) -> float:
        """What the mass may be: the larger of :attr:`mass` and Laplace's approximation, in nats."""
        if self.laplace is None or self.laplace.log_zeta is None:
            return self.mass
        return max(self.mass, self.laplace.log_zeta)

    @property
    def weighted(self) -> GaussianBase:
        """The Gaussian with the log of its mass as ``log_zeta``."""
        return GaussianBase(self.base.mean, self.base.scale, self.mass)


class Shape(NamedTuple):
    """What a fit of a better shape comes to: None where the old one stays, and V of what stays.

    ``needs_levels`` is whether that is too poor for a path without levels, and ``funnel_depth`` is
    in nats, both as far as a run has shown.
    """

    shape: LocalDensity | None
    variance: float
    n_gradients: int
    funnel_depth: float = 0.0
    needs_levels: bool = False


def assess(
    density: Density, base: GaussianBase, rng: np.random.Generator, n_draws: int = N_DRAWS,
    trimmed: float = 0.0,
) -> LocalFit | None:  # fmt: skip
    """Measure how well a Gaussian fits; None where the density has no mass under it.

    A share ``trimmed`` of the draws says nothing of the mass (:func:`.quality.evaluate_elbo`).
    """
    elbo = evaluate_elbo(density, base, rng, n_draws, trimmed)
    if not np.isfinite(elbo.value):
        return None
    return LocalFit(GaussianBase(base.mean, base.scale, elbo.value), elbo.variance)


def laplace_at(
    density: Density, end: FloatArray, value: float, units: FloatArray
) -> tuple[GaussianBase | None, int]:
    """Laplace approximation at a maximum of log density ``value``, and the gradients it took.

    A Gaussian inside a curved mode has next to no mass, and so has an ELBO; the curvature at the
    maximum does not see the bend, nor the mass beyond it. None at a saddle, or on a slope, where a
    Newton step promises more than a nat: at a maximum it promises a hundredth or less, and ten to a
    million where an ascent halted on the slope of a funnel.
    """
    found = curvature_at(density, end, units, fall=1e-3)
    if not found.is_maximum or found.newton_decrement > 1.0:
        return None, found.n_gradients
    log_mass = value + found.base.log_det_scale + 0.5 * density.dim * LOG_2PI
    return GaussianBase(found.base.mean, found.base.scale, log_mass), found.n_gradients


def refine(
    density: Density, start: FloatArray, shape: GaussianBase | None, coordinates: Coordinates,
    units: FloatArray, rng: np.random.Generator, most: float = np.inf,
    known: Sequence[GaussianBase] = (),
) -> tuple[LocalFit | None, int]:  # fmt: skip
    """Fit a mode that is no Gaussian, from the best place on the ascent path to it.

    The density's maximum may be far from the mass, as that of a funnel is; an ascent passes by the
    mass on its way (Zhang et al. 2022, "Pathfinder"). ``shape`` is a further candidate to begin
    with, from the curvature at the end; ``known`` are fits at which it ends. Returns the fit, None
    with too few gradients left (``most``), and the gradients that it took.
    """
    # an ascent, the candidates, and what tells how good the fit is
    spare = MOST_GRADIENTS + (len(_CANDIDATES) + 1) * N_ROUGH + N_MANY
    if most < spare:
        return None, 0
    path = ascend(density, start[None], coordinates, n_path=_CANDIDATES[-1] + 1)
    candidates = [GaussianBase(path.path[0, i], 0.1 * units) for i in _CANDIDATES]
    if shape is not None:
        candidates.append(shape)
    elbos = [evaluate_elbo(density, base, rng, N_ROUGH).value for base in candidates]
    n_gradients = path.n_gradients + len(candidates) * N_ROUGH
    base, n_fit = fit_gaussian(density, candidates[int(np.argmax(elbos))], rng, most - spare, known)
    fit = assess(density, base, rng, N_MANY)
    return fit, n_gradients + n_fit + N_MANY


def holding(fits: Sequence[LocalFit], nats: float) -> list[LocalFit]:
    """Fits whose mass may be within so many nats of the best, by what fits or curvatures say.

    Each with its like: of 800 values every curvature may be 30 nats above what its fit says.
    """
    least, highest = max(fit.elbo for fit in fits) - nats, max(fit.most for fit in fits) - nats
    return [fit for fit in fits if fit.mass >= least or fit.most >= highest]


def comparable(fits: Sequence[LocalFit], nats: float) -> tuple[GaussianBase, ...]:
    """Gaussian of each fit; the curvature's where that alone says that it holds anything.

    A fit that left its mode, and is more than so many nats below the best, says less of it. The log
    of the curvature's mass is below the best ELBO by what it is below the highest of its like.
    """
    best, highest = max(fit.elbo for fit in fits), max(fit.most for fit in fits)
    made = []
    for fit in fits:
        base, at_top = fit.base, fit.laplace
        if fit.mass < best - nats and at_top is not None:
            base = GaussianBase(at_top.mean, at_top.scale, best + fit.most - highest)
        made.append(base)
    return tuple(made)


def poorly_fitted_modes(fits: Sequence[LocalFit]) -> tuple[GaussianBase, ...]:
    """Laplace approximations of poorly fitted modes that may have a third of the mass or more.

    They are wrong by factors: of 80 modes of two sinusoids two or three were given a tenth and hold
    nothing. Without that of the fit with most mass, from which draws come for certain.
    """
    first = max(fits, key=lambda fit: fit.mass)
    least = logsumexp([fit.most for fit in fits]) + np.log(1 / 3)
    others = [fit for fit in fits if fit is not first and fit.most >= least]
    return tuple(fit.laplace for fit in others if fit.laplace is not None)


def well_fitted_modes(
    fits: Sequence[LocalFit], orbit: Orbit | None = None
) -> tuple[GaussianBase, ...]:
    """Good fits of the heaviest modes, with the log of their mass as ``log_zeta``, by mass.

    Their mass is known, whatever else there is: where log Z is not much more, draws lie in them. A
    mode with less than `LEAST_SHARE` of the largest mass is none of them. With an orbit the mass is
    that of all images of the mode.
    """
    least = max(fit.mass for fit in fits) + np.log(LEAST_SHARE)
    good = [fit for fit in fits if fit.variance <= GOOD and fit.mass >= least]
    heaviest = sorted(good, key=lambda fit: fit.mass, reverse=True)[:N_WELL_FITTED]
    n_images = 1 if orbit is None else orbit.size
    return tuple(
        GaussianBase(fit.base.mean, fit.base.scale, fit.mass + np.log(n_images)) for fit in heaviest
    )


def with_images(fits: Sequence[GaussianBase], orbit: Orbit | None) -> tuple[GaussianBase, ...]:
    """Return fits with all of their images, whose masses count as often."""
    if orbit is None:
        return tuple(fits)
    return tuple(image for fit in fits for image in orbit.of_gaussian(fit))


def combine_local_bases(fits: Sequence[GaussianBase], min_weight: float = 0.3) -> GaussianBase:
    """Combine local fits into one Gaussian that is wide enough for every mode.

    Moments are matched (eq. 26 of Graham & Storkey 2017) with weights proportional to
    ``exp(ELBO)``, but each at least ``min_weight``: an ELBO misses log Z by a different number of
    nats in each mode. No coordinate is narrower than in the widest of these fits.

    Parameters
    ----------
    fits : sequence of GaussianBase
        Distinct local fits with their ELBO in ``log_zeta``.
    min_weight : float, default 0.3
        Before normalisation. A base that is too wide costs less than one that leaves a mode out.

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
