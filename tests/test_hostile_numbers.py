"""Models with numbers that nobody should write: a named error before sampling, or a right log Z.

False alarms of each comparison: once in 15,000 seeds (4 standard errors), and 0.02 nats beyond the
error's own.
"""

import warnings

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, special, stats

import pymc_tempering as pm_temper
from pymc_tempering.errors import ModelError, TemperingWarning

normal = stats.norm


def observe(value, mu=None, sigma=1.0):
    pm.Normal("y", pm.Normal("x") if mu is None else mu, sigma, observed=value)


REFUSED = {
    "length of a coordinate": lambda: observe(0.5, pm.Normal("x", dims="none", shape=3).sum()),
    "infinite data": lambda: observe([0.5, np.inf]),
    "negative sigma": lambda: observe(0.5, sigma=-1.0),
    "far start": lambda: observe(0.5, pm.Normal("x", initval=1e300)),
    "tiny scale": lambda: observe(1e-300, pm.Normal("x", 0.0, 1e-300), 1e-300),
    "largest count": lambda: pm.Poisson("y", pm.Gamma("x", 2.0, 1.0), observed=2**63 - 1),
    "impossible data": lambda: pm.Bernoulli("y", 0.0 * pm.Normal("x"), observed=1),
    "no width": lambda: observe(0.5, pm.Uniform("x", 1.0, 1.0)),
    "negative width": lambda: observe(0.5, pm.Uniform("x", 1.0, 0.0)),
    "no number": lambda: pm.Potential("p", pm.Normal("x") * np.nan),
    "infinite": lambda: pm.Potential("p", pt.abs(pm.Normal("x")) * np.inf),
    "singular": lambda: observe(0.5, pm.MvNormal("x", np.zeros(2), np.ones((2, 2))).sum()),
    "unknown category": lambda: pm.Categorical("y", pm.Dirichlet("x", np.ones(3)), observed=[0, 7]),
}
OFTEN = ("length of a coordinate", "infinite data")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in OFTEN else pytest.mark.slow) for n in REFUSED]
)
def test_refused_by_name(name):
    with pm.Model(coords={"none": []}) as model:
        REFUSED[name]()
    with (
        np.errstate(all="ignore"),
        pytest.raises(ModelError, match=r"not finite at the model|has length 3 along 'none'"),
    ):
        pm_temper.estimate_logz(model, progressbar=False, quiet=True)


def missing_value():
    with pytest.warns(Warning, match="missing values"):
        observe(np.array([0.5, np.nan]))
    return normal.logpdf(0.5, 0.0, 2**0.5)


def billion_counts():
    pm.Poisson("y", pm.Gamma("x", 2.0, 1e-9), observed=10**9)
    return stats.nbinom(2, 1e-9 / (1.0 + 1e-9)).logpmf(10**9)


def small_unsigned_counts():
    y = np.array([200, 250], dtype=np.uint8)
    pm.Poisson("y", pm.Gamma("x", 2.0, 1.0), observed=y)
    total = 2.0 + y.sum(dtype=float)
    return special.gammaln(total) - total * np.log(3.0) - special.gammaln(y + 1.0).sum()


def probability_at_an_edge():
    pm.Bernoulli("y", pm.Beta("x", 1e-3, 1e-3), observed=[1, 1])
    return np.log(0.5) + np.log(1.001 / 1.002)


def logit_of_thousands():
    pm.Bernoulli("y", logit_p=pm.Normal("x", 0.0, 1000.0), observed=[1])
    return np.log(0.5)


def mixed_types():
    x = pm.Normal("x", np.float32(0.0), np.int8(1))
    observe(np.array([1, 0], dtype=np.int16), x * np.array([True, False]))
    return normal.logpdf(1.0, 0.0, 2**0.5) + normal.logpdf(0.0)


def nothing_observed():
    pm.Normal("empty", dims="none")
    observe(np.array([]))
    return 0.0


def scale_of_1e300():
    x = pm.HalfNormal("x", 1e300)
    observe(690.0, pt.log(x))
    u = np.linspace(600.0, 700.0, 400_001)
    offset = 300.0 * np.log(10.0)
    prior = stats.halfnorm.logpdf(np.exp(u - offset)) - offset + u
    return special.logsumexp(normal.logpdf(690.0, u) + prior) + np.log(u[1] - u[0])


def rates_of_1e300():
    a, b = pm.Exponential("a", 1e300), pm.Exponential("b", 1e-300)
    observe(2.0, a * 1e300 + b / 1e300)
    return np.log(integrate.quad(lambda s: s * np.exp(-s) * normal.pdf(2.0, s), 0.0, 60.0)[0])


def no_moments():
    observe(3.0, pm.StudentT("x", nu=0.1, mu=0.0, sigma=1.0))
    u = np.linspace(-20.0, 20.0, 200_001)
    return np.log(np.trapezoid(stats.t(0.1).pdf(u) * normal.pdf(3.0, u), u))


def component_out_of_sight():
    w = pm.Dirichlet("w", np.ones(2))
    pm.NormalMixture("y", w, np.array([0.0, 1e200]), np.array([1.0, 1e-200]), observed=[0.5])
    return normal.logpdf(0.5) + np.log(0.5)


RIGHT = (
    missing_value, billion_counts, small_unsigned_counts, probability_at_an_edge,
    logit_of_thousands, mixed_types, nothing_observed, scale_of_1e300, rates_of_1e300, no_moments,
    component_out_of_sight,
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("case", RIGHT, ids=lambda case: case.__name__)
def test_right(case, seed):
    with pm.Model(coords={"none": []}) as model:
        exact = case()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemperingWarning)
        estimate = pm_temper.estimate_logz(
            model, draws=60, tune=60, chains=2, cores=1, random_seed=seed, progressbar=False,
            quiet=True,
        )  # fmt: skip
    assert abs(estimate.log_z - exact) < 4 * estimate.se + 0.02
    assert estimate.se < 0.1
