"""Local fits: from what an ascent found to a Gaussian, and which of them are of the same mode."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.basins import MAX_DIP, Basin
from pymc_tempering.references.elbo import dip_between, evaluate_elbo
from pymc_tempering.references.full_rank import fit_gaussian
from pymc_tempering.types import FloatArray

__all__ = ["GAUSSIAN", "N_DRAWS", "LocalFit", "assess", "merge", "refine"]

GAUSSIAN = 0.25
"""Variance of ``log_target - log_base`` under the base, in squared nats, below which a fit is good:
its ELBO then misses about an eighth of a nat."""

N_DRAWS, _N_REFINED_DRAWS, _N_CANDIDATE_DRAWS = 100, 400, 16
_N_PATH = 64
_CANDIDATES = (0, 1, 2, 4, 8, 16, 32, 63)
_FIRST_SCALE = 0.1
_MOST_HALF_VARIANCE = 10.0
_N_NEAREST = 3


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
    """

    base: GaussianBase
    variance: float
    hits: int

    @property
    def elbo(self) -> float:
        """The ELBO, in nats."""
        assert self.base.log_zeta is not None
        return self.base.log_zeta

    @property
    def mass(self) -> float:
        """ELBO plus what it misses, to second order: log of the mode's mass, in nats."""
        return self.elbo + min(0.5 * self.variance, _MOST_HALF_VARIANCE)


def assess(
    density: Density,
    base: GaussianBase,
    hits: int,
    rng: np.random.Generator,
    n_draws: int = N_DRAWS,
) -> LocalFit | None:
    """Measure how well a Gaussian fits; None where the density has no mass under it."""
    elbo = evaluate_elbo(density, base, rng, n_draws)
    if not np.isfinite(elbo.value):
        return None
    return LocalFit(GaussianBase(base.mean, base.scale, elbo.value), elbo.variance, hits)


def refine(
    density: Density,
    basin: Basin,
    shape: GaussianBase | None,
    coordinates: Coordinates,
    units: FloatArray,
    rng: np.random.Generator,
) -> tuple[LocalFit | None, int]:
    """Fit a mode that is no Gaussian, from the best place on the way to it.

    The density's maximum may be far from where the mass is, and without mass, as that of a funnel
    is; an ascent from the prior's or the user's start passes by the mass on the way (Zhang et al.
    2022, "Pathfinder").

    Parameters
    ----------
    density : Density
    basin : Basin
    shape : GaussianBase, optional
        From the curvature at its end.
    coordinates : Coordinates
        As for :func:`.ascent.ascend`.
    units : ndarray of shape (D,)
        Rough standard deviations.
    rng : numpy.random.Generator

    Returns
    -------
    fit : LocalFit or None
    n_gradients : int
    """
    path = ascend(density, basin.start[None], coordinates, n_path=_N_PATH)
    candidates = [GaussianBase(path.path[i], _FIRST_SCALE * units) for i in _CANDIDATES]
    if shape is not None:
        candidates.append(shape)
    elbos = [evaluate_elbo(density, base, rng, _N_CANDIDATE_DRAWS).value for base in candidates]
    n_gradients = path.n_gradients + len(candidates) * _N_CANDIDATE_DRAWS
    base, n_fit = fit_gaussian(density, candidates[int(np.argmax(elbos))], rng)
    fit = assess(density, base, basin.hits, rng, _N_REFINED_DRAWS)
    return fit, n_gradients + n_fit + _N_REFINED_DRAWS


def merge(density: Density, fits: Sequence[LocalFit]) -> list[LocalFit]:
    """Put fits of the same mode together: the best ELBO stays, with the hits of all.

    Two fits are of one mode if no coordinate of their means differs by more than a pooled standard
    deviation, or if the log density has no dip of more than one nat on the straight line between
    their means; the latter is looked at for the three nearest.

    Parameters
    ----------
    density : Density
    fits : sequence of LocalFit

    Returns
    -------
    list of LocalFit
        The best ELBO first.
    """
    kept: list[LocalFit] = []
    for fit in sorted(fits, key=lambda fit: fit.elbo, reverse=True):
        distances = [_distance(fit.base, other.base) for other in kept]
        for i in np.argsort(distances, kind="stable")[:_N_NEAREST]:
            dip = dip_between(density, fit.base.mean, kept[i].base.mean)
            if distances[i] <= 1.0 or dip <= MAX_DIP:
                kept[i] = kept[i]._replace(hits=kept[i].hits + fit.hits)
                break
        else:
            kept.append(fit)
    return kept


def _distance(a: GaussianBase, b: GaussianBase) -> float:
    pooled = np.sqrt(0.5 * (a.standard_deviation**2 + b.standard_deviation**2))
    return float(np.max(np.abs(a.mean - b.mean) / pooled))
