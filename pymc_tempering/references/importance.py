"""Log Z of one mode that is nearly a Gaussian, by importance sampling from the fit to it alone.

A full run searches, tunes and samples: tens of thousands of gradients. Where a few ascents meet in
one place, and log weights of a Gaussian there hardly vary, a few hundred tell log Z as well. What
does not look like that is said so, and left to a full run.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import Density, density_at
from pymc_tempering.numerics import LOG_2PI, pareto_k, systematic_indices
from pymc_tempering.references.ascent import MOST_GRADIENTS, ascend
from pymc_tempering.references.full_rank import fit_gaussian
from pymc_tempering.references.local import laplace_at
from pymc_tempering.references.quality import FAIR, trimmed_variance
from pymc_tempering.references.same_mode import owner
from pymc_tempering.references.starts import Starts, jitter, pulled_inside
from pymc_tempering.types import FloatArray

N_DRAWS = 400
"""Draws that tell V and the tail of the weights; as many are the least that log Z comes from."""

MOST_DRAWS = 60_000
"""What a target may ask for: beyond it a full run is no dearer."""

MOST_VARIANCE, MOST_K = FAIR, 0.6
"""V of a fit, and Pareto k of its weights, up to which log Z comes from them. With both, intervals
of 95 % held 95 % with V up to 0.25, and 93 % from there to 0.5 and from there to 1, where two
fifths of the fits have such weights (benchmarks/many_weights.py, seeds 3 to 5; that of k was chosen
on seed 1, that of V after seeds 2 to 4)."""

MORE_DRAWS = 1.5
"""Times as many as the target takes by the error that the draws tell: that is too small where large
weights are still to come, and draws end where it happens to be small."""

FINITE_VARIANCE = 0.5
"""Tail index of weights below which their mean has a finite variance, so that an error of log Z
from it means something (Vehtari et al. 2024)."""

WIDE_SHARE, WIDER = 0.2, 1.5
"""Of the draws; and by how many standard deviations of the length of a draw they are wider. With a
tenth, one of them and as many draws as the target takes, weights of fits with V from 0.25 to 0.5
covered 89 %; with both as here 97 %, and 93 % of others. Which of the two it is was not measured in
one run."""

N_PLACES = 64
"""Where the density is looked at for ascents to begin: less than a sixth of all gradients."""

_SPENT = "the gradients allowed are spent"
_NO_MAXIMUM = "an ascent found no maximum with a curvature"


class OneMode(NamedTuple):
    """Laplace's approximation at a mode, or None and why; and the gradients it took."""

    base: GaussianBase | None
    n_gradients: int
    doubt: str = ""


def one_mode(
    density: Density, start: FloatArray, prior_points: FloatArray, rng: np.random.Generator,
    n_starts: int, most: float,
) -> OneMode:  # fmt: skip
    """Ascend from several starts; there is a mode where all lead to one place.

    The first ascent begins at the start (D,). The others begin where the density is highest among
    draws of the prior (n, D) and points around the start that the Gaussian at the first one's end
    does not explain. A mode that none of them leads to is missed, and nothing here can tell.
    """
    dim = start.size
    # of the places, halved inwards once, the differences for the curvature, and the ascents, which
    # finish a search along a line
    others_take = 2 * N_PLACES + 24 * dim
    each = int(min(MOST_GRADIENTS, (most - others_take) / n_starts - 20))
    if each < 1:
        return OneMode(None, 0, _SPENT)
    places, n_gradients = _places(density, start, prior_points, rng)
    if not len(places.points):
        return OneMode(None, n_gradients, "the density is zero at every start")
    # the start, where the density is finite there
    near = GaussianBase(places.points[0], np.ones(dim))
    mode, value, base, n_ascent = _maximum(density, near, np.ones(dim), each)
    n_gradients += n_ascent
    if base is None:
        return OneMode(None, n_gradients, _NO_MAXIMUM)
    others = places.at(owner([base], places.points) < 0)
    others = others.at(np.argsort(-others.values, kind="stable")[: n_starts - 1])
    if not len(others.points):
        return OneMode(base, n_gradients)
    found = ascend(
        density, others.points, Coordinates.of(base), most_gradients=each, first=others[1:],
        known=(mode, value),
    )  # fmt: skip
    n_gradients += found.n_gradients
    if not (found.converged & np.isfinite(found.values)).all():
        return OneMode(None, n_gradients, _NO_MAXIMUM)
    # a standard deviation, as ascents tell modes apart
    away = np.abs(base.to_base(found.ends)).max(axis=1) > 1.0
    if away.any():
        doubt = f"{away.sum()} of {1 + len(away)} ascents ended elsewhere than the first"
        return OneMode(None, n_gradients, doubt)
    return OneMode(base, n_gradients)


def mode_near(density: Density, near: GaussianBase, most: float) -> OneMode:
    """Ascend once, from the mean of a Gaussian and in its coordinates; look nowhere else."""
    # of the differences for the curvature, and the end of a search along a line
    left = int(min(MOST_GRADIENTS, most - 24 * near.dim - 20))
    if left < 1:
        return OneMode(None, 0, _SPENT)
    _, _, base, n_gradients = _maximum(density, near, near.standard_deviation, left)
    return OneMode(base, n_gradients, "" if base else _NO_MAXIMUM)


def _maximum(
    density: Density, near: GaussianBase, units: FloatArray, most: int
) -> tuple[FloatArray, float, GaussianBase | None, int]:
    """End of an ascent from a Gaussian's mean, value, Laplace's approximation, and gradients."""
    found = ascend(density, near.mean[None], Coordinates.of(near), most_gradients=most)
    mode, value = found.ends[0], float(found.values[0])
    if not (found.converged[0] and np.isfinite(value)):
        return mode, value, None, found.n_gradients
    base, n_curvature = laplace_at(density, mode, value, units)
    return mode, value, base, found.n_gradients + n_curvature


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


class QuickEvidence(NamedTuple):
    """Log Z and its error in nats, and what they rest on.

    ``variance`` is V of the fit (:mod:`.quality`) and ``pareto_k`` the tail index of its weights,
    both nan where there is no fit. ``doubt`` says why log Z is not to be trusted; it is empty where
    nothing speaks against it. ``base`` is what was drawn from, ``weighted`` the draws ``z`` (n, D)
    and their log weights (n,).
    """

    log_z: float
    se: float
    variance: float
    pareto_k: float
    n_gradients: int
    doubt: str
    base: GaussianBase | None = None
    weighted: tuple[FloatArray, FloatArray] = (np.empty((0, 0)), np.empty(0))

    def draws(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Draws ``z`` (n, D) of equal weight: weighted ones, each as often as its weight says.

        Of twice as many none comes twice, unless its weight is over twice the mean.
        """
        z, log_weights = self.weighted
        return z[systematic_indices(np.exp(log_weights - log_weights.max()), n, rng)]


def evidence_at_mode(
    density: Density, mode: OneMode, rng: np.random.Generator, *, target_se: float,
    n_draws: int = N_DRAWS, most: float = np.inf,
) -> QuickEvidence:  # fmt: skip
    """Estimate log Z from the Gaussian of a mode, or else from a fit that begins there.

    Where weights of the one will not do, a variational fit is tried beside it, and the one of the
    lower V stays. Draws, at least ``n_draws``, are added until the error reaches the target.
    ``most`` are the gradients that it may take.

    Examples
    --------
    >>> from pymc_tempering import testing
    >>> target, rng = testing.correlated_gaussian(), np.random.default_rng(1)
    >>> mode = one_mode(target, np.zeros(3), np.empty((0, 3)), rng, 4, np.inf)
    >>> found = evidence_at_mode(target, mode, rng, target_se=0.02)
    >>> bool(abs(found.log_z - target.log_z) < 4 * found.se), found.doubt
    (True, '')
    """
    if mode.base is None:
        return QuickEvidence(np.nan, np.nan, np.nan, np.nan, mode.n_gradients, mode.doubt)
    options: dict[str, Any] = {"target_se": target_se, "n_draws": n_draws}
    # another fit takes as many draws again, and those that it is made from: in 2, 8, 20 and 50
    # dimensions about 440, 790, 1460 and 3130 gradients (benchmarks/many_weights.py)
    most_draws = 2 * N_DRAWS + 60 * density.dim
    left = most - mode.n_gradients
    found = evidence_from(density, mode.base, rng, most_draws=most_draws, most=left, **options)
    found = found._replace(n_gradients=mode.n_gradients + found.n_gradients)
    left = most - found.n_gradients - N_DRAWS
    if not found.doubt or left < 0:
        return found
    base, n_fit = fit_gaussian(density, mode.base, rng, left)
    other = evidence_from(density, base, rng, most=left + N_DRAWS - n_fit, **options)
    n_gradients = found.n_gradients + n_fit + other.n_gradients
    better = other if not other.doubt or other.variance < found.variance else found
    return better._replace(n_gradients=n_gradients)


def evidence_from(
    density: Density, base: GaussianBase, rng: np.random.Generator, *, target_se: float,
    n_draws: int = N_DRAWS, most_draws: int = MOST_DRAWS, most: float = np.inf,
) -> QuickEvidence:  # fmt: skip
    """Log Z from draws of one Gaussian, as many as the target takes, and what is to be doubted."""
    drawn = [defensive_weights(density, base, rng, N_DRAWS // 2) for _ in range(2)]
    halves = [(z, weights) for z, weights, _ in drawn]
    variance = trimmed_variance(np.concatenate([of_base for _, _, of_base in drawn]))
    if not variance <= MOST_VARIANCE:
        doubt = f"no Gaussian fits: V is {variance:.2g}, above {MOST_VARIANCE}"
        k = pareto_k(np.concatenate([weights for _, weights in halves]))
        return QuickEvidence(np.nan, np.nan, variance, k, N_DRAWS, doubt, base)
    while True:
        weights = [of_half for _, of_half in halves]
        lengths = _lengths(weights, target_se, n_draws)
        if lengths == [len(w) for w in weights] or sum(lengths) > min(most_draws, most):
            break
        for i, (half, length) in enumerate(zip(halves, lengths, strict=True)):
            new = defensive_weights(density, base, rng, length - len(half[1]))
            halves[i] = np.concatenate([half[0], new[0]]), np.append(half[1], new[1])
    log_z, se = log_mean_weight(*weights)
    z, pooled = np.concatenate([z for z, _ in halves]), np.concatenate(weights)
    k, n, doubt = pareto_k(pooled), len(pooled), ""
    # up to there the errors of any n draws are those stated, though not of infinitely many
    if not k <= MOST_K:
        doubt = f"the weights have a heavy tail: Pareto k is {k:.2f}, above {MOST_K}"
    elif not se <= target_se:
        doubt = f"the error is {se:.2g} nats from {n} draws, above {target_se:g}"
    of_half = np.concatenate([w - math.log(len(w)) for w in weights])
    return QuickEvidence(log_z, se, variance, k, n, doubt, base, (z, of_half))


def defensive_weights(
    density: Density, base: GaussianBase, rng: np.random.Generator, n: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    r"""Draws (n, D) of a Gaussian, a fifth from a wider one, and their log weights (n,).

    .. math:: q = 0.8\, N(m, S S^\top) + 0.2\, N(m, (1 + 1.5 D^{-1/2})^2 S S^\top)

    The tails of a posterior are often heavier than those of the Gaussian that fits best. Weights
    against the mixture stay bounded where the wider one covers them (Hesterberg 1995, "Weighted
    average importance sampling and defensive mixture distributions"); in D dimensions its draws are
    some standard deviations further out than those of the Gaussian. The last array are log weights
    of the Gaussian alone, at its own draws.
    """
    wider = 1.0 + WIDER * base.dim**-0.5
    is_wide = rng.random(n) < WIDE_SHARE
    u = rng.standard_normal((n, base.dim))
    u[is_wide] *= wider
    squares = (u * u).sum(axis=1)
    constant = base.log_det_scale + 0.5 * base.dim * LOG_2PI
    log_base = -0.5 * squares - constant
    log_wide = -0.5 * squares / wider**2 - base.dim * math.log(wider) - constant
    log_mixture = np.logaddexp(math.log1p(-WIDE_SHARE) + log_base, math.log(WIDE_SHARE) + log_wide)
    z = base.from_base(u)
    weights = density_at(density.address, z)[0] - log_mixture
    return z, weights, (weights + log_mixture - log_base)[~is_wide]


def log_mean_weight(*log_weights: FloatArray) -> tuple[float, float]:
    r"""Log Z from log weights of independent draws, and its error, in nats.

    Each array is one group of draws; the mean weight is that of the groups' means. With the
    relative error s of the mean weight, the error of its log is s, and its log is too low by
    :math:`s^2 / 2` on average, which is added: over many data sets it would not cancel.

    Examples
    --------
    >>> log_mean_weight(np.full(400, -3.0))
    (-3.0, 0.0)
    """
    # for small arrays logsumexp of SciPy takes as long as a tenth of the gradients
    top = max(float(group.max()) for group in log_weights)
    if not math.isfinite(top):
        return top, math.nan
    weights = [np.exp(group - top) for group in log_weights]
    mean = sum(float(w.mean()) for w in weights) / len(weights)
    squares = sum(float(w.var(ddof=1)) / len(w) for w in weights)
    se = math.sqrt(squares) / (mean * len(weights))
    return top + math.log(mean) + 0.5 * se**2, se


def _lengths(halves: list[FloatArray], target_se: float, n_draws: int) -> list[int]:
    """How many draws either half of them is to have, of those that the target takes.

    So many of the one as the variance of the other asks for: a mean whose draws end where they
    happen to vary little has too few of the large weights, and log Z is too low. None gets fewer.
    One that gets more, as both do where together they are not there yet, gets a quarter more at
    least, so that they do not grow in small steps. None gets more where a half has no error.
    """
    lengths = [len(weights) for weights in halves]
    errors = [log_mean_weight(weights)[1] for weights in halves]
    if not np.isfinite(errors).all():
        return lengths
    short = log_mean_weight(*halves)[1] > target_se
    for i, (other, se) in enumerate(zip(halves[::-1], errors[::-1], strict=True)):
        needed = max(MORE_DRAWS * len(other) * (se / target_se) ** 2, n_draws) / 2
        if short or needed > lengths[i]:
            lengths[i] = max(math.ceil(needed), lengths[i] * 5 // 4)
    return lengths
