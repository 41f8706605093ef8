"""Nothing is said that does not help: neither by numpy, nor by PyMC about what only we do."""

import logging
import warnings

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.estimators.thermodynamic import thermodynamic_integration_rb
from pymc_tempering.model.compile import compile_density
from pymc_tempering.progress import is_diverging
from pymc_tempering.references.search import find_modes
from tests.fresh import fresh_process


def far_out():
    """Local fits of this one begin where log densities have squares beyond all numbers."""
    x = np.linspace(0.0, 500.0, 15)
    with pm.Model() as model:
        a, b = pm.Normal("a", 0.0, 100.0), pm.Normal("b", 0.0, 100.0)
        pm.Poisson("y", pm.math.exp(a + b * x), observed=np.arange(15))
    return model


def latent_gp():
    x = np.linspace(0.0, 5.0, 6)
    with pm.Model() as model:
        gp = pm.gp.Latent(cov_func=pm.gp.cov.ExpQuad(1, ls=1.5))
        pm.Normal("y", gp.prior("f", X=x[:, None]), 0.3, observed=np.sin(x))
    return model


@pytest.mark.parametrize("build", [far_out, pytest.param(latent_gp, marks=pytest.mark.slow)])
def test_no_warnings_of_others(build, seed):
    model = build()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        density = compile_density(model)
        find_modes(density, density.start, np.random.default_rng(seed))


def test_notice_on_gps_is_silenced_for_us_alone():
    with pytest.warns(UserWarning, match="created by GP objects"):
        pm.model.fgraph.clone_model(latent_gp())


def test_our_ops_are_not_deprecated():
    fresh_process(
        "import sys, warnings\n"
        "for name in [name for name in sys.modules if name.startswith('pymc_tempering')]:\n"
        "    del sys.modules[name]\n"
        "warnings.simplefilter('error')\n"
        "import pymc_tempering.transform.tempered\n"
    )


def test_levels_that_no_draw_could_be_at():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate = thermodynamic_integration_rb(np.full(50, -1e6), [0.0, 0.5, 1.0], np.zeros(3))
    assert np.isnan(estimate.log_z[-1])


def test_share_of_divergences():
    assert not is_diverging(0, 16)
    assert not is_diverging(1, 16)
    assert is_diverging(2, 16)
    assert is_diverging(1, 1)


@pytest.mark.parametrize("name", ["ParallelTempering", "GibbsCT", "SimulatedTempering"])
def test_single_divergences_are_recorded_and_not_advised_on(name, seed, caplog):
    """A funnel: about one in a hundred trajectories at beta = 1 diverges, and log Z is right."""
    with pm.Model() as model:
        v = pm.Normal("v", 0.0, 3.0)
        pm.Normal("x", 0.0, pm.math.exp(v / 2), shape=5)
        # a base is given, so that the hierarchy is not mapped, which leaves nothing to diverge
        base = pm_temper.GaussianBase(np.zeros(6), np.full(6, 3.0))
        step = getattr(pm_temper, name)(model=model, scans_per_draw=40, base=base)
        with caplog.at_level(logging.INFO, logger="pymc"):
            run = pm.sample(
                60, tune=40, step=step, chains=1, cores=1, random_seed=seed, progressbar=False
            )
    stats = run["sample_stats"]
    n_divergences, diverging = stats["n_divergences"].values, stats["diverging"].values
    assert (n_divergences > 0).sum() > diverging.sum()
    assert (n_divergences[diverging] > 4).all()
    advised = [r for r in caplog.records if "after tuning. Increase" in r.getMessage()]
    assert bool(advised) == bool(stats["diverging"].values.any())
