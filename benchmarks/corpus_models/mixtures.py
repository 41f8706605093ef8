"""Mixtures: with labels in order and without, of counts, of lines, of unknown number."""

from functools import cache
from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

from corpus_models.entries import QUADRATURE, entry, grid

KIND = "mixture"
TWO = np.array([-2.3, -1.8, -2.9, -1.5, -2.1, 1.7, 2.4, 2.0, 1.2, 2.9, 2.2, 1.6])
ordered = pm.distributions.transforms.ordered


@entry(KIND)
def mixture_ordered():
    w = pm.Beta("w", 2.0, 2.0)
    mu = pm.Normal("mu", 0.0, 3.0, shape=2, transform=ordered, initval=[-1.0, 1.0])
    pm.NormalMixture("y", w=pt.stack([w, 1 - w]), mu=mu, sigma=0.6, observed=TWO)
    return QUADRATURE


@entry(KIND)
def mixture_unordered():
    """Both labels: twice what the ordered one has, since w is symmetric."""
    w = pm.Beta("w", 2.0, 2.0)
    mu = pm.Normal("mu", 0.0, 3.0, shape=2)
    pm.NormalMixture("y", w=pt.stack([w, 1 - w]), mu=mu, sigma=0.6, observed=TWO)

    def log_density(logit, a, b):
        w = 1.0 / (1.0 + np.exp(-logit))
        logs = stats.beta(2, 2).logpdf(w) + np.log(w) + np.log1p(-w)
        logs = logs + stats.norm(0, 3).logpdf(a) + stats.norm(0, 3).logpdf(b)
        for y in TWO:
            first = np.log(w) + stats.norm.logpdf(y, a, 0.6)
            logs = logs + np.logaddexp(first, np.log1p(-w) + stats.norm.logpdf(y, b, 0.6))
        return logs

    return grid(log_density, (-7.0, 7.0, 61), (-9.0, 9.0, 241), (-9.0, 9.0, 241))


def allocations(y, n_clusters, sd, prior_sd):
    """All ways to allot points to clusters, whose places are normal around 0.

    Yields how many points each cluster has, and the log density of all points in nats.
    """

    @cache
    def log_marginal(own):
        cov = sd**2 * np.eye(len(own)) + prior_sd**2
        return stats.multivariate_normal(np.zeros(len(own)), cov).logpdf(y[list(own)])

    for of in product(range(n_clusters), repeat=len(y)):
        parts = [tuple(i for i, k in enumerate(of) if k == which) for which in range(n_clusters)]
        yield tuple(map(len, parts)), sum(log_marginal(own) for own in parts if own)


@entry(KIND)
def three_clusters():
    """Weights and places of three clusters without an order: six labels."""
    y = np.array([-3.3, -2.8, -2.6, 0.1, -0.4, 2.3, 2.7, 3.1])
    w, mu = pm.Dirichlet("w", np.full(3, 2.0)), pm.Normal("mu", 0.0, 3.0, shape=3)
    pm.NormalMixture("y", w=w, mu=mu, sigma=0.5, observed=y)
    logs = [
        gammaln(6.0) - gammaln(6.0 + 8) + gammaln(2.0 + np.array(counts)).sum() + given
        for counts, given in allocations(y, 3, 0.5, 3.0)
    ]
    return logsumexp(logs)


@entry(KIND)
def poisson_mixture():
    y = np.array([1, 0, 2, 9, 12, 1, 3, 10, 0, 2, 14, 8, 1, 11, 2])
    w = pm.Beta("w", 1.0, 1.0)
    rate = pm.Gamma("rate", 2.0, 0.3, shape=2, transform=ordered, initval=[1.0, 10.0])
    pm.Mixture("y", w=pt.stack([w, 1 - w]), comp_dists=pm.Poisson.dist(rate, shape=2), observed=y)
    return QUADRATURE


@entry(KIND)
def lines():
    """Two lines through one cloud, labels summed out: two modes by symmetry."""
    x = np.linspace(-2.0, 2.0, 20)
    rng = np.random.default_rng(61)
    y = np.where(np.arange(20) % 2, 1.5 * x, -1.0 * x) + 0.3 * rng.normal(size=20)
    slope = pm.Normal("slope", 0.0, 2.0, shape=2)
    logs = pt.stack([pm.logp(pm.Normal.dist(slope[k] * x, 0.3), y) for k in (0, 1)])
    pm.Potential("y", pt.logsumexp(logs - np.log(2.0), axis=0).sum())

    def log_density(a, b):
        logs = stats.norm(0, 2).logpdf(a) + stats.norm(0, 2).logpdf(b)
        for xi, yi in zip(x, y, strict=True):
            both = stats.norm.logpdf(yi, a * xi, 0.3), stats.norm.logpdf(yi, b * xi, 0.3)
            logs = logs + np.logaddexp(*both) - np.log(2.0)
        return logs

    return grid(log_density, (-8.0, 8.0, 1201), (-8.0, 8.0, 1201))


@entry(KIND)
def contaminated():
    """A point with outliers: normal noise, one reading in ten from far."""
    y = np.array([1.1, 0.7, 1.4, 0.9, 8.0, 1.2, -5.5, 1.0])
    mu = pm.Normal("mu", 0.0, 4.0)
    pm.NormalMixture("y", w=[0.9, 0.1], mu=pt.stack([mu, 0.0]), sigma=[0.5, 10.0], observed=y)

    def log_density(m):
        near = np.log(0.9) + stats.norm.logpdf(y[:, None], m, 0.5)
        far = np.log(0.1) + stats.norm.logpdf(y, 0.0, 10.0)[:, None]
        return stats.norm(0, 4).logpdf(m) + np.logaddexp(near, far).sum(axis=0)

    return grid(log_density, (-30.0, 30.0, 60001))


@entry(KIND)
def dirichlet_process():
    """Sticks broken three times, with an unknown concentration and normal clusters."""
    y = np.array([-2.3, -1.8, -2.6, 1.7, 2.4, 2.0, 5.1])
    alpha = pm.Gamma("alpha", 2.0, 1.0)
    stick = pm.Beta("stick", 1.0, alpha, shape=3)
    left = pt.concatenate([pt.ones(1), pt.cumprod(1.0 - stick)])
    w = pm.Deterministic("w", pt.concatenate([stick, pt.ones(1)]) * left)
    pm.NormalMixture("y", w=w, mu=pm.Normal("mu", 0.0, 3.0, shape=4), sigma=0.6, observed=y)
    of_counts = {}
    for counts, given in allocations(y, 4, 0.6, 3.0):
        of_counts.setdefault(counts, []).append(given)

    def log_density(log_alpha):
        a = np.exp(log_alpha)
        logs = []
        for counts, given in of_counts.items():
            later = np.cumsum(counts[::-1])[::-1]
            sticks = [
                np.log(a) + betaln(1.0 + n, a + m)
                for n, m in zip(counts[:-1], later[1:], strict=True)
            ]
            logs.append(sum(sticks) + logsumexp(given))
        return logsumexp(logs, axis=0) + stats.gamma(2.0).logpdf(a) + log_alpha

    return grid(log_density, (-12.0, 4.0, 401))


@entry(KIND)
def latent_classes():
    """Two kinds of people answering five questions."""
    answers = np.array([
        [1, 1, 1, 0, 1], [1, 1, 0, 1, 1], [0, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 0, 1, 1, 1],
        [0, 1, 0, 0, 0], [1, 1, 1, 1, 1], [0, 0, 0, 1, 0],
    ])  # fmt: skip
    share, p = pm.Beta("share", 2.0, 2.0), pm.Beta("p", 1.0, 1.0, shape=(2, 5))
    logs = pm.logp(pm.Bernoulli.dist(p[:, None, :]), answers).sum(axis=-1)
    weights = pt.log(pt.stack([share, 1.0 - share]))[:, None]
    pm.Potential("y", pt.logsumexp(logs + weights, axis=0).sum())
    return exact_classes(answers)


def exact_classes(answers):
    """Sum over all assignments of the people; each half is conjugate."""
    n, logs = len(answers), []
    for of in product([False, True], repeat=n):
        one = np.array(of)
        total = betaln(2.0 + one.sum(), 2.0 + n - one.sum()) - betaln(2.0, 2.0)
        for part in (answers[one], answers[~one]):
            yes = part.sum(axis=0)
            total += betaln(1.0 + yes, 1.0 + len(part) - yes).sum()
        logs.append(total)
    return float(logsumexp(logs))
