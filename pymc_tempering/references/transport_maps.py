"""Which fits are bent, how, and which others a bent one then stands in for.

Where a fit's own draws show by their gradients what is missing, that mends it
(:mod:`.third_order`); else a short run in its mode may (:mod:`.local_runs`).
"""

from dataclasses import replace

import numpy as np
from scipy.stats import chi2

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.engine.path.transport import TransportMap
from pymc_tempering.numerics import pareto_k
from pymc_tempering.references.elbo import N_WEIGHTS, delta_at, evaluate_elbo, log_weights
from pymc_tempering.references.heavy import falls_like_a_power
from pymc_tempering.references.local import assess, combine_local_bases
from pymc_tempering.references.local_runs import Run, map_by_run
from pymc_tempering.references.map_of_draws import MOST_DIM
from pymc_tempering.references.prepared import CURVED, GAUSSIAN_FITS, MAPPED, Prepared, centre
from pymc_tempering.references.third_order import GAIN, third_order_fit
from pymc_tempering.references.third_order import MOST_DIM as MOST_DIM_OF_THIRD_ORDER
from pymc_tempering.references.watch import Report, unwatched

__all__ = ["MAX_VARIANCE", "fit_maps", "is_inside"]

MAX_VARIANCE = 0.1
"""Variance of the log weights of a fit's draws, in nats squared and without the lowest 2 %, beyond
which a mode is not Gaussian enough to start from its fit."""

EXACT_ENOUGH = 0.005
"""The same, up to which gradients at the fit's draws would not pay, and weights have no tail to
speak of: log Z from 2560 draws is off by 0.0014."""

MAX_TAIL_INDEX = 0.5
"""Pareto k of the weights of a shape of third order up to which it is kept. It sees what its own
draws meet: of a centred hierarchy's neck, or the ends of a ridge, they do not. See "Shapes of third
order" in benchmarks/README.md."""

MOST_FITS = 4
"""Fits that may have a short run, those of most mass."""

MOST_MENDED = 16
"""Fits that are looked at, and mended by their gradients as long as all of it takes no more than
half of what the search took."""

NEEDLESS = 7.0
"""nats of mass below a bent shape at which a straight fit goes: fits of pieces of a ridge were kept
since they are as good as the one that was bent. A thousandth, which what is wide covers."""

_N_CHECKED, _N_TAIL, _LEAST = 400, 1000, 10_000
_MOST_FAILURES, _MOST_OF_SEARCH = 2, 0.5
_INSIDE = 0.999
_MORE = 3.0
"""Nats above the largest log weight of 200 draws: a place with less is no mode of its own."""
_N_MOMENTS = 1000


def is_inside(shape: TransportMap, fit: LocalDensity) -> bool:
    """Tell whether a fit's centre is among all but a thousandth of a bent Gaussian's draws.

    Examples
    --------
    >>> from pymc_tempering.engine.path.transport import Terms
    >>> square = Terms(np.array([[1, 0, 0, 0]]), np.array([1.0]))
    >>> banana = TransportMap(np.zeros(2), np.eye(2), square)
    >>> on, off = (GaussianBase([3.0, height], [1.0, 1.0]) for height in (9.0, 0.0))
    >>> is_inside(banana, on), is_inside(banana, off)
    (True, False)
    """
    y = shape.to_base(centre(fit)[None])[0]
    return bool(y @ y <= chi2.ppf(_INSIDE, shape.dim))


def fit_maps(
    density: Density,
    found: Prepared,
    rng: np.random.Generator,
    *,
    most: float = np.inf,
    report: Report = unwatched,
) -> Prepared:
    """Bend the fits that are to be bent, and drop those that a bent one stands in for.

    Parameters
    ----------
    density : Density
        The target's compiled log density and gradient.
    found : Prepared
    rng : numpy.random.Generator
    most : float
        Gradients; with fewer than 10,000 left no further fit is looked at.
    report : callable
        See :data:`pymc_tempering.references.watch.Report`.

    Examples
    --------
    >>> from pymc_tempering import testing
    >>> from pymc_tempering.references.search import SEARCHES, find_modes
    >>> target, rng = testing.banana(), np.random.default_rng(1)
    >>> found = find_modes(target, target.start, rng, effort=SEARCHES["none"])
    >>> fit_maps(target, found, rng).shapes[0].terms.coefficients.size > 1
    True
    """
    if density.dim > MOST_DIM:
        return found
    fits, shapes = list(found.fits), list[LocalDensity](found.fits)
    known = _Known(density, rng)
    n_gradients = n_failures = 0
    kind, funnel_depth = found.kind, 0.0
    for i, fit in enumerate(found.fits[:MOST_MENDED]):
        if most - n_gradients < _N_CHECKED + _LEAST or n_failures == _MOST_FAILURES:
            break
        if i >= MOST_FITS and n_gradients > _MOST_OF_SEARCH * found.search.n_gradients:
            break
        report("shapes of modes", i, len(found.fits[:MOST_MENDED]))
        if known.explains(fit):
            continue
        run = _shape_of(density, fit, rng, most - n_gradients, may_run=i < MOST_FITS)
        n_gradients += run.n_gradients
        n_failures += run.kind == CURVED
        kind, funnel_depth = max(kind, run.kind), max(funnel_depth, run.funnel_depth)
        # a run may have left for a mode that has its shape
        if isinstance(run.shape, TransportMap) and not known.explains(run.shape):
            shapes[i] = run.shape
            known.add(run.shape)
        elif isinstance(run.shape, GaussianBase):
            shapes[i] = fits[i] = run.shape
    found = replace(found, fits=tuple(fits), shapes=tuple(shapes))
    shaped, n_checked = _with_shapes(density, found, known, rng)
    poorly_fitted = tuple(laplace for laplace in found.poorly_fitted if not known.explains(laplace))
    n_gradients += found.search.n_gradients + n_checked + known.n_gradients
    search = replace(found.search, n_gradients=n_gradients, funnel_depth=funnel_depth)
    return replace(shaped, search=search, kind=kind, poorly_fitted=poorly_fitted)


def _shape_of(
    density: Density, fit: GaussianBase, rng: np.random.Generator, left: float, *, may_run: bool
) -> Run:
    """Find a better shape for a fit, if it needs one."""
    is_heavy, n_evaluations = falls_like_a_power(density, fit)
    variance = evaluate_elbo(density, fit, rng, _N_CHECKED).variance
    n_gradients = _N_CHECKED + n_evaluations
    if variance > EXACT_ENOUGH and not is_heavy and density.dim <= MOST_DIM_OF_THIRD_ORDER:
        checks = _N_TAIL + _N_CHECKED
        mended = third_order_fit(density, fit, rng, left - n_gradients - checks)
        n_gradients += mended.n_gradients
        kept = mended.variance <= min(MAX_VARIANCE, GAIN * variance)
        if kept and mended.variance > EXACT_ENOUGH:
            n_gradients += _N_TAIL
            kept = pareto_k(log_weights(density, mended.shape, rng, _N_TAIL)) <= MAX_TAIL_INDEX
        if kept:
            if isinstance(mended.shape, TransportMap):
                return Run(MAPPED, mended.shape, n_gradients, 0.0)
            elbo = evaluate_elbo(density, mended.shape, rng, _N_CHECKED).value
            shape = GaussianBase(mended.shape.mean, mended.shape.scale, elbo)
            return Run(GAUSSIAN_FITS, shape, n_gradients + _N_CHECKED, 0.0)
    good = variance <= MAX_VARIANCE and not is_heavy
    if good or density.dim == 1 or not may_run:
        return Run(GAUSSIAN_FITS, None, n_gradients, 0.0)
    run = map_by_run(density, fit, rng, left - n_gradients, is_heavy)
    return run._replace(n_gradients=run.n_gradients + n_gradients)


class _Known:
    """Bent shapes, and which places they stand in for."""

    def __init__(self, density: Density, rng: np.random.Generator) -> None:
        self._density, self._rng = density, rng
        self._shapes: list[tuple[TransportMap, float]] = []
        self.n_gradients = 0

    def add(self, shape: TransportMap) -> None:
        """Take a shape that is good enough to draw from."""
        self.n_gradients += N_WEIGHTS
        delta = log_weights(self._density, shape, self._rng)
        self._shapes.append((shape, float(delta[np.isfinite(delta)].max()) + _MORE))

    def explains(self, fit: LocalDensity) -> bool:
        """Whether a fit is of a place that shapes know, or has no more mass than they say."""
        if any(is_inside(shape, fit) for shape, _ in self._shapes):
            return True
        at = centre(fit)[None]
        self.n_gradients += len(self._shapes)
        return any(
            delta_at(self._density, at, shape.log_density(at))[0] <= most
            for shape, most in self._shapes
        )


def _with_shapes(
    density: Density, found: Prepared, known: _Known, rng: np.random.Generator
) -> tuple[Prepared, int]:
    """Put bent shapes in place of fits, of the same moments, and of those that they make needless.

    With the number of evaluations that it took.
    """
    moments = {
        i: _moments(density, shape, rng)
        for i, shape in enumerate(found.shapes)
        if isinstance(shape, TransportMap)
    }
    if not moments:
        return found, 0
    n_evaluations = N_WEIGHTS * len(moments)
    best = max(fit.log_zeta or -np.inf for fit in moments.values())
    kept: list[LocalDensity] = []
    fits: list[GaussianBase] = []
    for i, (fit, shape) in enumerate(zip(found.fits, found.shapes, strict=True)):
        if isinstance(shape, TransportMap):
            fits.append(moments[i])
            kept.append(replace(shape, log_zeta=fits[-1].log_zeta))
            continue
        assessed = assess(density, fit, 0, rng, _N_CHECKED)
        n_evaluations += _N_CHECKED
        if assessed is None:
            continue
        is_known, heavy_enough = known.explains(fit), assessed.mass >= best - NEEDLESS
        if assessed.variance <= MAX_VARIANCE if is_known else heavy_enough:
            kept.append(shape)
            fits.append(fit)
    shaped = replace(found, pooled=combine_local_bases(fits), fits=tuple(fits), shapes=tuple(kept))
    return shaped, n_evaluations


def _moments(density: Density, shape: TransportMap, rng: np.random.Generator) -> GaussianBase:
    """Gaussian of the same moments, with the bent one's ELBO."""
    z = shape.from_base(rng.standard_normal((_N_MOMENTS, shape.dim)))
    some = z[:N_WEIGHTS]
    delta = delta_at(density, some, shape.log_density(some))
    finite = delta[np.isfinite(delta)]
    elbo = float(finite.mean() + np.log(finite.size / delta.size))
    fit = GaussianBase.from_draws(z, full=True, n_effective=_N_MOMENTS)
    return GaussianBase(fit.mean, fit.scale, elbo)
