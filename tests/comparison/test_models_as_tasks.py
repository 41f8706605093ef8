"""Models as tasks of an executor: what comes back is what sampling them here gives."""

import functools
import multiprocessing
import os
import signal
import warnings
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from multiprocessing.pool import ThreadPool

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from losing import Losing

from pymc_tempering.comparison.bayes_factor import bayes_factor
from pymc_tempering.comparison.estimates import resolve_estimates
from pymc_tempering.comparison.table import compare
from pymc_tempering.errors import ModelError, OptionError, TemperingWarning, WorkerError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.many import estimate_many

Y = np.array([0.4, -1.1, 2.3, 0.9, 1.7])
# short enough for warnings
SHORT = {"draws": 12, "tune": 12, "chains": 2, "scans_per_draw": 4, "random_seed": 5,
         "progressbar": False, "quiet": True}  # fmt: skip
TIMES = ("created_at", "sampling_time")
FAKE = "pymc_tempering.comparison.estimates.estimate_logz"


def estimate(log_z):
    return LogZEstimate(log_z, 0.1, "pt, mbar", np.full(4, log_z))


def normal_mean(name, sd):
    with pm.Model(coords={"item": list("abcde")}) as model:
        mu = pm.Normal(name, 0.0, sd)
        pm.Normal("y", mu, 1.0, observed=Y, dims="item")
    return model


@pytest.fixture(scope="module")
def models():
    return {"narrow": normal_mean("x", 0.5), "given": estimate(-8.0), "wide": normal_mean("z", 9.0)}


def resolved(models, **options):
    """Estimates, and the texts of the warnings in their order."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = resolve_estimates(models, **SHORT | options)
    return found, [str(w.message) for w in caught if w.category is TemperingWarning]


@pytest.fixture(scope="module")
def local(models):
    return resolved(models, cores=1)


def attributes(dataset):
    return {name: value for name, value in dataset.attrs.items() if name not in TIMES}


def assert_same(found, expected):
    """Estimates with everything that they have, in order."""
    assert list(found) == list(expected)
    for name, one in expected.items():
        assert found[name] == one
        assert found[name].gradients == one.gradients
        assert found[name].search == one.search
        if one.idata is None:
            continue
        assert list(found[name].idata.children) == list(one.idata.children)
        for group, node in one.idata.children.items():
            dataset, other = (
                tree.to_dataset().drop_vars("perf_counter_diff", errors="ignore")
                for tree in (node, found[name].idata[group])
            )
            xr.testing.assert_equal(other, dataset)
            assert attributes(other) == attributes(dataset)


def executors():
    context = multiprocessing.get_context("spawn")
    yield pytest.param(lambda: 1, id="one process")
    yield pytest.param(lambda: 2, id="two processes")
    yield pytest.param(functools.partial(ThreadPool, 2), id="threads with map")
    # each process imports everything anew
    spawned = functools.partial(context.Pool, 1)
    yield pytest.param(spawned, id="a pool with map", marks=pytest.mark.slow)


@pytest.mark.parametrize("make", executors())
def test_estimates_draws_and_warnings_are_those_of_the_local_run(models, local, make):
    executor = make()
    if isinstance(executor, int):
        found, texts = resolved(models, executor=executor)
    else:
        with executor:
            found, texts = resolved(models, executor=executor)
    assert_same(found, local[0])
    assert texts == local[1]
    assert texts


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_the_table_is_the_same(models, local):
    with ThreadPoolExecutor(2) as executor:
        table = compare(models, executor=executor, **SHORT)
    pd.testing.assert_frame_equal(table, compare(local[0]), check_exact=True)


def ends_its_process_once(marker, trace, draw):
    if "z" in draw.point and len(trace) == 5 and not marker.exists():
        marker.touch()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_model_whose_worker_is_killed_is_sampled_again(models, local, tmp_path):
    marker = tmp_path / "killed"

    def callback(trace, draw):
        ends_its_process_once(marker, trace, draw)

    found, texts = resolved(models, executor=2, callback=callback)
    assert marker.exists()
    assert_same(found, local[0])
    assert texts == local[1]


def fake(model, *, random_seed, **options):
    """An estimate that is known by the seed; there is nothing to be sampled."""
    return estimate(-1.0 - random_seed % 7)


def test_a_model_that_is_lost_twice_is_named_and_the_others_are_kept(models, monkeypatch):
    monkeypatch.setattr(FAKE, fake)
    expected = compare(models, random_seed=5)
    again = compare(models, random_seed=5, executor=Losing({1}))
    pd.testing.assert_frame_equal(again, expected, check_exact=True)
    match = r"the model 'wide' was .* lost twice \(ConnectionError: the machine was switched off\)"
    with pytest.warns(TemperingWarning, match=match):
        table = compare(models, random_seed=5, executor=Losing({1, 2}))
    kept = ["log_marginal_likelihood", "se", "warning"]
    pd.testing.assert_frame_equal(
        table.loc[["given", "narrow"], kept], expected.loc[["given", "narrow"], kept]
    )
    assert table.index[-1] == "wide"
    assert np.isnan(table.loc["wide", "log_marginal_likelihood"])
    assert table.loc["wide", "warning_codes"] == "interrupted"
    assert table["probability"].isna().all()
    assert repr(table).endswith("wide: interrupted")
    with pytest.warns(TemperingWarning, match="'b' was not sampled"):
        factor = bayes_factor(models["narrow"], models["wide"], executor=Losing({1, 2}))
    assert "log BF unknown" in repr(factor)
    with pytest.raises(WorkerError, match=r"'narrow': 'ConnectionError.*'wide': 'Conn"):
        compare(models, executor=Losing(range(4)))


@pytest.mark.parametrize("executor", [None, ThreadPoolExecutor(1)])
def test_ctrl_c_keeps_the_models_that_are_done(models, monkeypatch, executor):
    n_done = [1]

    def stopped(model, **options):
        n_done[0] -= 1
        if n_done[0] < 0:
            raise KeyboardInterrupt
        return fake(model, **options)

    monkeypatch.setattr(FAKE, stopped)
    with pytest.warns(TemperingWarning, match=r"'wide' was .*, and has no log Z: the call was sto"):
        table = compare(models, random_seed=5, executor=executor)
    assert np.isfinite(table.loc["narrow", "log_marginal_likelihood"])
    assert np.isnan(table.loc["wide", "log_marginal_likelihood"])
    with pytest.raises(KeyboardInterrupt):
        compare(models, random_seed=5, executor=executor)


def test_ctrl_c_within_a_model_ends_the_others(models, monkeypatch):
    cut = Diagnostic("interrupted", "it was cut short.", "Run it again.", {"stopped": 1})
    monkeypatch.setattr(FAKE, lambda *_, **__: replace(estimate(-7.0), warnings=(cut,)))
    with pytest.warns(TemperingWarning, match=r"'wide' was .*, and has no log Z: the call was sto"):
        table = compare(models, random_seed=5)
    assert table.loc["narrow", "log_marginal_likelihood"] == -7.0
    assert np.isnan(table.loc["wide", "log_marginal_likelihood"])


@pytest.mark.parametrize("executor", [None, 1, ThreadPoolExecutor])
def test_a_model_that_raises_is_named_and_the_others_are_kept(models, executor):
    """What another model took an hour for is not lost; where all raise, the first error is."""
    with pm.Model() as empty:
        pm.Normal("y", 0.0, 1.0, observed=Y)
    with executor(1) if isinstance(executor, type) else nullcontext(executor) as made:
        found, said = resolved({"wide": models["wide"], "empty": empty}, executor=made)
        assert np.isfinite(found["wide"].log_z)
        assert np.isnan(found["empty"].log_z)
        (named,) = [text for text in said if "'empty'" in text]
        assert "ModelError: " in named
        assert "no free variables" in named
        with pytest.raises(ModelError, match="no free variables") as caught:
            compare({"empty": empty, "other": empty}, executor=made, **SHORT)
    assert caught.value.__notes__ == ["It is the model 'empty' that raised this."]


def test_workers_get_neither_executor_nor_cores(models, monkeypatch):
    given = []
    monkeypatch.setattr(FAKE, lambda model, **options: given.append(options) or estimate(-1.0))
    executor, options = Losing(set()), {"chains": 3, "cores": 4, "quiet": False}
    compare(models, executor=executor, **options)
    quiet = {"cores": 1, "progressbar": False, "quiet": True}
    assert [one.pop("random_seed") for one in given]
    assert given == [options | quiet] * 2
    assert executor.n_tasks == 2


def test_one_model_shares_its_chains(models, monkeypatch):
    given = []
    monkeypatch.setattr(FAKE, lambda model, **options: given.append(options) or estimate(-1.0))
    executor = Losing(set())
    compare({"given": models["given"], "wide": models["wide"]}, executor=executor, cores=4)
    assert (given[0]["executor"], given[0]["cores"]) == (executor, 4)
    assert executor.n_tasks == 0


@pytest.mark.parametrize(("quiet", "bar"), [(False, True), (True, True), (False, False)])
def test_progress_is_a_line_of_models(models, monkeypatch, capsys, caplog, quiet, bar):
    monkeypatch.setattr(FAKE, fake)
    with caplog.at_level("INFO", logger="pymc"):
        compare(models, executor=ThreadPoolExecutor(1), quiet=quiet, progressbar=bar)
    out = capsys.readouterr().out
    assert ("Models" in out and "2/2" in out) is (bar and not quiet)
    assert ("Sampling the models ['narrow', 'wide'], each as a task" in caplog.text) is not quiet


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"executor": 0}, "`executor` is 0"),
        ({"executor": 2, "resume": "kept"}, "'kept', which would be one folder"),
        ({"executor": 2, "trace": object()}, "`trace` is one place"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sampled(models, monkeypatch, options, match):
    monkeypatch.setattr(FAKE, lambda *_, **__: pytest.fail("sampled"))
    with pytest.raises(OptionError, match=match):
        compare(models, **options)


def test_a_run_that_cannot_be_read_costs_no_sampling(models, monkeypatch):
    monkeypatch.setattr(FAKE, lambda *_, **__: pytest.fail("sampled"))
    with pytest.raises(ValueError, match="'run'"):
        compare({"wide": models["wide"], "run": xr.DataTree()})


def test_an_executor_for_nothing_is_refused(models):
    with pytest.raises(OptionError, match=r"options \['executor'\] are for sampling"):
        compare({"a": models["given"], "b": models["given"]}, executor=2)


def test_workers_know_distributions_of_ones_own():
    models = {}
    for name, scale in (("one", 1.0), ("two", 2.0)):
        with pm.Model() as models[name]:
            x = pm.Normal("x", 0.0, scale)
            pm.CustomDist("y", x, logp=lambda value, mu: -((value - mu) ** 2), observed=Y)
    local = resolved(models, cores=1)[0]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as executor:
        found = resolved(models, executor=executor)[0]
        many = [
            estimate_many(models["one"], {"y": Y[None]}, random_seed=1, progressbar=False, **where)
            for where in ({}, {"executor": executor})
        ]
    assert [e.log_z for e in found.values()] == [e.log_z for e in local.values()]
    xr.testing.assert_identical(many[1].dataset, many[0].dataset)
