"""Modes of unequal width, far apart, curved: what tempering finds hard to weigh or to find."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import norm

from hard_targets.target import HardTarget, Part
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.types import FloatArray

__all__ = ["bananas_and_gaussian", "far_modes", "five_modes", "needles", "phase_transition",
           "spike", "two_widths"]  # fmt: skip


def _spheres(
    name: str,
    kind: str,
    weights: Sequence[float],
    means: FloatArray,
    sds: Sequence[float],
    prior_sd: float | None = None,
) -> HardTarget:
    """Mixture of round Gaussians, on a flat space or as likelihood of a wide Gaussian prior."""
    import pymc as pm
    import pytensor.tensor as pt

    sd = np.asarray(sds, dtype=np.float64)
    dim = means.shape[1]
    constant = np.log(weights) - dim * np.log(sd) - 0.5 * dim * LOG_2PI

    def squares(x: Any) -> Any:
        return (((x[..., None, :] - means) / sd[:, None]) ** 2).sum(-1)

    with pm.Model() as model:
        if prior_sd is None:
            x = pm.Flat("x", shape=dim)
            prior = 0.0
        else:
            x = pm.Normal("x", 0.0, prior_sd, shape=dim)
            prior = pm.logp(pm.Normal.dist(0.0, prior_sd), x).sum()
        pm.Potential("mixture", pt.logsumexp(constant - 0.5 * squares(x)) - prior)

    def part(k: int) -> Part:
        def nearest(posterior: Any) -> FloatArray:
            return (constant - 0.5 * squares(posterior["x"].values)).argmax(-1) == k

        return Part(nearest, float(weights[k]))

    return HardTarget(name, kind, model, 0.0, {f"mode {k}": part(k) for k in range(sd.size)})


def two_widths(
    dim: int = 20, ratio: float = 0.4, weight: float = 0.9, prior_sd: float | None = None
) -> HardTarget:
    """A wide mode, and a narrow one that holds most of the mass: a first-order transition.

    Parameters
    ----------
    dim : int
    ratio : float
        Of the narrow standard deviation to the wide one.
    weight : float
        Of the narrow mode.
    prior_sd : float, optional
        With it there is a proper prior, and starts can be drawn from it.
    """
    means = np.zeros((2, dim))
    means[1, :4] = 3.0
    suffix = "" if prior_sd is None else "_prior"
    return _spheres(
        f"two_widths_{dim}_{ratio}{suffix}", "unequal widths", [1.0 - weight, weight], means,
        [1.0, ratio], prior_sd,
    )  # fmt: skip


def five_modes(dim: int = 30) -> HardTarget:
    """Five modes, the narrower the heavier."""
    means = 2.0 * np.random.default_rng(0).normal(size=(5, dim))
    weights, sds = [0.05, 0.1, 0.15, 0.3, 0.4], [1.0, 0.8, 0.6, 0.5, 0.4]
    return _spheres(f"five_modes_{dim}", "unequal widths", weights, means, sds)


def spike(dim: int = 20, sd: float = 0.05, offset: float = 2.0, weight: float = 0.5) -> HardTarget:
    """A spike in the flank of a round Gaussian, or (offset 0) at its centre."""
    means = np.zeros((2, dim))
    means[1, 0] = offset
    name = f"spike_{dim}" if offset else f"spike_{dim}_centre"
    return _spheres(name, "unequal widths", [1.0 - weight, weight], means, [1.0, sd])


def far_modes(dim: int = 20, distance: float = 30.0) -> HardTarget:
    """Three equally wide modes, far from one another and from the initial point."""
    directions = np.random.default_rng(8).normal(size=(3, dim))
    means = distance * directions / np.linalg.norm(directions, axis=1, keepdims=True)
    return _spheres(f"far_modes_{dim}", "far apart", [0.2, 0.3, 0.5], means, [1.0, 1.0, 1.0])


def phase_transition(dim: int = 10, log_ratio: float = float(np.log(9e10))) -> HardTarget:
    """Narrow and wide likelihood at one place, under a uniform prior on [-5, 5]^dim."""
    import pymc as pm
    import pytensor.tensor as pt

    sds, logs = np.array([1.0, 0.1]), np.array([0.0, log_ratio])
    with pm.Model() as model:
        x = pm.Uniform("x", -5.0, 5.0, shape=dim)
        terms = logs - 0.5 * (x**2).sum() / sds**2 - 0.5 * dim * LOG_2PI
        pm.Potential("likelihood", pt.logsumexp(terms))
    inside = np.log(2.0 * norm.cdf(5.0 / sds) - 1.0)
    log_parts = logs + dim * (np.log(sds) + inside)
    log_z = float(logsumexp(log_parts))

    def near(posterior: Any) -> FloatArray:
        return (posterior["x"].values ** 2).sum(-1) < 0.09 * dim

    return HardTarget(
        f"phase_transition_{dim}", "phase transition", model, log_z - dim * float(np.log(10.0)),
        {"narrow": Part(near, float(np.exp(log_parts[1] - log_z)))},
    )  # fmt: skip


def bananas_and_gaussian(
    pairs: int = 12, weight: float = 0.9, start_in_bananas: bool = False
) -> HardTarget:
    """A light round mode, and a heavy curved one which no Gaussian fits."""
    import pymc as pm
    import pytensor.tensor as pt

    def normal(x: Any, mean: Any, sd: float) -> Any:
        return (-0.5 * ((x - mean) / sd) ** 2 - np.log(sd) - 0.5 * LOG_2PI).sum()

    start = np.repeat([3.0, -2.0], pairs) if start_in_bananas else None
    with pm.Model() as model:
        x = pm.Flat("x", shape=2 * pairs, initval=start)
        first, second = x[:pairs] - 3.0, x[pairs:]
        curved = normal(first, 0.0, 1.0) + normal(second, 2.0 * (first**2 - 1.0), 0.3)
        light = np.log1p(-weight) + normal(x, -3.0, 1.0)
        pm.Potential("both", pt.logaddexp(light, np.log(weight) + curved))

    def right(posterior: Any) -> FloatArray:
        return posterior["x"].values[..., :pairs].mean(-1) > 0.0

    name = "bananas_started_there" if start_in_bananas else "bananas_and_gaussian"
    return HardTarget(name, "curved mode", model, 0.0, {"bananas": Part(right, weight)})


def needles(half_width: float = 1e5, sd: float = 0.01) -> HardTarget:
    """Two equal needles in a haystack: chains in either agree on a log Z that is too low."""
    import pymc as pm
    import pytensor.tensor as pt

    places = np.array([10.0, 5000.0])
    with pm.Model() as model:
        x = pm.Uniform("x", -half_width, half_width)
        logs = -0.5 * ((x - places) / sd) ** 2 - np.log(2.0 * sd) - 0.5 * LOG_2PI
        pm.Potential("likelihood", pt.logsumexp(logs))

    def right(posterior: Any) -> FloatArray:
        return posterior["x"].values > places.mean()

    log_z = -float(np.log(2.0 * half_width))
    return HardTarget("needles", "far apart", model, log_z, {"right": Part(right, 0.5)})
