"""Hierarchies: centred and not, crossed, correlated, with counts and with latent traits."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import betaln, gammaln

from corpus_models.entries import BRIDGE, entry, grid

KIND = "hierarchy"

GAIN = np.array([2.1, -0.4, 3.6, 0.9, 1.8, -1.2, 4.4, 2.7])
GAIN_SE = np.array([1.1, 0.8, 1.5, 0.9, 1.0, 1.3, 1.7, 0.7])
LOSSES = np.array([5, 1, 8, 3, 12, 4, 2])
MONTHS = np.array([24.0, 10.0, 31.0, 18.0, 29.0, 12.0, 15.0])
MADE = np.array([3, 7, 5, 11, 2, 9])
TRIED = np.array([10, 12, 14, 15, 9, 13])


def exact_gain():
    """Sites are normal given mean and spread, and the mean is normal given the spread."""

    def log_density(log_tau):
        tau = np.exp(log_tau)
        logs = [
            stats.multivariate_normal(
                np.ones(8), np.diag(GAIN_SE**2 + t**2) + 9.0 * np.ones((8, 8))
            ).logpdf(GAIN)
            for t in tau
        ]
        return np.array(logs) + stats.halfnorm(scale=2.0).logpdf(tau) + log_tau

    return grid(log_density, (-16.0, 3.0, 2001))


@entry(KIND)
def sites_centred():
    mu, tau = pm.Normal("mu", 1.0, 3.0), pm.HalfNormal("tau", 2.0)
    pm.Normal("y", pm.Normal("site", mu, tau, shape=8), GAIN_SE, observed=GAIN)
    return exact_gain()


@entry(KIND)
def sites_non_centred():
    mu, tau = pm.Normal("mu", 1.0, 3.0), pm.HalfNormal("tau", 2.0)
    pm.Normal("y", mu + tau * pm.Normal("z", shape=8), GAIN_SE, observed=GAIN)
    return exact_gain()


@entry(KIND)
def failure_rates():
    a, b = pm.Exponential("a", 0.5), pm.Gamma("b", 2.0, 0.5)
    rate = pm.Gamma("rate", a, b, shape=7)
    pm.Poisson("y", rate * MONTHS, observed=LOSSES)

    def log_density(log_a, log_b):
        a, b = np.exp(log_a), np.exp(log_b)
        given = stats.expon(scale=2.0).logpdf(a) + stats.gamma(2.0, scale=2.0).logpdf(b)
        rows = [
            a * log_b - gammaln(a) + gammaln(a + y) + y * np.log(t)
            - (a + y) * np.log(b + t) - gammaln(y + 1.0)
            for y, t in zip(LOSSES, MONTHS, strict=True)
        ]  # fmt: skip
        return given + log_a + log_b + sum(rows)

    return grid(log_density, (-9.0, 5.0, 701), (-9.0, 6.0, 701))


@entry(KIND)
def batting():
    """Beta and binomial, with the mean and concentration of the batters unknown."""
    mean, size = pm.Beta("mean", 2.0, 2.0), pm.Gamma("size", 2.0, 0.2)
    p = pm.Beta("p", mean * size, (1.0 - mean) * size, shape=6)
    pm.Binomial("made", TRIED, p, observed=MADE)

    def log_density(logit_mean, log_size):
        mean, size = 1.0 / (1.0 + np.exp(-logit_mean)), np.exp(log_size)
        a, b = mean * size, (1.0 - mean) * size
        given = stats.beta(2.0, 2.0).logpdf(mean) + stats.gamma(2.0, scale=5.0).logpdf(size)
        rows = [
            betaln(a + m, b + n - m) - betaln(a, b) - np.log(n + 1.0) - betaln(m + 1, n - m + 1)
            for m, n in zip(MADE, TRIED, strict=True)
        ]
        return given + np.log(mean) + np.log1p(-mean) + log_size + sum(rows)

    return grid(log_density, (-9.0, 9.0, 701), (-7.0, 6.0, 701))


@entry(KIND)
def beta_binomial_pooled():
    a, b = pm.Gamma("a", 2.0, 0.5), pm.Gamma("b", 2.0, 0.5)
    pm.BetaBinomial("made", n=TRIED, alpha=a, beta=b, observed=MADE)

    def log_density(log_a, log_b):
        a, b = np.exp(log_a), np.exp(log_b)
        prior = stats.gamma(2.0, scale=2.0)
        data = sum(stats.betabinom(n, a, b).logpmf(m) for m, n in zip(MADE, TRIED, strict=True))
        return prior.logpdf(a) + prior.logpdf(b) + log_a + log_b + data

    return grid(log_density, (-7.0, 4.5, 401), (-7.0, 4.5, 401))


@entry(KIND)
def poisson_groups():
    rng = np.random.default_rng(20)
    group, x = np.repeat(np.arange(8), 5), rng.normal(size=40)
    y = rng.poisson(np.exp(0.8 + 0.6 * rng.normal(size=8)[group] + 0.4 * x))
    a, b, spread = pm.Normal("a", 0.0, 2.0), pm.Normal("b"), pm.HalfNormal("spread", 1.0)
    z = pm.Normal("z", shape=8)
    pm.Poisson("y", pt.exp(a + spread * z[group] + b * x), observed=y)
    return BRIDGE


@entry(KIND)
def correlated_slopes():
    """Intercepts and slopes of six groups with an LKJ prior."""
    rng = np.random.default_rng(21)
    group, x = np.repeat(np.arange(6), 6), rng.normal(size=36)
    effects = rng.multivariate_normal([1.0, -0.5], [[0.8, 0.3], [0.3, 0.4]], size=6)
    y = effects[group, 0] + effects[group, 1] * x + 0.5 * rng.normal(size=36)
    chol, _, _ = pm.LKJCholeskyCov("chol", n=2, eta=2.0, sd_dist=pm.HalfNormal.dist(1.0))
    mean, z = pm.Normal("mean", 0.0, 2.0, shape=2), pm.Normal("z", shape=(6, 2))
    effect = mean + pt.dot(z, chol.T)
    noise = pm.HalfNormal("noise", 1.0)
    pm.Normal("y", effect[group, 0] + effect[group, 1] * x, noise, observed=y)
    return BRIDGE


@entry(KIND)
def crossed():
    """Eight subjects by five items."""
    rng = np.random.default_rng(22)
    y = rng.normal(size=(8, 1)) + 0.5 * rng.normal(size=5) + 0.6 * rng.normal(size=(8, 5))
    sd = pm.HalfNormal("sd", 1.0, shape=3)
    subject, item = pm.Normal("subject", shape=8), pm.Normal("item", shape=5)
    mean = pm.Normal("mean", 0.0, 2.0)
    pm.Normal("y", mean + sd[0] * subject[:, None] + sd[1] * item, sd[2], observed=y)
    return BRIDGE


@entry(KIND)
def zero_sum_effects():
    """Effects that sum to zero; all is normal, so that the evidence is, too."""
    rng = np.random.default_rng(23)
    group = np.repeat(np.arange(5), 4)
    y = 1.0 + rng.normal(size=5)[group] + rng.normal(size=20)
    mean = pm.Normal("mean", 0.0, 2.0)
    effect = pm.ZeroSumNormal("effect", 1.5, shape=5)
    pm.Normal("y", mean + effect[group], 1.0, observed=y)
    design = np.eye(5)[group]
    cov = design @ (2.25 * (np.eye(5) - 0.2)) @ design.T + 4.0 + np.eye(20)
    return stats.multivariate_normal(np.zeros(20), cov).logpdf(y)


@entry(KIND)
def heavy_tailed_studies():
    tau, mu = pm.HalfCauchy("tau", 1.0), pm.Normal("mu", 0.0, 5.0)
    effect = pm.StudentT("effect", nu=4.0, mu=mu, sigma=tau, shape=8)
    pm.Normal("y", effect, GAIN_SE, observed=GAIN)
    return BRIDGE


@entry(KIND)
def many_sparse_groups():
    """Forty centred groups of two observations each."""
    rng = np.random.default_rng(24)
    y = 0.5 + 0.4 * rng.normal(size=(40, 1)) + rng.normal(size=(40, 2))
    mu, tau = pm.Normal("mu", 0.0, 2.0), pm.HalfNormal("tau", 1.0)
    pm.Normal("y", pm.Normal("group", mu, tau, shape=(40, 1)), 1.0, observed=y)

    def log_density(log_tau):
        means, within = y.mean(axis=1), ((y - y.mean(axis=1, keepdims=True)) ** 2).sum()
        # pairs are their mean, of variance tau^2 + 1/2, and their difference, of variance 2
        rest = -0.5 * within - 40 * 0.5 * np.log(2.0 * np.pi * 2.0)
        logs = [
            stats.multivariate_normal(
                np.zeros(40), (np.exp(2 * u) + 0.5) * np.eye(40) + 4.0
            ).logpdf(means) for u in log_tau
        ]  # fmt: skip
        return np.array(logs) + rest + stats.halfnorm().logpdf(np.exp(log_tau)) + log_tau

    return grid(log_density, (-16.0, 2.0, 1501))


@entry(KIND)
def item_response():
    """Two-parameter logistic: ten people, six items."""
    rng = np.random.default_rng(25)
    ability, hard = rng.normal(size=(12, 1)), np.linspace(-1.5, 1.5, 6)
    y = rng.random((12, 6)) < 1.0 / (1.0 + np.exp(-1.3 * (ability - hard)))
    theta = pm.Normal("theta", shape=(12, 1))
    difficulty = pm.Normal("difficulty", 0.0, 1.5, shape=6)
    slope = pm.LogNormal("slope", 0.0, 0.5, shape=6)
    pm.Bernoulli("y", logit_p=slope * (theta - difficulty), observed=y.astype(int))
    return BRIDGE


@entry(KIND)
def multi_output():
    """Three outputs of one regression with unknown covariance."""
    rng = np.random.default_rng(26)
    x = rng.normal(size=(30, 2))
    cov = [[1.0, 0.6, 0.0], [0.6, 1.0, 0.3], [0.0, 0.3, 0.5]]
    noise = rng.multivariate_normal(np.zeros(3), cov, size=30)
    y = x @ rng.normal(size=(2, 3)) + noise
    weights = pm.Normal("weights", 0.0, 2.0, shape=(2, 3))
    chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    pm.MvNormal("y", x @ weights, chol=chol, observed=y)
    return BRIDGE
