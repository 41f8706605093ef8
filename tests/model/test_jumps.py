"""Variables that enter through comparisons alone: which they are, and what is done about them."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

import pymc_tempering as pm_temper
from pymc_tempering.errors import ModelError
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.graph import MOST_DIM, staircase_names

TIMES = np.arange(60) + 0.5
COUNTED = {
    "switch": lambda tau: pt.switch(tau > TIMES, 0.0, 1.0),
    "whole number": lambda tau: pt.floor(tau) * 0.1,
    "index": lambda tau: pt.as_tensor(np.linspace(-1.0, 1.0, 60))[tau.astype("int64")],
    "sign": lambda tau: pt.sign(TIMES - tau),
    "product with a comparison": lambda tau: 2.0 * pt.ge(TIMES, tau),
}
SMOOTH = {
    "as it is": lambda tau: tau,
    "also as it is": lambda tau: pt.switch(tau > TIMES, 0.0, tau),
    "logistic": lambda tau: pm.math.sigmoid(TIMES - tau),
    "absolute value": lambda tau: pt.abs(tau),
    "a bound": lambda tau: pt.maximum(tau, 3.0),
}


def model_of(of_tau):
    with pm.Model() as model:
        tau, slope = pm.Uniform("tau", 0.0, 60.0), pm.Normal("slope")
        pm.Normal("y", slope * of_tau(tau), 1.0, observed=np.zeros(60))
    return model


@pytest.mark.parametrize("form", COUNTED)
def test_names_what_enters_through_comparisons_alone(form):
    assert staircase_names(model_of(COUNTED[form])) == ["tau"]


@pytest.mark.parametrize("form", SMOOTH)
def test_names_nothing_that_has_a_gradient_somewhere(form):
    assert staircase_names(model_of(SMOOTH[form])) == []


def test_other_variables_and_potentials_count_as_what_depends():
    with pm.Model() as model:
        a, b, c = (pm.Normal(name) for name in "abc")
        pm.Normal("d", pt.switch(a > 0.0, 1.0, 2.0))
        pm.Normal("e", b)
        pm.Potential("f", pt.switch(c > 0.0, 0.0, -1.0))
        pm.Normal("alone")
    assert staircase_names(model) == ["a", "c"]


def test_counts_of_a_mixture_are_no_comparisons():
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0, shape=2)
        parts = pm.Poisson.dist(rate)
        pm.Mixture("y", np.array([0.3, 0.7]), parts, observed=np.array([0, 3, 5]))
        pm.ZeroInflatedPoisson("z", 0.5, pm.Exponential("mu", 1.0), observed=np.array([0, 2]))
    assert staircase_names(model) == []


def change_point(seed=72, n=60):
    """A jump of 1.2 at an unknown time, with known noise, and its log Z."""
    y = np.where(TIMES < 19.0, 0.0, 1.2) + 0.5 * np.random.default_rng(seed).normal(size=n)
    with pm.Model() as model:
        tau, mu = pm.Uniform("tau", 0.0, n), pm.Normal("mu", 0.0, 2.0, shape=2)
        pm.Normal("y", pt.switch(tau > TIMES, mu[0], mu[1]), 0.5, observed=y)
    terms = []
    for k in range(n + 1):
        late = np.arange(n) >= k
        same = late[:, None] == late
        width = 0.5 if k in (0, n) else 1.0
        law = multivariate_normal(np.zeros(n), 0.25 * np.eye(n) + 4.0 * same)
        terms.append(np.log(width / n) + law.logpdf(y))
    return model, float(logsumexp(terms))


@pytest.mark.statistical
def test_log_z_of_a_change_point(seed):
    """Four standard errors and 0.02: below 1e-4. By gradients it was 20 nats and more off."""
    model, exact = change_point()
    estimate = pm_temper.estimate_logz(
        model, random_seed=seed, chains=2, progressbar=False, quiet=True
    )
    assert abs(estimate.log_z - exact) < 4.0 * estimate.se + 0.02
    assert estimate.se < 0.1


def test_says_why_gradients_are_not_used():
    model, _ = change_point()
    reason = "everything depends on tau through comparisons alone"
    assert compile_density(model).no_gradient == reason
    with pytest.raises(ModelError, match=reason):
        pm_temper.estimate_logz(model, explorer="hamiltonian", progressbar=False)


def test_in_many_dimensions_the_gradient_of_the_others_is_kept():
    with pm.Model() as model:
        tau, x = pm.Uniform("tau", 0.0, 60.0), pm.Normal("x", shape=MOST_DIM)
        pm.Normal("y", x.sum() * pt.switch(tau > TIMES, 0.0, 1.0), 1.0, observed=np.zeros(60))
    assert staircase_names(model) == ["tau"]
    assert not compile_density(model).no_gradient
