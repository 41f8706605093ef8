"""Better shapes for fits that are no Gaussians, and which other fits these make needless.

Where a fit's own draws show by their gradients what is missing, that mends it
(:mod:`.third_order`); else a short run in its mode may show it (:mod:`.local_runs`).
"""

from dataclasses import replace

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.path import Density, density_at
from pymc_tempering.engine.path.transport import TransportMap
from pymc_tempering.numerics import pareto_k
from pymc_tempering.references.diffuse import MOST_FITS
from pymc_tempering.references.local import Shape, assess, combine_local_bases, with_images
from pymc_tempering.references.local_runs import map_by_run
from pymc_tempering.references.map_of_draws import MOST_DIM
from pymc_tempering.references.prepared import Prepared, Report, centre, unwatched
from pymc_tempering.references.quality import (
    COARSE,
    EXACT,
    GAIN,
    GOOD,
    N_MANY,
    evaluate_elbo,
    log_weights,
)
from pymc_tempering.references.same_mode import MAX_FALL, owner, unexplained
from pymc_tempering.references.starts import inside
from pymc_tempering.references.third_order import MOST_DIM as MOST_DIM_OF_THIRD_ORDER
from pymc_tempering.references.third_order import third_order_fit

MAX_TAIL_INDEX = 0.5
"""Pareto k of the weights of a shape of third order up to which it is kept. It sees what its own
draws meet, and these do not meet a centred hierarchy's funnel, nor the ends of a ridge. See "Shapes
of third order" in benchmarks/README.md."""

MOST_MENDED = 16
"""Fits that are looked at, and mended by their gradients as long as all of it takes no more than
half of what the search took."""

NEEDLESS = 7.0
"""nats of mass below a map at which a Gaussian fit goes: pieces of a ridge were kept since they are
as good as the one that was mapped. A thousandth, which what is wide covers."""

MOST_DROP = 4.0 * np.log(10.0)
"""Nats that a heavy tail may lose between ten and a hundred standard deviations: those of a t of
three degrees of freedom. An exponential loses ninety times what it loses in the first."""

_N_TAIL = 1000
"""Draws for Pareto k, and for moments of a map."""


def fit_maps(
    density: Density, found: Prepared, rng: np.random.Generator, *, most: float = np.inf,
    report: Report = unwatched,
) -> Prepared:  # fmt: skip
    """Give fits better shapes where they need them, and drop those that a map makes needless.

    With fewer than 10,000 gradients left of ``most``, or after two runs without a shape, no further
    fit is looked at.
    """
    if density.dim > MOST_DIM:
        return found
    fits, shapes = list(found.fits), list[LocalDensity](found.fits)
    maps = _Maps(density, found.orbit)
    n_gradients = n_failures = 0
    needs_levels, funnel_depth = found.needs_levels, 0.0
    for i, fit in enumerate(found.fits[:MOST_MENDED]):
        if most - n_gradients < N_MANY + 10_000 or n_failures == 2:
            break
        if i >= MOST_FITS and n_gradients > found.search.n_gradients / 2:
            break
        report("shapes of modes", i, len(found.fits[:MOST_MENDED]))
        if maps.explain(fit):
            continue
        # with images few draws of a chain mend all, and a run takes as much as the search
        may_run = i < MOST_FITS and found.orbit is None
        better = _shape_of(density, fit, rng, most - n_gradients, may_run=may_run)
        n_gradients += better.n_gradients
        n_failures += better.needs_levels and better.shape is None and better.variance > COARSE
        needs_levels |= better.needs_levels
        funnel_depth = max(funnel_depth, better.funnel_depth)
        if isinstance(better.shape, GaussianBase):
            shapes[i] = fits[i] = better.shape
        # a run may have left for a mode that has its shape
        elif better.shape is not None and not maps.explain(better.shape):
            shapes[i] = maps.add(better.shape, rng)
            # the Gaussian of the same moments, with the same ELBO; those of draws without any
            # density, as of scales that are exponentials, may be beyond all numbers
            z = shapes[i].from_base(rng.standard_normal((_N_TAIL, density.dim)))
            n_gradients += _N_TAIL
            z = z[inside(density, z)]
            moments = GaussianBase.from_draws(z, full=True, n_effective=len(z))
            fits[i] = GaussianBase(moments.mean, moments.scale, shapes[i].log_zeta)
    found = replace(found, fits=tuple(fits), shapes=tuple(shapes), needs_levels=needs_levels)
    if maps.known:
        found, n_checked = _without_needless(density, found, maps, rng)
        n_gradients += n_checked
    poorly_fitted = tuple(laplace for laplace in found.poorly_fitted if not maps.explain(laplace))
    n_gradients += found.search.n_gradients + maps.n_gradients
    search = replace(found.search, n_gradients=n_gradients, funnel_depth=funnel_depth)
    return replace(found, search=search, poorly_fitted=poorly_fitted)


class _Maps:
    """The maps that are known, each with its largest log weight as ``log_zeta``."""

    def __init__(self, density: Density, orbit: Orbit | None) -> None:
        self._density, self._orbit, self.n_gradients = density, orbit, 0
        self.known: list[TransportMap] = []

    def add(self, shape: TransportMap, rng: np.random.Generator) -> TransportMap:
        """Take up a map; return it with its ELBO."""
        delta = log_weights(self._density, shape, rng)
        self.n_gradients += delta.size
        inside = delta[np.isfinite(delta)]
        self.known.append(replace(shape, log_zeta=float(inside.max())))
        return replace(shape, log_zeta=float(inside.mean() + np.log(inside.size / delta.size)))

    def explain(self, fit: LocalDensity) -> bool:
        """Whether a fit's centre is inside of a map, or has no more mass than maps say.

        A place with less than three nats more than the largest weight is no mode of its own.
        """
        at = centre(fit)[None]
        if self._orbit is not None:
            at = self._orbit.images(at[0])
        if not self.known or owner(self.known, at).max() >= 0:
            return bool(self.known)
        self.n_gradients += len(at)
        return bool(unexplained(self._density, self.known, at).min() <= MAX_FALL)


def _shape_of(
    density: Density, fit: GaussianBase, rng: np.random.Generator, left: float, *, may_run: bool
) -> Shape:
    """Find a better shape for a fit, if it needs one."""
    is_heavy = falls_like_a_power(density, fit)
    variance = evaluate_elbo(density, fit, rng, N_MANY).variance
    n_gradients = N_MANY + 4 * fit.dim
    if variance > EXACT and not is_heavy and density.dim <= MOST_DIM_OF_THIRD_ORDER:
        mended = third_order_fit(density, fit, rng, left - n_gradients - _N_TAIL - N_MANY)
        n_gradients += mended.n_gradients
        shape, k = mended.shape, 0.0
        if shape is not None and mended.variance <= min(GOOD, GAIN * variance):
            if mended.variance > EXACT:
                n_gradients += _N_TAIL
                k = pareto_k(log_weights(density, shape, rng, _N_TAIL))
            if k <= MAX_TAIL_INDEX:
                if isinstance(shape, GaussianBase):
                    n_gradients += N_MANY
                    elbo = evaluate_elbo(density, shape, rng, N_MANY).value
                    shape = GaussianBase(shape.mean, shape.scale, elbo)
                return mended._replace(shape=shape, n_gradients=n_gradients)
    good = variance <= GOOD and not is_heavy
    if good or density.dim == 1 or not may_run:
        return Shape(None, variance, n_gradients)
    run = map_by_run(density, fit, rng, left - n_gradients, is_heavy=is_heavy)
    return run._replace(n_gradients=run.n_gradients + n_gradients)


def falls_like_a_power(density: Density, fit: GaussianBase) -> bool:
    """Whether a density has heavy tails along some coordinate, far outside of a fit.

    Draws would have to be there to say so, and moves hardly go there. Four evaluations each.

    Examples
    --------
    >>> from pymc_tempering.testing import heavy_tail, scaled_normal
    >>> heavy, normal = heavy_tail(), scaled_normal(dim=2, sd=0.7)
    >>> falls_like_a_power(heavy, GaussianBase([1.0, -0.5], [0.7, 2.0]))
    True
    >>> falls_like_a_power(normal, GaussianBase(normal.mean, [0.7, 0.7]))
    False
    """
    steps = np.diag(fit.standard_deviation)
    directions = np.concatenate([steps, -steps])
    near, far = (
        density_at(density.address, fit.mean + distance * directions)[0]
        for distance in (10.0, 100.0)
    )
    both = np.isfinite(near) & np.isfinite(far)
    return bool(np.any(near[both] - far[both] <= MOST_DROP))


def _without_needless(
    density: Density, found: Prepared, maps: _Maps, rng: np.random.Generator
) -> tuple[Prepared, int]:
    """Leave out Gaussian fits that maps explain and that fit poorly, or that have no mass."""
    kept: list[tuple[GaussianBase, LocalDensity]] = []
    n_evaluations = 0
    best = max(s.log_zeta or -np.inf for s in found.shapes if isinstance(s, TransportMap))
    for fit, shape in zip(found.fits, found.shapes, strict=True):
        if isinstance(shape, TransportMap):
            kept.append((fit, shape))
            continue
        assessed = assess(density, fit, rng, N_MANY)
        n_evaluations += N_MANY
        if assessed is None:
            continue
        if assessed.variance <= GOOD if maps.explain(fit) else assessed.mass >= best - NEEDLESS:
            kept.append((fit, shape))
    fits, shapes = (tuple(of) for of in zip(*kept, strict=True))
    pooled = combine_local_bases(with_images(fits, found.orbit))
    return replace(found, pooled=pooled, fits=fits, shapes=shapes), n_evaluations
