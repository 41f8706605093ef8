"""Models at the edges of floating point, with exact log Z: nothing aborts, nothing is wrong.

False alarms of each comparison: once in 15,000 seeds (4 standard errors), and 0.02 nats beyond the
error's own. What a case warns of is named beside it.
"""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats

import pymc_tempering as pm_temper
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.results.datatree import read_statistics

ROOT = Path(__file__).resolve().parents[1]
normal = stats.norm


def scales_and_offsets():
    tiny, huge, far = pm.Normal("tiny", 0, 1e-8), pm.Normal("huge", 0, 1e8), pm.Normal("far", 1e8)
    pm.Normal("a", tiny, 2e-8, observed=1e-8)
    pm.Normal("b", huge, 3e8, observed=-2e8)
    pm.Normal("c", far, 1.0, observed=1e8 + 1.0)
    pm.Potential("offset", pt.constant(-1e6) + 0 * tiny)
    exact = normal.logpdf([1e-8, -2e8, 1.0], 0.0, [5**0.5 * 1e-8, 10**0.5 * 1e8, 2**0.5])
    return exact.sum() - 1e6


def shapes():
    pm.Normal("none", shape=(0,))
    pm.Normal("rows_of_none", shape=(2, 0))
    one, many = pm.Normal("one", shape=(1,)), pm.Normal("many", 1.0, 2.0, shape=(2, 3))
    y = np.arange(6.0).reshape(2, 3) / 3
    pm.Normal("y", many + one, 1.0, observed=y)
    return stats.multivariate_normal(np.ones(6), 5.0 * np.eye(6) + 1.0).logpdf(y.ravel())


def constant_likelihood():
    x = pm.Normal("x", 1.0, 2.0)
    pm.Potential("constant", pt.constant(3.0) + 0 * x)
    return 3.0


def posterior_is_the_prior():
    pm.Gamma("x", 3.0, 0.5)
    return 0.0


def overflow():
    x = pm.Normal("x", 0.0, 3.0)
    pm.Potential("wall", -pt.exp(200.0 * x))

    def density(t):
        return normal.pdf(t, 0.0, 3.0) * np.exp(-np.exp(np.minimum(200.0 * t, 700.0)))

    return np.log(integrate.quad(density, -30, 3, points=[-0.1, 0.0, 0.1], limit=500)[0])


def nan_and_minus_infinity():
    x = pm.Normal("x")
    pm.Potential("weight", pt.log(x))
    pm.Potential("cut", pt.switch(x < 2.0, 0.0, -np.inf))
    # the integral of x N(x) from 0 to 2
    return np.log(normal.pdf(0.0) - normal.pdf(2.0))


def infinite():
    """A pole counts as a hole, and is named."""
    x = pm.Normal("x")
    # with a gradient: of what is compared alone slices are taken, which run into nothing
    pm.Potential("pole", pt.switch(x < 1.0, 0.0 * x, np.inf))
    return normal.logcdf(1.0)


def at_the_boundary():
    p = pm.Beta("p", 0.5, 0.5)
    pm.Binomial("y", 20, p, observed=20)
    return stats.betabinom(20, 0.5, 0.5).logpmf(20)


OVERLAP = "base and posterior overlap in part"
CASES = {
    scales_and_offsets: (),
    shapes: (),
    constant_likelihood: (),
    posterior_is_the_prior: ("heavy-tailed weights",),
    overflow: ("heavy-tailed weights", "divergences"),
    nan_and_minus_infinity: (OVERLAP, "heavy-tailed weights"),
    infinite: ("density or gradient not finite", OVERLAP, "heavy-tailed weights"),
    at_the_boundary: ("heavy-tailed weights",),
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_log_z_at_the_edges_of_floating_point(case, seed):
    with pm.Model() as model:
        exact = case()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        estimate = pm_temper.estimate_logz(
            model, draws=60, tune=60, chains=2, cores=1, random_seed=seed, progressbar=False,
            quiet=True,
        )  # fmt: skip
    assert abs(estimate.log_z - exact) < 4 * estimate.se + 0.02
    assert estimate.se < 0.1
    own = [str(w.message) for w in caught if issubclass(w.category, TemperingWarning)]
    assert all(text.startswith(CASES[case]) for text in own), own
    # rejections show at their levels, and points without any density are counted
    rates = estimate.idata["sample_stats"]["acceptance_rate"]
    assert rates.sizes["level"] > 1
    # of two chains one may use more levels
    unused = np.isnan(estimate.idata["sample_stats"]["betas"])
    assert (unused | ((rates >= 0.0) & (rates <= 1.0))).all()
    counts = {name: values.sum() for name, values in read_statistics(estimate.idata).items()}
    # a wall that only overflows is in no run's way for certain
    if case is not overflow:
        at_levels = estimate.idata["sample_stats"]["n_zero_density_at"].clip(min=0)
        hit = at_levels.isel(level=slice(1, None)).sum() > 0
        assert hit == (case in (nan_and_minus_infinity, infinite))
    assert (counts["n_infinite_density"] > 0) == (case is infinite)
    assert (counts["n_nan_density"] > 0) == (case is nan_and_minus_infinity)
    assert (case is infinite) == ("density_not_finite" in [w.code for w in estimate.warnings])


SINGLE = """
import numpy as np, pymc as pm
import pymc_tempering as pm_temper
with pm.Model() as model:
    a = pm.Normal("a", 1.0, 2.0, shape=2)
    s = pm.HalfNormal("s", 1.0)
    pm.Normal("y", a, 1.0, observed=np.array([0.3, 2.0]))
estimate = pm_temper.estimate_logz(
    model, draws=60, tune=60, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True
)
print(estimate.idata.posterior["a"].dtype, estimate.log_z, estimate.se)
base = pm_temper.GaussianBase(np.zeros(3), np.ones(3))
tempered = pm_temper.temper(model, base=base, log_zeta=0.0, progressbar=False)
print(np.isfinite(tempered.compile_logp()(tempered.initial_point())))
"""


@pytest.mark.slow
def test_single_precision():
    flags = ",".join(filter(None, [os.environ.get("PYTENSOR_FLAGS"), "floatX=float32"]))
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SINGLE], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTENSOR_FLAGS": flags},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    (dtype, log_z, se), (finite,) = map(str.split, done.stdout.splitlines())
    exact = normal.logpdf([0.3, 2.0], 1.0, 5**0.5).sum()
    assert dtype == "float32"
    assert abs(float(log_z) - exact) < 4 * float(se) + 0.02
    assert finite == "True"


@pytest.mark.slow
def test_a_thousand_dimensions(seed):
    y = np.linspace(-1.0, 1.0, 1000)
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x", shape=1000), 1.0, observed=y)
    estimate = pm_temper.estimate_logz(
        model, draws=60, tune=60, chains=2, cores=1, random_seed=seed, progressbar=False, quiet=True
    )
    assert abs(estimate.log_z - normal.logpdf(y, 0.0, 2**0.5).sum()) < 4 * estimate.se + 0.05
