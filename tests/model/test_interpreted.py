"""What is evaluated a few times runs no compiler, not even for graphs inside of Ops."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pymc.pytensorf import compile as pymc_compile
from pytensor.compile.builders import OpFromGraph
from pytensor.link.c.op import COp

from pymc_tempering.model.at_draws import constrained_model, evaluate
from pymc_tempering.model.freeze import points_of
from pymc_tempering.model.graph import density_graph, in_python, interpreted


@pytest.fixture
def no_c_code(monkeypatch):
    def refuse(*_):
        raise AssertionError("C code")

    monkeypatch.setattr("pytensor.link.c.op.COp.make_c_thunk", refuse)


def graph_in_an_op():
    x = pt.vector()
    return x, OpFromGraph([x], [pt.exp(x).sum() - x[0]])(x)


def test_graphs_inside_of_ops_are_interpreted_too(no_c_code):
    x, total = graph_in_an_op()
    assert interpreted([x], total)(np.array([0.5, -1.0])) == pytest.approx(1.516600712)


def test_the_mode_alone_would_not_do(no_c_code):
    """Once it does, the context is for nothing."""
    x, total = graph_in_an_op()
    with pytest.raises(AssertionError, match="C code"):
        pymc_compile([x], total, mode="FAST_COMPILE")


def test_densities_and_draws_of_simplexes_and_mixtures(no_c_code):
    with pm.Model() as model:
        weight = pm.Dirichlet("weight", [1.0, 2.0])
        y = pm.NormalMixture("y", weight, [0.0, 1.0], 0.5)
    constrained = constrained_model(model)
    with in_python():
        drawn = pm.draw([weight, y], draws=3, random_seed=1, mode="FAST_COMPILE")
    draws = dict(zip(("weight", "y"), drawn, strict=True))
    (values,) = evaluate(constrained, [constrained.varlogp], draws)
    parts = draws["weight"] * np.exp(-2 * (draws["y"][:, None] - [0.0, 1.0]) ** 2)
    exact = np.log(2 * draws["weight"][:, 1] * parts.sum(axis=1) / np.sqrt(0.5 * np.pi))
    np.testing.assert_allclose(values, exact)


def test_what_is_constant_in_a_density(monkeypatch):
    """As the root of a diagonal covariance: what is computed once is not worth a compiler."""
    asked, make = [], COp.make_c_thunk
    monkeypatch.setattr(COp, "make_c_thunk", lambda *given: asked.append(given) or make(*given))
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.MvNormal("y", x, np.diag([1.0, 4.0]), observed=np.ones((3, 2)))
    points = points_of(model)
    asked.clear()
    graph = density_graph(model, points, model.logp())
    assert asked == []
    value, gradient = interpreted([graph.z], [graph.log_density, graph.gradient])(np.zeros(2))
    assert value == pytest.approx(-3 * (0.625 + np.log(2.0)) - 4 * np.log(2 * np.pi))
    np.testing.assert_allclose(gradient, [3.0, 0.75])
