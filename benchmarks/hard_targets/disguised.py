"""Modes that pass for one: side by side, inside one another, or without a top of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import norm

from hard_targets.target import HardTarget, Part
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.types import FloatArray

__all__ = ["effects_together", "groups_alike", "ridges", "two_scales"]

KIND = "disguised modes"


def ridges(dim: int = 10, total: float = 50.0, noise: float = 0.01) -> HardTarget:
    """The absolute value of a sum is known: ridges whose centres differ little in any coordinate.

    Parameters
    ----------
    dim : int
    total : float
        The absolute value.
    noise : float
        Its standard deviation.
    """
    import pymc as pm
    import pytensor.tensor as pt

    mean, sd = 1.0, 100.0
    with pm.Model() as model:
        x = pm.Normal("x", mean, sd, shape=dim)
        pm.Normal("y", pt.abs(x.sum()), noise, observed=total)
    sums = norm(dim * mean, np.hypot(np.sqrt(dim) * sd, noise))
    logs = sums.logpdf([total, -total])
    log_z = float(logsumexp(logs))

    def above(posterior: Any) -> FloatArray:
        return posterior["x"].values.sum(-1) > 0.0

    part = Part(above, float(np.exp(logs[0] - log_z)))
    return HardTarget(f"ridges_{dim}", KIND, model, log_z, {"sum>0": part})


def two_scales(dim: int = 10, low: float = -5.0, high: float = 3.0, sd: float = 0.7) -> HardTarget:
    """A log variance with two modes, the density rising all the way from one into the other.

    Parameters
    ----------
    dim : int
        Of what has the variance.
    low, high, sd : float
        Modes of the log variance, and the standard deviation of each.
    """
    import pymc as pm

    with pm.Model() as model:
        v = pm.NormalMixture("v", w=[0.5, 0.5], mu=[low, high], sigma=sd)
        pm.Normal("x", 0.0, pm.math.exp(0.5 * v), shape=dim)

    def narrow(posterior: Any) -> FloatArray:
        return posterior["v"].values < 0.5 * (low + high)

    return HardTarget(f"two_scales_{dim}", KIND, model, 0.0, {"narrow": Part(narrow, 0.5)})


def groups_alike(n: int = 12, spread: float = 1.45) -> HardTarget:
    """Groups that are all alike, or not at all: written centred, all ascents end where they are.

    Parameters
    ----------
    n : int
        Groups.
    spread : float
        Standard deviation of their data, of which each has a noise of one.
    """
    import pymc as pm

    offsets = np.random.default_rng(4).normal(size=n)
    y = 2.0 + spread * (offsets - offsets.mean()) / offsets.std()
    log_scales, sds, mean_sd = np.log([0.05, 3.0]), np.array([0.4, 0.5]), 5.0
    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, mean_sd)
        log_scale = pm.NormalMixture("log_scale", w=[0.5, 0.5], mu=log_scales, sigma=sds)
        effect = pm.Normal("effect", mean, pm.math.exp(log_scale), shape=n)
        pm.Normal("y", effect, 1.0, observed=y)

    def density(at: float) -> float:
        variance = 1.0 + np.exp(2.0 * at)
        # a covariance of `variance` on the diagonal and the common mean's variance everywhere
        common = 1.0 / (1.0 / mean_sd**2 + n / variance)
        quadratic = (y @ y) / variance - common * (y.sum() / variance) ** 2
        log_det = n * np.log(variance) + np.log(mean_sd**2 / common)
        likelihood = np.exp(-0.5 * (quadratic + log_det + n * LOG_2PI))
        return float(likelihood * norm.pdf(at, log_scales, sds).mean())

    pieces = [(-6.0, -3.0), (-3.0, -1.0), (-1.0, 1.0), (1.0, 5.0)]
    masses = np.array([quad(density, *piece, epsabs=0.0)[0] for piece in pieces])

    def alike(posterior: Any) -> FloatArray:
        return posterior["log_scale"].values < -1.0

    part = Part(alike, float(masses[:2].sum() / masses.sum()))
    return HardTarget(
        f"groups_alike_{n}", KIND, model, float(np.log(masses.sum())), {"alike": part}
    )


def effects_together(dim: int = 8) -> HardTarget:
    """Effects that are in or out together, beside three of another kind: a spike in a slab.

    Parameters
    ----------
    dim : int
        Effects.
    """
    import pymc as pm

    y = np.resize([0.9, -0.5, 1.4, -1.0, 0.4, 0.7, -1.2, 0.2], dim)
    others, noise, sds = np.array([-1.0, 0.0, 1.0]), 0.7, np.array([0.05, 1.0])
    covariances = [sd**2 * np.eye(dim) for sd in sds]
    with pm.Model() as model:
        other = pm.Normal("other", 0.0, 1.0, shape=others.size)
        kinds = [pm.MvNormal.dist(np.zeros(dim), covariance) for covariance in covariances]
        effect = pm.Mixture("effect", w=[0.5, 0.5], comp_dists=kinds)
        pm.Normal("y", effect, noise, observed=y)
        pm.Normal("z", other, 1.0, observed=others)
    logs = np.log(0.5) + norm.logpdf(y[:, None], 0.0, np.hypot(noise, sds)).sum(axis=0)
    log_z = float(logsumexp(logs) + norm.logpdf(others, 0.0, np.sqrt(2.0)).sum())

    def out(posterior: Any) -> FloatArray:
        return (posterior["effect"].values ** 2).mean(-1) < 0.04

    part = Part(out, float(np.exp(logs[0] - logsumexp(logs))))
    return HardTarget(f"effects_together_{dim}", KIND, model, log_z, {"out": part})
