"""Flat vector and named values."""

import numpy as np
import pymc as pm
import pytensor

import pymc_tempering as pm_temper
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.open_data import with_observed
from pymc_tempering.model.point import PointMap


def test_round_trip(rng):
    with pm.Model() as model:
        pm.Normal("b", shape=(2, 3))
        pm.HalfNormal("a")
        pm.Dirichlet("w", np.ones(4))
    points = PointMap.from_model(model)
    assert points.names == ("b", "a_log__", "w_simplex__")
    assert points.shapes == ((2, 3), (), (3,))
    assert points.dim == 10
    z = rng.normal(size=10)
    named = points.unravel(z)
    assert {name: value.shape for name, value in named.items()} == dict(
        zip(points.names, points.shapes, strict=True)
    )
    np.testing.assert_array_equal(named["b"], z[:6].reshape(2, 3))
    np.testing.assert_array_equal(points.ravel(named), z)
    # the order of a point given does not matter, nor what else is in it
    shuffled = {"other": np.ones(5)} | dict(reversed(list(named.items())))
    np.testing.assert_array_equal(points.ravel(shuffled), z)
    named["b"][0, 0] = 99.0
    assert z[0] != 99.0


def test_no_compiler_runs_for_the_initial_point(monkeypatch):
    """That of a series is computed by a loop, which is a graph inside of an Op."""
    with pm.Model() as model:
        pm.AR("x", [0.5, 0.3], sigma=0.7, init_dist=pm.Normal.dist(0.4, 1.0), steps=3)
    compilers, initial_point = [], pm.Model.initial_point

    def noted(self, **options):
        compilers.append(pytensor.config.cxx)
        return initial_point(self, **options)

    expected = model.initial_point(random_seed=0)
    monkeypatch.setattr(pm.Model, "initial_point", noted)
    np.testing.assert_array_equal(PointMap.from_model(model).initial["x"], expected["x"])
    assert compilers == [""]


def test_order_is_that_of_the_model():
    """PyMC gives copies another one, in which a base of the user's would be of others."""
    with pm.Model() as model:
        pm.Normal("x", 5.0, 0.1)
        pm.HalfNormal("s")
        pm.Normal("b", np.array([-7.0, 12.0]), 0.1, shape=2)
        pm.Normal("y", 0.0, 10.0, observed=np.zeros(3))
    observing = with_observed(model, lambda _, old: old)
    assert [v.name for v in observing.free_RVs] == ["x", "s", "b"]
    assert compile_density(model).points.names == ("x", "s_log__", "b")
    mean = pm_temper.fit_base(model, random_seed=1).mean
    np.testing.assert_allclose(mean[[0, 2, 3]], [5.0, -7.0, 12.0], atol=0.05)
