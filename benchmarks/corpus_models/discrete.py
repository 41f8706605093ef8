"""Models with discrete variables, whose exact log Z is a sum over all their states."""

from itertools import product

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats
from scipy.special import betaln, gammaln, logsumexp

from corpus_models.entries import entry

KIND = "discrete"
DISASTERS = np.array([4, 5, 4, 1, 0, 4, 3, 4, 0, 6, 3, 3, 1, 1, 0, 2, 0, 1, 0, 1, 1, 0, 0, 2, 1])


def states(n):
    return np.array(list(product([0, 1], repeat=n)))


@entry(KIND)
def ising():
    """A sheet of three by four spins, at a temperature where they agree."""
    up = pm.Bernoulli("up", 0.5, shape=(3, 4))
    spin = 2 * up - 1
    bonds = (spin[1:] * spin[:-1]).sum() + (spin[:, 1:] * spin[:, :-1]).sum()
    pm.Potential("bonds", 0.6 * bonds)
    all_spins = 2 * states(12).reshape(-1, 3, 4) - 1
    total = (all_spins[:, 1:] * all_spins[:, :-1]).sum(axis=(1, 2))
    total = total + (all_spins[:, :, 1:] * all_spins[:, :, :-1]).sum(axis=(1, 2))
    return logsumexp(0.6 * total) - 12 * np.log(2.0)


@entry(KIND)
def change_point():
    """Counts whose rate changes at an unknown time; rates are conjugate."""
    n = DISASTERS.size
    when = pm.DiscreteUniform("when", 1, n - 1)
    rate = pm.Gamma("rate", 2.0, 1.0, shape=2)
    pm.Poisson("y", pt.switch(np.arange(n) < when, rate[0], rate[1]), observed=DISASTERS)

    def conjugate(y):
        a = 2.0 + y.sum()
        return gammaln(a) - a * np.log(1.0 + y.size) - gammaln(y + 1.0).sum()

    return logsumexp(
        [conjugate(DISASTERS[:k]) + conjugate(DISASTERS[k:]) for k in range(1, n)]
    ) - np.log(n - 1)


@entry(KIND)
def allocations():
    """Which of two places each of eight points belongs to; places are normal."""
    y = np.array([-1.9, -2.4, -1.1, 1.3, 2.2, 1.8, 0.2, 2.6])
    z = pm.Bernoulli("z", 0.5, shape=8)
    mu = pm.Normal("mu", [-1.0, 1.0], 2.0)
    pm.Normal("y", mu[z], 0.8, observed=y)
    logs = []
    for of in states(8):
        total = -8 * np.log(2.0)
        for k, prior in ((0, -1.0), (1, 1.0)):
            own = y[of == k]
            if own.size:
                cov = 0.64 * np.eye(own.size) + 4.0
                total += stats.multivariate_normal(np.full(own.size, prior), cov).logpdf(own)
        logs.append(total)
    return logsumexp(logs)


@entry(KIND)
def variable_selection():
    """Which of six predictors there are, by indicators."""
    rng = np.random.default_rng(70)
    x = rng.normal(size=(25, 6))
    y = x @ [1.2, 0.0, -0.8, 0.0, 0.0, 0.3] + 0.7 * rng.normal(size=25)
    there, b = pm.Bernoulli("there", 0.3, shape=6), pm.Normal("b", 0.0, 1.0, shape=6)
    pm.Normal("y", x @ (there * b), 0.7, observed=y)
    logs = []
    for of in states(6):
        cov = 0.49 * np.eye(25) + (x * of) @ x.T
        prior = of.sum() * np.log(0.3) + (6 - of.sum()) * np.log(0.7)
        logs.append(prior + stats.multivariate_normal(np.zeros(25), cov).logpdf(y))
    return logsumexp(logs)


@entry(KIND)
def recapture():
    """How many animals there are, from two visits with an unknown chance to see each."""
    seen, again, both = 18, 21, 9
    n, p = pm.DiscreteUniform("n", 30, 120), pm.Beta("p", 2.0, 2.0)
    pm.Binomial("seen", n, p, observed=seen)
    pm.Binomial("again_old", seen, p, observed=both)
    pm.Binomial("again_new", n - seen, p, observed=again - both)
    counts = np.arange(30, 121)

    def log_choose(n, k):
        return gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)

    logs = (
        log_choose(counts, seen) + log_choose(seen, both)
        + log_choose(counts - seen, again - both)
        + betaln(2.0 + seen + again, 2.0 + 2 * counts - seen - again) - betaln(2.0, 2.0)
    )  # fmt: skip
    return logsumexp(logs) - np.log(counts.size)


@entry(KIND)
def categorical_topic():
    """One of four topics, whose words are known, and a count of repeats."""
    topic = pm.Categorical("topic", [0.4, 0.3, 0.2, 0.1])
    words = np.array([[5, 1, 1], [1, 5, 1], [1, 1, 5], [2, 2, 3]]) / 7.0
    counts, repeats = np.array([2, 1, 4]), pm.Poisson("repeats", 3.0)
    pm.Multinomial("words", n=7, p=pt.as_tensor(words)[topic], observed=counts)
    pm.Poisson("noise", repeats + 0.5, observed=4)
    of_topic = logsumexp(
        np.log([0.4, 0.3, 0.2, 0.1]) + stats.multinomial(7, words).logpmf(np.tile(counts, (4, 1)))
    )
    k = np.arange(80)
    return of_topic + logsumexp(stats.poisson(3.0).logpmf(k) + stats.poisson(k + 0.5).logpmf(4))


@entry(KIND)
def missing_counts():
    """Imputed counts, which integrate to one."""
    y = np.ma.masked_equal([3, -1, 5, 2, -1, 4], -1)
    pm.Poisson("y", pm.Gamma("rate", 3.0, 1.0), observed=y)
    seen = np.asarray(y.compressed())
    a = 3.0 + seen.sum()
    return gammaln(a) - gammaln(3.0) - a * np.log(1.0 + seen.size) - gammaln(seen + 1.0).sum()
