"""A Gaussian near the posterior without gradients: draws, weights, and again draws.

From draws of the prior on, each round draws from the present Gaussian, weighs the draws by a power
of the density ratio that leaves a quarter of them effective, and takes the moments of what the
weights select (tempered population Monte Carlo; the cross-entropy method of Rubinstein & Kroese).
Jumps and plateaus do no harm, and all modes that draws fall into count.
"""

import numpy as np
from scipy.optimize import brentq

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Density
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.errors import BaseError
from pymc_tempering.references.prepared import Prepared, Report, Search, unwatched
from pymc_tempering.references.quality import N_MANY, evaluate_elbo
from pymc_tempering.references.starts import inside, jitter, pulled_inside
from pymc_tempering.types import FloatArray

MOST_ROUNDS = 40
"""A bound: rounds end where the weights have settled."""


def fit_by_draws(
    density: Density, start: FloatArray, rng: np.random.Generator, *, prior_points: FloatArray,
    most: float = np.inf, report: Report = unwatched,
) -> Prepared:  # fmt: skip
    """Fit one Gaussian to a density that has no gradient.

    From ``prior_points`` (n, D), draws of the prior, or without enough of them points around the
    start. It may take ``most`` evaluations, those of one round at least. Raises BaseError if the
    density is positive nowhere around.
    """
    points = _first_points(density, start, rng, prior_points)
    n = min(max(512, 20 * density.dim), 4000)
    base, place = GaussianBase.from_draws(points), points[0]
    n_done = n_settled = 0
    n_rounds = MOST_ROUNDS
    if np.isfinite(most):
        n_rounds = int(np.clip((most - N_MANY - len(prior_points)) // n, 1, MOST_ROUNDS))
    # after two rounds with the weights in full, the Gaussian is the best one
    while n_done < n_rounds and n_settled < 2:
        report("draws and weights", n_done, n_rounds)
        n_done += 1
        # one narrower than the target has weights without a bound
        path = TemperedPath.from_base(density, GaussianBase(base.mean, 1.1 * base.scale))
        u = rng.standard_normal((n, density.dim))
        delta = new_replicas(path.view, u).delta
        if np.isfinite(delta).sum() < 2:
            # a support that is much smaller than the Gaussian
            base = GaussianBase(place, 0.5 * base.scale)
            continue
        power, weights = _tempered_weights(delta)
        chosen = path.base.from_base(u[rng.choice(n, n, p=weights)])
        base = GaussianBase.from_draws(chosen, n_effective=1.0 / (weights**2).sum())
        place = chosen[0]
        n_settled += power == 1.0
    report("draws and weights", n_rounds, n_rounds)
    elbo = evaluate_elbo(density, base, rng, N_MANY).value
    fitted = GaussianBase(base.mean, base.scale, elbo if np.isfinite(elbo) else None)
    n_evaluations = n_done * n + N_MANY + len(prior_points)
    return Prepared(fitted, (fitted,), Search(n_gradients=n_evaluations), place=place)


def _first_points(
    density: Density, start: FloatArray, rng: np.random.Generator, prior_points: FloatArray
) -> FloatArray:
    points = prior_points[inside(density, prior_points)]
    if len(points) < 32:
        around, _ = pulled_inside(
            density, np.tile(start, (64, 1)), jitter(rng, 64, np.ones((64, density.dim)))
        )
        points = np.concatenate([points, around.points])
    if len(points) < 2:
        raise BaseError(
            "The log density is finite at hardly any draw of the prior, nor around the initial "
            "point. Set the model's initial values inside the support, or give a `base`."
        )
    return points


def _tempered_weights(delta: FloatArray) -> tuple[float, FloatArray]:
    """Largest power at which a quarter of the draws is effective, and the normalised weights."""
    raised = np.where(np.isfinite(delta), delta, -np.inf) - delta[np.isfinite(delta)].max()
    least = 0.25 * np.isfinite(raised).sum()

    def weights_at(power: float) -> FloatArray:
        weights = np.where(np.isfinite(raised), np.exp(power * np.maximum(raised, -1e300)), 0.0)
        return weights / weights.sum()

    def excess(power: float) -> float:
        return float(1.0 / (weights_at(power) ** 2).sum() - least)

    power = 1.0
    if excess(1.0) < 0.0:
        power = float(np.exp(brentq(lambda x: excess(np.exp(x)), -700.0, 0.0, xtol=1e-3)))
    return power, weights_at(power)
