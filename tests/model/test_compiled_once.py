"""A model is compiled once in a process, and again whenever its density may be another."""

import gc
import weakref

import numpy as np
import pymc as pm
import pytensor
import pytest

from pymc_tempering.model import compile as module
from pymc_tempering.model.compile import compile_density

START = np.array([1.0, 2.0])


def build():
    with pm.Model(coords={"i": ["a", "b"]}) as model:
        x = pm.Data("x", np.array([0.5, -1.0]))
        a = pm.Normal("a", 1.0, 2.0, dims="i", initval=START.copy())
        sigma = pm.HalfNormal("sigma", 1.5, initval=1.0)
        pm.Normal("y", a * x, sigma, observed=np.array([0.3, -0.8]))
    return model


@pytest.fixture
def original():
    """A model and its density; tests change copies of it, or change it back."""
    model = build()
    return model, compile_density(model)


def exact(model, density, z):
    return float(model.compile_logp(mode="FAST_COMPILE")(density.points.unravel(z)))


def set_data(model):
    model.set_data("x", np.array([2.0, 3.0]))


def add_variable(model):
    with model:
        pm.Normal("more", 0.0, 1.0)


def add_potential(model):
    with model:
        pm.Potential("penalty", -(model["sigma"] ** 2))


def add_observation(model):
    with model:
        pm.Normal("y2", model["sigma"], 1.0, observed=0.3)


def remove_potential(model):
    add_potential(model)
    compile_density(model)
    model.potentials.clear()


def other_start(model):
    model.rvs_to_initial_values[model["sigma"]] = 3.0


def other_start_in_place(model):
    [values] = [v for v in model.rvs_to_initial_values.values() if np.shape(v) == (2,)]
    values[:] = 7.0


def no_bounds(model):
    model.check_bounds = False


CHANGES = [
    set_data, add_variable, add_potential, add_observation, remove_potential, other_start,
    other_start_in_place, no_bounds,
]  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_compiled_again_after_a_change(change, rng):
    model = build()
    before = compile_density(model)
    change(model)
    after = compile_density(model)
    if change is remove_potential:
        z = before.start
        assert after.value_and_grad(z)[0] == before.value_and_grad(z)[0]
    assert after is not before
    assert compile_density(model) is after
    assert after.model.check_bounds == model.check_bounds
    np.testing.assert_array_equal(after.start, after.points.ravel(model.initial_point()))
    z = after.start + rng.uniform(-0.5, 0.5, after.dim)
    assert after.value_and_grad(z)[0] == pytest.approx(exact(model, after, z), rel=1e-10)


def test_the_same_object_while_nothing_changes(original, monkeypatch):
    model, density = original
    monkeypatch.setattr(module, "_compile", None)
    assert compile_density(model) is density
    with model:
        assert compile_density(model) is density
        pm.Deterministic("of_no_concern", model["a"] * 2.0)
    # data set to what they were
    model.set_data("x", np.array([0.5, -1.0]))
    assert compile_density(model) is density


def test_another_precision_is_another_density(original):
    model, density = original
    with pytensor.config.change_flags(floatX="float32"):
        assert compile_density(model) is not density
    again = compile_density(model)
    assert again.value_and_grad(again.start)[0] == density.value_and_grad(density.start)[0]


@pytest.mark.slow
def test_products_in_single_precision_are_machine_code():
    """Of a matrix of floats and the flat vector, which is of doubles."""
    x = np.arange(6.0, dtype="float32").reshape(3, 2)
    with pytensor.config.change_flags(floatX="float32"), pm.Model() as model:
        b = pm.Normal("b", shape=2)
        pm.Normal("y", x @ b, 2.0, observed=np.zeros(3, dtype="float32"))
        density = compile_density(model)
        z = np.array([0.3, -0.7])
        value, gradient = density.value_and_grad(z)
    log_density = -0.5 * (z @ z + ((x @ z) ** 2).sum() / 4.0) - 2.5 * np.log(2.0 * np.pi)
    assert value == pytest.approx(log_density - 3.0 * np.log(2.0), rel=1e-5)
    assert gradient == pytest.approx(-z - x.T @ (x @ z) / 4.0, rel=1e-5)
    assert not density.calls_python


def test_models_alike_do_not_share_a_density(original):
    model, density = original
    other = build()
    assert compile_density(other) is not density
    assert compile_density(model) is density


def test_models_and_densities_can_be_collected():
    model = build()
    density = compile_density(model)
    seen = weakref.ref(model)
    del model
    gc.collect()
    assert seen() is None
    # a density outlives its model, whose code it keeps
    assert np.isfinite(density.value_and_grad(density.start)[0])
    seen, n_known = weakref.ref(density), len(module._compiled)
    del density
    gc.collect()
    assert seen() is None
    assert len(module._compiled) == n_known


def test_shared_variables_that_the_model_does_not_know():
    """They are constants of the density, and a change of their values is noticed."""
    offset = pytensor.shared(np.array(1.0), name="offset")
    with pm.Model() as model:
        pm.Normal("x", offset, 2.0)
    first = compile_density(model)
    assert compile_density(model) is first
    z = np.array([0.3])
    value = first.value_and_grad(z)[0]
    assert value == pytest.approx(exact(model, first, z))
    offset.set_value(np.array(3.0))
    assert first.value_and_grad(z)[0] == value
    second = compile_density(model)
    assert second.value_and_grad(z)[0] == pytest.approx(exact(model, second, z))
    assert second.value_and_grad(z)[0] != value
