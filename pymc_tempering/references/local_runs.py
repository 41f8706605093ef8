"""Transport maps for fits that no Gaussian is good enough for, by short runs in their modes.

Two levels suffice: a Gaussian around the fit, which proposes, and the target. As soon as the draws
give a map, it takes the place of the Gaussian, and its own draws mend it. A run stays in its mode,
so that a curved one which the wide Gaussian hardly ever reaches has a shape before any tempering.

The same runs tell how deep funnels are: whether scales differ from place to place by more than one
step size serves. In the narrow end of a funnel, of a hierarchy written centred or a horseshoe, a
trajectory needs steps of a fraction of those that the bulk asks for. With one step size, moves into
it and out of it are rejected for hundreds of scans. Its mass comes out too small, and the error
does not show it.
"""

import numpy as np

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.gist import DISPLACEMENT, FLAT, Gist
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.path import Density, density_at
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.references.fit import n_independent
from pymc_tempering.references.local import Shape
from pymc_tempering.references.map_of_draws import map_of_draws
from pymc_tempering.references.quality import (
    COARSE,
    FAIR,
    GOOD,
    LADDER,
    log_weights,
    trimmed_variance,
    variance_of_rejection,
)
from pymc_tempering.types import FloatArray

DEEP = 0.8
"""Depth from which steps of local sizes pay: 0.8 to 3 on hierarchies written centred, funnels and
horseshoes, 0.3 to 0.8 on bananas, heavy tails and skewed posteriors (benchmarks/funnels.py)."""

N_PLACES = 200  # draws that are looked at: ten of them are in the narrowest twentieth
N_EVALUATIONS = 2 * N_PLACES  # one beside each

HELPS = 0.64
"""Share of the Gaussian's V up to which a map helps: a fifth of the barrier less. Maps of the modes
of `sensors_4` have a half, so that a half as the bound would keep them by chance."""

AS_IT_IS = FAIR / 2.0
"""V of a Gaussian fit by swaps, up to which chains may start from it: 0.1 to 0.5 of skewed
posteriors, 0.65 to 1 of a centred hierarchy whose funnel a short run had not met."""

DRAWS_PER_INDEPENDENT = 40.0
"""Draws that count as one independent one at most. A chain creeps along a valley and jumps across
it; the jumps show what bends, and swaps show whether a map helps."""

MOST_GRADIENTS = 150_000
"""Of one fit, before a round begins. Bananas in 24 dimensions take 65,000 to 150,000."""

BUDGETS = ((GOOD, 800), (COARSE, 8_000), (LADDER, 40_000), (np.inf, MOST_GRADIENTS))
"""Gradients by V of the fit as it is, up to this one. Where swaps succeed without a map, it shows
soon whether one helps; twice as many while it does."""

MORE_DRAWS = 1.25
"""Times as many independent draws, with which a map is fitted again."""

ENOUGH_DRAWS = 400
"""Independent draws from which more of them say nothing new: what they do not map stays."""

_ROUNDS = (100, 100, 200, *(400,) * 4, *(800,) * 20)  # scans of each


def map_by_run(
    density: Density, fit: GaussianBase, rng: np.random.Generator, left: float, *, is_heavy: bool
) -> Shape:
    """Run two levels in a fit's mode, and fit maps to their draws.

    V of the Gaussian and of each map come from swaps with the target. A map is kept where it
    helps and is no worse than coarse, and where V of its own draws'
    weights is fair: of a hierarchy whose funnel ends in a plateau swaps alone say little.
    ``left`` gradients may be spent; ``is_heavy`` is whether the density has heavy tails.
    """
    path = TemperedPath.from_base(density, GaussianBase(fit.mean, 1.2 * fit.scale))
    settings = Hamiltonian()
    ladder = Ladder(path, np.array([0.0, 1.0]), fit.mean[None], rng, settings=settings)
    # of the longest trajectory, and of a draw of the reference
    most_of_scan = settings.most_evaluations(density.dim) + 1
    best, lowest, lowest_seen, gaussian = None, COARSE, np.inf, np.inf
    earlier: list[FloatArray] = []
    n_uneven = n_gradients = 0
    funnel_depth, wanted, n_fitted = 0.0, N_PLACES, 0.0
    for n_scans in _ROUNDS:
        too_dear = n_gradients + n_scans * most_of_scan > left
        in_use = None if ladder.mixture is None else ladder.mixture.fits[0]
        # swaps succeed without a tail that few draws are in
        seen = max(gaussian, COARSE) if is_heavy else gaussian
        if too_dear or n_gradients > _most(seen, lowest_seen, in_use is not None):
            break
        record = ladder.run(n_scans, rng, adapt=True, keep_positions=True)
        n_gradients += record.counts["n_gradients"]
        variance = variance_of_rejection(1.0 - float(record.swap_acceptance_rate[0]))
        if in_use is None:
            gaussian = variance
        else:
            lowest_seen = min(lowest_seen, variance)
            if variance < min(lowest, HELPS * gaussian):
                weights = log_weights(density, in_use, rng)
                n_gradients += weights.size
                # infinite where one draw in fifty has no density
                if trimmed_variance(weights) <= FAIR:
                    best, lowest = in_use, variance
                else:
                    n_uneven += 1
            # three maps whose swaps succeed with uneven weights are enough
            in_vain = n_uneven == 3 or n_fitted > ENOUGH_DRAWS
            if (best is not None and lowest <= GOOD) or (best is None and in_vain):
                break
        earlier.append(record.target_positions)
        # without the first half, which begins at the fit's mean
        positions = np.concatenate(earlier)
        positions = positions[len(positions) // 2 :]
        # scales of heavy tails differ as those of a funnel do, and short steps do not get there
        narrows = gaussian > COARSE and not is_heavy
        if narrows and funnel_depth < DEEP and len(positions) >= wanted:
            wanted = 2 * len(positions)
            n_gradients += N_EVALUATIONS
            funnel_depth = depth_of_funnels(density, positions, rng)
            if funnel_depth >= DEEP:
                # by steps of local sizes from now on
                ladder.settings = Gist()
                ladder.restart_adaptation()
        n_fitted = _map_again(ladder, positions, n_fitted)
    n_gradients += ladder.n_off_record
    if best is not None:
        return Shape(best, lowest, n_gradients, funnel_depth)
    # one of few draws leaves out what they had not met
    helps = lowest_seen <= HELPS * gaussian and gaussian > COARSE
    known = n_fitted > ENOUGH_DRAWS and not is_heavy and not n_uneven
    last = ladder.mixture.fits[0] if helps and known and ladder.mixture is not None else None
    variance = gaussian if last is None else lowest_seen
    return Shape(last, variance, n_gradients, funnel_depth, needs_levels=variance > AS_IT_IS)


def _map_again(ladder: Ladder, positions: FloatArray, n_fitted: float) -> float:
    """Start from a new map, if there are enough new draws; return how many made the latest."""
    n = max(n_independent(positions), len(positions) / DRAWS_PER_INDEPENDENT)
    if n < MORE_DRAWS * n_fitted:
        return n_fitted
    if (mapped := map_of_draws(positions, n)) is not None:
        ladder.change_mixture(Mixture((mapped,), np.ones(1)))
    return n


def _most(gaussian: float, lowest: float, maps: bool) -> float:
    """Gradients of a run, by V of the fit and of the best map so far."""
    most = next(budget for variance, budget in BUDGETS if gaussian <= variance)
    if lowest < HELPS * gaussian:
        return 2 * most
    return most if maps or most < MOST_GRADIENTS else most / 2


@np.errstate(over="ignore", invalid="ignore")
def depth_of_funnels(density: Density, z: FloatArray, rng: np.random.Generator) -> float:
    """Log of the typical local scale over that in the narrowest twentieth of the draws (n, D).

    The scale of a place comes from the curvature along one random direction, in units of the draws'
    own standard deviations, as in :mod:`pymc_tempering.engine.explorers.gist`. 200 draws are looked
    at; fewer tell little. It is 1 for a factor of e, and up to 0.5 for a Gaussian of few
    dimensions.
    """
    moments = GaussianBase.from_draws(z, full=True, n_effective=len(z))
    root = moments.matrix
    places = z[rng.permutation(len(z))[:N_PLACES]]
    directions = rng.standard_normal(places.shape)
    beside = places + DISPLACEMENT * directions @ root.T
    here, there = (density_at(density.address, points)[1] @ root for points in (places, beside))
    change = np.linalg.norm(there - here, axis=1) / DISPLACEMENT
    curvature = FLAT + change / np.linalg.norm(directions, axis=1)
    log_scales = -0.5 * np.log(curvature[np.isfinite(curvature)])
    if log_scales.size < len(places) // 2:
        return 0.0
    narrow, typical = np.quantile(log_scales, [0.05, 0.5])
    return float(typical - narrow)
