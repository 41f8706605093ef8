"""Funnels, heavy tails, steep valleys: scales orders of magnitude apart in one model."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.stats import cauchy as cauchy_law
from scipy.stats import halfcauchy, multivariate_normal, norm

from hard_targets.target import HardTarget, Part
from pymc_tempering.types import FloatArray

__all__ = ["cauchy", "collapsed_hierarchy", "eight_schools_centred", "flat_scale", "funnel",
           "horseshoe_prior", "steep_banana"]  # fmt: skip


def _below(name: str, bound: float) -> Any:
    return lambda posterior: posterior[name].values < bound


def _hierarchy(
    name: str, y: FloatArray, sd: FloatArray, sd_of_mean: float = 5.0, widest: float = np.inf,
    *, scale_first: bool = False,
) -> HardTarget:  # fmt: skip
    """Centred hierarchy; for one group scale the rest is Gaussian, so one quadrature is left.

    The scale is half-Cauchy, or uniform up to the ``widest``.
    """
    import pymc as pm

    n, is_flat = y.size, np.isfinite(widest)
    with pm.Model() as model:
        laws = {
            "mu": lambda: pm.Normal("mu", 0.0, sd_of_mean),
            "tau": lambda: pm.Uniform("tau", 0.0, widest) if is_flat else pm.HalfCauchy("tau", 5.0),
        }
        made = {name: laws[name]() for name in sorted(laws, reverse=scale_first)}
        mu, tau = made["mu"], made["tau"]
        theta = pm.Normal("theta", mu, tau, shape=n)
        pm.Normal("y", theta, sd, observed=y)

    def joint(scale: float) -> float:
        covariance = np.diag(sd**2 + scale**2) + sd_of_mean**2
        prior = 1.0 / widest if is_flat else halfcauchy.pdf(scale, 0, 5.0)
        return multivariate_normal.pdf(y, np.zeros(n), covariance) * prior

    ends = (0.0, 0.1, 1.0, 10.0, 100.0, widest)
    pieces = np.array([quad(joint, a, b, epsabs=0.0, limit=400)[0] for a, b in pairwise(ends)])
    total = pieces.sum()
    return HardTarget(
        name, "funnel", model, float(np.log(total)),
        {f"tau<{ends[i]:g}": Part(_below("tau", ends[i]), float(pieces[:i].sum() / total))
         for i in (1, 2)},
    )  # fmt: skip


def eight_schools_centred() -> HardTarget:
    """Eight schools (Rubin 1981), centred: the narrow end of the funnel holds much mass."""
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sd = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    return _hierarchy("eight_schools_centred", y, sd)


def collapsed_hierarchy(n: int = 20) -> HardTarget:
    """Groups that are all alike: the posterior runs into the narrow end of the funnel."""
    return _hierarchy("collapsed_hierarchy", np.linspace(-0.6, 0.6, n), np.ones(n))


def flat_scale(*, scale_first: bool = True) -> HardTarget:
    """Three groups whose scale is uniform over decades, so that it and the mean have long tails."""
    name = "flat_scale" if scale_first else "flat_scale_last"
    y, sd = np.array([3.0, -2.0, 8.0]), np.array([1.0, 2.0, 1.5])
    return _hierarchy(name, y, sd, sd_of_mean=100.0, widest=1000.0, scale_first=scale_first)


def funnel(dim: int = 30) -> HardTarget:
    """Neal's funnel (2003)."""
    import pymc as pm
    import pytensor.tensor as pt

    with pm.Model() as model:
        v = pm.Normal("v", 0.0, 3.0)
        pm.Normal("x", 0.0, pt.exp(v / 2.0), shape=dim - 1)
    tail = float(norm.cdf(-1.0))
    return HardTarget(
        f"funnel_{dim}", "funnel", model, 0.0,
        {"v<-3": Part(_below("v", -3.0), tail), "v<3": Part(_below("v", 3.0), 1.0 - tail)},
    )  # fmt: skip


def horseshoe_prior(dim: int = 8) -> HardTarget:
    """The horseshoe without data."""
    import pymc as pm

    with pm.Model() as model:
        t = pm.HalfCauchy("t", 1.0)
        local = pm.HalfCauchy("l", 1.0, shape=dim)
        pm.Normal("b", 0.0, t * local, shape=dim)
    return HardTarget(
        "horseshoe_prior", "heavy tails", model, 0.0,
        {f"t<{bound:g}": Part(_below("t", bound), float(halfcauchy.cdf(bound)))
         for bound in (0.05, 20.0)},
    )  # fmt: skip


def cauchy(dim: int = 10) -> HardTarget:
    """Independent Cauchy variables."""
    import pymc as pm

    with pm.Model() as model:
        pm.Cauchy("x", 0.0, 1.0, shape=dim)

    def within(posterior: Any) -> FloatArray:
        return np.abs(posterior["x"].values).max(-1) < 50.0

    probability = float((1.0 - 2.0 * cauchy_law.sf(50.0)) ** dim)
    return HardTarget(
        f"cauchy_{dim}", "heavy tails", model, 0.0, {"|x|<50": Part(within, probability)}
    )


def steep_banana(pairs: int = 4) -> HardTarget:
    """Valleys that get steeper the further out: the tails need steps that the centre does not."""
    import pymc as pm

    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 2.0, shape=pairs)
        pm.Normal("b", 3.0 * a**2, 0.1, shape=pairs)

    def out(posterior: Any) -> FloatArray:
        return np.abs(posterior["a"].values[..., 0]) > 3.0

    def positive(posterior: Any) -> FloatArray:
        return posterior["a"].values[..., 0] > 0.0

    return HardTarget(
        "steep_banana", "curved", model, 0.0,
        {"|a|>3": Part(out, 2.0 * float(norm.sf(1.5))), "a>0": Part(positive, 0.5)},
    )  # fmt: skip
