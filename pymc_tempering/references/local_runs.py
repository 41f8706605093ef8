"""Fits that no Gaussian is good enough for, bent to the draws of a short run in their mode.

Two levels suffice: a Gaussian around the fit, which proposes, and the target. As soon as the draws
bend a fit, it takes the place of the Gaussian, and its own draws mend it. A run stays in its mode,
so that a curved one which the wide Gaussian hardly ever reaches has a shape before any tempering.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.gist import Gist
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity, Mixture
from pymc_tempering.engine.path.tempered import Density, TemperedPath
from pymc_tempering.references.elbo import N_WEIGHTS, log_weights, trimmed_variance
from pymc_tempering.references.funnels import DEEP, N_EVALUATIONS, N_PLACES, depth_of_funnels
from pymc_tempering.references.independent import n_independent
from pymc_tempering.references.map_of_draws import map_of_draws
from pymc_tempering.references.prepared import (
    CURVED,
    GAUSSIAN_FITS,
    MAPPED,
    MAPPED_ROUGHLY,
    NEARLY_GAUSSIAN,
)
from pymc_tempering.references.quality import barrier_of, variance_of_rejection
from pymc_tempering.types import FloatArray

__all__ = ["MOST_GRADIENTS", "Run", "map_by_run"]

GOOD_ENOUGH = 0.7
"""Rejection rate of swaps between a bent fit and the target, up to which it is kept."""

GAUSSIAN_ENOUGH = 0.65
"""The same of the fit as it is, below which bending gains little: a few levels between it and the
target do as well."""

GOOD_AS_IT_IS = 0.4
"""The same, up to which chains may start from the fit: 0.16 to 0.38 of skewed posteriors, 0.43 to
0.53 of a centred hierarchy whose neck a short run had not met."""

VERY_GOOD = 0.3
"""Rejection rate, of either, up to which hardly anything is left to gain."""

GAIN = 0.75
"""Of that rejection rate, what a bend has to be below."""

MAX_MAP_VARIANCE = 1.0
"""Variance of the log weights of a bent fit's draws, in nats squared and without the lowest 2 %, up
to which it is kept: 0.1 to 0.5 where it straightens, ten and more on a hierarchy whose neck ends in
a plateau, of which swaps alone say little."""

DRAWS_PER_INDEPENDENT = 40.0
"""Draws that count as one independent one at most. A chain creeps along a valley and jumps across
it; what bends shows in the jumps, and whether it does the swaps say."""

MOST_GRADIENTS = 150_000
"""Of one fit, before a round begins. Bananas in 24 dimensions take 65,000 to 150,000."""

BUDGETS = (
    (VERY_GOOD, 800), (GAUSSIAN_ENOUGH, 8_000), (0.97, 40_000), (1.0, MOST_GRADIENTS),
)  # fmt: skip
"""Gradients by the rejection rate of the fit as it is, up to this one. Where swaps succeed without
a bend, it shows soon whether one helps; twice as many while it does. The first is for two or three
rounds, which say how many succeed."""

MORE_DRAWS = 1.25
"""Times as many independent draws, with which a fit is bent again."""

ENOUGH_DRAWS = 400
"""Independent draws from which more of them say nothing new: what they do not straighten stays."""

ROUGH = 0.8
"""Of the Gaussian's barrier, that of a bent fit up to which a few levels from it are better than
more of them from the Gaussian, where swaps without a level in between hardly succeed."""

_HELPS, _MOST_UNEVEN = 0.9, 3
_BETAS = np.array([0.0, 1.0])
_ROUNDS = (100, 100, 200, *(400,) * 4, *(800,) * 20)
_WIDENING = 1.2


class Run(NamedTuple):
    """What a run in a mode led to.

    Attributes
    ----------
    kind : int
        As in :class:`.prepared.Prepared`.
    shape : LocalDensity or None
        None where no other is good enough, or better than the fit as it is.
    n_gradients : int
    necks : float
        Their depth, in nats.
    """

    kind: int
    shape: LocalDensity | None
    n_gradients: int
    funnel_depth: float


def map_by_run(
    density: Density, fit: GaussianBase, rng: np.random.Generator, left: float, is_heavy: bool
) -> Run:
    """Run two levels in a fit's mode, and bend the fit to their draws.

    Parameters
    ----------
    density : Density
        The target's compiled log density and gradient.
    fit : GaussianBase
    rng : numpy.random.Generator
    left : float
        Gradients.
    is_heavy : bool
        Whether the density has heavy tails along some coordinate.
    """
    around = GaussianBase(fit.mean, _WIDENING * fit.scale)
    path = TemperedPath.from_base(density, around)
    settings = Hamiltonian()
    ladder = Ladder(path, _BETAS, fit.mean[None], rng, settings=settings)
    # of the longest trajectory, and of a draw of the reference
    most_of_scan = settings.most_evaluations(density.dim) + 1
    best, lowest, lowest_seen = None, GOOD_ENOUGH, 1.0
    earlier: list[FloatArray] = []
    gaussian_fit, n_uneven, n_gradients = 1.0, 0, 0
    funnel_depth, wanted, n_fitted = 0.0, N_PLACES, 0.0
    for n_scans in _ROUNDS:
        dear = n_gradients + n_scans * most_of_scan > left
        in_use = None if ladder.mixture is None else ladder.mixture.fits[0]
        # swaps succeed without a tail that few draws are in
        rejects = max(gaussian_fit, GAUSSIAN_ENOUGH) if is_heavy else gaussian_fit
        if dear or n_gradients > _most(rejects, lowest_seen, in_use is not None):
            break
        record = ladder.run(n_scans, rng, adapt=True, keep_positions=True)
        n_gradients += record.counts["n_gradients"]
        rejection = 1.0 - float(record.swap_acceptance_rate[0])
        if in_use is None:
            gaussian_fit = rejection
        else:
            lowest_seen = min(lowest_seen, rejection)
            if rejection < min(lowest, GAIN * gaussian_fit):
                n_gradients += N_WEIGHTS
                # infinite where one draw in fifty has no density
                if trimmed_variance(log_weights(density, in_use, rng)) <= MAX_MAP_VARIANCE:
                    best, lowest = in_use, rejection
                else:
                    n_uneven += 1
            in_vain = n_uneven == _MOST_UNEVEN or n_fitted > ENOUGH_DRAWS
            if lowest <= VERY_GOOD or (best is None and in_vain):
                break
        earlier.append(record.target_positions)
        positions = _later_half(earlier)
        if gaussian_fit > GAUSSIAN_ENOUGH and funnel_depth < DEEP and len(positions) >= wanted:
            wanted = 2 * len(positions)
            n_gradients += N_EVALUATIONS
            funnel_depth = depth_of_funnels(density, positions, rng)
            if funnel_depth >= DEEP:
                ladder.settings = Gist()
                ladder.restart_adaptation()
        n = max(n_independent(positions), len(positions) / DRAWS_PER_INDEPENDENT)
        mapped, n_fitted = (
            (map_of_draws(positions, n), n) if n >= MORE_DRAWS * n_fitted else (None, n_fitted)
        )
        if mapped is not None:
            ladder.change_mixture(Mixture((mapped,), np.ones(1)))
    known = n_fitted > ENOUGH_DRAWS and not is_heavy and not n_uneven
    last = ladder.mixture.fits[0] if known and ladder.mixture is not None else None
    kind, shape = _verdict(best, last, gaussian_fit, lowest_seen)
    return Run(kind, shape, n_gradients + ladder.n_off_record, funnel_depth)


def _verdict(
    best: LocalDensity | None, last: LocalDensity | None, gaussian_fit: float, lowest: float
) -> tuple[int, LocalDensity | None]:
    """How well fits do, and the bent one to start from: a good one, or else the last one.

    By the rejection rates of the fit as it is and of the best bent one. The last one is None where
    few draws made it, which leaves out what they had not met, or tails are heavy.
    """
    if best is not None:
        return MAPPED, best
    if gaussian_fit <= GAUSSIAN_ENOUGH:
        return (GAUSSIAN_FITS if gaussian_fit <= GOOD_AS_IT_IS else NEARLY_GAUSSIAN), None
    helps = lowest < 1.0 and (
        barrier_of(variance_of_rejection(lowest))
        <= ROUGH * barrier_of(variance_of_rejection(gaussian_fit))
    )
    return (MAPPED_ROUGHLY, last) if last is not None and helps else (CURVED, None)


def _later_half(blocks: Sequence[FloatArray]) -> FloatArray:
    """Draws without the first, which are of the way from a fit's mean."""
    positions = np.concatenate(blocks)
    return positions[len(positions) // 2 :]


def _most(gaussian_fit: float, lowest: float, bends: bool) -> float:
    """Gradients of a run, by the rejection rates of the fit and of the best bent one so far."""
    most = next(budget for rejection, budget in BUDGETS if gaussian_fit <= rejection)
    if lowest < _HELPS * gaussian_fit:
        return 2 * most
    return most if bends or most < MOST_GRADIENTS else most / 2
