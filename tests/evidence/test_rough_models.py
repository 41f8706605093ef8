"""Log Z where the density jumps and its gradient is not a number, and from the prior as base."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy import integrate, stats

import pymc_tempering as pm_temper
from pymc_tempering.results.datatree import read_statistics

OPTIONS = {"draws": 60, "tune": 40, "chains": 2, "cores": 1, "progressbar": False, "quiet": True}


def likelihood(x):
    return stats.norm.pdf(-0.5, np.sqrt(max(x, 0.0)), 1.0) * (np.exp(1.5) if x > 1.0 else 1.0)


LOG_Z = np.log(
    sum(
        integrate.quad(lambda x: stats.norm.pdf(x) * likelihood(x), *ends)[0]
        for ends in ((-12.0, 0.0), (0.0, 1.0), (1.0, 12.0))
    )
)


@pytest.fixture(scope="module")
def model():
    """Gradient nan below zero, where a good part of the posterior is; a jump at one."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, initval=0.5)
        pm.Normal("y", pt.sqrt(pt.maximum(x, 0.0)), 1.0, observed=-0.5)
        pm.Potential("jump", pt.switch(x > 1.0, 1.5, 0.0))
    return model


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("method", "options"),
    [
        ("pt", {}),
        ("pt", {"explorer": "slice"}),
        *((method, {"base": "prior"}) for method in ("pt", "gibbs_ct", "st", "hais")),
    ],
)
# so short a run may have something to say for itself
@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_log_z(model, method, options, seed):
    """False alarms: 4.5 standard errors, and 0.02 beyond the error's own; below 1e-4 each."""
    estimate = pm_temper.estimate_logz(model, method=method, random_seed=seed, **OPTIONS, **options)
    assert abs(estimate.log_z - LOG_Z) < 4.5 * estimate.se + 0.02
    assert estimate.se < 0.1
    # a slice uses no gradient, so that none counts as bad
    n_bad = int(read_statistics(estimate.idata)["n_bad_gradients"].sum())
    assert (n_bad == 0) if options.get("explorer") == "slice" else (n_bad > 0)


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_log_z_of_a_model_that_is_impossible_at_its_initial_point(seed):
    """Observed beyond the top that the prior's middle has; false alarms as above."""
    with pm.Model() as model:
        pm.Uniform("y", 0.0, pm.Uniform("top", 0.0, 10.0), observed=9.0)
    run = pm_temper.sample(model, random_seed=seed, **OPTIONS)
    assert run["posterior"]["top"].min() > 9.0
    estimate = pm_temper.estimate_logz(run)
    exact = np.log(0.1 * np.log(10.0 / 9.0))
    assert abs(estimate.log_z - exact) < 4.5 * estimate.se + 0.02


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_log_z_of_an_observation_that_leaves_nothing_but_rounding(seed):
    """Its standard deviation is that of the ninth digit; false alarms as above."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Normal("y", x, 1e-9, observed=-1.3)
    estimate = pm_temper.estimate_logz(model, random_seed=seed, **OPTIONS)
    assert abs(estimate.log_z - stats.norm.logpdf(-1.3)) < 4.5 * estimate.se + 0.02
    assert estimate.se < 0.1
    assert "divergent_integral" not in [diagnostic.code for diagnostic in estimate.warnings]
