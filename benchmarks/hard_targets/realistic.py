"""Small models of a kind that people fit, with several modes and an exact answer by quadrature."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, logsumexp
from scipy.stats import norm

from hard_targets.target import HardTarget, Part
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.types import FloatArray

__all__ = ["sensors", "spike_and_slab", "two_sinusoids"]


def two_sinusoids(n: int = 60) -> HardTarget:
    """Two unknown frequencies; amplitudes are Gaussian given those, so a square grid is left."""
    import pymc as pm
    import pytensor.tensor as pt

    rng = np.random.default_rng(3)
    t = np.sort(rng.uniform(0.0, 10.0, n))
    y = np.cos(2 * np.pi * 0.83 * t) + 0.7 * np.sin(2 * np.pi * 1.21 * t) + rng.normal(size=n)
    low, high = 0.1, 3.0
    with pm.Model() as model:
        f = pm.Uniform("f", low, high, shape=2)
        a = pm.Normal("a", 0.0, 1.0, shape=2)
        b = pm.Normal("b", 0.0, 1.0, shape=2)
        phase = 2 * np.pi * f[:, None] * t
        waves = a[:, None] * pt.cos(phase) + b[:, None] * pt.sin(phase)
        pm.Normal("y", waves.sum(axis=0), 1.0, observed=y)
    log_z = _sinusoid_evidence(t, y, np.linspace(low, high, 1201))

    def ordered(posterior: Any) -> FloatArray:
        return posterior["f"].values[..., 0] < posterior["f"].values[..., 1]

    return HardTarget("two_sinusoids", "realistic", model, log_z, {"f0<f1": Part(ordered, 0.5)})


def _sinusoid_evidence(t: FloatArray, y: FloatArray, grid: FloatArray) -> float:
    """Log of the mean over both frequencies of the evidence of the linear model that is left."""
    phase = 2 * np.pi * grid[:, None] * t
    basis = np.stack([np.cos(phase), np.sin(phase)], axis=1)
    m = grid.size
    products = np.einsum("ain,bjn->abij", basis, basis, optimize=True)
    own = products[np.arange(m), np.arange(m)]
    projections = basis @ y
    logs = np.empty((m, m))
    for i in range(m):
        precision = np.zeros((m, 4, 4))
        precision[:, :2, :2], precision[:, 2:, 2:] = own[i], own
        precision[:, :2, 2:] = products[i]
        precision[:, 2:, :2] = products[i].transpose(0, 2, 1)
        precision += np.eye(4)
        right = np.hstack([np.tile(projections[i], (m, 1)), projections])
        explained = (right * np.linalg.solve(precision, right[..., None])[..., 0]).sum(-1)
        logs[i] = 0.5 * (explained - np.linalg.slogdet(precision)[1])
    trapezoid = np.ones(m)
    trapezoid[[0, -1]] = 0.5
    weights = np.outer(trapezoid, trapezoid) / (m - 1) ** 2
    return float(logsumexp(logs, b=weights) - 0.5 * y @ y - 0.5 * y.size * LOG_2PI)


def sensors(n: int = 4) -> HardTarget:
    """Positions from distances to two anchors each: every sensor has an image in its mirror."""
    import pymc as pm
    import pytensor.tensor as pt

    rng = np.random.default_rng(0)
    where = 1.5 * rng.normal(size=(n, 2))
    anchors = 2.0 * rng.normal(size=(n, 2, 2))
    noise, prior_mean, prior_sd = 0.1, np.array([0.4, 0.2]), 2.0
    gaps = where[:, None] - anchors
    distances = np.sqrt((gaps**2).sum(-1)) + noise * rng.normal(size=(n, 2))
    with pm.Model() as model:
        x = pm.Normal("x", prior_mean, prior_sd, shape=(n, 2))
        squares = ((x[:, None, :] - anchors) ** 2).sum(-1)
        pm.Normal("d", pt.sqrt(squares + 1e-12), noise, observed=distances)

    axis = np.linspace(-11.0, 11.0, 2201)
    plane = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    log_cell = 2.0 * np.log(axis[1] - axis[0])

    def side(points: FloatArray, k: int) -> FloatArray:
        along = anchors[k, 1] - anchors[k, 0]
        off = points - anchors[k, 0]
        return off[..., 0] * along[1] - off[..., 1] * along[0] > 0.0

    def part(k: int, probability: float) -> Part:
        return Part(lambda posterior: side(posterior["x"].values[..., k, :], k), probability)

    log_z, parts = 0.0, {}
    log_prior = norm.logpdf(plane, prior_mean, prior_sd).sum(-1)
    for k in range(n):
        logs = log_prior + log_cell
        for pooled, distance in zip(anchors[k], distances[k], strict=True):
            logs = logs + norm.logpdf(
                distance, np.hypot(*np.moveaxis(plane - pooled, -1, 0)), noise
            )
        total = float(logsumexp(logs))
        one_side = float(logsumexp(logs[side(plane, k)]))
        log_z += total
        parts[f"side {k}"] = part(k, float(np.exp(one_side - total)))
    return HardTarget(f"sensors_{n}", "realistic", model, log_z, parts)


def spike_and_slab(dim: int = 20) -> HardTarget:
    """Sparse effects, each with a continuous spike and a slab: 2^dim modes of exact weight."""
    import pymc as pm

    rng = np.random.default_rng(2)
    effects = np.where(rng.random(dim) < 0.3, rng.normal(0.0, 2.0, dim), 0.0)
    noise, share, sds = 0.5, np.array([0.7, 0.3]), np.array([0.05, 2.0])
    y = effects + noise * rng.normal(size=dim)
    with pm.Model() as model:
        b = pm.NormalMixture("b", w=share, mu=[0.0, 0.0], sigma=sds, shape=dim)
        pm.Normal("y", b, noise, observed=y)
    logs = np.log(share) + norm.logpdf(y[:, None], 0.0, np.hypot(noise, sds))
    in_spike = expit(logs[:, 0] - logs[:, 1])
    k = int(np.argmin(np.abs(in_spike - 0.5)))
    variance = 1.0 / (1.0 / sds**2 + 1.0 / noise**2)
    centre, sd = variance * y[k] / noise**2, np.sqrt(variance)
    near = norm.cdf(0.2, centre, sd) - norm.cdf(-0.2, centre, sd)
    probability = float(np.array([in_spike[k], 1.0 - in_spike[k]]) @ near)

    def small(posterior: Any) -> FloatArray:
        return np.abs(posterior["b"].values[..., k]) < 0.2

    log_z = float(logsumexp(logs, axis=1).sum())
    return HardTarget(
        f"spike_and_slab_{dim}", "realistic", model, log_z, {"|b|<0.2": Part(small, probability)}
    )
