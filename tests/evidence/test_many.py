"""Many data sets of one model: each log Z is right, and depends on none of the others."""

import multiprocessing
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats
from scipy.integrate import quad

from pymc_tempering import estimate_many
from pymc_tempering.errors import DataError, OptionError, TemperingWarning
from pymc_tempering.evidence import blocks as module
from pymc_tempering.evidence.all_blocks import STOPPED
from pymc_tempering.model.open_data import Refillable
from pymc_tempering.steps.parallel import ParallelTempering

N, N_OBS = 40, 10
SHAPE, SCALE, PRECISION = 3.0, 2.0, 0.5
SHORT = {"draws": 100, "tune": 100, "chains": 2}


@pytest.fixture(scope="module")
def model():
    """Normal data of unknown mean and variance: conjugate, and no Gaussian in what is sampled."""
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", SHAPE, SCALE)
        mean = pm.Normal("mean", 0.0, pm.math.sqrt(variance / PRECISION))
        pm.Normal("y", mean, pm.math.sqrt(variance), observed=np.zeros(N_OBS))
    return model


@pytest.fixture(scope="module")
def data(seed):
    rng = np.random.default_rng(seed)
    variance = stats.invgamma(SHAPE, scale=SCALE).rvs(N, random_state=rng)
    mean = rng.normal(size=N) * np.sqrt(variance / PRECISION)
    return mean[:, None] + rng.normal(size=(N, N_OBS)) * np.sqrt(variance)[:, None]


@pytest.fixture(scope="module")
def exact(data):
    shape = SCALE / SHAPE * (np.eye(N_OBS) + 1.0 / PRECISION)
    return stats.multivariate_t(np.zeros(N_OBS), shape, df=2 * SHAPE).logpdf(data)


@pytest.fixture(scope="module")
def whole(model, data, seed):
    return estimated(model, {"y": data}, seed)


def estimated(model, data, seed, **options):
    return estimate_many(model, data, random_seed=seed, progressbar=False, **options)


def scores(many, exact):
    return ((many.dataset["log_marginal_likelihood"] - exact) / many.dataset["se"]).to_numpy()


def test_errors_are_those_stated(whole, exact):
    z = scores(whole, exact)
    assert np.abs(z).max() < 4.5
    assert 0.7 < np.sqrt(np.mean(z**2)) < 1.4
    assert (whole.dataset["se"] <= 0.02).all()
    assert (whole.dataset["how"] == "importance").mean() > 0.9
    assert not whole.failed
    assert abs(whole.total.log_z - exact.sum()) < 4 * whole.total.se


def test_twice_the_data_would_be_noticed(model, data, exact, seed, monkeypatch):
    right = Refillable.fill
    monkeypatch.setattr(
        Refillable, "fill", lambda self, values: right(self, {n: 2 * v for n, v in values.items()})
    )
    wrong = estimated(model, {"y": data[:3]}, seed)
    assert np.abs(scores(wrong, exact[:3])).max() > 4.5


def test_nothing_depends_on_the_other_data_sets(model, data, whole, seed, monkeypatch):
    changed = data.copy()
    changed[[0, 2, 39]] += 1.0
    monkeypatch.setattr(module, "_latest", {})
    again = estimated(model, {"y": changed}, seed)
    same = np.setdiff1d(np.arange(N), [0, 2, 39])
    xr.testing.assert_identical(again.dataset.isel(dataset=same), whole.dataset.isel(dataset=same))
    few = estimated(model, {"y": data[:2]}, seed)
    xr.testing.assert_identical(few.dataset, whole.dataset.isel(dataset=slice(2)))


def test_an_executor_changes_nothing(model, data, whole, seed):
    given = xr.Dataset({"y": (("place", "dataset"), data.T)})
    with ThreadPoolExecutor(2) as executor:
        there = estimated(model, given, seed, executor=executor)
    xr.testing.assert_identical(there.dataset, whole.dataset)


def assert_stopped(many, whole, done):
    """That it has the results of these data sets, and names the others."""
    rest = np.setdiff1d(np.arange(N), done)
    assert many.failed == dict.fromkeys(rest.tolist(), STOPPED)
    xr.testing.assert_identical(many.dataset.isel(dataset=done), whole.dataset.isel(dataset=done))


def test_a_call_goes_on_from_its_folder(model, data, whole, seed, tmp_path, monkeypatch):
    estimate, calls = module._Worker.outcome, []

    def ends_early(self, i, values):
        if i == 11:
            raise KeyboardInterrupt
        return estimate(self, i, values)

    monkeypatch.setattr(module._Worker, "outcome", ends_early)
    with pytest.warns(TemperingWarning, match="after 11 of 40 data sets.*the same call goes on"):
        stopped = estimated(model, {"y": data}, seed, resume=tmp_path / "run")
    assert_stopped(stopped, whole, np.arange(11))

    def counts(self, i, values):
        calls.append(i)
        return estimate(self, i, values)

    monkeypatch.setattr(module._Worker, "outcome", counts)
    for n_calls in (N - 11, 0):
        calls.clear()
        # without a seed that of the folder is taken
        resumed = estimated(model, {"y": data}, None, resume=tmp_path / "run")
        assert len(calls) == n_calls
        xr.testing.assert_identical(resumed.dataset, whole.dataset)
    with pytest.raises(DataError, match=r"another call: .*data is"):
        estimated(model, {"y": data + 1.0}, seed, resume=tmp_path / "run")
    with pytest.raises(DataError, match="random_seed is"):
        estimated(model, {"y": data}, seed + 1, resume=tmp_path / "run")


def stops(self, i, values):
    raise KeyboardInterrupt


@pytest.mark.parametrize("executor", [None, 2])
def test_stopped_before_anything_was_done(model, data, seed, executor, monkeypatch):
    monkeypatch.setattr(module._Worker, "outcome", stops)
    with pytest.raises(KeyboardInterrupt):
        estimated(model, {"y": data}, seed, executor=executor)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork, by which workers get a stand-in")
def test_ctrl_c_keeps_what_workers_have_done(model, data, whole, seed, tmp_path, monkeypatch):
    estimate, main = module._Worker.outcome, os.getpid()
    context = multiprocessing.get_context("fork")
    returned = context.Event()

    def presses(self, i, values):
        if i == 20:
            os.kill(main, signal.SIGINT)
            returned.wait()
        return estimate(self, i, values)

    monkeypatch.setattr(module._Worker, "outcome", presses)
    monkeypatch.setattr("pymc_tempering.steps.executors.start_method", lambda _: "fork")
    with pytest.warns(TemperingWarning, match="of 40 data sets; the others are in `failed`"):
        stopped = estimated(model, {"y": data}, seed, executor=2, resume=tmp_path / "run")
    returned.set()
    done = np.setdiff1d(np.arange(N), list(stopped.failed))
    assert {20, 21} <= set(stopped.failed)
    assert_stopped(stopped, whole, done)
    monkeypatch.setattr(module._Worker, "outcome", estimate)
    resumed = estimated(model, {"y": data}, seed, executor=2, resume=tmp_path / "run")
    xr.testing.assert_identical(resumed.dataset, whole.dataset)


def test_a_run_that_was_cut_short_is_none(model, data, seed, monkeypatch):
    advance, n = ParallelTempering._advance, 0

    def presses(self, point):
        nonlocal n
        n += 1
        # a draw of the last chain of the second data set
        if n == 2 * 2 * 20 - 5:
            raise KeyboardInterrupt
        return advance(self, point)

    monkeypatch.setattr(ParallelTempering, "_advance", presses)
    options = {"quick": False, "draws": 10, "tune": 10, "chains": 2, "scans_per_draw": 4}
    with pytest.warns(TemperingWarning, match="after 1 of 3 data sets.*With `resume=`"):
        many = estimated(model, {"y": data[:3]}, seed, **options)
    assert many.failed == {1: STOPPED, 2: STOPPED}


def test_a_lost_worker_costs_time_alone(model, data, whole, seed, tmp_path, monkeypatch):
    estimate, marker, main = module._Worker.outcome, tmp_path / "died", os.getpid()

    def dies_once(self, i, values):
        if i == 7 and os.getpid() != main and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return estimate(self, i, values)

    monkeypatch.setattr(module._Worker, "outcome", dies_once)
    monkeypatch.setattr("pymc_tempering.steps.executors.start_method", lambda _: "fork")
    many = estimated(model, {"y": data}, seed, executor=2)
    assert marker.exists()
    xr.testing.assert_identical(many.dataset, whole.dataset)


def test_two_modes_get_a_run(seed):
    observed = np.array([-1.0, 4.0, 3.0])
    with pm.Model() as model:
        x = pm.Normal("x", 0.3, 1.5)
        pm.Normal("y", x**2, 0.5, observed=0.0)
    many = estimated(model, {"y": observed}, seed, **SHORT)
    how = many.dataset["how"].to_numpy()
    assert (how[1:] == "pt").all()
    assert (many.dataset["why"].to_numpy()[1:] != "").all()
    prior = stats.norm(0.3, 1.5)
    for y, found, se in zip(
        observed, many.dataset["log_marginal_likelihood"], many.dataset["se"], strict=True
    ):
        mass, _ = quad(
            lambda x, y=y: prior.pdf(x) * stats.norm(x**2, 0.5).pdf(y), -9, 9, points=[-2, 0, 2]
        )
        assert abs(found - np.log(mass)) < 4.5 * se
    assert "2 by pt" in repr(many) or "3 by pt" in repr(many)


def test_what_fails_is_named_and_the_others_go_on(seed):
    with pm.Model() as model:
        rate = pm.Gamma("rate", 2.0, 1.0)
        pm.Exponential("y", rate, observed=np.ones(4))
    data = np.full((3, 4), 0.5)
    data[1, 2] = -1.0
    many = estimated(model, {"y": data}, seed, **SHORT)
    assert list(many.failed) == [1]
    assert "'y'" in many.failed[1]
    assert np.isfinite(many.dataset["log_marginal_likelihood"]).to_numpy().tolist() == [
        True, False, True,
    ]  # fmt: skip
    assert np.isnan(many.total.log_z)
    assert "1 failed (1)" in repr(many)


def test_covariates_are_data_too(seed, rng):
    places = rng.normal(size=(4, 6))
    counts = rng.integers(0, 2, size=(4, 6))
    with pm.Model() as model:
        place = pm.Data("place", np.zeros(6))
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Bernoulli("count", logit_p=slope * place, observed=np.zeros(6, dtype=int))
    many = estimated(model, {"place": places, "count": counts}, seed)
    for i in range(4):
        sign = 2 * counts[i] - 1
        mass, _ = quad(
            lambda b, i=i, sign=sign: (
                stats.norm.pdf(b) * np.prod(1.0 / (1.0 + np.exp(-sign * b * places[i])))
            ),
            -8,
            8,
        )
        one = many.dataset.isel(dataset=i)
        assert abs(one["log_marginal_likelihood"] - np.log(mass)) < 4.5 * one["se"]
    np.testing.assert_array_equal(model["place"].get_value(), np.zeros(6))


def test_what_is_too_dear_is_named(model, data, seed):
    many = estimated(model, {"y": data[:2]}, seed, max_gradients=20, quick=False)
    assert list(many.failed) == [0, 1]
    assert "`max_gradients` is 20" in many.failed[1]


def test_a_bound_on_gradients_is_kept(model, data, seed):
    many = estimated(model, {"y": data[:3]}, seed, max_gradients=5000)
    assert (many.dataset["gradients"] <= 5000).all()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"z": np.zeros((2, 10))}, r"\['z'\].*neither observes"),
        ({"y": np.zeros(10)}, r"'y' of `data` has the shape \(10,\).*expected float64"),
        ({"y": np.zeros((2, 9))}, r"has the shape \(2, 9\)"),
        ({"y": np.zeros((0, 10))}, r"has the shape \(0, 10\)"),
        ({"y": np.zeros((2, 10), dtype=complex)}, "is of type complex128"),
        ({"y": np.where(np.arange(20) == 15, np.nan, 0.0).reshape(2, 10)}, "in data set 1 first"),
        ({"y": [[1.0], [1.0, 2.0]]}, "is no array"),
        (None, "expected a mapping"),
        ({}, "expected a mapping"),
        (xr.Dataset({"y": ("place", np.zeros(10))}), "lack the dimension 'dataset'"),
    ],
)
def test_other_data_are_refused_before_anything_is_compiled(model, given, message, monkeypatch):
    monkeypatch.setattr(module, "OpenDensity", None)
    with pytest.raises(DataError, match=message):
        estimate_many(model, given, progressbar=False)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"scans_per_drew": 3}, "did you mean scans_per_draw"),
        ({"target_se": 0.0}, "target_se"),
        ({"starts": 0}, "starts"),
        ({"quick": "no"}, "quick"),
        ({"method": "pd"}, "Unknown method"),
        ({"method": "hais", "max_gradients": 1000}, "max_gradients"),
        ({"executor": 0}, "executor"),
        ({"draws": 0}, "draws"),
    ],
)
def test_options_are_refused_before_anything_is_compiled(model, options, message, monkeypatch):
    monkeypatch.setattr(module, "OpenDensity", None)
    with pytest.raises(OptionError, match=message):
        estimate_many(model, {"y": np.zeros((2, 10))}, progressbar=False, **options)
