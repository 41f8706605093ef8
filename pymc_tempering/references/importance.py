"""Log Z of one mode that is nearly a Gaussian, by importance sampling from the fit to it alone.

A full run searches, tunes and samples: tens of thousands of gradients. Where a few ascents meet in
one place, and log weights of a Gaussian there hardly vary, a few hundred tell log Z as well. What
does not look like that is said so, and left to a full run.
"""

import math
from typing import NamedTuple

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import Density
from pymc_tempering.numerics import LOG_2PI, pareto_k
from pymc_tempering.references.ascent import MOST_GRADIENTS, WITHIN, ascend
from pymc_tempering.references.elbo import delta_at, trimmed_variance
from pymc_tempering.references.full_rank import fit_gaussian
from pymc_tempering.references.local import laplace_at
from pymc_tempering.references.quality import GOOD
from pymc_tempering.references.same_mode import owner
from pymc_tempering.references.starts import Starts, jitter, pulled_inside
from pymc_tempering.types import FloatArray

__all__ = [
    "FINITE_VARIANCE", "N_DRAWS", "QuickEvidence", "defensive_weights", "log_mean_weight",
    "quick_evidence",
]  # fmt: skip

N_DRAWS = 400
"""Draws that tell V and the tail of the weights; as many are the least that log Z comes from."""

MOST_DRAWS = 10_000
"""What a target may ask for: beyond it a full run is no dearer."""

FINITE_VARIANCE = 0.5
"""Tail index of weights below which their mean has a finite variance, so that an error of log Z
from it means something (Vehtari et al. 2024)."""

N_PLACES = 64
"""Where the density is looked at for ascents to begin: less than a sixth of all gradients."""

WIDE_SHARE = 0.1
"""Of the draws; the weights of the others are a tenth larger for it at most."""


class QuickEvidence(NamedTuple):
    """Log Z and its error in nats, and what they rest on.

    ``variance`` is V of the fit (:mod:`.quality`) and ``pareto_k`` the tail index of its weights,
    both nan where there is no fit. ``doubt`` says why log Z is not to be trusted; it is empty where
    nothing speaks against it.
    """

    log_z: float
    se: float
    variance: float
    pareto_k: float
    n_gradients: int
    doubt: str


class _Fit(NamedTuple):
    base: GaussianBase | None
    n_gradients: int
    doubt: str = ""


def quick_evidence(
    density: Density,
    start: FloatArray,
    rng: np.random.Generator,
    *,
    prior_points: FloatArray,
    n_starts: int,
    target_se: float,
    most: float = np.inf,
) -> QuickEvidence:
    """Estimate log Z from a Gaussian at the one mode that all ascents lead to.

    The first ascent begins at the start (D,). The others begin where the density is highest among
    draws of the prior (n, D) and points around the start that the Gaussian at the first one's end
    does not explain. A mode that none of them leads to is missed, and nothing here can tell.

    The Gaussian is the Laplace approximation; where its weights will not do, a variational fit is
    tried beside it, and the one of the lower V stays. Draws are added until the error reaches the
    target. ``most`` are the gradients that it may take.

    Examples
    --------
    >>> from pymc_tempering import testing
    >>> target = testing.correlated_gaussian()
    >>> found = quick_evidence(
    ...     target, np.zeros(3), np.random.default_rng(1), prior_points=np.empty((0, 3)),
    ...     n_starts=4, target_se=0.02,
    ... )
    >>> bool(abs(found.log_z - target.log_z) < 4 * found.se), found.doubt
    (True, '')
    """
    fit = _one_mode(density, start, prior_points, rng, n_starts, most - N_DRAWS)
    if fit.base is None:
        return QuickEvidence(np.nan, np.nan, np.nan, np.nan, fit.n_gradients, fit.doubt)
    # another fit takes as many draws again, and those that it is made from
    found = _sampled(density, fit.base, rng, target_se, 2 * N_DRAWS, most - fit.n_gradients)
    found = found._replace(n_gradients=fit.n_gradients + found.n_gradients)
    left = most - found.n_gradients - N_DRAWS
    if not found.doubt or left < 0:
        return found
    base, n_fit = fit_gaussian(density, fit.base, rng, left)
    other = _sampled(density, base, rng, target_se, MOST_DRAWS, left + N_DRAWS - n_fit)
    n_gradients = found.n_gradients + n_fit + other.n_gradients
    better = other if not other.doubt or other.variance < found.variance else found
    return better._replace(n_gradients=n_gradients)


def _sampled(
    density: Density,
    base: GaussianBase,
    rng: np.random.Generator,
    target_se: float,
    most_draws: int,
    most: float,
) -> QuickEvidence:
    """Log Z from draws of one Gaussian, as many as the target takes, and what is to be doubted."""
    weights = defensive_weights(density, base, rng, N_DRAWS)
    variance = trimmed_variance(weights)
    if not variance <= GOOD:
        doubt = f"no Gaussian fits: V is {variance:.2g}, above {GOOD}"
        return QuickEvidence(np.nan, np.nan, variance, pareto_k(weights), N_DRAWS, doubt)
    while len(weights) < (needed := _needed(weights, target_se)) <= most_draws:
        # so many at least that it does not go on in small steps
        more = max(int(needed) - len(weights), len(weights) // 4)
        if len(weights) + more > most:
            break
        weights = np.append(weights, defensive_weights(density, base, rng, more))
    log_z, se = log_mean_weight(weights)
    k, n, doubt = pareto_k(weights), len(weights), ""
    if not k <= FINITE_VARIANCE:
        doubt = f"the weights have a heavy tail: Pareto k is {k:.2f}, above {FINITE_VARIANCE}"
    elif not se <= target_se:
        doubt = f"the error is {se:.2g} nats from {n} draws, above {target_se:g}"
    return QuickEvidence(log_z, se, variance, k, n, doubt)


def defensive_weights(
    density: Density, base: GaussianBase, rng: np.random.Generator, n: int
) -> FloatArray:
    r"""Log weights (n,) of draws of a Gaussian, a tenth of which are from a wider one.

    .. math:: q = 0.9\, N(m, S S^\top) + 0.1\, N(m, (1 + D^{-1/2})^2 S S^\top)

    The tails of a posterior are often heavier than those of the Gaussian that fits best. Weights
    against the mixture stay bounded where the wider one covers them (Hesterberg 1995, "Weighted
    average importance sampling and defensive mixture distributions"); in D dimensions its draws are
    a standard deviation further out than those of the Gaussian.
    """
    wider = 1.0 + base.dim**-0.5
    is_wide = rng.random(n) < WIDE_SHARE
    u = rng.standard_normal((n, base.dim))
    u[is_wide] *= wider
    squares = (u * u).sum(axis=1)
    log_narrow = math.log1p(-WIDE_SHARE) - 0.5 * squares
    log_wide = math.log(WIDE_SHARE) - 0.5 * squares / wider**2 - base.dim * math.log(wider)
    constant = base.log_det_scale + 0.5 * base.dim * LOG_2PI
    return delta_at(density, base.from_base(u), np.logaddexp(log_narrow, log_wide) - constant)


_SPENT = "the gradients allowed are spent"


def log_mean_weight(log_weights: FloatArray) -> tuple[float, float]:
    r"""Log Z from log weights (n,) of independent draws, and its error, in nats.

    With the relative error s of the mean weight, the error of its log is s, and its log is too low
    by :math:`s^2 / 2` on average, which is added: over many data sets it would not cancel.

    Examples
    --------
    >>> log_mean_weight(np.full(400, -3.0))
    (-3.0, 0.0)
    """
    # for small arrays logsumexp of SciPy takes as long as a tenth of the gradients
    top = float(log_weights.max())
    if not math.isfinite(top):
        return top, math.nan
    weights = np.exp(log_weights - top)
    mean = float(weights.mean())
    se = float(weights.std(ddof=1)) / (mean * math.sqrt(len(weights)))
    return top + math.log(mean) + 0.5 * se**2, se


def _needed(log_weights: FloatArray, target_se: float) -> float:
    """Draws that the target takes, as far as these tell the variance of their weights."""
    se = log_mean_weight(log_weights)[1]
    if not math.isfinite(se):
        return math.inf
    return math.ceil(len(log_weights) * (se / target_se) ** 2)


def _one_mode(
    density: Density,
    start: FloatArray,
    prior_points: FloatArray,
    rng: np.random.Generator,
    n_starts: int,
    most: float,
) -> _Fit:
    """Laplace's approximation at the mode that all ascents lead to; none, and why, otherwise."""
    dim = start.size
    # of the places, halved inwards once, the differences for the curvature, and the ascents, which
    # finish a search along a line
    others_take = 2 * N_PLACES + 24 * dim
    each = int(min(MOST_GRADIENTS, (most - others_take) / n_starts - 20))
    if each < 1:
        return _Fit(None, 0, _SPENT)
    places, n_gradients = _places(density, start, prior_points, rng)
    if not len(places.points):
        return _Fit(None, n_gradients, "the density is zero at every start")
    # the start, where the density is finite there
    begin, units = places.points[0], np.ones(dim)
    first = ascend(
        density, begin[None], Coordinates.of(GaussianBase(begin, units)), most_gradients=each
    )
    n_gradients += first.n_gradients
    if not (first.converged[0] and np.isfinite(first.values[0])):
        return _Fit(None, n_gradients, _NO_MAXIMUM)
    mode, value = first.ends[0], float(first.values[0])
    base, n_curvature = laplace_at(density, mode, value, units)
    n_gradients += n_curvature
    if base is None:
        return _Fit(None, n_gradients, _NO_MAXIMUM)
    others = places.at(owner([base], places.points) < 0)
    others = others.at(np.argsort(-others.values, kind="stable")[: n_starts - 1])
    if not len(others.points):
        return _Fit(base, n_gradients)
    found = ascend(
        density, others.points, Coordinates.of(base), most_gradients=each, first=others[1:],
        known=(mode, value),
    )  # fmt: skip
    n_gradients += found.n_gradients
    if not (found.converged & np.isfinite(found.values)).all():
        return _Fit(None, n_gradients, _NO_MAXIMUM)
    away = np.abs(base.to_base(found.ends)).max(axis=1) > WITHIN
    if away.any():
        doubt = f"{away.sum()} of {1 + len(away)} ascents ended elsewhere than the first"
        return _Fit(None, n_gradients, doubt)
    return _Fit(base, n_gradients)


_NO_MAXIMUM = "an ascent found no maximum with a curvature"


def _places(
    density: Density, start: FloatArray, prior_points: FloatArray, rng: np.random.Generator
) -> tuple[Starts, int]:
    """The start, then in turn draws of the prior and points around the start; and the gradients.

    Those outside the support come nearer to the start by halves, and are left out where that does
    not help.
    """
    offsets = jitter(rng, N_PLACES, np.ones((N_PLACES, start.size)))
    if len(prior_points):
        chosen = rng.integers(len(prior_points), size=N_PLACES // 2)
        offsets[::2] = prior_points[chosen] - start
    centres = np.repeat(start[None], N_PLACES + 1, axis=0)
    return pulled_inside(density, centres, np.vstack([np.zeros_like(start), offsets]))
