"""Flat variables that data see together alone are refused by name, others are sampled."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import ModelError
from pymc_tempering.model.improper import check_integrable
from pymc_tempering.model.point import PointMap

GROUP = np.array([0, 0, 1, 1, 2])
Y = np.array([0.3, -0.2, 1.1, 0.7, 2.4])


def level_and_effects():
    """All groups are seen: an effect more is a level less."""
    level, effect = pm.Flat("level"), pm.Flat("effect", shape=3)
    sd = pm.HalfNormal("sd", 1.0)
    pm.Normal("y", level + effect[GROUP], sd, observed=Y)


def product_of_scales():
    """Only a product is seen, of which logarithms are flat."""
    a, b = pm.Flat("a"), pm.Flat("b")
    pm.Poisson("y", pt.exp(2.0 * a - b), observed=3)


def two_pairs():
    a, c = pm.Flat("a", shape=2), pm.Flat("c", shape=2)
    pm.Normal("y", a + c, 1.0, observed=[1.0, 2.0])


REFUSED = {
    level_and_effects: "['level', 'effect']",
    product_of_scales: "['a', 'b']",
    two_pairs: "['a', 'c']",
}


def check(build):
    """Check a model as its compilation does, but with the Python code of its graph."""
    with pm.Model() as model:
        build()
    points = PointMap.from_model(model)
    function = model.logp_dlogp_function(ravel_inputs=True, mode="FAST_COMPILE")
    function.set_extra_values({})
    check_integrable(function, points, points.ravel(points.initial), model)


@pytest.mark.parametrize("build", REFUSED, ids=lambda build: build.__name__)
def test_flat_variables_seen_together_alone_are_refused_by_name(build):
    with pytest.raises(ModelError) as refusal:
        check(build)
    assert f"The variables {REFUSED[build]} are flat" in str(refusal.value)
    assert "improper" in str(refusal.value)


def test_nothing_is_sampled_of_a_model_without_an_integral():
    with pm.Model() as model:
        two_pairs()
    with pytest.raises(ModelError, match="are flat, and the log density stays the same"):
        pm_temper.estimate_logz(model, progressbar=False)


def effects_that_sum_to_zero():
    level, effect = pm.Flat("level"), pm.ZeroSumNormal("effect", shape=3)
    pm.Normal("y", level + effect[GROUP], 1.0, observed=Y)


def one_prior_is_proper():
    level, effect = pm.Flat("level"), pm.Normal("effect", 0.0, 1e3, shape=3)
    pm.Normal("y", level + effect[GROUP], 1.0, observed=Y)


def regression():
    b = pm.Flat("b", shape=3)
    x = np.random.default_rng(1).normal(size=(5, 3))
    # nearly the same predictor
    x[:, 2] = x[:, 1] + 1e-6 * x[:, 2]
    pm.Normal("y", x @ b, 1.0, observed=Y)


def density_with_a_hole():
    """No slope inside of a box, and no density outside: finite, though flat where it is."""
    x = pm.Flat("x", shape=2)
    pm.Potential("box", pt.switch(pt.all(pt.abs(x) < 5.0), 0.0 * x.sum(), -np.inf))


def one_flat_scale():
    level, scale = pm.Flat("level"), pm.HalfFlat("scale")
    pm.Normal("y", level, scale, observed=Y)


@pytest.mark.parametrize(
    "build",
    [
        effects_that_sum_to_zero,
        one_prior_is_proper,
        regression,
        density_with_a_hole,
        one_flat_scale,
    ],
    ids=lambda build: build.__name__,
)
def test_flat_variables_that_something_holds_are_not_refused(build):
    check(build)
