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
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError, DataError, OptionError, TemperingWarning
from pymc_tempering.evidence import blocks as module
from pymc_tempering.evidence import many_worker
from pymc_tempering.evidence.blocks import STOPPED
from pymc_tempering.model.open_data import Refillable
from pymc_tempering.references import importance
from pymc_tempering.references.quality import FAIR
from pymc_tempering.steps.parallel import ParallelTempering

N, N_OBS = 40, 10
SHAPE, SCALE, PRECISION = 3.0, 2.0, 0.5
SHORT = {"draws": 100, "tune": 100, "chains": 2, "max_chains": 2}


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
    total = whole.total
    assert abs(total.log_z - exact.sum()) < 4 * total.se
    assert total.sampling_se == pytest.approx(exact.std(ddof=1) * np.sqrt(N), rel=0.01)
    stored = whole.to_datatree()["tempering"].dataset
    xr.testing.assert_identical(stored.drop_vars("failure"), whole.dataset)
    assert (stored["failure"] == "").all()


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


def test_threads_change_nothing(model, data, whole, seed, monkeypatch):
    monkeypatch.setattr(module, "_latest", {})
    there = estimated(model, {"y": data}, seed, threads=3)
    xr.testing.assert_identical(there.dataset, whole.dataset)


def test_neighbours_are_where_searches_begin(model, data, exact, whole, seed):
    there = estimated(model, {"y": data}, seed, reference="neighbour")
    z = scores(there, exact)
    assert np.abs(z).max() < 4.5
    assert there.dataset["gradients"].mean() < whole.dataset["gradients"].mean() - 50
    same = there.dataset["gradients"] == whole.dataset["gradients"]
    assert same.to_numpy()[[0, 25]].all()
    # of the seed, the number, and what is before it among 25
    changed = data.copy()
    changed[30:] += 1.0
    again = estimated(model, {"y": changed}, seed, reference="neighbour")
    first = {"dataset": slice(30)}
    xr.testing.assert_identical(again.dataset.isel(first), there.dataset.isel(first))


def test_a_call_goes_on_from_its_folder(model, data, whole, seed, tmp_path, monkeypatch):
    estimate, calls = many_worker.Worker.outcome, []

    def ends_early(self, i, *rest):
        if i == 11:
            raise KeyboardInterrupt
        return estimate(self, i, *rest)

    monkeypatch.setattr(many_worker.Worker, "outcome", ends_early)
    with pytest.warns(TemperingWarning, match="after 11 of 40 data sets.*the same call goes on"):
        stopped = estimated(model, {"y": data}, seed, resume=tmp_path / "run")
    assert_stopped(stopped, whole, np.arange(11))

    def counts(self, i, *rest):
        calls.append(i)
        return estimate(self, i, *rest)

    monkeypatch.setattr(many_worker.Worker, "outcome", counts)
    for n_calls in (N - 11, 0):
        calls.clear()
        # without a seed that of the folder is taken
        resumed = estimated(model, {"y": data}, None, resume=tmp_path / "run")
        assert len(calls) == n_calls
        xr.testing.assert_identical(resumed.dataset, whole.dataset)
    with pytest.raises(DataError, match=r"another call: .*data: y is"):
        estimated(model, {"y": data + 1.0}, seed, resume=tmp_path / "run")
    with pytest.raises(DataError, match="random_seed is"):
        estimated(model, {"y": data}, seed + 1, resume=tmp_path / "run")


def stops(self, i, *rest):
    raise KeyboardInterrupt


@pytest.mark.parametrize("executor", [None, 2])
def test_stopped_before_anything_was_done(model, data, seed, executor, monkeypatch):
    monkeypatch.setattr(many_worker.Worker, "outcome", stops)
    with pytest.raises(KeyboardInterrupt):
        estimated(model, {"y": data}, seed, executor=executor)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork, by which workers get a stand-in")
def test_ctrl_c_keeps_what_workers_have_done(model, data, whole, seed, tmp_path, monkeypatch):
    estimate, main = many_worker.Worker.outcome, os.getpid()
    context = multiprocessing.get_context("fork")
    returned = context.Event()

    def presses(self, i, *rest):
        if i == 20:
            os.kill(main, signal.SIGINT)
            returned.wait()
        return estimate(self, i, *rest)

    monkeypatch.setattr(many_worker.Worker, "outcome", presses)
    monkeypatch.setattr("pymc_tempering.steps.executors.start_method", lambda _: "fork")
    with pytest.warns(TemperingWarning, match="of 40 data sets; the others are in `failed`"):
        stopped = estimated(model, {"y": data}, seed, executor=2, resume=tmp_path / "run")
    returned.set()
    done = np.setdiff1d(np.arange(N), list(stopped.failed))
    assert {20, 21} <= set(stopped.failed)
    assert_stopped(stopped, whole, done)
    monkeypatch.setattr(many_worker.Worker, "outcome", estimate)
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
    options = {"quick": False, "draws": 10, "tune": 10, "chains": 2, "max_chains": 2}
    options["scans_per_draw"] = 4
    with pytest.warns(TemperingWarning, match="after 1 of 3 data sets.*With `resume=`"):
        many = estimated(model, {"y": data[:3]}, seed, **options)
    assert many.failed == {1: STOPPED, 2: STOPPED}


def test_a_lost_worker_costs_time_alone(model, data, whole, seed, tmp_path, monkeypatch):
    estimate, marker, main = many_worker.Worker.outcome, tmp_path / "died", os.getpid()

    def dies_once(self, i, *rest):
        if i == 7 and os.getpid() != main and not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return estimate(self, i, *rest)

    monkeypatch.setattr(many_worker.Worker, "outcome", dies_once)
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
        ({"y": [np.zeros(3), np.zeros((2, 2))]}, r"data set 1, has the shape \(2, 2\)"),
        ({"y": [np.zeros(3), np.array([0.0, np.nan])]}, "in data set 1 first"),
        (None, "expected a mapping"),
        ({}, "expected a mapping"),
        (xr.Dataset({"y": ("place", np.zeros(10))}), "lack the dimension 'dataset'"),
    ],
)
def test_other_data_are_refused_before_anything_is_compiled(model, given, message, monkeypatch):
    monkeypatch.setattr(many_worker, "OpenDensity", None)
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
        ({"threads": 0}, "threads"),
        ({"threads": 2, "executor": 2}, "expected one"),
        ({"reference": "neighbor"}, "'neighbour'"),
        ({"draws": 0}, "draws"),
    ],
)
def test_options_are_refused_before_anything_is_compiled(model, options, message, monkeypatch):
    monkeypatch.setattr(many_worker, "OpenDensity", None)
    with pytest.raises(OptionError, match=message):
        estimate_many(model, {"y": np.zeros((2, 10))}, progressbar=False, **options)


def test_an_encoder_says_where_the_posterior_is(seed, rng):
    """Exact posteriors: nothing is searched, and log Z has no error. A wrong one is mended."""
    places = np.array([0.5, -1.0, 2.0])
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=2)
        pm.Normal("y", x[0] * places + x[1], 0.5, observed=np.zeros(3))
    design = np.stack([places, np.ones(3)], axis=1)
    precision = np.eye(2) + design.T @ design / 0.25
    root = np.linalg.inv(np.linalg.cholesky(precision)).T
    scale = np.linalg.cholesky(root @ root.T)

    def encoder(data, off=0.0):
        return off + np.linalg.solve(precision, design.T @ data["y"] / 0.25), scale

    data = {"y": rng.normal(size=(6, 3))}
    exact = stats.multivariate_normal(np.zeros(3), 0.25 * np.eye(3) + design @ design.T)
    exact = exact.logpdf(data["y"])
    # of an error that the least number of draws has to spare
    right = estimated(model, data, seed, reference=encoder, target_se=0.03)
    assert (right.dataset["gradients"] == 400).all()
    assert np.abs(scores(right, exact)).max() < 4.5
    wrong = estimated(model, data, seed, reference=lambda data: encoder(data, 2.0))
    assert (wrong.dataset["gradients"] > 800).all()
    assert (wrong.dataset["how"] == "importance").all()
    assert np.abs(scores(wrong, exact)).max() < 4.5

    def writing(data):
        given = encoder(data)
        data["y"] -= data["y"].mean()
        return given

    written = estimated(model, data, seed, reference=writing, target_se=0.03)
    np.testing.assert_array_equal(*(m.dataset["log_marginal_likelihood"] for m in (written, right)))
    for function, message in (
        (lambda data: data["z"], "raised KeyError"),
        (lambda data: 3.0, "returned 3.0"),
        (lambda data: (np.zeros(3), np.ones(3)), "in 3 dimensions; the model has 2"),
    ):
        with pytest.raises(BaseError, match=message):
            estimated(model, data, seed, reference=function)


def test_a_reference_is_the_base_of_runs(seed):
    """Of two modes, both under it."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.3, 1.5)
        pm.Normal("y", x**2, 0.5, observed=0.0)
    many = estimated(
        model, {"y": np.array([4.0])}, seed, reference=lambda data: ([0.0], [2.0]), **SHORT
    )
    assert many.dataset["how"].item() == "pt"
    prior, likelihood = stats.norm(0.3, 1.5), stats.norm(4.0, 0.5)
    mass, _ = quad(lambda x: prior.pdf(x) * likelihood.pdf(x**2), -9, 9, points=[-2, 0, 2])
    error = many.dataset["log_marginal_likelihood"] - np.log(mass)
    assert abs(error.item()) < 4.5 * many.dataset["se"].item()


def test_a_run_begins_at_a_fit_of_which_only_the_weights_are_in_doubt(
    model, data, exact, seed, monkeypatch
):
    """Unless its V is large, or the user gave a base."""
    asked, real = [], many_worker.estimate_logz

    def noted(*args, **options):
        asked.append(options)
        return real(*args, **options)

    monkeypatch.setattr(many_worker, "estimate_logz", noted)
    monkeypatch.setattr(importance, "MOST_K", -np.inf)
    many = estimated(model, {"y": data[:2]}, seed, **SHORT)
    assert (many.dataset["how"] == "pt").all()
    assert (many.dataset["V"] <= FAIR).all()
    assert [options["adapt_base"] for options in asked] == [False, False]
    assert (asked[0]["base"].mean != asked[1]["base"].mean).all()
    assert np.abs(scores(many, exact[:2])).max() < 4.5
    given = GaussianBase(np.zeros(2), np.full(2, 2.0))
    estimated(model, {"y": data[:1]}, seed, base=given, **SHORT)
    assert asked[-1]["base"] == given
    assert "adapt_base" not in asked[-1]
    monkeypatch.setattr(many_worker, "FAIR", 0.0)
    estimated(model, {"y": data[:1]}, seed, **SHORT)
    assert "base" not in asked[-1]


def test_data_sets_of_other_lengths(model, seed, rng):
    """Covariates and observed values; the exact answers are those of each length."""
    lengths = [3, 9, 1, 3, 6]
    with pm.Model() as model:
        place = pm.Data("place", np.zeros(4))
        slope = pm.Normal("slope", 0.3, 1.0)
        pm.Normal("y", slope * place, 0.5, observed=np.zeros(4))
    data = {name: [rng.normal(size=n) for n in lengths] for name in ("place", "y")}
    many = estimated(model, data, seed)
    exact = [
        stats.multivariate_normal(0.3 * x, 0.25 * np.eye(len(x)) + np.outer(x, x)).logpdf(y)
        for x, y in zip(data["place"], data["y"], strict=True)
    ]
    assert np.abs(scores(many, exact)).max() < 4.5
    assert (many.dataset["how"] == "importance").all()
    runs = estimated(
        model, {name: rows[:2] for name, rows in data.items()}, seed, quick=False, **SHORT
    )
    assert np.abs(scores(runs, exact[:2])).max() < 4.5


def test_free_variables_that_follow_a_length_are_refused():
    with pm.Model() as model:
        place = pm.Data("place", np.zeros(4))
        effects = pm.Normal("effects", 0.0, 1.0, shape=place.shape[0])
        pm.Normal("y", effects * place, 0.5, observed=np.zeros(4))
    data = {name: [np.zeros(2), np.zeros(4)] for name in ("place", "y")}
    with pytest.raises(DataError, match=r"free variables \['effects'\] follow the lengths"):
        estimate_many(model, data, progressbar=False)


def test_free_variables_that_follow_a_number_are_refused():
    with pm.Model() as model:
        n = pm.Data("n", 3)
        effects = pm.Normal("effects", 0.0, 1.0, shape=n.astype(int))
        pm.Normal("y", effects.sum() + n, 0.5, observed=0.0)
    with pytest.raises(DataError, match=r"free variables \['effects'\] follow the values"):
        estimate_many(model, {"n": np.array([3.0, 4.0])}, progressbar=False)


def test_a_list_has_lengths_of_its_own(seed, rng):
    """All of one length, but not that of the model."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Normal("y", x, 0.5, observed=np.zeros(3))
    values = rng.normal(size=(4, 5))
    many = estimated(model, {"y": list(values)}, seed)
    exact = stats.multivariate_normal(cov=0.25 * np.eye(5) + 1.0).logpdf(values)
    assert np.abs(scores(many, exact)).max() < 4.5


def test_an_observed_variable_and_the_data_that_it_observes_are_one(seed, rng):
    with pm.Model(coords={"row": range(4)}) as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Normal("y", x, 0.5, observed=pm.Data("values", np.zeros(4), dims="row"), dims="row")
    rows = [rng.normal(size=n) for n in (4, 2, 3)]
    of_variable, of_data = (estimated(model, {name: rows}, seed) for name in ("y", "values"))
    xr.testing.assert_identical(of_data.dataset, of_variable.dataset)
    assert not of_data.failed
    with pytest.raises(DataError, match=r"observe, \{'y': 'values'\}; expected one"):
        estimated(model, {"y": rows, "values": rows}, seed)


def test_arrays_of_xarray_are_taken_by_their_dims_and_labels(seed, rng):
    coords = {"row": ["p", "q", "r"], "column": [5, 3, 4]}
    with pm.Model(coords=coords) as model:
        x = pm.Normal("x", 0.0, 1.0, dims="row")
        mean = x[:, None] * np.array([1.0, 2.0, 3.0])
        pm.Normal("y", mean, 0.5, observed=np.zeros((3, 3)), dims=("row", "column"))
    coords["dataset"] = [7, 8]
    y = xr.DataArray(rng.normal(size=(2, 3, 3)), coords, ("dataset", "row", "column"), "y")
    numbers = estimated(model, {"y": y.to_numpy()}, seed).dataset["log_marginal_likelihood"]
    other = y.transpose("column", "dataset", "row").isel(row=[2, 0, 1]).sortby("column")
    for data in (other.to_dataset(), {"y": other}):
        found = estimated(model, data, seed).dataset["log_marginal_likelihood"]
        np.testing.assert_array_equal(found, numbers)
        assert found["dataset"].to_numpy().tolist() == [7, 8]
    with pytest.raises(DataError, match=r"labels \[1, 2, 3\] along 'column'; the model"):
        estimate_many(model, {"y": y.assign_coords(column=[1, 2, 3])})
    with pytest.raises(DataError, match="different labels along 'dataset'"):
        estimate_many(model, {"y": y, "z": y.assign_coords(dataset=[8, 7])})
