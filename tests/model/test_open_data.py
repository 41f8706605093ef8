"""One compiled density for many data sets: the right one for each, and none changes afterwards."""

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

from pymc_tempering.errors import ModelError
from pymc_tempering.model import open_data as module
from pymc_tempering.model.compile import compile_density, keep_density
from pymc_tempering.model.graph import in_python
from pymc_tempering.model.open_data import OpenDensity, with_observed

Z = np.array([0.3, -0.7])


@pytest.fixture(scope="module")
def model():
    """Counts, a matrix and a number, each observed."""
    with pm.Model() as model:
        rate = pm.HalfNormal("rate", 1.5)
        level = pm.Normal("level", 0.2, 1.0)
        values = {
            "count": pm.Data("values of count", np.array([3, 0, 2])),
            "table": pm.Data("values of table", np.array([[0.1, -1.0], [0.4, 2.0]])),
            "number": pm.Data("values of number", np.array(0.7)),
        }
        pm.Poisson("count", rate, observed=values["count"])
        pm.Normal("table", level * np.array([1.0, 3.0]), 0.8, observed=values["table"])
        pm.Normal("number", level + rate, 2.0, observed=values["number"])
    return model


@pytest.fixture(scope="module")
def opened(model):
    return OpenDensity(model)


def change(model, rng):
    model.set_data("values of count", rng.poisson(4.0, size=3))
    model.set_data("values of table", rng.normal(size=(2, 2)))
    model.set_data("values of number", rng.normal())


def exact(model, density):
    """Log density and gradient by PyMC, interpreted: nothing is compiled for it."""
    point = density.points.unravel(Z)
    with in_python():
        value = model.compile_logp(mode="FAST_COMPILE")(point)
        return float(value), model.compile_dlogp(mode="FAST_COMPILE")(point)


def test_each_data_set_has_its_density(model, opened, rng):
    known = []
    for _ in range(3):
        change(model, rng)
        density = opened.at(model)
        value, gradient = density.value_and_grad(Z)
        exact_value, exact_gradient = exact(model, density)
        assert value == pytest.approx(exact_value, rel=1e-12)
        np.testing.assert_allclose(gradient, exact_gradient, rtol=1e-10)
        known.append((density, value, gradient))
    assert len({value for _, value, _ in known}) == 3
    for density, value, gradient in known:
        again = density.value_and_grad(Z)
        assert again[0] == value
        np.testing.assert_array_equal(again[1], gradient)


def test_another_process_gets_the_same_data(model, opened, rng):
    density = opened.at(model)
    value, _ = density.value_and_grad(Z)
    copied = cloudpickle.dumps(density)
    change(model, rng)
    # to the last digit: the same code, in which data are no constants
    assert cloudpickle.loads(copied).value_and_grad(Z)[0] == value


def test_a_kept_density_is_given_until_the_data_change(model, opened, rng):
    density = opened.at(model)
    keep_density(model, density)
    assert compile_density(model) is density
    model.set_data("values of number", 9.0)
    changed = compile_density(model)
    assert changed is not density
    assert changed.value_and_grad(Z)[0] == pytest.approx(exact(model, changed)[0], rel=1e-12)


def test_models_that_call_python_are_compiled_anew(model, monkeypatch, rng):
    monkeypatch.setattr(module, "graph_key", lambda inner: None)
    opened = OpenDensity(model)
    change(model, rng)
    density = opened.at(model)
    assert density.value_and_grad(Z)[0] == pytest.approx(exact(model, density)[0], rel=1e-12)


def test_equal_constants_are_not_taken_for_each_other():
    """Data may begin as what else stands in the model: other data, covariates, a length."""

    def build(first, second):
        with pm.Model() as model:
            place = pm.Normal("place", 0.2, 1.5, shape=2)
            pm.Normal("first", place * np.array([1.0, 2.0]), 0.7, observed=first)
            pm.Normal("second", place, 1.1, observed=second)
            pm.Poisson("count", pm.math.exp(place[:1]), observed=np.array([1]))
        return model

    same, other = np.array([1.0, 2.0]), np.array([0.4, -3.0])
    filled = OpenDensity(build(same, same)).refillable()
    for first, second in ((same, same), (same, other), (other, same)):
        filled.fill({"first": first, "second": second})
        expected = exact(build(first, second), filled.density)
        found = filled.density.value_and_grad(Z)
        assert found[0] == pytest.approx(expected[0], rel=1e-12)
        np.testing.assert_allclose(found[1], expected[1], rtol=1e-12)


def test_data_are_written_over(model, opened, rng):
    filled = OpenDensity(model).refillable()
    for _ in range(3):
        change(model, rng)
        filled.fill({
            "count": model["values of count"].get_value(),
            "table": model["values of table"].get_value(),
            "number": model["values of number"].get_value(),
        })  # fmt: skip
        expected = opened.at(model).value_and_grad(Z)
        value, gradient = filled.density.value_and_grad(Z)
        assert value == expected[0]
        np.testing.assert_array_equal(gradient, expected[1])


def test_data_of_another_shape_or_type_are_not_written(model):
    filled = OpenDensity(model).refillable()
    with pytest.raises(ValueError, match="'table' is float64 of shape"):
        filled.fill({"table": np.zeros((2, 3))})
    with pytest.raises(ValueError, match="'count' is float64"):
        filled.fill({"count": np.zeros(3)})
    with pytest.raises(TypeError, match="cannot be sent"):
        cloudpickle.loads(cloudpickle.dumps(filled.density))


def test_covariates_can_be_open_too():
    with pm.Model() as model:
        place = pm.Data("place", np.array([1.0, -1.0]))
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Normal("y", slope * place, 1.0, observed=np.zeros(2))
    filled = OpenDensity(model, ["place"]).refillable()
    filled.fill({"place": np.array([2.0, 3.0])})
    model.set_data("place", [2.0, 3.0])
    point = np.array([0.4])
    expected = model.compile_logp(mode="FAST_COMPILE")({"slope": point[0]})
    assert filled.density.value_and_grad(point)[0] == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kind", ["bernoulli", "normal", "mixture", "vectors"])
def test_data_of_any_length(kind, rng):
    """Covariates and observed values together, whatever length the model was written with."""

    def build(place, y, make=None):
        with pm.Model(coords={"group": range(2)}) as model:
            place = pm.Data("place", place, dims="row")
            slope = pm.Normal("slope", 0.0, 1.0, dims="group")
            line = slope[0] + slope[1] * place
            scale = pm.math.sqrt(place.shape[0] / 3.0)
            if kind == "bernoulli":
                pm.Bernoulli("y", logit_p=line * scale, observed=y)
            elif kind == "normal":
                pm.Normal("y", line, scale, observed=y, dims="row")
            elif kind == "mixture":
                parts = [pm.Normal.dist(slope[k], 1.0) for k in range(2)]
                pm.Mixture("y", [0.3, 0.7], parts, observed=y)
                pm.Potential("scale", -(line**2).sum())
            else:
                pm.MvNormal("y", slope * scale, np.eye(2), observed=y)
        return model

    def data(n):
        shape = (n, 2) if kind == "vectors" else n
        y = rng.normal(size=shape)
        if kind == "bernoulli":
            # as `pm.Data` keeps whole numbers
            y = (y > 0.0).astype(np.int32)
        return {"place": rng.normal(size=n), "y": y}

    first = data(3)
    model = build(**first)
    opened = OpenDensity(
        with_observed(model, lambda _, old: pm.Data("values", first["y"]).astype(old.dtype), ["y"]),
        ["place", "y"], ["place", "values"],
    )  # fmt: skip
    filled = opened.refillable()
    for n in (3, 7, 1, 3):
        values = data(n)
        filled.fill(values)
        value, gradient = filled.density.value_and_grad(Z)
        exact_value, exact_gradient = exact(build(**values), filled.density)
        assert value == pytest.approx(exact_value, rel=1e-12)
        np.testing.assert_allclose(gradient, exact_gradient, rtol=1e-10)


def growing(n, rng, scale=1.0):
    """Rows of constants and of `pm.Data`, with labels; ``scale`` may be written down by number."""
    with pm.Model(coords={"row": range(n)}) as model:
        place = pm.Data("place", rng.normal(size=(n, 2)), dims=("row", "of place"))
        slopes = pm.Normal("slopes", 0.0, 1.0, shape=2)
        pm.Normal("y", place @ slopes, scale, observed=rng.normal(size=n), dims="row")
        pm.Poisson("count", pm.math.exp(place @ slopes), observed=rng.poisson(2.0, size=n))
    return model


def test_rows_can_grow(rng):
    names = ["place", "y", "count"]
    opened = OpenDensity(growing(5, rng), names, growing=True)
    for n in (5, 8, 3):
        model = growing(n, rng)
        density = opened.at(model)
        value, gradient = density.value_and_grad(Z)
        exact_value, exact_gradient = exact(model, density)
        assert value == pytest.approx(exact_value, rel=1e-12)
        np.testing.assert_allclose(gradient, exact_gradient, rtol=1e-10)
        # a density that was compiled for this number of rows alone has other things to keep
        assert opened._core in density._keep_alive


def test_a_number_of_rows_that_is_written_down_is_noticed(rng):
    opened = OpenDensity(growing(5, rng, 5.0), ["place", "y", "count"], growing=True)
    model = growing(8, rng, 8.0)
    density = opened.at(model)
    assert density.value_and_grad(Z)[0] == pytest.approx(exact(model, density)[0], rel=1e-12)


@pytest.mark.parametrize("first", [np.array([0.5, -1.0]), np.zeros(2)])
def test_what_is_computed_from_data_is_computed_anew(first):
    """PyMC computes with constants while it writes the density down: no part may stay the first."""

    def build(dose, number):
        with pm.Model() as model:
            given, n = pm.Data("dose", dose), pm.Data("number", number)
            slope = pm.Normal("slope", n, pm.math.exp(given[0]))
            mean = slope * given**2 + given - given.mean() + pt.arange(n).sum()
            pm.Normal("y", mean, 1.0, observed=given - given.mean())
            pm.Potential("other", -pt.sqr(slope - n * given.sum()))
        return model

    filled = OpenDensity(build(first, 3.0), ["dose", "number"]).refillable()
    point = np.array([0.4])
    for dose, number in ((first, 3.0), (np.array([2.0, -0.3]), 3.0), (np.array([0.1, 0.7]), 5.0)):
        filled.fill({"dose": dose, "number": np.array(number)})
        value, gradient = filled.density.value_and_grad(point)
        with in_python():
            model = build(dose, number)
            expected = model.compile_logp(mode="FAST_COMPILE")({"slope": 0.4})
            expected_gradient = model.compile_dlogp(mode="FAST_COMPILE")({"slope": 0.4})
        assert value == pytest.approx(float(expected), rel=1e-12)
        np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-10)


@pytest.mark.parametrize("wrong", [3, -4])
def test_indices_out_of_range_are_refused(wrong):
    """Compiled code would read, and for the gradient write, what lies beside the array."""
    with pm.Model() as model:
        group, one = pm.Data("group", np.array([0, 1, 2])), pm.Data("one", np.array(1))
        level = pm.Normal("level", 0.0, 1.0, shape=3)
        pm.Normal("y", level[group] + level[one], 1.0, observed=np.zeros(3))
    opened = OpenDensity(model, ["group", "one"])
    filled = opened.refillable()
    for name, values in (("group", np.array([0, wrong, 1])), ("one", np.array(wrong))):
        with pytest.raises(ModelError, match=f"out of range: 'level': index {wrong} is out of"):
            filled.fill({name: values.astype(np.int32)})
        filled.fill({"group": np.array([0, -1, 2], np.int32), "one": np.array(1, np.int32)})
        assert np.isfinite(filled.density.value_and_grad(np.zeros(3))[0])
    for build in (opened.at, compile_density):
        model.set_data("group", [0, wrong, 1])
        with pytest.raises(ModelError, match="out of range"):
            build(model)


def test_a_start_that_was_chosen_stays():
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, initval=0.5)
        pm.Normal("y", x, 1.0, observed=np.zeros(2))
    copy = with_observed(model, lambda name, old: pm.Data("values", old.data))
    assert copy.initial_point(random_seed=0) == {"x": 0.5}
    assert OpenDensity(copy, ["y"]).refillable().density.start == 0.5
