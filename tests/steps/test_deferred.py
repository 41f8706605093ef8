"""A step that is built for whichever model is sampled, and simuk, which makes its own models."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_tempering import Deferred, GibbsCT, ParallelTempering, estimate_logz

QUICK = {"draws": 20, "tune": 20, "chains": 2, "progressbar": False,
         "compute_convergence_checks": False, "quiet": True}  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")


def model_of(y):
    with pm.Model() as model:
        x = pm.Normal("x", 0.5, 1.0)
        pm.Normal("y", x**2, 1.0, observed=y)
    return model


def assert_same(run, expected):
    for group in ("posterior", "sample_stats"):
        assert set(run[group].data_vars) == set(expected[group].data_vars)
        for name, values in expected[group].data_vars.items():
            if name != "perf_counter_diff":
                np.testing.assert_array_equal(run[group][name], values, err_msg=name)


@pytest.mark.parametrize("cls", [ParallelTempering, GibbsCT])
def test_draws_are_those_of_the_step_whatever_the_model(cls):
    step = Deferred(cls, scans_per_draw=4)
    for y in (np.array([1.0, 2.0]), np.array([0.5, 4.0, 3.0])):
        with model_of(y):
            expected = pm.sample(step=cls(scans_per_draw=4), cores=1, random_seed=3, **QUICK)
            run = pm.sample(step=step, cores=1, random_seed=3, **QUICK)
        assert_same(run, expected)
        assert estimate_logz(run).log_z == estimate_logz(expected).log_z


@pytest.mark.parametrize("mp_ctx", ["fork", pytest.param("spawn", marks=pytest.mark.slow)])
def test_processes(mp_ctx):
    with model_of(np.array([1.0, 2.0])):
        step = Deferred(ParallelTempering, scans_per_draw=4)
        local = pm.sample(step=step, cores=1, random_seed=3, **QUICK)
        assert_same(pm.sample(step=step, cores=2, mp_ctx=mp_ctx, random_seed=3, **QUICK), local)


@pytest.mark.slow
def test_simuk():
    """Ranks of forty draws of the prior: sum and squares of their scores, four errors each.

    The posterior has two modes, and one of them alone would make the ranks extreme.
    """
    simuk = pytest.importorskip("simuk", reason="simuk is not installed")
    step = Deferred(ParallelTempering, scans_per_draw=4)
    options = QUICK | {"step": step, "cores": 1, "draws": 100}
    sbc = simuk.SBC(
        model_of(np.zeros(2)), num_simulations=40, seed=1, sample_kwargs=options, progress_bar=False
    )
    sbc.run_simulations()
    ranks = sbc.simulations["prior_sbc"]["x"].to_numpy().ravel()
    assert len(ranks) == 40
    scores = stats.norm.ppf((ranks + 0.5) / (2 * 100 + 1))
    assert abs(scores.sum()) < 4.0 * 40**0.5
    assert abs((scores**2).sum() - 40) < 4.0 * 80**0.5
