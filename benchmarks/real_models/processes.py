"""Latent values in time and space: volatility, Gaussian processes, areas and their neighbours."""

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from real_models.counts import sigmoid
from real_models.entries import real
from real_models.linear import hats

KIND = "process"


@real(KIND)
def stochastic_volatility():
    """Three hundred returns; the logarithm of their variance is autoregressive."""
    rng = np.random.default_rng(60)
    n, h = 300, np.full(300, -1.0)
    for t in range(1, n):
        h[t] = -1.0 + 0.95 * (h[t - 1] + 1.0) + 0.25 * rng.normal()
    y = np.exp(h / 2.0) * rng.normal(size=n)
    mean, rho = pm.Normal("mean", -1.0, 2.0), pm.Beta("rho", 20.0, 1.5)
    sd = pm.HalfNormal("sd", 1.0)
    h = pm.AR(
        "h", rho=pt.stack([mean * (1.0 - rho), rho]), sigma=sd, constant=True, steps=n - 1,
        init_dist=pm.Normal.dist(mean, sd / pt.sqrt(1.0 - rho**2)),
    )  # fmt: skip
    pm.Normal("y", 0.0, pt.exp(h / 2.0), observed=y)


@real(KIND)
def spline_counts():
    """Eighty coefficients with a random walk for a prior, and counts."""
    rng = np.random.default_rng(61)
    x = np.sort(rng.uniform(0.0, 1.0, 400))
    y = rng.poisson(np.exp(1.0 + np.sin(8.0 * x**2)))
    smooth = pm.HalfNormal("smooth", 0.5)
    walk = pm.GaussianRandomWalk("walk", sigma=smooth, init_dist=pm.Normal.dist(0.0, 2.0), steps=79)
    rate = pt.exp(pt.dot(hats(x, np.linspace(0.0, 1.0, 80)), walk))
    pm.Poisson("y", rate, observed=y)


def process(n, width):
    """Places, and the root of a squared exponential kernel of unit variance for their distances."""
    x = np.linspace(0.0, 10.0, n)
    squares = (x[:, None] - x) ** 2
    return lambda length: pt.linalg.cholesky(pt.exp(-0.5 * squares / length**2) + 1e-4 * np.eye(n))


def curve(rng, n):
    x = np.linspace(0.0, 10.0, n)
    cov = np.exp(-0.5 * (x[:, None] - x) ** 2 / 1.5**2) + 1e-6 * np.eye(n)
    return np.linalg.cholesky(cov) @ rng.normal(size=n)


@real(KIND)
def gp_counts():
    """A Gaussian process of sixty latent values, non-centred, and counts."""
    rng = np.random.default_rng(62)
    y = rng.poisson(np.exp(0.5 + 0.8 * curve(rng, 60)))
    mean, length = pm.Normal("mean"), pm.InverseGamma("length", 5.0, 5.0)
    sd, z = pm.HalfNormal("sd", 1.0), pm.Normal("z", shape=60)
    pm.Poisson("y", pt.exp(mean + sd * pt.dot(process(60, 1.5)(length), z)), observed=y)


@real(KIND)
def gp_binary():
    """The same of a hundred, and ones and zeros."""
    rng = np.random.default_rng(63)
    y = (rng.random(100) < sigmoid(2.0 * curve(rng, 100))).astype(int)
    mean, length = pm.Normal("mean"), pm.InverseGamma("length", 5.0, 5.0)
    sd, z = pm.HalfNormal("sd", 2.0), pm.Normal("z", shape=100)
    logit = mean + sd * pt.dot(process(100, 1.5)(length), z)
    pm.Bernoulli("y", logit_p=logit, observed=y)


def bym2(side):
    """Counts in a square of areas: what neighbours share, and what is each one's own."""
    rng = np.random.default_rng(side)
    n = side * side
    at = np.arange(n).reshape(side, side)
    near = np.zeros((n, n))
    for one, other in ((at[1:], at[:-1]), (at[:, 1:], at[:, :-1])):
        near[one.ravel(), other.ravel()] = near[other.ravel(), one.ravel()] = 1.0
    values, vectors = np.linalg.eigh(np.diag(near.sum(axis=1)) - near)
    shared = vectors[:, 1:] @ (rng.normal(size=n - 1) / np.sqrt(values[1:]))
    # so that the geometric mean of the shared part's variances is one
    scale = np.exp(np.log((vectors[:, 1:] ** 2 / values[1:]).sum(axis=1)).mean())
    expected = rng.gamma(5.0, 2.0, n)
    y = rng.poisson(expected * np.exp(0.2 + 0.5 * shared + 0.3 * rng.normal(size=n)))
    mean, sd, rho = pm.Normal("mean"), pm.HalfNormal("sd", 1.0), pm.Beta("rho", 0.5, 0.5)
    own, shared = pm.Normal("own", shape=n), pm.ICAR("shared", W=near)
    effect = pt.sqrt(1.0 - rho) * own + pt.sqrt(rho / scale) * shared
    pm.Poisson("y", expected * pt.exp(mean + sd * effect), observed=y)


for side in (12, 44):
    real(KIND, f"bym2_{side}x{side}")(partial(bym2, side))
