"""Counts and binary outcomes: groups, species, animals, cells of a poll."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from real_models.entries import effects, pairs, real

KIND = "counts"


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


@real(KIND)
def poisson_200(marginal):
    """One count of each group."""
    rng = np.random.default_rng(40)
    x = rng.normal(size=(200, 1))
    y = rng.poisson(np.exp(0.5 + 0.4 * x + 0.6 * rng.normal(size=(200, 1))))
    mean, slope = pm.Normal("mean", 0.0, 3.0), pm.Normal("slope")
    effects(
        marginal, 200, 0.0, pm.HalfNormal("tau", 1.0),
        lambda at: (pm.Poisson, {"mu": pt.exp(mean + slope * x + at)}, y), centred=True,
    )  # fmt: skip


@real(KIND)
def negative_binomial_400(marginal):
    """Four counts of each group, with exposures."""
    rng = np.random.default_rng(41)
    months = rng.uniform(0.5, 3.0, (400, 4))
    rate = months * np.exp(0.3 + 0.5 * rng.normal(size=(400, 1)))
    y = rng.poisson(rate * rng.gamma(2.0, 0.5, size=(400, 4)))
    size = pm.Gamma("size", 2.0, 0.5)
    effects(
        marginal, 400, pm.Normal("mean", 0.0, 2.0), pm.HalfNormal("tau", 1.0),
        lambda at: (pm.NegativeBinomial, {"mu": months * pt.exp(at), "alpha": size}, y),
    )  # fmt: skip


@real(KIND)
def batters(marginal):
    """Beta and binomial, 300 of them."""
    rng = np.random.default_rng(42)
    tried = rng.integers(5, 200, 300)
    y = rng.binomial(tried, rng.beta(27.0, 73.0, 300))
    mean, size = pm.Beta("mean", 2.0, 2.0), pm.Gamma("size", 2.0, 0.02)
    shapes = {"alpha": mean * size, "beta": (1.0 - mean) * size}
    if marginal:
        pm.BetaBinomial("y", n=tried, **shapes, observed=y)
    else:
        pm.Binomial("y", n=tried, p=pm.Beta("p", **shapes, shape=300), observed=y)


@real(KIND)
def shares(marginal):
    """Five categories in thirty groups, centred, with a concentration."""
    rng = np.random.default_rng(7)
    y = rng.multinomial(30, rng.dirichlet([4.0, 3.0, 2.0, 1.0, 0.5], size=30))
    alpha = pm.LogNormal("concentration", 1.0, 1.0) * pm.Dirichlet("share", np.ones(5))
    if marginal:
        pm.DirichletMultinomial("y", n=30, a=alpha, observed=y)
    else:
        pm.Multinomial("y", 30, pm.Dirichlet("p", alpha, shape=(30, 5)), observed=y)


@real(KIND)
def occupancy(marginal):
    """Fifty species on forty sites, four visits: present or not, seen or not."""
    rng = np.random.default_rng(43)
    present = rng.random((50, 40)) < sigmoid(0.3 + rng.normal(size=(50, 1)))
    y = rng.binomial(4, present * sigmoid(-0.8 + 0.7 * rng.normal(size=(50, 1))))
    means = [pm.Normal(f"mean_{i}", 0.0, 1.5) for i in range(2)]
    sds = [pm.HalfNormal(f"tau_{i}", 1.5) for i in range(2)]
    seen, n_seen = y.sum(axis=1), (y > 0).sum(axis=1)

    def log_likelihood(occupied, detected):
        here, missed = -pt.softplus(-occupied), -pt.softplus(detected)
        found = n_seen * here - seen * pt.softplus(-detected) + (4 * n_seen - seen) * missed
        return found + (40 - n_seen) * pt.logaddexp(here + 4 * missed, -pt.softplus(occupied))

    pairs(marginal, 50, means, sds, log_likelihood, centred=True)


@real(KIND)
def capture_recapture(marginal):
    """Animals of unequal shyness, eight traps, 400 rows of which some are of no animal."""
    rng = np.random.default_rng(44)
    y = rng.binomial(8, sigmoid(-1.5 + rng.normal(size=260)))
    y = np.concatenate([y[y > 0], np.zeros(400 - (y > 0).sum(), dtype=int)])[:, None]
    share = pm.Beta("share", 1.0, 1.0)
    effects(
        marginal, 400, pm.Normal("mean", 0.0, 1.5), pm.HalfNormal("tau", 1.0),
        lambda at: (pm.ZeroInflatedBinomial, {"psi": share, "n": 8, "p": pt.sigmoid(at)}, y),
    )  # fmt: skip


@real(KIND)
def election():
    """A poll in cells: states in regions, ages by schooling, sex and race; 1,600 of them."""
    rng = np.random.default_rng(45)
    n = 1600
    state, age, school = rng.integers(0, 50, n), rng.integers(0, 4, n), rng.integers(0, 4, n)
    both, region = 4 * age + school, np.arange(50) % 5
    female, black = rng.integers(0, 2, n), rng.integers(0, 2, n)
    of_state = 0.3 * rng.normal(size=5)[region] + 0.3 * rng.normal(size=50)
    logit = -0.1 * female - 1.2 * black + of_state[state] + 0.2 * rng.normal(size=16)[both]
    asked = rng.poisson(6.0, n)
    y = rng.binomial(asked, sigmoid(logit))
    mean, slopes = pm.Normal("mean", 0.0, 2.0), pm.Normal("slopes", 0.0, 1.0, shape=2)
    sd = pm.HalfNormal("sd", 1.0, shape=5)
    by_region = pm.Normal("by_region", 0.0, sd[0], shape=5)
    by_state = pm.Normal("by_state", by_region[region], sd[1], shape=50)
    by_age = pm.Normal("by_age", 0.0, sd[2], shape=4)
    by_school = pm.Normal("by_school", 0.0, sd[3], shape=4)
    by_both = pm.Normal("by_both", 0.0, sd[4], shape=16)
    logit = mean + slopes[0] * female + slopes[1] * black + by_state[state]
    logit += by_age[age] + by_school[school] + by_both[both]
    pm.Binomial("y", n=asked, logit_p=logit, observed=y)
