"""The function behind PyMC's record of draws is compiled once, and never one of another model."""

import copy
import gc
import weakref

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.steps import run as module
from pymc_tempering.steps.run import reused_trace
from pymc_tempering.testing import asymmetric_bimodal
from tests.checkpoint.killed import different, sample

POINT = {"slope": np.array(0.5), "sigma_log__": np.array(0.0)}


def build():
    with pm.Model() as model:
        x = pm.Data("x", np.array([1.0, -2.0]))
        slope = pm.Normal("slope", 0.0, 2.0)
        sigma = pm.HalfNormal("sigma", 1.0)
        pm.Deterministic("mean", slope * x)
        pm.Normal("y", slope * x, sigma, observed=np.array([0.3, -0.8]), shape=x.shape)
    return model


@pytest.fixture(scope="module")
def first():
    model = build()
    return model, reused_trace(model, POINT)


def recorded(trace, slope):
    """What a chain stores of one draw."""
    chain = copy.copy(trace)
    chain.setup(1, 0)
    chain.record(POINT | {"slope": np.array(slope)}, in_warmup=False)
    return {name: chain.get_values(name)[0] for name in chain.varnames}


def test_stores_what_pymc_stores(first):
    model, trace = first
    assert trace.varnames == pm.backends.NDArray(model=model, test_point=POINT).varnames
    found = recorded(trace, 3.0)
    np.testing.assert_array_equal(found["mean"], [3.0, -6.0])
    assert found["sigma"] == 1.0


def test_compiled_once_and_chains_of_their_own(first):
    model, trace = first
    assert reused_trace(model, POINT).fn is trace.fn
    one, other = copy.copy(trace), copy.copy(trace)
    one.setup(3, 0)
    other.setup(2, 1)
    assert one.samples["mean"].shape == (3, 2)
    assert other.samples["mean"].shape == (2, 2)
    assert one.fn is other.fn


def test_data_of_other_values_and_another_length():
    model = build()
    before = recorded(reused_trace(model, POINT), 2.0)["mean"]
    np.testing.assert_array_equal(before, [2.0, -4.0])
    with model:
        pm.set_data({"x": np.array([5.0, 6.0, 7.0])})
    np.testing.assert_array_equal(recorded(reused_trace(model, POINT), 2.0)["mean"], [10, 12, 14])


def test_a_variable_more(first):
    model = build()
    trace = reused_trace(model, POINT)
    with model:
        pm.Deterministic("double", 2.0 * model["slope"])
    changed = reused_trace(model, POINT)
    assert changed.fn is not trace.fn
    assert recorded(changed, 4.0)["double"] == 8.0
    # models alike share nothing
    assert trace.fn is not first[1].fn


def test_models_can_be_collected():
    gc.collect()
    n_kept = len(module._functions)
    model = build()
    trace = reused_trace(model, POINT)
    assert len(module._functions) == n_kept + 1
    seen = weakref.ref(model)
    del model, trace
    gc.collect()
    assert seen() is None
    assert len(module._functions) == n_kept


SHORT = {"draws": 30, "tune": 30, "chains": 2, "cores": 1, "random_seed": 5, "search": "none"}


@pytest.fixture(scope="module")
def model():
    return asymmetric_bimodal().model()


def test_draws_of_tuning_are_there_if_asked_for(model):
    kept = sample(model, discard_tuned_samples=False, **SHORT)
    assert kept["warmup_sample_stats"]["delta"].sizes["draw"] == SHORT["tune"]
    delta = kept["warmup_sample_stats"]["delta"]
    assert delta.notnull().any(["scan", "level"]).isel(draw=0).all()
    assert different(sample(model, **SHORT), kept) == []


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_runs_of_other_numbers_of_scans_are_put_together(model):
    few, many = (
        sample(model, **(SHORT | {"random_seed": seed, "scans_per_draw": n}))
        for seed, n in ((1, 4), (2, 6))
    )
    both = pm_temper.concat_chains([few, many])
    assert both["sample_stats"].sizes["scan"] == 6
    alone = [pm_temper.estimate_logz(one).per_chain for one in (few, many)]
    together = pm_temper.estimate_logz(both)
    np.testing.assert_allclose(together.per_chain, np.concatenate(alone), atol=1e-9)
