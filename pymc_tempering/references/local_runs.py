"""Fits that no Gaussian is good enough for, bent to the draws of a short run in their mode.

Two levels suffice: a Gaussian around the fit, which proposes, and the target. As soon as the draws
bend a fit, it takes the place of the Gaussian, and its own draws mend it. A run stays in its mode,
so that a curved one which the wide Gaussian hardly ever reaches has a shape before any tempering.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy.stats import chi2

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.gist import Gist
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.bent import BentGaussian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity, Mixture
from pymc_tempering.engine.path.tempered import Density, TemperedPath
from pymc_tempering.references.bend import MOST_DIM, bent_fit
from pymc_tempering.references.elbo import delta_at, evaluate_elbo, trimmed_variance
from pymc_tempering.references.heavy import falls_like_a_power
from pymc_tempering.references.independent import n_independent
from pymc_tempering.references.local import assess, combine_local_bases
from pymc_tempering.references.necks import DEEP, N_EVALUATIONS, N_PLACES, depth_of_necks
from pymc_tempering.references.prepared import (
    BENT,
    CURVED,
    NEARLY_STRAIGHT,
    STRAIGHT,
    Prepared,
    centre,
)
from pymc_tempering.references.watch import Report, unwatched
from pymc_tempering.types import FloatArray

__all__ = ["MAX_VARIANCE", "MOST_GRADIENTS", "bend_fits", "is_inside"]

MAX_VARIANCE = 0.1
"""Variance of the log weights of a fit's draws, in nats squared and without the lowest 2 %, beyond
which a mode is not Gaussian enough to start from its fit."""

GOOD_ENOUGH = 0.7
"""Rejection rate of swaps between a bent fit and the target, up to which it is kept."""

STRAIGHT_ENOUGH = 0.65
"""The same of the fit as it is, below which bending gains little: a few levels between it and the
target do as well."""

GOOD_AS_IT_IS = 0.4
"""The same, up to which chains may start from the fit: 0.16 to 0.38 of skewed posteriors, 0.43 to
0.53 of a centred hierarchy whose neck a short run had not met."""

VERY_GOOD = 0.3
"""Rejection rate, of either, up to which hardly anything is left to gain."""

GAIN = 0.75
"""Of that rejection rate, what a bend has to be below."""

MAX_BENT_VARIANCE = 1.0
"""Variance of the log weights of a bent fit's draws, in nats squared and without the lowest 2 %, up
to which it is kept: 0.1 to 0.5 where it straightens, ten and more on a hierarchy whose neck ends in
a plateau, of which swaps alone say little."""

DRAWS_PER_INDEPENDENT = 40.0
"""Draws that count as one independent one at most. A chain creeps along a valley and jumps across
it; what bends shows in the jumps, and whether it does the swaps say."""

MOST_FITS = 4
"""Fits that are looked at, those of most mass."""

MOST_GRADIENTS = 150_000
"""Of one fit, before a round begins. Bananas in 24 dimensions take 65,000 to 150,000."""

BUDGETS = (
    (VERY_GOOD, 800), (STRAIGHT_ENOUGH, 8_000), (0.97, 40_000), (1.0, MOST_GRADIENTS),
)  # fmt: skip
"""Gradients by the rejection rate of the fit as it is, up to this one. Where swaps succeed without
a bend, it shows soon whether one helps; twice as many while it does. The first is for two or three
rounds, which say how many succeed."""

NEEDLESS = 7.0
"""nats of mass below a bent shape at which a straight fit goes: fits of pieces of a ridge were kept
since they are as good as the one that was bent. A thousandth, which what is wide covers."""

_N_CHECKED, _LEAST = 400, 10_000
_MOST_FAILURES = 2
_HELPS, _MOST_UNEVEN = 0.9, 3
_BETAS = np.array([0.0, 1.0])
_ROUNDS = (100, 100, 200, *(400,) * 4, *(800,) * 20)
_WIDENING = 1.2
_INSIDE = 0.999
_MORE = 3.0
"""Nats above the largest log weight of 200 draws: a place with less is no mode of its own."""
_N_MOMENTS, _N_ELBO = 1000, 200


def is_inside(shape: BentGaussian, fit: LocalDensity) -> bool:
    """Tell whether a fit's centre is among all but a thousandth of a bent Gaussian's draws.

    Examples
    --------
    >>> from pymc_tempering.engine.path.bent import Terms
    >>> square = Terms(np.array([[1, 0, 0, 0]]), np.array([1.0]))
    >>> banana = BentGaussian(np.zeros(2), np.eye(2), square)
    >>> on, off = (GaussianBase([3.0, height], [1.0, 1.0]) for height in (9.0, 0.0))
    >>> is_inside(banana, on), is_inside(banana, off)
    (True, False)
    """
    y = shape.to_base(centre(fit)[None])[0]
    return bool(y @ y <= chi2.ppf(_INSIDE, shape.dim))


def bend_fits(
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
    >>> bend_fits(target, found, rng).shapes[0].terms.coefficients.size > 1
    True
    """
    if not 1 < density.dim <= MOST_DIM:
        return found
    shapes: list[LocalDensity] = list(found.fits)
    known = _Known(density, rng)
    n_gradients = n_failures = 0
    kind, necks = found.kind, 0.0
    for i, fit in enumerate(found.fits[:MOST_FITS]):
        if most - n_gradients < _N_CHECKED + _LEAST or n_failures == _MOST_FAILURES:
            break
        report("shapes of modes", i, len(found.fits[:MOST_FITS]))
        if known.explains(fit):
            continue
        is_heavy, n_evaluations = falls_like_a_power(density, fit)
        n_gradients += _N_CHECKED + n_evaluations
        variance = evaluate_elbo(density, fit, rng, _N_CHECKED).variance
        if variance <= MAX_VARIANCE and not is_heavy:
            continue
        run = _bent_by_run(density, fit, rng, most - n_gradients, is_heavy)
        n_gradients += run.n_gradients
        n_failures += run.kind == CURVED
        kind, necks = max(kind, run.kind), max(necks, run.necks)
        # a run may have left for a mode that has its shape
        if run.bent is not None and not known.explains(run.bent):
            shapes[i] = run.bent
            known.add(run.bent)
    shaped, n_checked = _with_shapes(density, found, shapes, known, rng)
    unsure = tuple(peak for peak in found.unsure if not known.explains(peak))
    n_gradients += found.search.n_gradients + n_checked + known.n_gradients
    search = replace(found.search, n_gradients=n_gradients, necks=necks)
    return replace(shaped, search=search, kind=kind, unsure=unsure)


class _Known:
    """Bent shapes, and which places they stand in for."""

    def __init__(self, density: Density, rng: np.random.Generator) -> None:
        self._density, self._rng = density, rng
        self._shapes: list[tuple[BentGaussian, float]] = []
        self.n_gradients = 0

    def add(self, shape: BentGaussian) -> None:
        """Take a shape that is good enough to draw from."""
        self.n_gradients += _N_ELBO
        delta = _log_weights(self._density, shape, self._rng)
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


class _Run(NamedTuple):
    """What a run in a mode led to."""

    kind: int
    bent: BentGaussian | None
    n_gradients: int
    necks: float


def _bent_by_run(
    density: Density, fit: GaussianBase, rng: np.random.Generator, left: float, is_heavy: bool
) -> _Run:
    around = GaussianBase(fit.mean, _WIDENING * fit.scale)
    path = TemperedPath.from_base(density, around)
    settings = Hamiltonian()
    ladder = Ladder(path, _BETAS, fit.mean[None], rng, settings=settings)
    # of the longest trajectory, and of a draw of the reference
    most_of_scan = settings.most_evaluations(density.dim) + 1
    best, lowest, lowest_seen = None, GOOD_ENOUGH, 1.0
    earlier: list[FloatArray] = []
    straight, n_uneven, n_gradients = 1.0, 0, 0
    necks, wanted = 0.0, N_PLACES
    for n_scans in _ROUNDS:
        dear = n_gradients + n_scans * most_of_scan > left
        in_use = None if ladder.mixture is None else ladder.mixture.fits[0]
        # swaps succeed without a tail that few draws are in
        rejects = max(straight, STRAIGHT_ENOUGH) if is_heavy else straight
        if dear or n_gradients > _most(rejects, lowest_seen, in_use is not None):
            break
        record = ladder.run(n_scans, rng, adapt=True, keep_positions=True)
        n_gradients += record.counts["n_gradients"]
        rejection = 1.0 - float(record.swap_acceptance_rate[0])
        if in_use is None:
            straight = rejection
        else:
            lowest_seen = min(lowest_seen, rejection)
            if rejection < min(lowest, GAIN * straight):
                n_gradients += _N_ELBO
                # infinite where one draw in fifty has no density
                if trimmed_variance(_log_weights(density, in_use, rng)) <= MAX_BENT_VARIANCE:
                    best, lowest = in_use, rejection
                else:
                    n_uneven += 1
            if lowest <= VERY_GOOD or (best is None and n_uneven == _MOST_UNEVEN):
                break
        earlier.append(record.target_positions)
        positions = _later_half(earlier)
        if straight > STRAIGHT_ENOUGH and necks < DEEP and len(positions) >= wanted:
            wanted = 2 * len(positions)
            n_gradients += N_EVALUATIONS
            necks = depth_of_necks(density, positions, rng)
            if necks >= DEEP:
                ladder.settings = Gist()
                ladder.restart_adaptation()
        n = max(n_independent(positions), len(positions) / DRAWS_PER_INDEPENDENT)
        bent = bent_fit(positions, n)
        if bent is not None:
            ladder.change_mixture(Mixture((bent,), np.ones(1)))
    kind = CURVED if straight > STRAIGHT_ENOUGH else NEARLY_STRAIGHT
    kind = STRAIGHT if straight <= GOOD_AS_IT_IS else kind
    assert best is None or isinstance(best, BentGaussian)
    return _Run(BENT if best is not None else kind, best, n_gradients + ladder.n_beside, necks)


def _later_half(blocks: Sequence[FloatArray]) -> FloatArray:
    """Draws without the first, which are of the way from a fit's mean."""
    positions = np.concatenate(blocks)
    return positions[len(positions) // 2 :]


def _most(straight: float, lowest: float, bends: bool) -> float:
    """Gradients of a run, by the rejection rates of the fit and of the best bent one so far."""
    most = next(budget for rejection, budget in BUDGETS if straight <= rejection)
    if lowest < _HELPS * straight:
        return 2 * most
    return most if bends or most < MOST_GRADIENTS else most / 2


def _with_shapes(
    density: Density,
    found: Prepared,
    shapes: list[LocalDensity],
    known: _Known,
    rng: np.random.Generator,
) -> tuple[Prepared, int]:
    """Put bent shapes in place of fits, of the same moments, and of those that they make needless.

    With the number of evaluations that it took.
    """
    moments = {
        i: _moments(density, shape, rng)
        for i, shape in enumerate(shapes)
        if isinstance(shape, BentGaussian)
    }
    if not moments:
        return found, 0
    n_evaluations = _N_ELBO * len(moments)
    best = max(fit.log_zeta or -np.inf for fit in moments.values())
    kept: list[LocalDensity] = []
    fits: list[GaussianBase] = []
    for i, (fit, shape) in enumerate(zip(found.fits, shapes, strict=True)):
        if isinstance(shape, BentGaussian):
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
    shaped = replace(found, anchor=combine_local_bases(fits), fits=tuple(fits), shapes=tuple(kept))
    return shaped, n_evaluations


def _log_weights(density: Density, shape: LocalDensity, rng: np.random.Generator) -> FloatArray:
    """Log target minus log shape at draws of the shape, in nats, shape (200,)."""
    assert isinstance(shape, BentGaussian)
    z = shape.from_base(rng.standard_normal((_N_ELBO, shape.dim)))
    return delta_at(density, z, shape.log_density(z))


def _moments(density: Density, shape: BentGaussian, rng: np.random.Generator) -> GaussianBase:
    """Gaussian of the same moments, with the bent one's ELBO."""
    z = shape.from_base(rng.standard_normal((_N_MOMENTS, shape.dim)))
    some = z[:_N_ELBO]
    delta = delta_at(density, some, shape.log_density(some))
    finite = delta[np.isfinite(delta)]
    elbo = float(finite.mean() + np.log(finite.size / delta.size))
    fit = GaussianBase.from_draws(z, full=True, n_effective=_N_MOMENTS)
    return GaussianBase(fit.mean, fit.scale, elbo)
