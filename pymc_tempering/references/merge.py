"""Which local fits are of the same mode."""

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.linalg import solve_triangular

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.references.basins import MAX_DIP
from pymc_tempering.references.elbo import dip_between, evaluate_elbo
from pymc_tempering.references.local import FAIR, GAUSSIAN, LocalFit
from pymc_tempering.types import FloatArray

__all__ = ["merge", "n_places", "same_mode"]

_N_NEAREST = 3

# nats that an ELBO may fall between two fits of one mode, of which 16 draws are off by one if poor,
# or that one fit may know more than another
_MAX_FALL = 3.0
_COVERS_BOTH = 2.0 * FAIR
"""Variance up to which a fit whose mode has a top of its own stays beside that of another mode,
which it may have left its own for: without it the one would have no fit."""

_N_ON_LINE, _N_BETWEEN, _N_DRAWS = 17, 3, 16


def merge(
    density: Density, fits: Sequence[LocalFit], rng: np.random.Generator
) -> tuple[list[LocalFit], int]:
    """Put fits of the same mode together: the best ELBO stays, with the hits of all.

    Two fits are of one mode if no coordinate of their means differs by more than a pooled standard
    deviation, nor one in which their covariances are unit; or if one of them at least is poor, the
    log density has no dip of more than one nat on the straight line between their means, and the
    ELBO of Gaussians between them has none of more than three: the mouth of a funnel may be as far
    from its neck as from another mode, and between two widths of a scale's prior the density rises
    while the mass falls. The latter is looked at for the three nearest.

    A poor fit that has a top of its own behind a dip may have left it to cover both modes, and
    stays, unless it says nothing of either.

    Good fits of two modes stay apart: of a narrow mode in the flank of a wide one, before which
    there is no dip, and of one in the middle of it, where either has three nats more density than
    the other on its own draws.

    Parameters
    ----------
    density : Density
    fits : sequence of LocalFit
    rng : numpy.random.Generator

    Returns
    -------
    kept : list of LocalFit
        The best ELBO first.
    n_evaluations : int
    """
    kept: list[LocalFit] = []
    n_evaluations = 0
    for fit in sorted(fits, key=lambda fit: fit.elbo, reverse=True):
        same, n = same_mode(density, fit, kept, rng)
        n_evaluations += n
        if same is None:
            kept.append(fit)
        else:
            first = kept[same]
            kept[same] = first._replace(
                start_count=first.start_count + fit.start_count,
                searches=first.searches | fit.searches,
            )
    return kept, n_evaluations


def same_mode(
    density: Density, fit: LocalFit, known: Sequence[LocalFit], rng: np.random.Generator
) -> tuple[int | None, int]:
    """Look for a fit of the same mode, as :func:`merge` does, among the three nearest.

    Returns
    -------
    number : int or None
    n_evaluations : int
    """
    distances = [_distance(fit.base, other.base) for other in known]
    n_evaluations = 0
    for i in np.argsort(distances, kind="stable")[:_N_NEAREST]:
        if distances[i] <= 1.0 and not _are_unlike(fit, known[i]):
            return int(i), n_evaluations
        joined, n = _joined(density, fit, known[i], rng)
        n_evaluations += n
        if joined:
            return int(i), n_evaluations
    return None, n_evaluations


def n_places(fits: Sequence[LocalFit]) -> int:
    """Count fits of distinct places, a pooled standard deviation apart in some coordinate.

    Examples
    --------
    >>> at = [LocalFit(GaussianBase([x], [1.0], -1.0), 0.1, 1) for x in (0.0, 0.7, 3.0)]
    >>> n_places(at)
    2
    """
    kept: list[LocalFit] = []
    for fit in fits:
        if all(_distance(fit.base, other.base) > 1.0 for other in kept):
            kept.append(fit)
    return len(kept)


def _are_unlike(a: LocalFit, b: LocalFit) -> bool:
    """Whether good fits of one place, as of a spike inside a slab, say nothing of one another."""
    if max(a.variance, b.variance) > GAUSSIAN:
        return False
    return max(_unexplained(a, b), _unexplained(b, a)) > _MAX_FALL


def _unexplained(a: LocalFit, b: LocalFit) -> float:
    """Nats by which one fit has more density than another, on average over its draws."""
    traces = (solve_triangular(b.base.matrix, a.base.matrix, lower=True) ** 2).sum()
    away = (b.base.to_base(a.base.mean[None]) ** 2).sum()
    log_ratio = b.base.log_det_scale - a.base.log_det_scale
    return float(a.mass - b.mass + log_ratio + 0.5 * (traces + away - a.base.dim))


def _joined(
    density: Density, a: LocalFit, b: LocalFit, rng: np.random.Generator
) -> tuple[bool, int]:
    """Whether two fits are of one mode, and the evaluations that it took to say so."""
    if max(a.variance, b.variance) <= GAUSSIAN:
        return False, 0
    n = _N_ON_LINE + 2
    if dip_between(density, a.base.mean, b.base.mean, _N_ON_LINE) > MAX_DIP:
        return False, n
    if a.laplace is not None and a.variance <= _COVERS_BOTH:
        n += _N_ON_LINE + 2
        if dip_between(density, a.laplace.mean, b.base.mean, _N_ON_LINE) > MAX_DIP:
            return False, n
    first, *inside, last = (
        evaluate_elbo(density, between, rng, _N_DRAWS).value
        for between in _between(a.base, b.base, np.linspace(0.0, 1.0, _N_BETWEEN + 2))
    )
    n += (_N_BETWEEN + 2) * _N_DRAWS
    return bool(min(inside) >= min(first, last) - _MAX_FALL), n


def _between(a: GaussianBase, b: GaussianBase, shares: FloatArray) -> Iterator[GaussianBase]:
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


def _distance(a: GaussianBase, b: GaussianBase) -> float:
    """Largest of the differences of two means: by pooled deviations, and where both are whitened.

    Two ridges side by side are apart in no coordinate, and in that which lies across them.
    """
    pooled = np.sqrt(0.5 * (a.standard_deviation**2 + b.standard_deviation**2))
    across = min(np.abs(base.to_base(mean[None])).max()
                 for base, mean in ((a, b.mean), (b, a.mean)))  # fmt: skip
    return float(max(np.max(np.abs(a.mean - b.mean) / pooled), across))
