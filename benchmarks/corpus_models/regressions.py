"""Regressions: linear, generalised, robust, with sparse or smooth coefficients."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import interpolate, stats
from scipy.special import gammaln

from corpus_models.entries import BRIDGE, QUADRATURE, entry

KIND = "regression"
DOSE = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0])


def predictors(n, dim, seed):
    return np.random.default_rng(seed).normal(size=(n, dim))


@entry(KIND)
def linear_known_noise():
    x = predictors(30, 4, 1)
    y = x @ [1.0, -0.5, 0.0, 2.0] + np.random.default_rng(2).normal(size=30)
    slope = pm.Normal("slope", 0.0, 2.0, shape=4)
    pm.Normal("y", x @ slope, 1.0, observed=y)
    return stats.multivariate_normal(np.zeros(30), np.eye(30) + 4.0 * x @ x.T).logpdf(y)


@entry(KIND)
def linear_unknown_noise():
    """Normal-inverse-gamma, so that the evidence is a multivariate t."""
    x = predictors(25, 3, 3)
    y = x @ [0.4, -1.0, 0.2] + 0.7 * np.random.default_rng(4).normal(size=25)
    variance = pm.InverseGamma("variance", 3.0, 2.0)
    slope = pm.Normal("slope", 0.0, pt.sqrt(variance), shape=3)
    pm.Normal("y", x @ slope, pt.sqrt(variance), observed=y)
    shape = 2.0 / 3.0 * (np.eye(25) + x @ x.T)
    return stats.multivariate_t(np.zeros(25), shape, df=6.0).logpdf(y)


@entry(KIND)
def logistic():
    x = predictors(60, 5, 5)
    rng = np.random.default_rng(6)
    y = rng.random(60) < 1.0 / (1.0 + np.exp(-x @ [1.5, -1.0, 0.0, 0.5, 0.0] - 0.3))
    intercept, slope = pm.Normal("intercept", 0.0, 2.0), pm.Normal("slope", 0.0, 1.5, shape=5)
    pm.Bernoulli("y", logit_p=intercept + x @ slope, observed=y.astype(int))
    return BRIDGE


@entry(KIND)
def logistic_separated():
    """The classes do not overlap, so that the prior alone holds the slope back."""
    x = np.array([-3.1, -2.4, -2.0, -1.2, -0.7, 0.9, 1.1, 1.8, 2.2, 3.0])
    a, b = pm.Normal("a", 0.0, 5.0), pm.Normal("b", 0.0, 10.0)
    pm.Bernoulli("y", logit_p=a + b * x, observed=(x > 0).astype(int))
    return QUADRATURE


@entry(KIND)
def probit_dose():
    a, b = pm.Normal("a", -1.0, 2.0), pm.HalfNormal("b", 2.0)
    p = pm.math.invprobit(a + b * DOSE)
    pm.Binomial("dead", 12, p, observed=[0, 1, 1, 4, 6, 9, 11, 12])
    return QUADRATURE


@entry(KIND)
def poisson_exposure():
    exposure = np.array([12.0, 30.0, 8.0, 44.0, 21.0, 17.0, 33.0, 5.0])
    a, b = pm.Normal("a", -1.0, 2.0), pm.Normal("b", 0.0, 1.0)
    rate = exposure * pt.exp(a + b * (DOSE - 2.0))
    pm.Poisson("cases", rate, observed=[2, 7, 3, 16, 9, 10, 25, 6])
    return QUADRATURE


@entry(KIND)
def negative_binomial():
    x = predictors(40, 2, 7)
    mu = np.exp(1.2 + x @ [0.5, -0.3])
    y = np.random.default_rng(8).negative_binomial(2.0, 2.0 / (2.0 + mu))
    a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, 1.0, shape=2)
    dispersion = pm.Gamma("dispersion", 2.0, 0.5)
    pm.NegativeBinomial("y", mu=pt.exp(a + x @ b), alpha=dispersion, observed=y)
    return BRIDGE


@entry(KIND)
def gamma_log_link():
    y = np.array([1.2, 1.9, 2.0, 4.1, 3.6, 6.8, 7.0, 15.2])
    a, b = pm.Normal("a", 0.0, 1.0), pm.Normal("b", 0.0, 1.0)
    alpha, mu = pm.Exponential("alpha", 0.1), pt.exp(a + b * DOSE)
    pm.Gamma("y", alpha=alpha, beta=alpha / mu, observed=y)
    return QUADRATURE


@entry(KIND)
def beta_proportions():
    y = np.array([0.11, 0.18, 0.22, 0.35, 0.31, 0.52, 0.63, 0.71])
    a, b = pm.Normal("a", 0.0, 1.5), pm.Normal("b", 0.0, 1.5)
    precision = pm.HalfNormal("precision", 50.0)
    pm.Beta("y", mu=pm.math.invlogit(a + b * DOSE), nu=precision, observed=y)
    return QUADRATURE


@entry(KIND)
def robust_student():
    x = predictors(30, 2, 9)
    y = 0.5 + x @ [1.0, -2.0] + 0.4 * np.random.default_rng(10).standard_t(2.0, 30)
    y[[3, 17]] += [9.0, -7.0]
    a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, 2.0, shape=2)
    noise, dof = pm.HalfNormal("noise", 2.0), pm.Gamma("dof", 2.0, 0.1)
    pm.StudentT("y", nu=dof, mu=a + x @ b, sigma=noise, observed=y)
    return BRIDGE


@entry(KIND)
def quantile():
    """Asymmetric Laplace: a density with kinks."""
    y = np.array([0.3, 1.1, 0.8, 2.9, 2.0, 4.4, 2.6, 6.3])
    a, b = pm.Normal("a", 0.0, 3.0), pm.Normal("b", 0.0, 3.0)
    scale = pm.HalfNormal("scale", 1.0)
    pm.AsymmetricLaplace("y", mu=a + b * DOSE, b=1.0 / scale, q=0.8, observed=y)
    return BRIDGE


@entry(KIND)
def softmax_classes():
    x = predictors(50, 2, 11)
    logits = np.column_stack([np.zeros(50), x @ [1.0, 0.5], x @ [-1.0, 1.0]])
    y = (logits + np.random.default_rng(12).gumbel(size=logits.shape)).argmax(axis=1)
    b = pm.Normal("b", 0.0, 1.5, shape=(2, 2))
    utilities = pt.concatenate([pt.zeros((50, 1)), x @ b], axis=1)
    pm.Categorical("y", logit_p=utilities, observed=y)
    return BRIDGE


@entry(KIND)
def ordinal():
    x = predictors(60, 2, 13)
    latent = x @ [1.0, -0.6] + np.random.default_rng(14).logistic(size=60)
    y = np.digitize(latent, [-1.5, 0.0, 1.2])
    slope = pm.Normal("slope", 0.0, 2.0, shape=2)
    cuts = pm.Normal("cuts", 0.0, 3.0, shape=3, transform=pm.distributions.transforms.ordered,
                     initval=[-1.0, 0.0, 1.0])  # fmt: skip
    pm.OrderedLogistic("y", eta=x @ slope, cutpoints=cuts, observed=y)
    return BRIDGE


@entry(KIND)
def zero_inflated_poisson():
    y = np.array([0, 0, 3, 0, 1, 4, 0, 0, 2, 5, 0, 3, 0, 0, 1, 2, 0, 6, 0, 2])
    psi, mu = pm.Beta("psi", 1.0, 1.0), pm.Gamma("mu", 2.0, 0.5)
    pm.ZeroInflatedPoisson("y", psi=psi, mu=mu, observed=y)
    return QUADRATURE


@entry(KIND)
def hurdle_gamma():
    y = np.array([0.0, 0.0, 1.3, 2.2, 0.0, 0.4, 3.1, 0.0, 1.9, 0.8, 0.0, 2.4])
    psi, alpha = pm.Beta("psi", 2.0, 2.0), pm.Exponential("alpha", 0.5)
    pm.HurdleGamma("y", psi=psi, alpha=alpha, beta=pm.Exponential("beta", 0.5), observed=y)
    return QUADRATURE


@entry(KIND)
def horseshoe():
    x = predictors(40, 10, 15)
    y = x @ np.r_[2.0, -1.5, np.zeros(8)] + 0.5 * np.random.default_rng(16).normal(size=40)
    tau, local = pm.HalfCauchy("tau", 0.2), pm.HalfCauchy("local", 1.0, shape=10)
    z, noise = pm.Normal("z", shape=10), pm.HalfNormal("noise", 1.0)
    pm.Normal("y", x @ (tau * local * z), noise, observed=y)
    return BRIDGE


@entry(KIND)
def spline():
    """Cubic splines whose coefficients are a random walk."""
    x = np.linspace(0.0, 1.0, 50)
    y = np.sin(6.0 * x) + 0.2 * np.random.default_rng(17).normal(size=50)
    knots = np.r_[np.zeros(4), np.linspace(0, 1, 8)[1:-1], np.ones(4)]
    basis = interpolate.BSpline.design_matrix(x, knots, 3).toarray()
    steps, scale = pm.Normal("steps", shape=basis.shape[1]), pm.HalfNormal("scale", 1.0)
    noise = pm.HalfNormal("noise", 0.5)
    pm.Normal("y", basis @ (scale * pt.cumsum(steps)), noise, observed=y)
    return BRIDGE


@entry(KIND)
def skew_normal():
    y = stats.skewnorm(4.0, 1.0, 2.0).rvs(40, random_state=18)
    mu, sigma = pm.Normal("mu", 0.0, 3.0), pm.HalfNormal("sigma", 3.0)
    pm.SkewNormal("y", mu=mu, sigma=sigma, alpha=pm.Normal("alpha", 0.0, 4.0), observed=y)
    return BRIDGE


@entry(KIND)
def errors_in_variables():
    rng = np.random.default_rng(19)
    true = rng.normal(1.0, 1.5, 15)
    seen, y = true + 0.5 * rng.normal(size=15), 0.3 + 1.2 * true + 0.3 * rng.normal(size=15)
    x = pm.Normal("x", 1.0, 1.5, shape=15)
    pm.Normal("seen", x, 0.5, observed=seen)
    a, b = pm.Normal("a"), pm.Normal("b", 0.0, 2.0)
    pm.Normal("y", a + b * x, 0.3, observed=y)
    return BRIDGE


@entry(KIND)
def poisson_rate():
    """Gamma and Poisson: conjugate."""
    y = np.array([4, 2, 7, 3, 5])
    pm.Poisson("y", pm.Gamma("rate", 2.0, 0.5), observed=y)
    a, b, total, n = 2.0, 0.5, y.sum(), y.size
    return (
        a * np.log(b) - gammaln(a) + gammaln(a + total) - (a + total) * np.log(b + n)
        - gammaln(y + 1.0).sum()
    )  # fmt: skip
