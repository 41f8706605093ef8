"""Data simulated from the model: strict bounds, and models that cannot generate data."""

import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_tempering.annealing.bidirectional import bidirectional_check, simulate
from pymc_tempering.errors import ModelError, OptionError


@pytest.fixture(scope="module")
def model():
    with pm.Model() as built:
        low = pm.Uniform("low", 0.0, 1.0)
        high = pm.Uniform("high", low, 2.0)  # a transform whose bound is a parameter
        weight = pm.Normal("weight", 0.0, high, shape=2)
        pm.Normal("y", weight[0] + weight[1] * np.linspace(-1, 2, 8), 0.5, observed=np.zeros(8))
    return built


@pytest.mark.slow
@pytest.mark.statistical
def test_bounds_hold_and_lie_close(model, seed):
    """A violation of 3 nats has probability exp(-3) per bound and of a crossing far less."""
    table = bidirectional_check(
        model, n_repeats=2, methods=("hais", "ais"), n_levels=100, tune=40, random_seed=seed
    )
    assert list(table.columns) == ["repeat", "method", "log_z", "lower", "upper", "gap"]
    assert len(table) == 4
    assert (table["gap"].abs() < 1.0).all(), table
    assert table["lower"].nunique() == 4
    # a fresh data set for each repeat
    hais = table[table["method"] == "hais"]["log_z"].to_numpy()
    assert abs(hais[0] - hais[1]) > 1e-3


@pytest.mark.slow
@pytest.mark.statistical
def test_own_method_is_held_against_the_bounds(model, seed):
    table = bidirectional_check(
        model, n_repeats=1, methods={"hais": "hais", "wrong": lambda model, random_seed: 50.0},
        n_levels=60, tune=30, random_seed=seed,
    )  # fmt: skip
    assert table.set_index("method").loc["wrong", "gap"] > 40.0


@pytest.mark.statistical
def test_simulated_data_allow_for_exact_values(seed):
    """Bounds against the formula for the very data; violated by 3 nats in exp(-3) at most."""
    x = np.linspace(-1, 2, 8)
    with pm.Model() as line:
        slope = pm.Normal("slope", 0.0, 2.0)
        pm.Normal("y", slope * x, 0.5, observed=np.zeros(8))
    table, simulated = bidirectional_check(
        line, n_repeats=2, n_levels=50, n_particles=50, tune=20, random_seed=seed,
        progressbar=False, return_simulated=True,
    )  # fmt: skip
    law = stats.multivariate_normal(np.zeros(8), 4.0 * np.outer(x, x) + 0.25 * np.eye(8))
    exact = np.array([law.logpdf(each.data["y"]) for each in simulated])
    assert abs(exact[0] - exact[1]) > 1e-3
    assert (np.abs(table["log_z"] - exact) < 0.3).all(), (table, exact)
    assert simulated[0].parameters["slope"].shape == ()


@pytest.mark.parametrize(
    ("name", "value"), [("n_samples", 3), ("draws", np.zeros(2)), ("transitions", "random_walk")]
)
def test_unknown_arguments_are_refused_before_any_data(name, value, model, monkeypatch):
    monkeypatch.setattr("pymc_tempering.annealing.bidirectional.simulate", None)
    with pytest.raises(OptionError, match=rf"\['{name}'\].*'n_repeats'.*'n_leapfrog'.*anneal"):
        bidirectional_check(model, **{name: value})


def test_simulated_data_replace_the_observed(model, rng):
    first, data, parameters = simulate(model, rng)
    second = simulate(model, rng).model
    values = [m.rvs_to_values[m["y"]].data for m in (model, first, second)]
    assert not np.array_equal(values[1], values[2])
    assert np.array_equal(values[0], np.zeros(8))
    assert np.array_equal(values[1], data["y"])
    assert set(parameters) == {"low", "high", "weight"}
    assert parameters["low"] < parameters["high"] < 2.0


def test_models_that_cannot_generate_data_are_refused():
    with pm.Model() as nothing_observed:
        pm.Normal("x")
    with pm.Model() as potential:
        x = pm.Normal("x")
        pm.Normal("y", x, observed=1.0)
        pm.Potential("p", -(x**2))
    with pm.Model() as flat:
        x = pm.Flat("x")
        pm.Normal("y", x, observed=1.0)
    with pm.Model() as no_random:
        x = pm.Normal("x")
        pm.CustomDist("y", x, logp=lambda value, mu: -((value - mu) ** 2), observed=1.0)
    refused = {"observed": nothing_observed, "potentials": potential, "flat": flat,
               "draw": no_random}  # fmt: skip
    for match, built in refused.items():
        with pytest.raises(ModelError, match=match):
            bidirectional_check(built, n_repeats=1)
