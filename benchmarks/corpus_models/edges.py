"""Models at the edges: of floating point, of shapes, of what a posterior is."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy import integrate, stats

from corpus_models.entries import BRIDGE, IMPROPER, QUADRATURE, entry, grid

KIND, SHAPES, PRIORS = "numerics", "shapes", "priors"
normal = stats.norm


@entry(PRIORS)
def constant_likelihood():
    x = pm.Normal("x", 1.0, 2.0, shape=2)
    pm.Potential("constant", pt.constant(-4.5) + 0.0 * x.sum())
    return -4.5


@entry(PRIORS)
def posterior_is_the_prior():
    pm.Gamma("rate", 3.0, 0.5)
    pm.HalfCauchy("spread", 2.0)
    pm.Beta("share", 0.7, 1.3)
    return 0.0


@entry(PRIORS)
def flat_mean():
    """An improper prior and a proper posterior."""
    y = np.array([0.3, 1.2, 0.8])
    pm.Normal("y", pm.Flat("mean"), 1.0, observed=y)
    return -np.log(2 * np.pi) - 0.5 * np.log(3.0) - 0.5 * ((y - y.mean()) ** 2).sum()


@entry(PRIORS)
def flat_regression():
    x = np.array([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0], [1.0, 3.5]])
    y = np.array([0.2, 1.1, 1.7, 3.9])
    b, sigma = pm.Flat("b", shape=2), pm.HalfFlat("sigma")
    pm.Normal("y", x @ b, sigma, observed=y)
    # with two more readings than coefficients the posterior of sigma falls off like its square,
    # too slowly for a quadrature between bounds
    _, (squares,), _, _ = np.linalg.lstsq(x, y)
    return 0.5 * (np.log(np.pi / (2.0 * squares)) - np.log(np.linalg.det(x.T @ x))) - np.log(
        2 * np.pi
    )


@entry(PRIORS)
def flat_and_unused():
    pm.Flat("idle")
    pm.Normal("y", pm.Normal("x"), 1.0, observed=0.4)
    return IMPROPER


@entry(PRIORS)
def improper_difference():
    """Only the difference of two flat variables is seen."""
    a, b = pm.Flat("a"), pm.Flat("b")
    pm.Normal("y", a - b, 1.0, observed=0.7)
    return IMPROPER


@entry(PRIORS)
def improper_scale():
    """One observation and a flat scale: the density falls as 1 / sigma."""
    pm.Normal("y", 0.0, pm.HalfFlat("sigma"), observed=1.3)
    return IMPROPER


@entry(PRIORS)
def very_wide_prior():
    pm.Normal("y", pm.Normal("x", 0.0, 1e6), 1.0, observed=[3.0, 4.0])
    # the mean of both, and their difference
    of_mean = normal(0.0, np.sqrt(1e12 + 0.5)).logpdf(3.5)
    return of_mean + normal.logpdf(1.0, 0.0, np.sqrt(2.0))


@entry(PRIORS)
def cauchy_location():
    y = np.array([-4.0, 0.3, 1.1])
    pm.Cauchy("y", pm.Cauchy("x", 0.0, 3.0), 1.0, observed=y)

    def density(x):
        return stats.cauchy.pdf(x, 0.0, 3.0) * np.prod(stats.cauchy.pdf(y - x))

    parts = [(-np.inf, -20.0), (-20.0, 20.0), (20.0, np.inf)]
    return np.log(sum(integrate.quad(density, *p, limit=400, epsabs=1e-14)[0] for p in parts))


@entry(SHAPES)
def shape_of_one():
    x = pm.Normal("x", 0.0, 2.0, shape=(1,))
    pm.Normal("y", x, 1.0, observed=[1.7])
    return normal(0.0, np.sqrt(5.0)).logpdf(1.7)


@entry(SHAPES)
def empty_variable():
    """A group of coefficients that this data set has none of."""
    none, x = pm.Normal("none", shape=(0,)), pm.Normal("x")
    pm.Normal("y", x + none.sum(), 1.0, observed=0.9)
    return normal(0.0, np.sqrt(2.0)).logpdf(0.9)


@entry(SHAPES)
def table_of_variables():
    x = pm.Normal("x", 0.0, [[1.0], [2.0], [3.0]], shape=(3, 4))
    y = np.arange(12.0).reshape(3, 4) / 5.0
    pm.Normal("y", x, 1.0, observed=y)
    return normal.logpdf(y, 0.0, np.sqrt([[2.0], [5.0], [10.0]])).sum()


@entry(SHAPES)
def empty_data():
    pm.Normal("y", pm.Normal("x", shape=2), 1.0, observed=np.empty((0, 2)))
    return 0.0


@entry(SHAPES)
def two_hundred():
    y = np.linspace(-2.0, 2.0, 200)
    pm.Normal("y", pm.Normal("x", 0.0, 1.5, shape=200), 1.0, observed=y)
    return normal.logpdf(y, 0.0, np.sqrt(3.25)).sum()


@entry(KIND)
def unequal_scales():
    tiny, huge, far = pm.Normal("tiny", 0, 1e-8), pm.Normal("huge", 0, 1e8), pm.Normal("far", 1e8)
    pm.Normal("a", tiny, 2e-8, observed=1e-8)
    pm.Normal("b", huge, 3e8, observed=-2e8)
    pm.Normal("c", far, 1.0, observed=1e8 + 1.0)
    sds = [5**0.5 * 1e-8, 10**0.5 * 1e8, 2**0.5]
    return normal.logpdf([1e-8, -2e8, 1.0], 0.0, sds).sum()


@entry(KIND, floatX="float32")
def single_precision():
    x = pm.Normal("x", 0.0, 2.0, shape=3)
    y = np.array([0.3, 2.0, -1.1], dtype="float32")
    pm.Normal("y", x, 1.0, observed=y)
    return normal.logpdf(y.astype(float), 0.0, np.sqrt(5.0)).sum()


@entry(KIND, floatX="float32")
def single_precision_logistic():
    x = np.random.default_rng(80).normal(size=(40, 3)).astype("float32")
    y = (x @ np.array([1.0, -1.0, 0.5], dtype="float32") > 0.2).astype("int8")
    pm.Bernoulli("y", logit_p=x @ pm.Normal("b", 0.0, 1.5, shape=3), observed=y)
    return QUADRATURE


@entry(KIND)
def cut_off():
    """Zero density beyond an edge that no transform knows of, and overflow on the way."""
    x = pm.Normal("x", 0.0, 3.0)
    pm.Potential("cut", pt.switch(x < 2.0, 0.0, -np.inf))
    pm.Potential("wall", -pt.exp(-40.0 * (x + 1.0)))

    def density(t):
        return normal.pdf(t, 0.0, 3.0) * np.exp(-np.exp(np.minimum(-40.0 * (t + 1.0), 700.0)))

    return np.log(integrate.quad(density, -20.0, 2.0, points=[-1.1, -1.0, -0.9], limit=500)[0])


@entry(KIND)
def all_successes():
    """Beta posteriors that pile up at the boundary."""
    p = pm.Beta("p", 0.5, 0.5)
    pm.Binomial("y", 50, p, observed=50)
    return stats.betabinom(50, 0.5, 0.5).logpmf(50)


@entry(KIND)
def much_data():
    """Twenty thousand readings: a log likelihood of minus tens of thousands of nats."""
    y = np.random.default_rng(81).normal(2.0, 1.5, 20_000)
    pm.Normal("y", pm.Normal("mu", 0.0, 5.0), 1.5, observed=y)
    n, rest = y.size, ((y - y.mean()) ** 2).sum() / 2.25
    of_mean = normal(0.0, np.sqrt(25.0 + 2.25 / n)).logpdf(y.mean())
    whole = -0.5 * rest - 0.5 * n * np.log(2 * np.pi * 2.25)
    return of_mean + whole + 0.5 * np.log(2 * np.pi * 2.25 / n)


@entry(KIND)
def strong_correlation():
    """Two slopes of nearly the same predictor."""
    rng = np.random.default_rng(82)
    x = rng.normal(size=(30, 1)) + 1e-3 * rng.normal(size=(30, 2))
    y = x.sum(axis=1) + 0.1 * rng.normal(size=30)
    pm.Normal("y", x @ pm.Normal("b", 0.0, 10.0, shape=2), 0.1, observed=y)
    return stats.multivariate_normal(np.zeros(30), 0.01 * np.eye(30) + 100 * x @ x.T).logpdf(y)


@entry(KIND)
def banana():
    """Two arms of a parabola; given ``a`` all is normal."""
    a, b = pm.Normal("a", 0.0, 2.0), pm.Normal("b", 0.0, 3.0)
    pm.Normal("y", b - a**2, 0.2, observed=-1.0)
    return grid(
        lambda t: normal.logpdf(t, 0.0, 2.0) + normal.logpdf(-1.0, -(t**2), np.sqrt(9.04)),
        (-12.0, 12.0, 20001),
    )


@entry(KIND)
def funnel():
    """Neal's, of ten dimensions, without data."""
    v = pm.Normal("v", 0.0, 3.0)
    pm.Normal("x", 0.0, pt.exp(v / 2), shape=9)
    return 0.0


@entry(KIND)
def scale_of_one_reading():
    """A centred pair that one reading hardly informs."""
    sigma = pm.LogNormal("sigma", 0.0, 1.5)
    pm.Normal("y", pm.Normal("x", 0.0, sigma), 1.0, observed=0.2)
    return BRIDGE
