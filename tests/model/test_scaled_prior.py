"""Scaled priors of every family that has one, against the family with other parameters."""

import numpy as np
import pymc as pm
import pytest
from pymc.distributions.transforms import ordered
from scipy import stats

from pymc_tempering.errors import ModelError, OptionError
from pymc_tempering.model.at_draws import constrained_model, evaluate
from pymc_tempering.model.scaled_prior import log_prior_ratio, scalable_names, why_not_scalable

COV = np.array([[2.0, 0.3], [0.3, 1.0]])

# the distribution with its scale times s, written out, and draws of it; PyTensor keeps constants
# such as log(2.5) in single precision where it may
FAMILIES = {
    "Normal": (lambda s: pm.Normal.dist(1.0, 2.0 * s), stats.norm(1.0, 2.0).rvs),
    "StudentT": (lambda s: pm.StudentT.dist(3.0, mu=1.0, sigma=2.0 * s), stats.t(3.0).rvs),
    "Cauchy": (lambda s: pm.Cauchy.dist(1.0, 2.0 * s), stats.cauchy(1.0, 2.0).rvs),
    "Laplace": (lambda s: pm.Laplace.dist(1.0, 2.0 * s), stats.laplace(1.0, 2.0).rvs),
    "Logistic": (lambda s: pm.Logistic.dist(1.0, 2.0 * s), stats.logistic(1.0, 2.0).rvs),
    "Gumbel": (lambda s: pm.Gumbel.dist(1.0, 2.0 * s), stats.gumbel_r(1.0, 2.0).rvs),
    "Moyal": (lambda s: pm.Moyal.dist(1.0, 2.0 * s), stats.moyal(1.0, 2.0).rvs),
    "SkewNormal": (
        lambda s: pm.SkewNormal.dist(mu=1.0, sigma=2.0 * s, alpha=3.0),
        stats.skewnorm(3.0, 1.0, 2.0).rvs,
    ),
    "HalfNormal": (lambda s: pm.HalfNormal.dist(2.0 * s), stats.halfnorm(scale=2.0).rvs),
    "HalfCauchy": (lambda s: pm.HalfCauchy.dist(2.0 * s), stats.halfcauchy(scale=2.0).rvs),
    "HalfStudentT": (lambda s: pm.HalfStudentT.dist(3.0, 2.0 * s), stats.halfcauchy.rvs),
    "Exponential": (lambda s: pm.Exponential.dist(scale=2.0 * s), stats.expon(scale=2.0).rvs),
    "Gamma": (lambda s: pm.Gamma.dist(2.0, 3.0 / s), stats.gamma(2.0, scale=1 / 3).rvs),
    "InverseGamma": (lambda s: pm.InverseGamma.dist(3.0, 2.0 * s), stats.invgamma(3.0).rvs),
    "LogNormal": (lambda s: pm.LogNormal.dist(0.3 + np.log(s), 0.7), stats.lognorm(0.7).rvs),
    "Weibull": (lambda s: pm.Weibull.dist(1.5, 2.0 * s), stats.weibull_min(1.5, scale=2.0).rvs),
}  # fmt: skip


def ratio_at(model, name, factor, draws):
    constrained = constrained_model(model)
    return evaluate(constrained, [log_prior_ratio(model, constrained, name, factor)], draws)[0]


@pytest.mark.parametrize("factor", [0.4, 2.5])
@pytest.mark.parametrize("family", FAMILIES)
def test_is_the_family_with_its_scale_multiplied(family, factor, rng):
    make, draw = FAMILIES[family]
    with pm.Model() as model:
        model.register_rv(make(1.0), "x")
    assert why_not_scalable(model, "x") is None
    x = draw(size=20, random_state=rng)
    expected = (pm.logp(make(factor), x) - pm.logp(make(1.0), x)).eval(mode="FAST_COMPILE")
    np.testing.assert_allclose(ratio_at(model, "x", factor, {"x": x}), expected, atol=1e-6)


def test_entries_of_a_vector_are_scaled_together_about_their_own_locations(rng):
    with pm.Model() as model:
        pm.Normal("x", np.array([1.0, -2.0, 0.5]), np.array([1.0, 2.0, 3.0]))
    x = rng.normal(size=(9, 3))
    loc, sd = np.array([1.0, -2.0, 0.5]), np.array([1.0, 2.0, 3.0])
    expected = (stats.norm(loc, 2 * sd).logpdf(x) - stats.norm(loc, sd).logpdf(x)).sum(axis=1)
    np.testing.assert_allclose(ratio_at(model, "x", 2.0, {"x": x}), expected, atol=1e-12)


def test_multivariate_normal_scales_its_covariance_by_the_square(rng):
    with pm.Model() as model:
        pm.MvNormal("x", np.ones(2), COV)
    x = rng.normal(size=(9, 2))
    expected = (
        stats.multivariate_normal(np.ones(2), 9.0 * COV).logpdf(x)
        - stats.multivariate_normal(np.ones(2), COV).logpdf(x)
    )  # fmt: skip
    np.testing.assert_allclose(ratio_at(model, "x", 3.0, {"x": x}), expected, atol=1e-10)


def test_parents_keep_their_values(rng):
    """The scaled prior of theta is about the mu of the draw, and that of tau leaves theta's."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0)
        tau = pm.HalfNormal("tau", 1.0)
        pm.Normal("theta", mu, tau, shape=2)
    draws = {
        "mu": rng.normal(size=6), "tau": rng.gamma(2.0, size=6), "theta": rng.normal(size=(6, 2))
    }  # fmt: skip
    mu, tau = draws["mu"][:, None], draws["tau"][:, None]
    expected = (
        stats.norm.logpdf(draws["theta"], mu, 2 * tau) - stats.norm.logpdf(draws["theta"], mu, tau)
    ).sum(axis=1)
    np.testing.assert_allclose(ratio_at(model, "theta", 2.0, draws), expected, atol=1e-12)
    expected = stats.halfnorm(scale=2.0).logpdf(draws["tau"]) - stats.halfnorm.logpdf(draws["tau"])
    np.testing.assert_allclose(ratio_at(model, "tau", 2.0, draws), expected, atol=1e-12)
    assert scalable_names(model) == ["mu", "tau"]


def test_scaled_prior_is_normalised():
    """On a grid, to within the quadrature."""
    with pm.Model() as model:
        pm.Gamma("x", 2.0, 3.0)
    x = np.linspace(1e-6, 40.0, 400_001)
    density = stats.gamma(2.0, scale=1 / 3).logpdf(x)
    density += ratio_at(model, "x", 3.0, {"x": x})
    assert np.trapezoid(np.exp(density), x) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: pm.Uniform("x", 0.0, 1.0), "bounds"),
        (lambda: pm.Beta("x", 2.0, 2.0), "bounds"),
        (lambda: pm.TruncatedNormal("x", 0.0, 1.0, lower=0.0), "bounds"),
        (lambda: pm.Dirichlet("x", np.ones(3)), "constraint"),
        (lambda: pm.Poisson("x", 3.0), "discrete"),
        (lambda: pm.Flat("x"), "improper"),
        (lambda: pm.HalfFlat("x"), "improper"),
        (lambda: pm.VonMises("x", 0.0, 1.0), "constraint"),
        (lambda: pm.Normal("x", [0.0, 1.0], transform=ordered), "constraint"),
    ],
)  # fmt: skip
def test_priors_without_a_scale_are_refused_with_the_reason(make, reason):
    with pm.Model() as model:
        make()
    assert scalable_names(model) == []
    with pytest.raises(ModelError, match=rf"'x' cannot be scaled: .*{reason}.*alternatives="):
        log_prior_ratio(model, constrained_model(model), "x", 2.0)


def test_only_free_variables_have_priors():
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Deterministic("twice", 2 * x)
        pm.Normal("y", x, 1.0, observed=0.0)
    for name in ("twice", "y", "nothing"):
        with pytest.raises(OptionError, match=rf"'{name}' is no free variable.*\['x'\]"):
            log_prior_ratio(model, constrained_model(model), name, 2.0)
