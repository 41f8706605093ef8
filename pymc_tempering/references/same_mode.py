"""Which component explains a point, and whether two fits or two points are of one mode.

A component explains a point that lies among its draws. Two points are of one mode where the log
density does not dip on the line between them; two fits, where the mass does not dip either. The
mass is the ELBO of Gaussians in between: from one width of a group to another the density may rise
while the mass falls. Everything here takes plain arrays, Gaussians or transport maps.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import chdtri, logsumexp

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.path import Density, density_at
from pymc_tempering.references.local import LocalFit
from pymc_tempering.references.quality import COARSE, GOOD, N_ROUGH, evaluate_elbo
from pymc_tempering.types import FloatArray, IntArray

MAX_DIP = 1.0
"""nats by which the log density may fall between two points of one mode: ascents stop at different
points of a ridge, many of its widths apart."""

MAX_FALL = 3.0
"""nats by which the mass may fall between two fits of one mode: 16 draws of a poor fit are off by
one."""

N_ON_LINE = 17  # points of a line, without its ends

LEAST_DIM = 25
"""Below it no fit hides another three of its scales away: at the worst ratio of scales that takes
2.7 dimensions (``e``) for each squared one."""

N_NEAREST = 3
"""Known modes that one is compared with, each of which may cost a hundred evaluations."""


def owner(fits: Sequence[LocalDensity], z: FloatArray) -> IntArray:
    """Number of the component that explains each row of ``z``, or -1; shape (n,).

    A point is inside a component's ellipsoid of 99.9 % of its draws. Where it is inside several,
    the one of the most mass (``log_zeta``, in nats; 0 without) times density explains it.

    Examples
    --------
    >>> slab, spike = GaussianBase([0.0], [1.0], -1.0), GaussianBase([0.5], [0.001], -2.0)
    >>> owner([slab, spike], np.array([[0.3], [0.5], [9.0]])).tolist()
    [0, 1, -1]
    """
    limit = chdtri(z.shape[1], 1e-3)
    logs = np.full((len(fits), len(z)), -np.inf)
    for row, fit in zip(logs, fits, strict=True):
        inside = (fit.to_base(z) ** 2).sum(axis=1) <= limit
        row[inside] = (fit.log_zeta or 0.0) + fit.log_density(z[inside])
    return np.where(np.isfinite(logs.max(axis=0)), logs.argmax(axis=0), -1)


def unexplained(density: Density, fits: Sequence[LocalDensity], z: FloatArray) -> FloatArray:
    """``log_target`` less the log of the sum of all components, nats at the rows of ``z``."""
    explained = logsumexp([(f.log_zeta or 0.0) + f.log_density(z) for f in fits], axis=0)
    return density_at(density.address, z)[0] - explained


def one_place(fits: Sequence[GaussianBase]) -> bool:
    """Whether all fits are within a standard deviation of the widest one, in every coordinate."""
    widest = max(fits, key=lambda fit: fit.log_det_scale)
    means = np.array([fit.mean for fit in fits])
    return bool((np.abs(means - widest.mean) <= widest.standard_deviation).all())


def hides_one(fits: Sequence[GaussianBase]) -> bool:
    """Whether a fit has no maximum of its own, as another explains its centre.

    Only in many dimensions, where a place says nothing of a mass.
    """
    if fits[0].dim < LEAST_DIM:
        return False
    owners = owner(fits, np.array([fit.mean for fit in fits]))
    return bool((owners != np.arange(len(fits))).any())


def along(density: Density, a: FloatArray, b: FloatArray, n_points: int = N_ON_LINE) -> FloatArray:
    """Log densities on the line from a to b, both included, shape (n_points + 2,), in nats.

    Outside of the support they are ``-inf``.
    """
    t = np.linspace(0.0, 1.0, n_points + 2)[:, None]
    values = density_at(density.address, (1.0 - t) * a + t * b)[0]
    return np.where(np.isnan(values), -np.inf, values)


def joined(density: Density, a: FloatArray, b: FloatArray) -> bool:
    """Whether the log density dips by one nat at most between two points; 19 gradients."""
    return dip(along(density, a, b)) <= MAX_DIP


def dip(values: FloatArray) -> float:
    """Lower end of a line less the lowest point between, at least 0; inf outside the support."""
    lower = min(values[0], values[-1])
    return max(0.0, float(lower - values[1:-1].min())) if np.isfinite(lower) else np.inf


def same_mode(
    density: Density, a: LocalFit, b: LocalFit, rng: np.random.Generator
) -> tuple[bool, int]:
    """Whether two fits are of one mode, and the evaluations that it took to say so.

    1. Means within a pooled standard deviation: one mode, unless both fit well and one has three
       nats more density on its own draws, as a spike inside a slab has.
    2. Two well fitted modes that are further apart: two. A narrow one in the flank of a wide one
       has no dip before it.
    3. Otherwise they are one where neither the density dips between the means nor the ELBO on the
       geodesic between the fits. A fit whose own maximum is behind a dip may have left it to cover
       both modes; it stays as long as it is no worse than coarse, for its mode has no other.
    """
    both_good = max(a.variance, b.variance) <= GOOD
    if distance(a.base, b.base) <= 1.0:
        unlike = both_good and max(_excess(a, b), _excess(b, a)) > MAX_FALL
        if not unlike:
            return True, 0
    if both_good:
        return False, 0
    n = N_ON_LINE + 2
    if not joined(density, a.base.mean, b.base.mean):
        return False, n
    if a.laplace is not None and a.variance <= COARSE:
        n += N_ON_LINE + 2
        if not joined(density, a.laplace.mean, b.base.mean):
            return False, n
    # both ends, and three between them
    first, *inside, last = (
        evaluate_elbo(density, between, rng, N_ROUGH).value
        for between in geodesic(a.base, b.base, np.linspace(0.0, 1.0, 5))
    )
    return bool(min(inside) >= min(first, last) - MAX_FALL), n + 5 * N_ROUGH


def which_mode(
    density: Density, fit: LocalFit, known: Sequence[LocalFit], rng: np.random.Generator
) -> tuple[int | None, int]:
    """Number of the fit of the same mode among the three nearest, and the evaluations it took."""
    n_evaluations = 0
    distances = [distance(fit.base, other.base) for other in known]
    for i in np.argsort(distances, kind="stable")[:N_NEAREST]:
        same, n = same_mode(density, fit, known[i], rng)
        n_evaluations += n
        if same:
            return int(i), n_evaluations
    return None, n_evaluations


def merge(
    density: Density, fits: Sequence[LocalFit], rng: np.random.Generator, orbit: Orbit | None = None
) -> tuple[list[LocalFit], int]:
    """Put fits of the same mode together: the best ELBO stays, with the start counts of all.

    And with the highest curvature: a fit may have left a place that holds nothing for the mode.

    With an orbit, images nearest to the others are compared. Returns the fits that stay, the best
    ELBO first, and the evaluations that it took.
    """
    kept: list[LocalFit] = []
    n_evaluations = 0
    for fit in sorted(fits, key=lambda fit: fit.elbo, reverse=True):
        if orbit is not None and kept:
            places = np.array([other.base.mean for other in kept])
            _, [which] = orbit.nearest(fit.base.mean[None], places, fit.base)
            fit = fit._replace(base=orbit.of_gaussian(fit.base)[which])
        same, n = which_mode(density, fit, kept, rng)
        n_evaluations += n
        if same is None:
            kept.append(fit)
        else:
            first = kept[same]
            kept[same] = first._replace(
                start_count=first.start_count + fit.start_count,
                searches=first.searches | fit.searches,
                laplace=max(first.laplace, fit.laplace, key=_log_mass),
            )
    return kept, n_evaluations


def _log_mass(laplace: GaussianBase | None) -> float:
    return -np.inf if laplace is None or laplace.log_zeta is None else laplace.log_zeta


def n_places(fits: Sequence[GaussianBase]) -> int:
    """Count fits of distinct places, a pooled standard deviation apart in some coordinate."""
    kept: list[GaussianBase] = []
    for fit in fits:
        if all(distance(fit, other) > 1.0 for other in kept):
            kept.append(fit)
    return len(kept)


def distance(a: GaussianBase, b: GaussianBase) -> float:
    """Largest difference of two means: in pooled standard deviations, and where both are whitened.

    Two ridges side by side are apart in no coordinate, but in that which lies across them.
    """
    pooled = np.sqrt(0.5 * (a.standard_deviation**2 + b.standard_deviation**2))
    across = min(np.abs(base.to_base(mean[None])).max()
                 for base, mean in ((a, b.mean), (b, a.mean)))  # fmt: skip
    return float(max(np.max(np.abs(a.mean - b.mean) / pooled), across))


def _excess(a: LocalFit, b: LocalFit) -> float:
    """Nats by which a has more density than b, on average over draws of a."""
    traces = (solve_triangular(b.base.matrix, a.base.matrix, lower=True) ** 2).sum()
    away = (b.base.to_base(a.base.mean[None]) ** 2).sum()
    log_ratio = b.base.log_det_scale - a.base.log_det_scale
    return float(a.mass - b.mass + log_ratio + 0.5 * (traces + away - a.base.dim))


def geodesic(a: GaussianBase, b: GaussianBase, shares: FloatArray) -> Iterator[GaussianBase]:
    """Gaussians on the geodesic from one to another, whatever the units of the coordinates.

    Where the one is round the logarithms of the other's axes change in proportion.
    """
    means = [(1.0 - t) * a.mean + t * b.mean for t in shares]
    if a.is_diagonal and b.is_diagonal:
        ratio = b.scale / a.scale
        yield from (
            GaussianBase(mean, a.scale * ratio**t) for mean, t in zip(means, shares, strict=True)
        )
        return
    first = a.matrix
    axes, ratios, _ = np.linalg.svd(solve_triangular(first, b.matrix, lower=True))
    for t, mean in zip(shares, means, strict=True):
        yield GaussianBase.from_root(mean, first @ axes * ratios**t)
