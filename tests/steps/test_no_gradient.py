"""Models without a gradient: slices instead of Hamiltonian moves, said once; the right log Z."""

import logging

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

import pymc_tempering as pm_temper
from pymc_tempering.engine.explorers.slice import Slice
from pymc_tempering.errors import ModelError
from tests.black_box import LOG_Z, Blind, black_box

EDGES = np.array([-3.0, -1.5, 0.5, 2.5])
HEIGHTS = np.array([-8.0, 1.0, -9.0, 2.0, -30.0])
MEAN, SD = 1.0, 2.0


@pytensor.wrap_py(itypes=[pt.dscalar], otypes=[pt.dscalar])
def staircase(x):
    """Two shelves between gorges, and a cliff."""
    return np.asarray(HEIGHTS[np.searchsorted(EDGES, x)])


@pytest.fixture(scope="module")
def blind():
    return black_box(op=Blind)


@pytest.fixture(scope="module")
def shelves():
    with pm.Model() as model:
        pm.Potential("p", staircase(pm.Normal("x", MEAN, SD)))
    return model


def shares():
    """Mass of the stairs, not normalised."""
    ends = stats.norm.cdf([-np.inf, *EDGES, np.inf], MEAN, SD)
    return np.exp(HEIGHTS) * np.diff(ends)


SHORT = {"draws": 60, "tune": 60, "chains": 2, "cores": 1, "progressbar": False, "quiet": True}


@pytest.mark.parametrize(
    "method",
    [
        "pt",
        pytest.param("gibbs_ct", marks=pytest.mark.slow),
        pytest.param("st", marks=pytest.mark.slow),
    ],
)
def test_log_z_of_a_black_box(blind, method, seed):
    """False alarms: once in 15,000 seeds (4 standard errors), and 0.03 beyond the error's own."""
    estimate = pm_temper.estimate_logz(blind, method=method, random_seed=seed, **SHORT)
    assert abs(estimate.log_z - LOG_Z) < 4 * estimate.se + 0.03
    assert estimate.se < 0.1


@pytest.mark.filterwarnings("ignore:Pareto k:pymc_tempering.errors.TemperingWarning")
def test_jumps(shelves, seed):
    """False alarms as above; the share of a shelf within 5 standard errors of 100 restarts.

    Weights that take few values, as those of stairs do, look like heavy tails in so short a run.
    """
    estimate = pm_temper.estimate_logz(shelves, random_seed=seed, scans_per_draw=16, **SHORT)
    exact = shares()
    assert abs(estimate.log_z - np.log(exact.sum())) < 4 * estimate.se + 0.03
    assert estimate.se < 0.2
    x = estimate.idata["posterior"]["x"].values
    assert abs((x > EDGES[2]).mean() - exact[3] / exact.sum()) < 0.25
    assert x.max() < EDGES[3]


def test_the_choice_is_said_once(blind, caplog):
    with caplog.at_level(logging.INFO, logger="pymc"):
        step = pm_temper.ParallelTempering(model=blind)
        pm_temper.ParallelTempering(model=blind, explorer="slice")
    assert step._source.explorer == Slice()
    first, second = [record.message for record in caplog.records]
    assert first.startswith("ParallelTempering: no gradient (pullback not implemented for Blind")
    assert "): slice explorer; every evaluation of the density calls Python" in first
    assert "no gradient" not in second


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_nothing_is_said_where_there_is_nothing_to_say(shelves, caplog):
    with pm.Model() as white:
        pm.Normal("x")
    with caplog.at_level(logging.INFO, logger="pymc"):
        pm_temper.ParallelTempering(model=white)
        pm_temper.sample(
            shelves, draws=2, tune=2, chains=1, cores=1, scans_per_draw=1, progressbar=False,
            quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "build"),
    [
        ("ParallelTempering", lambda m: pm_temper.ParallelTempering(model=m, max_steps=8)),
        ("ParallelTempering", lambda m: pm_temper.sample(m, explorer="hamiltonian")),
        ("GibbsCT", lambda m: pm_temper.GibbsCT(model=m, explorer="hamiltonian")),
        ("SimulatedTempering", lambda m: pm_temper.SimulatedTempering(model=m, target_accept=0.7)),
        ("HAIS", lambda m: pm_temper.estimate_logz(m, method="hais")),
        ("temper", lambda m: pm_temper.temper(m)),
        ("temper", lambda m: pm_temper.estimate_logz(m, method="joint_ct", progressbar=False)),
    ],
)
def test_what_follows_a_gradient_is_refused(blind, name, build):
    with pytest.raises(ModelError, match=rf"no gradient \(.*Blind.*{name} .*`method=\"pt\"`"):
        build(blind)
