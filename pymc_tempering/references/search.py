"""The search for modes: local fits from dispersed starts, and particles annealed from afar.

A start leads to a mode only from within its basin, and the basin of a narrow mode beside a wide one
is small. Tempered, the narrow mode is wide: particles that are annealed from a Gaussian over the
whole region end in every mode about in proportion to its weight.
"""

import contextlib
from collections.abc import Sequence

import numpy as np

from pymc_tempering.engine.ensembles.annealing_moves import (
    TRANSITIONS,
    AnnealingMoves,
    AnnealingTally,
)
from pymc_tempering.engine.ensembles.annealing_runs import anneal_ensemble
from pymc_tempering.engine.explorers.adaptation import new_dual_averaging
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.engine.path.tempered import Density, TemperedPath
from pymc_tempering.engine.tally import new_counts
from pymc_tempering.errors import BaseError
from pymc_tempering.references.elbo import dip_between, has_finite_density
from pymc_tempering.references.fit import local_fits
from pymc_tempering.references.local import combine_local_bases, drop_duplicates, fit_each
from pymc_tempering.references.watch import Report, Tally, unwatched
from pymc_tempering.types import FloatArray

__all__ = ["anneal_from_afar", "find_modes", "points_apart", "search_beyond"]

N_STARTS, N_STARTS_WITHOUT_PRIOR, MOST_STARTS = 19, 31, 61
"""Starts of the local fits: at least, and at most while new modes are found. Jitter alone, with 19
starts, missed a mode of ``testing.asymmetric_bimodal`` in 5 of 80 chains."""

# An ELBO says little about the weight of a mode, and a base that is too wide costs less than one
# that leaves a mode out.
_MIN_MODE_WEIGHT = 0.3

# nats below the best ELBO at which a fit no longer counts as a mode
_ELBO_WINDOW = 10.0

N_PARTICLES, N_LEVELS = 1024, 32
"""33,000 gradients, as many as the local fits take; see ``benchmarks/mode_search.py``."""

_N_ROWS = 16
_FIRST_STEP = 0.2

WIDTH = 8.0
"""Standard deviation of the Gaussian, in units of the larger of 1 and that of the fits."""

MOST_FITS = 8
"""With more modes than these, replicas travel among them and meet the others."""

# of the log density on the line to every known mode; banana-shaped posteriors have some
_MIN_DIP = 3.0

_FIRST_BETA = 1e-3


def find_modes(
    density: Density,
    start: FloatArray,
    rng: np.random.Generator,
    prior_points: FloatArray | None = None,
    n_starts: int | None = None,
    report: Report = unwatched,
) -> tuple[list[GaussianBase], GaussianBase]:
    """Fit every mode that can be found, and combine the fits into one Gaussian.

    Parameters
    ----------
    density, start, rng
        As for :func:`pymc_tempering.references.advi.run_advi`.
    prior_points : array of shape (n, D), optional
        Draws of the prior, further starts; with none of them there are more jittered ones.
    n_starts : int, optional
        Number of starts that are no draws of the prior. By default 19, or 31 without a prior, and
        up to 61 while new modes are found.
    report : callable
        See :data:`pymc_tempering.references.watch.Report`.

    Returns
    -------
    fits : list of GaussianBase
        Distinct ones, within 10 nats of the best ELBO.
    anchor : GaussianBase
        Their combination by matched moments, each with a weight of at least 0.3 before they are
        normalised.

    Raises
    ------
    BaseError
        If no fit succeeded.
    """
    has_prior = prior_points is not None and len(prior_points) > 0
    fits, _ = local_fits(
        density, start, rng, n_starts or (N_STARTS if has_prior else N_STARTS_WITHOUT_PRIOR),
        most_starts=n_starts or MOST_STARTS, prior_points=prior_points, report=report,
    )  # fmt: skip
    fits = _within_window(fits)
    anchor = combine_local_bases(fits, window=_ELBO_WINDOW, min_weight=_MIN_MODE_WEIGHT)
    # a generator of its own: where it finds nothing, draws are what they were without it
    [search_rng] = rng.spawn(1)
    found = search_beyond(density, fits, anchor, search_rng, report)
    if len(found) > len(fits):
        fits = _within_window(found)
        anchor = combine_local_bases(fits, window=_ELBO_WINDOW, min_weight=_MIN_MODE_WEIGHT)
    return fits, anchor


def search_beyond(
    density: Density,
    fits: Sequence[GaussianBase],
    anchor: GaussianBase,
    rng: np.random.Generator,
    report: Report = unwatched,
) -> list[GaussianBase]:
    """Add to local fits those of modes that annealing finds beyond them.

    Parameters
    ----------
    density : Density
        The target's compiled log density and gradient.
    fits : sequence of GaussianBase
        Distinct local fits.
    anchor : GaussianBase
        Their combination.
    rng : numpy.random.Generator
    report : callable
        See :data:`pymc_tempering.references.watch.Report`.

    Returns
    -------
    list of GaussianBase
        The same fits where nothing new was found.
    """
    if len(fits) > MOST_FITS:
        return list(fits)
    tally = Tally(report, "search for modes", 1)
    ends = anneal_from_afar(density, anchor, rng)
    tally.add()
    starts = points_apart(density, ends, np.array([fit.mean for fit in fits]))
    if not len(starts):
        return list(fits)
    new = []
    tally = Tally(report, "fits of modes found", len(starts))
    with contextlib.suppress(BaseError):
        each = fit_each(density, starts, rng, n_iterations=1000, on_fit=tally.add)
        new = [fit.base for fit in each]
    return drop_duplicates([*fits, *new], density=density)


def anneal_from_afar(
    density: Density, anchor: GaussianBase, rng: np.random.Generator, n_particles: int = N_PARTICLES
) -> FloatArray:
    """Ends of particles annealed from a Gaussian eight times as wide as the known modes.

    Step sizes adapt from particle to particle, so the ends are no draws of the target.

    Parameters
    ----------
    density : Density
    anchor : GaussianBase
        Location and scale of the known modes.
    rng : numpy.random.Generator
    n_particles : int, default 1024

    Returns
    -------
    ndarray of shape (n, D)
        ``z``; particles that began outside the support are left out.
    """
    sd = WIDTH * np.maximum(1.0, anchor.standard_deviation)
    coordinates = Coordinates.of(GaussianBase(anchor.mean, sd))
    betas = np.concatenate([[0.0], np.geomspace(_FIRST_BETA, 1.0, N_LEVELS - 1)])
    first = np.full(_N_ROWS, _FIRST_STEP)
    rows = np.column_stack([new_dual_averaging(first), first])
    tally = AnnealingTally(np.zeros(N_LEVELS), new_counts(), rows, target_accept=0.65)
    moves = AnnealingMoves(
        betas, np.full(N_LEVELS, _FIRST_STEP), n_leapfrog=1,
        kind=TRANSITIONS.index("hamiltonian"), short_steps=True,
    )  # fmt: skip
    ends, log_weights = np.empty((n_particles, anchor.dim)), np.empty(n_particles)
    path = TemperedPath(density, coordinates)
    particle = new_replicas(path.view, np.zeros((1, anchor.dim)))
    anneal_ensemble(False, path.view, moves, particle, ends, log_weights, tally, rng)
    return coordinates.from_base(ends[np.isfinite(log_weights)])


def points_apart(
    density: Density, points: FloatArray, known: FloatArray, most: int = 6
) -> FloatArray:
    """Points from which no straight way to a known mode leads without a dip of 3 nats.

    Parameters
    ----------
    density : Density
    points : ndarray of shape (n, D)
    known : ndarray of shape (m, D)
    most : int, default 6

    Returns
    -------
    ndarray of shape (k, D)
        Of each group of such points the first one, at most `most`.
    """
    chosen: list[FloatArray] = []
    for point in points:
        if len(chosen) == most:
            break
        if has_finite_density(density, point) and all(
            dip_between(density, point, mode) > _MIN_DIP for mode in (*known, *chosen)
        ):
            chosen.append(point)
    return np.array(chosen).reshape(-1, points.shape[1])


def _within_window(fits: list[GaussianBase]) -> list[GaussianBase]:
    elbos = np.array([fit.log_zeta for fit in fits], dtype=np.float64)
    return [fits[i] for i in np.flatnonzero(elbos >= elbos.max() - _ELBO_WINDOW)]
