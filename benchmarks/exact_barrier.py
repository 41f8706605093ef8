"""Exact communication barrier and swap rates of the path to an exact target."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.polynomial import chebyshev
from numpy.typing import ArrayLike
from scipy import special

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import OptionError
from pymc_tempering.testing import exact
from pymc_tempering.testing.exact import ExactTarget
from pymc_tempering.types import FloatArray

__all__ = ["cumulative_barrier", "global_barrier", "swap_acceptance_rates"]

_N_DRAWS = 100_000
_N_NODES = 33
_SEED = 20_211  # fixed: the answer is a constant of target and base, not of a run


class _Deltas:
    """Law of ``delta`` along the path: sorted values with weights, from quadrature or draws."""

    def __init__(self, target: ExactTarget, base: GaussianBase) -> None:
        self.target, self.base = target, base
        self.rng = np.random.default_rng(_SEED)
        self.on_grid = target.dim <= 2 and target.parts.edge == -np.inf
        if not self.on_grid:
            return
        z, log_volume = exact.quadrature(target, base, 20_001 if target.dim == 1 else 601)
        with np.errstate(over="ignore"):
            log_target = target.log_density(z)
        log_base = exact.base_log_density(z, base)
        inside = log_target > -np.inf
        log_base, log_target, log_volume = log_base[inside], log_target[inside], log_volume[inside]
        order = np.argsort(log_target - log_base)
        self.delta = (log_target - log_base)[order]
        self.log_mass = (log_base + log_volume)[order]

    def at(self, beta: float) -> tuple[FloatArray, FloatArray]:
        """Sorted deltas and their probabilities at `beta`."""
        if self.on_grid:
            log_weights = self.log_mass + beta * self.delta
            weights = np.exp(log_weights - log_weights.max())
            return self.delta, weights / weights.sum()
        z = self.target.draw_path(self.rng, _N_DRAWS, beta, self.base)
        return np.sort(self.target.delta(z, self.base)), np.full(_N_DRAWS, 1.0 / _N_DRAWS)


def _scaled_barrier(
    target: ExactTarget, betas: FloatArray, base: GaussianBase
) -> FloatArray | None:
    if target.parts.gaussian is None:
        return None
    _, _, cov0 = exact.path_gaussian(target, 0.0, base)
    mean1, cov1 = target.parts.gaussian
    identity = np.eye(target.dim)
    same_mean = np.allclose(mean1, np.asarray(base.mean), atol=0.0, rtol=1e-12)
    isotropic = all(np.allclose(c, c[0, 0] * identity, rtol=1e-12) for c in (cov0, cov1))
    if not (same_mean and isotropic):
        return None
    p0, p1 = 1.0 / cov0[0, 0], 1.0 / cov1[0, 0]
    log_ratio = np.log(((1.0 - betas) * p0 + betas * p1) / p0)
    return np.abs(log_ratio) / special.beta(0.5 * target.dim, 0.5)


def cumulative_barrier(target: ExactTarget, betas: ArrayLike, base: GaussianBase) -> FloatArray:
    r"""Communication barrier between 0 and each of `betas`, dimensionless.

    The local barrier is :math:`\lambda(\beta) = \frac12 E|\delta(X) - \delta(Y)|` with X and Y
    independent at `beta`, the cumulative barrier its integral (Syed et al. 2022, *Non-reversible
    parallel tempering*). For two isotropic Gaussians with one mean,
    delta is a multiple of a chi-square variable whose mean absolute difference is a Beta function:
    ``Lambda(beta) = |log(precision(beta) / precision(0))| / B(D/2, 1/2)``. Other targets use
    quadrature in one or two dimensions (about 4 digits) and 100 000 exact draws per node
    otherwise (about 3 digits), always with the same seed.

    A target with an edge is refused: swaps with the base are then rejected with a probability that
    does not vanish however near the next level is, and no barrier exists.
    """
    schedule = np.asarray(betas, dtype=np.float64)
    if target.parts.edge > -np.inf:
        raise OptionError(
            f"target '{target.name}' has an edge, and then no finite barrier at the base. "
            "Compare swap_acceptance_rates instead."
        )
    closed = _scaled_barrier(target, schedule, base)
    if closed is not None:
        return closed
    deltas = _Deltas(target, base)
    # beta = sin(pi s / 2)**2 tames the ends, where the local barrier may diverge
    nodes = chebyshev.chebpts1(_N_NODES)
    s = 0.5 * (nodes + 1.0)
    local = np.empty(_N_NODES)
    for i, beta in enumerate(np.sin(0.5 * np.pi * s) ** 2):
        delta, weights = deltas.at(float(beta))
        cdf = np.cumsum(weights)[:-1]
        local[i] = np.sum(cdf * (1.0 - cdf) * np.diff(delta))
    integrand = local * 0.25 * np.pi * np.sin(np.pi * s)
    integral = chebyshev.chebint(chebyshev.chebfit(nodes, integrand, _N_NODES - 1), lbnd=-1.0)
    at = 4.0 / np.pi * np.arcsin(np.sqrt(schedule)) - 1.0
    return np.asarray(chebyshev.chebval(at, integral))


def global_barrier(target: ExactTarget, base: GaussianBase) -> float:
    """Communication barrier of the whole path."""
    return float(cumulative_barrier(target, np.array([1.0]), base)[0])


def swap_acceptance_rates(target: ExactTarget, betas: ArrayLike, base: GaussianBase) -> FloatArray:
    """Mean swap probability between neighbouring levels when both are at stationarity.

    With a below b the mean of ``min(1, exp((beta_a - beta_b) (delta_b - delta_a)))`` is
    ``2 P(delta_a > delta_b) + P(delta_a = delta_b)``, since a swap and its reversal weigh the same.

    By quadrature in one or two dimensions, else from 100 000 exact draws per level with a fixed
    seed (standard error below 0.003); shape ``(levels - 1,)``.
    """
    schedule = np.asarray(betas, dtype=np.float64)
    deltas = _Deltas(target, base)
    levels = [deltas.at(float(beta)) for beta in schedule]
    rates = np.empty(len(schedule) - 1)
    for i, ((delta_a, weights_a), (delta_b, weights_b)) in enumerate(itertools.pairwise(levels)):
        cdf = np.concatenate([[0.0], np.cumsum(weights_b)])
        below = cdf[np.searchsorted(delta_b, delta_a, side="left")]
        up_to = cdf[np.searchsorted(delta_b, delta_a, side="right")]
        rates[i] = weights_a @ (below + up_to)
    return rates
