"""People and items, subjects with states and rates, documents with topics."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from real_models.counts import sigmoid
from real_models.entries import effects, pairs, real

KIND = "traits"


@real(KIND)
def irt_1(marginal):
    """Rasch: 200 people, 20 items, and how far people differ."""
    rng = np.random.default_rng(50)
    y = rng.random((200, 20)) < sigmoid(1.2 * rng.normal(size=(200, 1)) - rng.normal(size=20))
    mean, sd = pm.Normal("mean", 0.0, 2.0), pm.HalfNormal("sd", 2.0)
    hard = pm.Normal("hard", mean, sd, shape=20)
    effects(
        marginal, 200, 0.0, pm.HalfNormal("tau", 2.0),
        lambda at: (pm.Bernoulli, {"logit_p": at - hard}, y.astype(int)), centred=True,
    )  # fmt: skip


@real(KIND)
def irt_2(marginal):
    """Items that discriminate unequally, of which a hierarchy knows."""
    rng = np.random.default_rng(51)
    slope, hard = np.exp(0.3 * rng.normal(size=20)), rng.normal(size=20)
    y = rng.random((100, 20)) < sigmoid(slope * (rng.normal(size=(100, 1)) - hard))
    spread, mean = pm.HalfNormal("spread", 1.0), pm.Normal("mean", 0.0, 2.0)
    slope = pm.LogNormal("slope", 0.0, spread, shape=20)
    hard = pm.Normal("hard", mean, pm.HalfNormal("sd", 2.0), shape=20)
    effects(
        marginal, 100, 0.0, 1.0,
        lambda at: (pm.Bernoulli, {"logit_p": slope * (at - hard)}, y.astype(int)),
    )  # fmt: skip


@real(KIND)
def irt_2_hierarchy():
    """Discrimination and difficulty of 32 items, correlated, and 600 people."""
    rng = np.random.default_rng(2)
    trait, slope = rng.normal(size=(600, 1)), np.exp(0.2 + 0.4 * rng.normal(size=32))
    y = rng.random((600, 32)) < sigmoid(slope * (trait - rng.normal(size=32)))
    trait, mean = pm.Normal("trait", shape=(600, 1)), pm.Normal("mean", 0.0, [1.0, 5.0], shape=2)
    root, _, _ = pm.LKJCholeskyCov(
        "root", n=2, eta=4.0, sd_dist=pm.Exponential.dist(0.1, shape=2), compute_corr=True
    )
    items = pm.MvNormal("items", mean, chol=root, shape=(32, 2))
    logit = pt.exp(items[:, 0]) * (trait - items[:, 1])
    pm.Bernoulli("y", logit_p=logit, observed=y.astype(int))


@real(KIND)
def preferences():
    """Coefficients of 40 people, correlated, by ten choices of one of three each."""
    rng = np.random.default_rng(54)
    x = rng.normal(size=(40, 10, 3, 3))
    own = np.array([1.0, -0.5, 0.3]) + rng.normal(size=(40, 3)) * [0.5, 0.8, 0.2]
    y = (np.einsum("ijkl,il->ijk", x, own) + rng.gumbel(size=(40, 10, 3))).argmax(axis=2)
    root, _, _ = pm.LKJCholeskyCov("root", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
    mean, unit = pm.Normal("mean", 0.0, 2.0, shape=3), pm.Normal("unit", shape=(40, 3))
    own = mean + unit @ root.T
    pm.Categorical("y", logit_p=(x * own[:, None, None, :]).sum(axis=-1), observed=y)


@real(KIND)
def irt_3(marginal):
    """Items that can be guessed: 300 people, 15 items."""
    rng = np.random.default_rng(52)
    slope, hard = np.exp(0.3 * rng.normal(size=15)), rng.normal(size=15)
    p = 0.2 + 0.8 * sigmoid(slope * (rng.normal(size=(300, 1)) - hard))
    y = rng.random((300, 15)) < p
    slope = pm.LogNormal("slope", 0.0, 0.5, shape=15)
    hard, guess = pm.Normal("hard", 0.0, 1.5, shape=15), pm.Beta("guess", 5.0, 17.0, shape=15)
    effects(
        marginal, 300, 0.0, 1.0,
        lambda at: (
            pm.Bernoulli, {"p": guess + (1.0 - guess) * pt.sigmoid(slope * (at - hard))},
            y.astype(int),
        ),
    )  # fmt: skip


def hidden_markov(log_emissions, stay):
    """Log likelihood of two states, by the forward algorithm; emissions (time, state, ..., n)."""
    log_stay, log_leave = pt.log(stay), pt.log1p(-stay)
    first, second = log_emissions[0]
    first, second = first + np.log(0.5), second + np.log(0.5)
    for next_first, next_second in log_emissions[1:]:
        first, second = (
            next_first + pt.logaddexp(first + log_stay[0], second + log_leave[1]),
            next_second + pt.logaddexp(first + log_leave[0], second + log_stay[1]),
        )
    return pt.logaddexp(first, second)


@real(KIND)
def hidden_markov_counts(marginal):
    """Sixty subjects, calm or busy, who differ in both rates; 25 counts each."""
    rng = np.random.default_rng(53)
    n, n_times = 60, 25
    states = np.cumsum(rng.random((n_times, n)) < 0.15, axis=0) % 2
    logs = np.where(states, 1.8 + 0.2 * rng.normal(size=n), 0.2 + 0.3 * rng.normal(size=n))
    y = rng.poisson(np.exp(logs))
    stay = pm.Beta("stay", 8.0, 2.0, shape=2)
    low, more = pm.Normal("low", 0.0, 1.0), pm.HalfNormal("more", 2.0)
    sds = [pm.HalfNormal(f"tau_{i}", 0.5) for i in range(2)]

    def log_likelihood(calm, busy):
        # without log y!, which no state changes
        emissions = [
            (y[t] * calm - pt.exp(calm), y[t] * busy - pt.exp(busy)) for t in range(n_times)
        ]
        return hidden_markov(emissions, stay)

    pairs(marginal, n, [low, low + more], sds, log_likelihood, centred=True)


@real(KIND)
def compartment(marginal):
    """A dose that is absorbed and eliminated, in thirty subjects at eight times."""
    rng = np.random.default_rng(54)
    n, times = 30, np.array([0.25, 0.5, 1.0, 2.0, 4.0, 6.0, 9.0, 12.0])

    def concentration(log_in, log_out, volume, exp):
        enters, leaves = exp(log_in), exp(log_out)
        gone = [exp(-leaves * t) - exp(-enters * t) for t in times]
        return [10.0 / volume * enters / (enters - leaves) * part for part in gone]

    log_in, log_out = 0.4 + 0.3 * rng.normal(size=n), -1.5 + 0.25 * rng.normal(size=n)
    true = np.array(concentration(log_in, log_out, 2.0, np.exp))
    y = np.log(true) + 0.15 * rng.normal(size=true.shape)
    means = [pm.Normal("mean_in", 0.4, 0.5), pm.Normal("mean_out", -1.5, 0.5)]
    sds = [pm.HalfNormal("tau_in", 0.5), pm.HalfNormal("tau_out", 0.5)]
    volume, noise = pm.LogNormal("volume", 0.7, 0.5), pm.HalfNormal("noise", 0.5)

    def log_likelihood(log_in, log_out):
        # absorption is the faster of the two, which tells them apart
        log_in = log_out + pt.softplus(log_in - log_out) + 1e-3
        means = concentration(log_in, log_out, volume, pt.exp)
        parts = [((row - pt.log(mean)) / noise) ** 2 for row, mean in zip(y, means, strict=True)]
        return -0.5 * sum(parts) - 8.0 * pt.log(noise)

    pairs(marginal, n, means, sds, log_likelihood, centred=True)


@real(KIND)
def two_topics():
    """Sixty documents of eighty words; topics may trade places."""
    rng = np.random.default_rng(55)
    words, share = rng.dirichlet(np.full(40, 0.3), size=2), rng.beta(0.7, 0.7, 60)
    y = np.array([rng.multinomial(80, s * words[0] + (1.0 - s) * words[1]) for s in share])
    topic = pm.Dirichlet("topic", np.full((2, 40), 0.3))
    share = pm.Beta("share", 0.7, 0.7, shape=60)[:, None]
    pm.Multinomial("y", n=80, p=share * topic[0] + (1.0 - share) * topic[1], observed=y)
