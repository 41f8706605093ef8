"""Functions and fields: Gaussian processes, their approximations, areas, points, trees."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import stats

from corpus_models.entries import BRIDGE, QUADRATURE, entry, grid

GP, SPACE = "Gaussian process", "space and trees"
X = np.linspace(0.0, 4.0, 25)
WAVE = np.sin(1.8 * X) + 0.25 * np.random.default_rng(50).normal(size=25)
NEIGHBOURS = np.array([
    [0, 1, 1, 0, 0, 0, 0, 0],
    [1, 0, 1, 1, 0, 0, 0, 0],
    [1, 1, 0, 0, 1, 0, 0, 0],
    [0, 1, 0, 0, 1, 1, 0, 0],
    [0, 0, 1, 1, 0, 1, 1, 0],
    [0, 0, 0, 1, 1, 0, 1, 1],
    [0, 0, 0, 0, 1, 1, 0, 1],
    [0, 0, 0, 0, 0, 1, 1, 0],
])  # fmt: skip
EXPECTED = np.array([4.1, 6.0, 3.2, 5.5, 7.4, 2.9, 4.8, 3.6])
CASES = np.array([6, 9, 5, 4, 8, 1, 3, 2])


def smooth(x, scale, length):
    return scale**2 * pm.gp.cov.ExpQuad(1, ls=length)(x[:, None])


@entry(GP)
def gp_marginal():
    length, scale = pm.Gamma("length", 3.0, 3.0), pm.HalfNormal("scale", 1.5)
    gp = pm.gp.Marginal(cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=length))
    gp.marginal_likelihood("y", X=X[:, None], y=WAVE, sigma=pm.HalfNormal("noise", 0.5))
    return QUADRATURE


@entry(GP)
def gp_latent_normal():
    """Values of the function as variables, with known scales: all is normal."""
    gp = pm.gp.Latent(cov_func=1.5 * pm.gp.cov.Matern52(1, ls=0.8))
    pm.Normal("y", gp.prior("f", X=X[:, None]), 0.3, observed=WAVE)
    gap = np.sqrt(5.0) * np.abs(X[:, None] - X) / 0.8
    cov = 1.5 * (1 + gap + gap**2 / 3) * np.exp(-gap) + 1e-6 * np.eye(25)
    return stats.multivariate_normal(np.zeros(25), cov + 0.09 * np.eye(25)).logpdf(WAVE)


@entry(GP)
def gp_classes():
    """Forty latent values, an unknown length and scale, and classes."""
    x = np.linspace(0.0, 6.0, 40)
    y = np.random.default_rng(51).random(40) < 1.0 / (1.0 + np.exp(-3.0 * np.sin(x)))
    length, scale = pm.InverseGamma("length", 4.0, 4.0), pm.HalfNormal("scale", 2.0)
    gp = pm.gp.Latent(cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=length))
    pm.Bernoulli("y", logit_p=gp.prior("f", X=x[:, None], jitter=1e-6), observed=y.astype(int))
    return BRIDGE


@entry(GP)
def hsgp():
    length, scale = pm.InverseGamma("length", 4.0, 4.0), pm.HalfNormal("scale", 1.5)
    gp = pm.gp.HSGP(m=[15], c=1.6, cov_func=scale**2 * pm.gp.cov.ExpQuad(1, ls=length))
    f = gp.prior("f", X=X[:, None])
    pm.Normal("y", f, pm.HalfNormal("noise", 0.5), observed=WAVE)
    return BRIDGE


@entry(GP)
def gp_kronecker():
    """A grid of six by five, whose covariance is a product."""
    a, b = np.linspace(0, 2, 6)[:, None], np.linspace(0, 1, 5)[:, None]
    y = (np.sin(2 * a) + np.cos(3 * b).T).ravel() + 0.2 * np.random.default_rng(52).normal(size=30)
    length = pm.Gamma("length", 3.0, 3.0, shape=2)
    covs = [pm.gp.cov.ExpQuad(1, ls=length[i]) for i in (0, 1)]
    gp = pm.gp.MarginalKron(cov_funcs=covs)
    gp.marginal_likelihood("y", Xs=[a, b], y=y, sigma=pm.HalfNormal("noise", 0.5))
    return QUADRATURE


@entry(GP)
def gp_inducing():
    length, scale = pm.Gamma("length", 3.0, 3.0), pm.HalfNormal("scale", 1.5)
    cov = scale**2 * pm.gp.cov.ExpQuad(1, ls=length)
    gp = pm.gp.MarginalApprox(cov_func=cov, approx="FITC")
    gp.marginal_likelihood(
        "y", X=X[:, None], Xu=np.linspace(0, 4, 6)[:, None], y=WAVE,
        sigma=pm.HalfNormal("noise", 0.5),
    )  # fmt: skip
    return QUADRATURE


@entry(GP)
def cox_process():
    """Counts in twenty cells of a log-Gaussian intensity."""
    counts = np.array([0, 1, 0, 2, 1, 3, 2, 5, 4, 6, 3, 4, 2, 1, 2, 0, 1, 0, 0, 1])
    x = np.linspace(0.0, 1.0, 20)
    chol = pt.linalg.cholesky(smooth(x, 1.0, 0.2) + 1e-6 * pt.eye(20))
    base, z = pm.Normal("base", 0.0, 1.0), pm.Normal("z", shape=20)
    pm.Poisson("y", pt.exp(base + chol @ z), observed=counts)
    return BRIDGE


@entry(GP)
def student_process():
    """A multivariate t in place of the normal, with known scales."""
    y = WAVE[::3]
    cov = np.exp(-0.5 * (X[::3, None] - X[::3]) ** 2 / 0.64) + 0.05 * np.eye(9)
    mean = pm.Normal("mean", 0.0, 1.0)
    pm.MvStudentT("y", nu=4.0, mu=mean * pt.ones(9), scale=cov, observed=y)
    return QUADRATURE


@entry(SPACE)
def car_rates():
    a, spread = pm.Normal("a"), pm.HalfNormal("spread", 1.0)
    alpha = pm.Beta("alpha", 2.0, 2.0)
    effect = pm.CAR("effect", mu=np.zeros(8), W=NEIGHBOURS, alpha=alpha, tau=1.0)
    pm.Poisson("y", EXPECTED * pt.exp(a + spread * effect), observed=CASES)
    return BRIDGE


@entry(SPACE)
def icar_rates():
    """An improper prior, which the sum to zero (softly) makes proper."""
    a, spread = pm.Normal("a"), pm.HalfNormal("spread", 1.0)
    effect = pm.ICAR("effect", W=NEIGHBOURS, zero_sum_stdev=0.01)
    pm.Poisson("y", EXPECTED * pt.exp(a + spread * effect), observed=CASES)
    return BRIDGE


@entry(SPACE)
def tree_regression():
    """Traits of eight species whose errors share a history."""
    depth = 0.6 * np.kron(np.eye(4), np.ones((2, 2))) + 0.3 * np.kron(np.eye(2), np.ones((4, 4)))
    shared = depth + 0.1 * np.eye(8)
    x = np.array([0.2, 0.5, 1.1, 0.9, 2.0, 2.4, 1.5, 1.8])
    y = np.array([1.1, 1.5, 1.9, 1.6, 3.6, 3.9, 2.5, 3.3])
    a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, 2.0)
    spread, signal = pm.HalfNormal("spread", 1.0), pm.Beta("signal", 1.0, 1.0)
    cov = spread**2 * (signal * shared + (1.0 - signal) * pt.eye(8))
    pm.MvNormal("y", a + b * x, cov=cov, observed=y)
    design = np.column_stack([np.ones(8), x])
    slopes = 4.0 * design @ design.T

    def log_density(logit, log_spread):
        share, sd = 1.0 / (1.0 + np.exp(-logit)), np.exp(log_spread)
        covs = share[..., None, None] * shared + (1.0 - share)[..., None, None] * np.eye(8)
        covs = sd[..., None, None] ** 2 * covs + slopes
        fit = y * np.linalg.solve(covs, np.broadcast_to(y, (*sd.shape, 8))[..., None])[..., 0]
        given = -0.5 * (fit.sum(-1) + np.linalg.slogdet(covs)[1] + 8 * np.log(2 * np.pi))
        prior = stats.halfnorm().logpdf(sd) + log_spread
        return given + prior + np.log(share) + np.log1p(-share)

    return grid(log_density, (-18.0, 18.0, 361), (-5.0, 2.5, 301))


@entry(SPACE)
def coregionalised():
    """Two outputs at the same places: a Kronecker product of covariances."""
    x = np.linspace(0.0, 3.0, 8)
    rng = np.random.default_rng(53)
    y = np.concatenate([np.sin(2 * x), 0.5 * np.sin(2 * x)]) + 0.2 * rng.normal(size=16)
    w = pt.stack([pm.HalfNormal("first", 1.0), pm.Normal("second", 0.0, 1.0)])
    between = pt.outer(w, w) + 0.1 * pt.eye(2)
    length = pm.Gamma("length", 3.0, 3.0)
    cov = pt.linalg.kron(between, smooth(x, 1.0, length)) + 0.04 * pt.eye(16)
    pm.MvNormal("y", np.zeros(16), cov=cov, observed=y)
    return QUADRATURE
