"""Published evidences and Bayes factors, within the reported errors.

Each comparison may fail by chance with probability 1e-4 (four standard errors).
"""

import numpy as np
import pymc as pm
import pytest
from scipy.special import betaln

import pymc_tempering as pm_temper
from pymc_tempering.comparison.bayes_factor import bayes_factor

# Student (1908), Biometrika 6(1): hours of sleep gained with the second drug over the first
SLEEP = np.array([1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4])
OPTIONS = {"cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False}


def evidence(model, **options):
    # with 80 draws two seeds of twelve had fewer than 100 independent scans of the first model
    return pm_temper.estimate_logz(model, **(OPTIONS | {"draws": 240, "chains": 4} | options))


def unidentifiable_binomial(n, k):
    with pm.Model() as model:
        p = pm.Uniform("p", 0.0, 1.0, shape=2)
        pm.Binomial("k", n, p[0] * p[1], observed=k)
    return model


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "k", "exact"),
    [(100, 50, -4.974552), pytest.param(100_000, 50_000, -11.879441, marks=pytest.mark.slow)],
)
def test_unidentifiable_binomial(n, k, exact, seed):
    estimate = evidence(unidentifiable_binomial(n, k), random_seed=seed)
    assert abs(estimate.log_z - exact) < 4 * estimate.se + 1e-3, estimate
    assert estimate.se < 0.1


@pytest.mark.statistical
def test_jzs_t_test_on_sleep_data(seed):
    """BF10 = 17.259: Cauchy scale 1/sqrt(2) on the effect, Jeffreys prior on the variance."""
    n = len(SLEEP)

    def model(with_effect):
        with pm.Model() as result:
            log_sd = pm.Flat("log_sd")  # Jeffreys: p(sd) proportional to 1 / sd
            effect = pm.Cauchy("effect", 0.0, 1.0 / np.sqrt(2.0)) if with_effect else 0.0
            sd = pm.math.exp(log_sd)
            pm.Normal("y", effect * sd, sd, observed=SLEEP)
        return result

    with pytest.warns(pm_temper_warning(), match="improper priors"):
        one = evidence(model(True), random_seed=seed)
    with pytest.warns(pm_temper_warning(), match="improper priors"):
        null = evidence(model(False), random_seed=seed)
    factor = bayes_factor(one, null)
    assert n == 10
    assert abs(factor.log_bayes_factor - np.log(17.259)) < 4 * factor.se + 1e-3, factor
    assert factor.se < 0.05
    assert factor.words == "positive evidence for a"


def pm_temper_warning():
    from pymc_tempering.errors import TemperingWarning

    return TemperingWarning


@pytest.mark.statistical
def test_beta_bernoulli_pair(seed):
    """Seven successes of ten: a uniform prior against one that expects failures."""
    y = np.array([1, 1, 0, 1, 1, 1, 0, 1, 0, 1])

    def model(a, b):
        with pm.Model() as result:
            p = pm.Beta("p", a, b)
            pm.Bernoulli("y", p, observed=y)
        return result

    exact = {
        (a, b): betaln(a + y.sum(), b + (1 - y).sum()) - betaln(a, b)
        for a, b in [(1.0, 1.0), (2.0, 5.0)]
    }
    estimates = {key: evidence(model(*key), random_seed=seed) for key in exact}
    for key, value in exact.items():
        assert abs(estimates[key].log_z - value) < 4 * estimates[key].se + 1e-3
    factor = bayes_factor(*estimates.values())
    assert abs(factor.log_bayes_factor - (exact[1.0, 1.0] - exact[2.0, 5.0])) < 4 * factor.se + 1e-3
