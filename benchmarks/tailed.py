"""Models with tails like a power, or nearly, of which log Z is exact or a quadrature."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from hard_targets import HARD
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import cauchy, halfcauchy, multivariate_normal, norm, t

from pymc_tempering.testing import heavy_tail

X = np.array([-1.5, -0.8, -0.1, 0.4, 1.1, 1.9])


def students(dof, dim):
    """Independent Student t variables."""
    with pm.Model() as model:
        pm.StudentT("x", nu=dof, mu=np.linspace(-1.0, 2.0, dim), sigma=0.7, shape=dim)
    return model, 0.0


def multivariate(dof, dim):
    """A multivariate t: its tails are those of no coordinate by itself."""
    with pm.Model() as model:
        pm.MvStudentT("x", nu=dof, mu=np.arange(dim), scale=0.4 + 0.6 * np.eye(dim))
    return model, 0.0


def two_modes(dof, dim):
    """Two multivariate t of other masses and widths."""
    with pm.Model() as model:
        parts = [pm.MvStudentT.dist(nu=dof, mu=np.full(dim, place), scale=scale * np.eye(dim))
                 for place, scale in ((-8.0, 1.0), (5.0, 0.2))]  # fmt: skip
        pm.Mixture("x", w=[0.3, 0.7], comp_dists=parts)
    return model, 0.0


def _integral(log_joint, first, second):
    """Of exp(log_joint) over a grid of two axes, by the trapezium rule."""
    values = log_joint(first[:, np.newaxis], second[np.newaxis, :])
    top = values.max()
    return float(top + np.log(np.trapezoid(np.trapezoid(np.exp(values - top), second), first)))


def _wide(reach):
    """A grid that is fine near zero and reaches far."""
    return np.sinh(np.linspace(-np.arcsinh(reach), np.arcsinh(reach), 1501))


def unknown_scale():
    """The mean of three data of unknown scale: about a t of two degrees of freedom."""
    y = np.array([0.3, 1.1, 2.6])
    with pm.Model() as model:
        mu, sigma = pm.Normal("mu", 0.0, 1000.0), pm.HalfCauchy("sigma", 100.0)
        pm.Normal("y", mu, sigma, observed=y)

    def log_joint(m, log_s):
        s = np.exp(log_s)
        data = sum(norm(m, s).logpdf(value) for value in y)
        return norm(0.0, 1000.0).logpdf(m) + halfcauchy(0.0, 100.0).logpdf(s) + log_s + data

    return model, _integral(log_joint, 1.3 + _wide(8000.0), np.linspace(-6.0, 16.0, 1001))


def separable(scale=2.5):
    """Logistic regression of separable data with Cauchy priors (Gelman et al. 2008)."""
    y = (X > 0.2).astype(int)
    with pm.Model() as model:
        a, b = pm.Cauchy("a", 0.0, 10.0), pm.Cauchy("b", 0.0, scale)
        pm.Bernoulli("y", logit_p=a + b * X, observed=y)

    def log_joint(a, b):
        data = sum(-np.logaddexp(0.0, (1 - 2 * yi) * (a + b * x))
                   for x, yi in zip(X, y, strict=True))  # fmt: skip
        return cauchy(0.0, 10.0).logpdf(a) + cauchy(0.0, scale).logpdf(b) + data

    return model, _integral(log_joint, _wide(3e5), _wide(3e5))


def t_regression():
    """A line with an outlier, t errors and t priors."""
    y = 0.5 + 1.2 * X + np.array([0.1, -0.2, 0.05, 0.3, -4.0, 0.2])
    with pm.Model() as model:
        a, b = (pm.StudentT(name, nu=3.0, mu=0.0, sigma=5.0) for name in "ab")
        pm.StudentT("y", nu=4.0, mu=a + b * X, sigma=0.4, observed=y)

    def log_joint(a, b):
        data = sum(t(4.0, a + b * x, 0.4).logpdf(yi) for x, yi in zip(X, y, strict=True))
        return t(3.0, 0.0, 5.0).logpdf(a) + t(3.0, 0.0, 5.0).logpdf(b) + data

    return model, _integral(log_joint, _wide(50.0), _wide(50.0))


def eight_schools():
    """Not centred."""
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sd = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model() as model:
        mu, tau = pm.Normal("mu", 0.0, 5.0), pm.HalfCauchy("tau", 5.0)
        z = pm.Normal("z", 0.0, 1.0, shape=8)
        pm.Normal("y", mu + tau * z, sd, observed=y)

    def joint(s):
        law = multivariate_normal(np.zeros(8), np.diag(sd**2 + s**2) + 25.0)
        return law.pdf(y) * halfcauchy.pdf(s, 0.0, 5.0)

    parts = [quad(joint, a, b, epsabs=0.0)[0] for a, b in ((0.0, 10.0), (10.0, np.inf))]
    return model, float(np.log(sum(parts)))


def logistic():
    """Logistic regression with normal priors."""
    y = np.array([0, 1, 0, 0, 1, 1])
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, 2.0)
        pm.Bernoulli("y", logit_p=a + b * X, observed=y)

    def log_joint(a, b):
        data = sum(-np.logaddexp(0.0, (1 - 2 * yi) * (a + b * x))
                   for x, yi in zip(X, y, strict=True))  # fmt: skip
        return norm(0.0, 2.0).logpdf(a) + norm(0.0, 2.0).logpdf(b) + data

    grid = np.linspace(-16.0, 16.0, 801)
    return model, _integral(log_joint, grid, grid)


def gaussians():
    """Two narrow Gaussians of other widths on a line, one of them light."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 10.0, shape=2)
        terms = pt.stack([np.log(w) - 0.5 * ((x - m) ** 2).sum() / s**2 - 2.0 * np.log(s)
                          for w, m, s in ((0.8, -3.0, 0.5), (0.2, 4.0, 1.5))])  # fmt: skip
        pm.Potential("likelihood", pt.logsumexp(terms))
    # a product of Gaussians in each coordinate
    parts = [np.log(2.0 * np.pi * w) + 2.0 * norm(0.0, np.hypot(10.0, s)).logpdf(m)
             for w, m, s in ((0.8, -3.0, 0.5), (0.2, 4.0, 1.5))]  # fmt: skip
    return model, float(logsumexp(parts))


def _of_package(build):
    target = build()
    model = target.model
    return model() if callable(model) else model, target.log_z


TAILED = {
    "heavy_tail": lambda: _of_package(heavy_tail),
    "students_4": lambda: students(4.0, 8),
    "students_2": lambda: students(2.0, 3),
    "multivariate_4": lambda: multivariate(4.0, 4),
    "multivariate_2": lambda: multivariate(2.0, 3),
    "multivariate_1": lambda: multivariate(1.0, 5),
    "two_modes_3": lambda: two_modes(3.0, 3),
    "two_modes_1": lambda: two_modes(1.0, 3),
    "unknown_scale": unknown_scale,
    "separable": separable,
    "t_regression": t_regression,
    "eight_schools": eight_schools,
    "logistic": logistic,
    "gaussians": gaussians,
    "cauchy_10": lambda: _of_package(HARD["cauchy_10"]),
}
