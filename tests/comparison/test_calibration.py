"""Calibration of model probabilities: an exact pair of nested models, and planted bugs."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pymc as pm
import pytest
from losing import Losing
from scipy import stats

import pymc_tempering as pm_temper
from pymc_tempering.comparison.calibration import ModelCalibration, over_dispersion, shift
from pymc_tempering.errors import DataError, ModelError, OptionError, TemperingWarning, WorkerError

N, SD = 8, 0.8
TIMES = np.linspace(-1.0, 1.5, N)
PRIOR = {"level": 0.6, "slope": 0.4}


@pytest.fixture(scope="module")
def models():
    """A level, and a level with a slope: both conjugate."""
    made = {}
    with pm.Model() as made["level"]:
        level = pm.Normal("level", 0.3, 1.0)
        pm.Normal("y", level, SD, observed=np.zeros(N), shape=N)
    with pm.Model() as made["slope"]:
        level = pm.Normal("level", 0.3, 1.0)
        slope = pm.Normal("slope", 0.0, 0.7)
        pm.Normal("y", level + slope * TIMES, SD, observed=np.zeros(N))
    return made


def exact(slope_sd):
    cov = SD**2 * np.eye(N) + 1.0 + slope_sd**2 * np.outer(TIMES, TIMES)
    law = stats.multivariate_normal(np.full(N, 0.3), cov)
    return lambda data: law.logpdf(data["y"])


EXACT = {"level": exact(0.0), "slope": exact(0.7)}


def check(models, seed, method=EXACT, n=400, **options):
    return pm_temper.check_calibration(
        models, n_datasets=n, prior_probs=PRIOR, method=method, random_seed=seed,
        progressbar=False, **options,
    )  # fmt: skip


def test_exact_probabilities_are_calibrated(models, seed):
    """One p-value of the smallest of three: fails once in a thousand seeds."""
    result = check(models, seed)
    assert result.calibrated
    assert result.table["prior"].to_dict() == PRIOR
    # of the data sets 0.6 are of the first, with an error of 0.025
    assert result.table["share"]["level"] == pytest.approx(0.6, abs=0.12)
    # an intercept alone is told from a slope often enough for the check to mean something
    assert np.mean(result.probabilities.max(axis=1) > 0.9) > 0.05
    assert np.mean(result.probabilities.max(axis=1) < 0.75) > 0.05


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("z_shift", lambda value, slope: value + slope),  # a constant left out
        ("z_extreme", lambda value, slope: 3.0 * value),  # the data counted three times
        ("z_prior", lambda value, slope: value + 1.5 * slope),
    ],
)
def test_a_wrong_log_z_is_noticed(models, seed, name, bug):
    """Z-scores between 7 and 20 where 3.5 are enough: misses once in 10^3 seeds at most."""
    wrong = {
        which: lambda data, which=which: bug(EXACT[which](data), which == "slope")
        for which in EXACT
    }
    result = check(models, seed, wrong)
    assert not result.calibrated
    assert "NOT calibrated" in repr(result)
    assert abs(result.table[name]["level"]) > 3.5


def test_estimates_are_those_of_the_simulated_data(models, seed):
    """Sampled and exact log Z of the same data sets; 6 estimates within 5 errors: 10^-5."""
    options = {"draws": 60, "chains": 2, "cores": 1, "compute_convergence_checks": False}
    sampled, known = check(models, seed, "pt", 3, **options), check(models, seed, EXACT, 3)
    np.testing.assert_array_equal(sampled.true, known.true)
    assert np.ptp(known.log_z, axis=0).min() > 0.01
    assert (np.abs(sampled.log_z - known.log_z) < 5 * sampled.se + 0.02).all()
    assert np.isnan(known.se).all()
    assert not sampled.warned.any()


def assert_same(found, expected, rows=slice(None)):
    for name in ("true", "log_z", "se", "warned"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name)[rows])


def test_an_executor_changes_nothing(models, seed):
    options = {"n": 4, "draws": 20, "tune": 20, "chains": 2}
    local = check(models, seed, "pt", cores=1, **options)
    assert_same(check(models, seed, "pt", executor=2, cores=1, **options), local)
    with ThreadPoolExecutor(3) as executor:
        assert_same(check(models, seed, executor=executor), check(models, seed))


def test_the_workers_of_a_data_set_are_lost(models, seed):
    whole = check(models, seed, n=5)
    assert_same(check(models, seed, n=5, executor=Losing({3})), whole)
    with pytest.warns(TemperingWarning, match=r"4 of 5 data sets: the workers of \[3\] were lost"):
        left = check(models, seed, n=5, executor=Losing({3, 5}))
    assert_same(left, whole, [0, 1, 2, 4])
    with pytest.raises(WorkerError, match="switched off"):
        check(models, seed, n=2, executor=Losing(range(4)))


def test_ctrl_c_keeps_the_data_sets_that_are_done(models, seed):
    whole = check(models, seed, n=5)
    for n_done in (0, 3):
        left = [n_done]

        def stopped(data, left=left):
            left[0] -= 1
            if left[0] < 0:
                raise KeyboardInterrupt
            return EXACT["level"](data)

        functions = {"level": stopped, "slope": EXACT["slope"]}
        if n_done:
            with pytest.warns(TemperingWarning, match="3 of 5 data sets: it was stopped"):
                assert_same(check(models, seed, functions, 5), whole, slice(n_done))
        else:
            with pytest.raises(KeyboardInterrupt):
                check(models, seed, functions, 5)


def test_the_models_are_not_changed(models, seed):
    check(models, seed, n=2)
    for model in models.values():
        assert not model.data_vars
        np.testing.assert_array_equal(model.rvs_to_values[model["y"]].eval(), np.zeros(N))


def test_whole_numbers_are_simulated_too(seed):
    models = {}
    for name, sd in (("level", 0.5), ("slope", 2.0)):
        with pm.Model() as models[name]:
            x = pm.Normal("x", 0.0, sd)
            pm.Bernoulli("y", logit_p=x, observed=np.zeros(4, dtype=int))
    found = check(models, seed, "pt", n=1, draws=20, tune=20, chains=2, cores=1)
    assert np.isfinite(found.log_z).all()


def test_curve_counts_every_statement_once():
    """Worked by hand: two data sets in each of two bins."""
    log_odds = np.log([0.1 / 0.9, 0.12 / 0.88, 0.9 / 0.1, 0.92 / 0.08])
    log_z = np.stack([log_odds, np.zeros(4)], axis=1)
    result = ModelCalibration(
        ("a", "b"), np.full(2, 0.5), np.array([1, 1, 0, 1]), log_z, 0 * log_z, np.zeros(4, bool)
    )
    curve = result.curve(2)
    np.testing.assert_allclose(curve["said"], [0.11, 0.91])
    np.testing.assert_allclose(curve["true"], [0.0, 0.5])
    assert curve["n"].tolist() == [2, 2]
    assert (curve["low"] <= curve["true"]).all()
    assert (curve["true"] <= curve["high"]).all()


def test_certainties():
    well_fitted, true = np.array([0.0, 1.0]), np.array([False, True])
    assert shift(well_fitted, true) == over_dispersion(well_fitted, true) == 0.0
    assert np.isposinf(shift(np.zeros(2), true))
    assert np.isposinf(over_dispersion(np.zeros(2), true))


def test_refusals_before_any_sampling(models):
    with pytest.raises(OptionError, match="at least two"):
        pm_temper.check_calibration({"one": models["level"]})
    with pytest.raises(OptionError, match="Not models"):
        pm_temper.check_calibration({"one": models["level"], "two": 3})
    with pytest.raises(OptionError, match="a function for each of the models"):
        pm_temper.check_calibration(models, method={"level": EXACT["level"]})
    with pytest.raises(OptionError, match="Let these have them"):
        pm_temper.check_calibration(models, method=EXACT, draws=10)
    with pytest.raises(OptionError, match="n_datasets"):
        pm_temper.check_calibration(models, n_datasets=0)
    with pm.Model() as other:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Normal("y", x, 1.0, observed=np.zeros(N + 1))
    with pytest.raises(ModelError, match="same names and shapes"):
        pm_temper.check_calibration(models | {"other": other})
    with pytest.raises(DataError, match="one row for each data set"):
        ModelCalibration(("a",), np.ones(2), np.zeros(1, int), np.zeros((1, 1)),
                         np.zeros((1, 1)), np.zeros(1, bool))  # fmt: skip
