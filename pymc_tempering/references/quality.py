r"""How well a density fits a target, on one scale: the variance V of its log weights.

A density q that can be drawn from and evaluated has log weights ``log_target - log q`` at its own
draws. Their variance V, in squared nats, says everything else where log weights are normal:

- The ELBO misses :math:`V / 2` nats of the log mass.
- Swaps between q and the target, without a level in between, are rejected at the rate
  :math:`\operatorname{erf}(\sqrt V / 2)`.
- The communication barrier from q to the target is :math:`\sqrt{V / \pi}`.

Every fit, candidate and trial is judged by V, and every threshold is one of the five below. The
same draws give lower bounds on log Z: the ELBO, and importance-sampled evidence of all fits.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import erfinv, logsumexp

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import LocalDensity
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.path import Density, density_at
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.types import BoolArray, FloatArray

EXACT = 0.005
"""Nothing is left to explain: log Z from 2560 weights is off by 0.0014 nats."""

GOOD = 0.25
"""A fit stands for its mode, and its mass is known: the ELBO misses an eighth of a nat."""

FAIR = 1.0
"""A path needs no levels: half of the swaps without any succeed. The variance of the weights
themselves, ``exp(V) - 1``, is about one."""

COARSE = 2.0
"""A path needs a few levels (barrier 0.8). Fits with more are pieces of a mode, not a mode."""

LADDER = 8.0
"""A path needs many levels (barrier 1.6), and a better shape is worth looking for."""

GAIN = 0.5
"""Share of a fit's V that a better shape has to be below: less is not worth another shape."""

N_ROUGH, N_DRAWS, N_MANY = 16, 100, 400
"""Draws of an ELBO: where many candidates are compared, V of a curvature, V of a fit that stays."""

N_IMPORTANCE = 128
"""Of each fit: where the variance of its log weights is 0.25, the error is 0.05 nats at most."""

TRIMMED = 0.02
"""Share of the draws, the lowest, that V and regressions leave out: a tail, not the shape."""


def variance_of_rejection(rejection: float) -> float:
    """V of a density whose swaps with the target are rejected at this rate; inf at one."""
    return float((2.0 * erfinv(min(rejection, 1.0))) ** 2)


def barrier_of(variance: float) -> float:
    """Communication barrier from a density of this V to the target."""
    return float(np.sqrt(variance / np.pi))


def variance_of_barrier(barrier: float) -> float:
    """V of a density with this barrier to the target."""
    return float(np.pi * barrier**2)


class Elbo(NamedTuple):
    """A lower bound on log Z in nats, and V, half of which is about what it misses.

    ``-inf`` and ``inf`` if no draw has a finite density.
    """

    value: float
    variance: float


def has_gradient(values: FloatArray, grads: FloatArray) -> BoolArray:
    """Which draws are inside the support, with gradients whose products are still numbers."""
    return np.isfinite(values) & (np.abs(grads) < 1e150).all(axis=1)


def evaluate_elbo(
    density: Density, base: GaussianBase, rng: np.random.Generator, n_draws: int = 1000,
    trimmed: float = 0.0,
) -> Elbo:  # fmt: skip
    r"""Evaluate a lower bound on log Z from draws of a base.

    .. math:: \ell = \log b + E_q[\log \pi(z) - \log q(z) \mid \pi(z) > 0] \le \log Z,

    where q is the base and b its mass on the support of the target, so b = 1 and this is the
    ordinary ELBO for targets that are positive everywhere. It is a bound for any part of the
    support: a share ``trimmed`` of the draws, those of the lowest weights, may count as outside,
    as one of 400 that is 200,000 nats low in the tail of a good map.

    Draws are in antithetic pairs: 1000 of 92 parameters have a standard error near 0.1 nats.
    """
    half = rng.standard_normal((max(n_draws // 2, 2), base.dim))
    u = np.concatenate([half, -half])
    log_base = -0.5 * (u * u).sum(axis=1) - base.log_det_scale - 0.5 * base.dim * LOG_2PI
    delta = density_at(density.address, base.from_base(u))[0] - log_base
    delta = np.sort(delta[np.isfinite(delta)])
    if not delta.size:
        return Elbo(-math.inf, math.inf)
    # a fit far from any mode has densities whose sum is beyond all numbers
    with np.errstate(over="ignore", invalid="ignore"):
        inside = delta[int(trimmed * delta.size) :]
        value = float(inside.mean()) + math.log(inside.size / len(u))
    return Elbo(value, trimmed_variance(delta))


def log_weights(
    density: Density, shape: LocalDensity, rng: np.random.Generator, n: int = 200
) -> FloatArray:
    """Return the log target minus the log density of a shape at its own draws, shape (n,).

    200 draws tell V of a transport map.
    """
    z = shape.from_base(rng.standard_normal((n, shape.dim)))
    return density_at(density.address, z)[0] - shape.log_density(z)


def trimmed_variance(delta: FloatArray) -> float:
    """V: variance of log weights without the lowest 2 %, in squared nats.

    Infinite, or not a number, where others of them are; infinite without any.
    """
    if not delta.size:
        return math.inf
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.sort(delta)[int(TRIMMED * delta.size) :].var())


class ImportanceEvidence(NamedTuple):
    """A lower bound on log Z and its error, in nats; ``-inf`` and 0 where nothing is known."""

    value: float
    se: float
    n_gradients: int


UNKNOWN = ImportanceEvidence(-np.inf, 0.0, 0)


def importance_evidence(
    density: Density, modes: Sequence[GaussianBase], rng: np.random.Generator,
    n_draws: int = N_IMPORTANCE, *, orbit: Orbit | None = None,
) -> ImportanceEvidence:  # fmt: skip
    r"""Weight draws of all fits against their mixture, so that no place counts twice.

    .. math:: \hat Z = \frac{1}{KN} \sum_{k=1}^K \sum_{n=1}^N
        \frac{\pi(z_{kn})}{\frac{1}{K} \sum_j q_j(z_{kn})}, \qquad z_{kn} \sim q_k

    (multiple importance sampling with the balance heuristic, Veach & Guibas 1995). It needs no
    chain, and is less than log Z where other modes hold some: an estimate of log Z below it lacks
    what is known to be there. Each mode has ``n_draws`` draws.
    """
    if not modes:
        return UNKNOWN
    z = np.concatenate([mode.draw(rng, n_draws) for mode in modes])
    # of all images of all fits; draws of the fits alone have the weights that any would have
    images = z[None] if orbit is None else orbit.images(z)
    logs = [mode.log_density(images) for mode in modes]
    log_mixture = logsumexp(logs, axis=(0, 1)) - np.log(len(modes) * len(images))
    log_weights = density_at(density.address, z)[0] - log_mixture
    value = float(logsumexp(log_weights) - np.log(len(z)))
    if not np.isfinite(value):
        return UNKNOWN._replace(n_gradients=len(z))
    # each mode has the same number of draws: what the modes differ by is no error
    weights = np.exp(log_weights - value).reshape(len(modes), n_draws)
    variance = weights.var(axis=1, ddof=1).mean() / len(z)
    return ImportanceEvidence(value, float(np.sqrt(variance)), len(z))
