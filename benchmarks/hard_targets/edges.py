"""Jumps, bad gradients, angles, sharp corners, infinite evidence, many dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.stats import multivariate_normal, norm

from hard_targets.target import HardTarget, Part

__all__ = ["circular", "identical_data", "nan_gradient", "random_walk", "sharp_beta",
           "step_likelihood", "tied_mixture"]  # fmt: skip


def nan_gradient(observed: float = -0.5) -> HardTarget:
    """Density finite everywhere, its gradient not a number where most of the posterior lies."""
    import pymc as pm
    import pytensor.tensor as pt

    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, initval=0.5)
        pm.Normal("y", pt.sqrt(pt.maximum(x, 0.0)), 1.0, observed=observed)
    left = 0.5 * norm.pdf(observed)
    right = quad(lambda v: norm.pdf(v) * norm.pdf(observed, np.sqrt(v), 1.0), 0.0, 12.0)[0]

    def negative(posterior: Any) -> Any:
        return posterior["x"].values < 0.0

    return HardTarget(
        "nan_gradient", "numerics", model, float(np.log(left + right)),
        {"x<0": Part(negative, float(left / (left + right)))},
    )  # fmt: skip


def step_likelihood(height: float = 6.0, at: float = 1.5, dim: int = 3) -> HardTarget:
    """A likelihood with a step, of which the gradient knows nothing."""
    import pymc as pm
    import pytensor.tensor as pt

    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=dim)
        pm.Potential("step", pt.where(x[0] > at, height, 0.0))
    above = float(np.exp(height) * norm.sf(at))
    z = above + float(norm.cdf(at))

    def beyond(posterior: Any) -> Any:
        return posterior["x"].values[..., 0] > at

    return HardTarget(
        "step_likelihood", "numerics", model, float(np.log(z)), {"above": Part(beyond, above / z)}
    )


def circular(kappa: float = 0.5, dim: int = 2) -> HardTarget:
    """Angles, whose density on the line repeats itself without end."""
    import pymc as pm

    with pm.Model() as model:
        pm.VonMises("v", 0.5, kappa, shape=dim)
    return HardTarget("circular", "constrained", model, 0.0)


def sharp_beta(a: float = 0.01) -> HardTarget:
    """Nearly all mass within a hair of 0 and 1."""
    import pymc as pm

    with pm.Model() as model:
        pm.Beta("x", a, a)

    def low(posterior: Any) -> Any:
        return posterior["x"].values < 0.5

    return HardTarget("sharp_beta", "constrained", model, 0.0, {"x<0.5": Part(low, 0.5)})


def identical_data(n: int = 3) -> HardTarget:
    """Equal observations with a scale of their own: the evidence is infinite."""
    import pymc as pm

    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        scale = pm.HalfNormal("s", 1.0)
        pm.Normal("y", mu, scale, observed=np.zeros(n))
    return HardTarget("identical_data", "infinite evidence", model, np.inf)


def tied_mixture() -> HardTarget:
    """A component that can collapse onto three equal observations: infinite evidence."""
    import pymc as pm
    import pytensor.tensor as pt

    y = np.array([-3.1, -2.9, -2.2, -2.5, 0.1, 1.9, 2.4, 2.4, 2.4, 3.0, 3.3])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 3.0, shape=2)
        scale = pm.HalfNormal("s", 1.0, shape=2)
        each = pm.logp(pm.Normal.dist(mu, scale), y[:, None])
        pm.Potential("y", (pt.logsumexp(each, axis=1) - np.log(2.0)).sum())
    return HardTarget("tied_mixture", "infinite evidence", model, np.inf)


def random_walk(steps: int = 250, sd: float = 0.05) -> HardTarget:
    """A Gaussian random walk with noise: a correlated Gaussian in many dimensions."""
    import pymc as pm

    rng = np.random.default_rng(1)
    times = np.arange(1, steps + 1)
    prior = sd**2 * np.minimum(times[:, None], times[None, :])
    y = rng.multivariate_normal(np.zeros(steps), prior) + rng.normal(size=steps)
    with pm.Model() as model:
        x = pm.GaussianRandomWalk("x", 0.0, sd, init_dist=pm.Normal.dist(0.0, sd), steps=steps - 1)
        pm.Normal("y", x, 1.0, observed=y)
    marginal = prior + np.eye(steps)
    middle = steps // 2
    mean = float(prior[middle] @ np.linalg.solve(marginal, y))

    def above(posterior: Any) -> Any:
        return posterior["x"].values[..., middle] > mean

    log_z = float(multivariate_normal.logpdf(y, np.zeros(steps), marginal))
    return HardTarget(
        f"random_walk_{steps}", "high dimension", model, log_z, {"middle": Part(above, 0.5)}
    )
