"""Latent values in time and space: volatility, Gaussian processes, areas and their neighbours."""

from functools import partial

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from real_models.counts import sigmoid
from real_models.entries import real
from real_models.linear import hats

KIND = "process"


def volatility(seed, mean, rho, sd):
    """Three hundred returns; the logarithm of their variance is autoregressive."""
    rng = np.random.default_rng(seed)
    n, h = 300, np.full(300, -1.0)
    for t in range(1, n):
        h[t] = -1.0 + 0.95 * (h[t - 1] + 1.0) + 0.25 * rng.normal()
    y = np.exp(h / 2.0) * rng.normal(size=n)
    h = pm.AR(
        "h", rho=pt.stack([mean * (1.0 - rho), rho]), sigma=sd, constant=True, steps=n - 1,
        init_dist=pm.Normal.dist(mean, sd / pt.sqrt(1.0 - rho**2)),
    )  # fmt: skip
    pm.Normal("y", 0.0, pt.exp(h / 2.0), observed=y)


@real(KIND)
def stochastic_volatility():
    """Priors that keep the mean within what the data say of it."""
    mean, rho = pm.Normal("mean", -1.0, 2.0), pm.Beta("rho", 20.0, 1.5)
    volatility(60, mean, rho, pm.HalfNormal("sd", 1.0))


@real(KIND)
def volatility_vague():
    """The priors of Stan's guide: as rho goes to 1 the mean may be anywhere."""
    mean, rho = pm.Cauchy("mean", 0.0, 10.0), pm.Uniform("rho", -1.0, 1.0)
    volatility(113, mean, rho, pm.HalfCauchy("sd", 5.0))


@real(KIND)
def volatility_walk():
    """A random walk from a start of its own: where its steps go to zero, that stays wide."""
    rng, walk = np.random.default_rng(6), np.zeros(100)
    for k in range(1, walk.size):
        walk[k] = 0.97 * walk[k - 1] + 0.2 * rng.normal()
    returns = np.exp(walk / 2.0) * rng.normal(size=walk.size)
    step, nu = pm.Exponential("step", 5.0), pm.Exponential("nu", 0.1)
    start = pm.Normal.dist(0.0, 1.0)
    h = pm.GaussianRandomWalk("h", sigma=step, init_dist=start, shape=walk.size)
    pm.StudentT("y", nu, mu=0.0, sigma=pt.exp(h / 2.0), observed=returns)


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


@real(KIND)
def gp_states():
    """Shares of votes in 50 states of ten regions, eleven years: two processes in time for each.

    The variances of all effects are shares of one (as Trangucci's model of elections in Stan).
    """
    rng = np.random.default_rng(3)
    n_states, n_regions, n_years, n_seen = 50, 10, 15, 11
    region, times = rng.integers(0, n_regions, n_states), np.arange(float(n_years))
    squares = np.subtract.outer(times, times) ** 2

    def kernel(sds, lengths, exp):
        return sum(
            sd**2 * exp(-0.5 * squares / length**2) for sd, length in zip(sds, lengths, strict=True)
        ) + 1e-8 * np.eye(n_years)

    drawn = [
        rng.multivariate_normal(np.zeros(n_years), kernel(sds, (8.0, 2.0), np.exp), size=n)
        for n, sds in ((n_regions, (0.15, 0.07)), (n_states, (0.1, 0.05)))
    ]
    logit = 0.3 * rng.normal(size=(n_states, 1)) + drawn[1] + drawn[0][region]
    state, year = np.repeat(np.arange(n_states), n_seen), np.tile(np.arange(n_seen), n_states)
    p = sigmoid(logit + 0.15 * rng.normal(size=n_years))[state, year]
    y = np.clip(rng.beta(150.0 * p, 150.0 * (1.0 - p)), 0.01, 0.99)
    of_region = pm.Normal("of_region", shape=(n_years, n_regions))
    of_state = pm.Normal("of_state", shape=(n_years, n_states))
    years, states = pm.Normal("years", shape=n_seen), pm.Normal("states", shape=n_states)
    regions, mean = pm.Normal("regions", shape=n_regions), pm.Normal("mean", 0.0, 0.5)
    total, share = pm.Gamma("total", 3.0, 3.0), pm.Dirichlet("share", np.full(9, 2.0))
    lengths = [pm.Weibull(f"length_{i}", 30.0, at) for i, at in enumerate((8.0, 3.0, 8.0, 3.0))]
    precision, sd = pm.Gamma("precision", 5.0, 0.01), pt.sqrt(0.9 * total * share)
    root = pt.linalg.cholesky
    in_region = pt.dot(root(kernel((sd[3], sd[4]), lengths[:2], pt.exp)), of_region)
    in_state = pt.dot(root(kernel((sd[5], sd[6]), lengths[2:], pt.exp)), of_state)
    logit = mean + (sd[0] * years)[year] + (sd[1] * states)[state] + in_state[year, state]
    logit += (sd[2] * regions)[region[state]] + in_region[year, region[state]]
    p = pm.math.sigmoid(logit)
    pm.Beta("y", precision * p, precision * (1.0 - p), observed=y)


_TIMES = """
2.4 2.6 3.2 3.6 4.0 6.2 6.6 6.8 7.8 8.2 8.8 8.8 9.6 10.0 10.2 10.6 11.0 11.4 13.2 13.6 13.8 14.6
14.6 14.6 14.6 14.6 14.6 14.8 15.4 15.4 15.4 15.4 15.6 15.6 15.8 15.8 16.0 16.0 16.2 16.2 16.2
16.4 16.4 16.6 16.8 16.8 16.8 17.6 17.6 17.6 17.6 17.8 17.8 18.6 18.6 19.2 19.4 19.4 19.6 20.2
20.4 21.2 21.4 21.8 22.0 23.2 23.4 24.0 24.2 24.2 24.6 25.0 25.0 25.4 25.4 25.6 26.0 26.2 26.2
26.4 27.0 27.2 27.2 27.2 27.6 28.2 28.4 28.4 28.6 29.4 30.2 31.0 31.2 32.0 32.0 32.8 33.4 33.8
34.4 34.8 35.2 35.2 35.4 35.6 35.6 36.2 36.2 38.0 38.0 39.2 39.4 40.0 40.4 41.6 41.6 42.4 42.8
42.8 43.0 44.0 44.4 45.0 46.6 47.8 47.8 48.8 50.6 52.0 53.2 55.0 55.0 55.4 57.6
"""
_ACCELERATIONS = """
0.0 -1.3 -2.7 0.0 -2.7 -2.7 -2.7 -1.3 -2.7 -2.7 -1.3 -2.7 -2.7 -2.7 -5.4 -2.7 -5.4 0.0 -2.7 -2.7
0.0 -13.3 -5.4 -5.4 -9.3 -16.0 -22.8 -2.7 -22.8 -32.1 -53.5 -54.9 -40.2 -21.5 -21.5 -50.8 -42.9
-26.8 -21.5 -50.8 -61.7 -5.4 -80.4 -59.0 -71.0 -91.1 -77.7 -37.5 -85.6 -123.1 -101.9 -99.1 -104.4
-112.5 -50.8 -123.1 -85.6 -72.3 -127.2 -123.1 -117.9 -134.0 -101.9 -108.4 -123.1 -123.1 -128.5
-112.5 -95.1 -81.8 -53.5 -64.4 -57.6 -72.3 -44.3 -26.8 -5.4 -107.1 -21.5 -65.6 -16.0 -45.6 -24.2
9.5 4.0 12.0 -21.5 37.5 46.9 -17.4 36.2 75.0 8.1 54.9 48.2 46.9 16.0 45.6 1.3 75.0 -16.0 -54.9
69.6 34.8 32.1 -37.5 22.8 46.9 10.7 5.4 -1.3 -21.5 -13.3 30.8 -10.7 29.4 0.0 -10.7 14.7 -1.3 0.0
10.7 10.7 -26.8 -14.7 -13.3 0.0 10.7 -14.7 -2.7 10.7 -2.7 10.7
"""


def waves(x, n):
    """Eigenfunctions of the Laplacian at places around 0, shape (N, n), and their frequencies."""
    half = 1.25 * np.abs(x).max()
    frequency = np.arange(1, n + 1) * np.pi / (2.0 * half)
    return np.sin(frequency * (x[:, None] + half)) / np.sqrt(half), frequency


@real(KIND)
def accelerations():
    """Of a head in a crash (Silverman 1985, Table 1), mean and noise by Hilbert space processes."""
    x, y = (np.array(text.split(), dtype=float) for text in (_TIMES, _ACCELERATIONS))
    x = (x - x.mean()) / np.ptp(x)

    def curve(called, n, **start):
        at, frequency = waves(x, n)
        sd = pm.HalfStudentT(f"sd_{called}", nu=3.0, sigma=36.0, **start)
        length, z = pm.InverseGamma(f"length_{called}", 1.125, 0.0177), pm.Normal(called, shape=n)
        density = pt.sqrt(np.sqrt(2.0 * np.pi) * length) * pt.exp(-0.25 * (length * frequency) ** 2)
        return pt.dot(at, sd * density * z)

    mean = pm.StudentT("level", nu=3.0, mu=-13.0, sigma=36.0) + curve("z", 40)
    log_sd = pm.StudentT("log_sd", nu=3.0, mu=0.0, sigma=10.0) + curve("z_noise", 20, initval=1.0)
    pm.Normal("y", mean, pt.exp(log_sd), observed=y)


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
