"""Structures of models that are known by hand, and what is said where there is none."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from black_box import Blind, Quadratic, black_box

import pymc_tempering as pm_temper
from pymc_tempering.errors import ModelError, OptionError
from pymc_tempering.model import structure as module

# of few values, which take less than to compile the model
interpreted = pytest.mark.usefixtures("interpreted")


def schools(model):
    """Pupils of six schools in two districts, of unequal numbers, with a covariate."""
    school = np.repeat(np.arange(6), [1, 4, 2, 3, 5, 2])
    x = np.random.default_rng(3).normal(size=school.size) * (school != 2)
    district = np.array([0, 0, 0, 0, 1, 1])
    with model:
        tau, slope = pm.HalfNormal("tau", 1.0), pm.Normal("slope", 0.0, 1.0)
        of_district = pm.Normal("of_district", 0.0, 2.0, shape=2)
        effect = pm.Normal("effect", of_district[district], tau, shape=6)
        pm.Normal("y", effect[school] + slope * x, 0.7, observed=np.linspace(-1, 2, school.size))
    return model


def series(order):
    """A chain in which each value depends on some before it."""
    with pm.Model() as model:
        rho = np.array([0.5, 0.3])[:order]
        x = pm.AR("x", rho, sigma=1.0, init_dist=pm.Normal.dist(0, 1), steps=90)
        pm.Poisson("y", pm.math.exp(x), observed=np.arange(90 + order) % 3)
    return model


@interpreted
def test_a_hierarchy_is_as_it_was_written():
    """Given the scale all others are normal: slope and districts are locals that many depend on."""
    found = pm_temper.structure(schools(pm.Model()))
    assert found.names == ("tau", "slope", "of_district", "effect")
    assert found.sizes == (1, 1, 2, 6)
    assert found.n_globals == (1, 0, 0, 0)
    # five schools have the covariate, and the larger district four schools
    expected = [[0, 0, 2, 6], [0, 0, 0, 5], [1, 0, 0, 4], [1, 1, 1, 0]]
    assert found.n_neighbours.tolist() == expected
    bends = [[1, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]]
    assert found.bends.astype(int).tolist() == bends
    assert (found.kind, found.width, found.n_directions, found.n_hubs) == ("diagonal", 1, 4, 3)
    assert found.unread == ""


@interpreted
def test_it_prints_as_a_table():
    found = pm_temper.structure(schools(pm.Model()))
    table = found.to_dataframe()
    assert table.loc["effect"].tolist() == [6, 0, "tau, slope, of_district", "tau"]
    lines = repr(found).splitlines()
    assert lines[0] == "10 values: 1 globals, 9 locals"
    assert lines[1].split() == ["variable", "values", "globals", "depends", "on", "bends", "with"]
    assert lines[4].split() == ["of_district", "2", "0", "tau,", "effect", "tau"]
    assert lines[-2] == "Given the globals and 3 hubs, the locals are independent."
    assert lines[-1] == "Directions that show their Hessian: 4"
    assert max(map(len, lines)) <= 88


@interpreted
def test_what_only_long_lengths_have_in_common_is_seen():
    """With a length as at the start values share less than rounding."""
    squares = np.subtract.outer(16.0 * np.arange(3), 16.0 * np.arange(3)) ** 2
    with pm.Model():
        length, z = pm.LogNormal("length"), pm.Normal("z", shape=3)
        root = pt.linalg.cholesky(pt.exp(-0.5 * squares / length**2) + 1e-4 * np.eye(3))
        pm.Poisson("y", pt.exp(pt.dot(root, z)), observed=[3, 0, 7])
        found = pm_temper.structure()
    assert found.n_neighbours[1, 1] == 2


@interpreted
def test_a_curved_mean_bends_and_a_straight_one_does_not():
    with pm.Model() as model:
        x = pm.Normal("x", 0.4, 1.0)
        pm.Normal("curved", x**2, 1.0)
        pm.Normal("straight", 3.0 * x, 0.5)
    found = pm_temper.structure(model)
    assert found.bends.astype(int).tolist() == [[1, 1, 0], [1, 0, 0], [0, 0, 0]]
    assert found.n_neighbours.tolist() == [[0, 1, 1], [1, 0, 0], [1, 0, 0]]


@interpreted
def test_a_product_bends_both_ways():
    """Given the other each factor is Gaussian, and its scale changes."""
    with pm.Model() as model:
        a, b = pm.Normal("a", 1.0, 1.0, shape=3), pm.Normal("b", 2.0, 1.0, shape=4)
        pm.Normal("y", a[:, None] * b, 0.5, observed=np.ones((3, 4)))
    found = pm_temper.structure(model)
    assert found.bends.astype(int).tolist() == [[0, 1], [1, 0]]
    assert found.n_neighbours.tolist() == [[0, 4], [3, 0]]


@interpreted
def test_two_effects_of_a_group_are_a_group():
    with pm.Model() as model:
        sds = pm.HalfNormal("sds", 1.0, shape=2)
        a, b = (pm.Normal(name, 0.0, sds[i], shape=7) for i, name in enumerate("ab"))
        pm.Poisson(
            "y", pm.math.exp(a + b * np.arange(3.0)[:, None]), observed=np.eye(3, 7, dtype=int)
        )
    found = pm_temper.structure(model)
    assert found.n_globals == (2, 0, 0)
    assert (found.kind, found.width, found.n_directions) == ("grouped", 2, 2)


@pytest.mark.parametrize("order", [1, 2])
def test_a_chain_has_a_band(order):
    found = pm_temper.structure(series(order))
    assert found.n_globals == (0,)
    assert (found.kind, found.width, found.n_directions) == ("banded", order, 2 * order + 1)


@interpreted
def test_a_chain_with_a_global_has_one_too():
    with pm.Model() as model:
        sd = pm.HalfNormal("sd", 1.0)
        x = pm.GaussianRandomWalk("x", sigma=sd, init_dist=pm.Normal.dist(0, 1), steps=20)
        pm.Poisson("y", pm.math.exp(x), observed=np.arange(21) % 3)
    found = pm_temper.structure(model)
    assert found.n_globals == (1, 0)
    assert (found.kind, found.width, found.n_directions) == ("banded", 1, 3)


def test_the_order_in_which_values_are_written_does_not_matter():
    """Of a band that is not seen in the model's own order."""
    mixed = np.random.default_rng(5).permutation(90)
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=90)
        pm.Potential("steps", -((x[mixed][1:] - x[mixed][:-1]) ** 2).sum())
    found = pm_temper.structure(model)
    assert (found.kind, found.width) == ("banded", 1)
    assert 3 <= found.n_directions <= 5


def test_neighbours_on_a_map_are_sparse():
    side = 12
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=(side, side))
        pm.Potential("steps", -((x[1:] - x[:-1]) ** 2).sum() - ((x[:, 1:] - x[:, :-1]) ** 2).sum())
    found = pm_temper.structure(model)
    assert (found.kind, found.width) == ("sparse", 4)
    assert 5 <= found.n_directions < 20


@interpreted
def test_neighbours_are_sparse_under_a_constraint_on_their_sum():
    """Areas that branch in two, and an effect of each alone."""
    n_areas = 15
    near = np.zeros((n_areas, n_areas))
    for area in range(1, n_areas):
        near[area, (area - 1) // 2] = near[(area - 1) // 2, area] = 1.0
    with pm.Model() as model:
        sd, own = pm.HalfNormal("sd", 1.0), pm.Normal("own", 0.0, 1.0, shape=n_areas)
        shared = pm.ICAR("shared", W=near)
        pm.Poisson("y", pm.math.exp(own + sd * shared), observed=np.arange(n_areas))
    found = pm_temper.structure(model)
    assert found.summed == "shared"
    assert found.n_globals == (1, 0, 0)
    assert found.n_neighbours.tolist() == [[0, 15, 15], [1, 0, 1], [1, 1, 3]]
    assert (found.kind, found.width) == ("sparse", 4)
    assert found.n_directions < 9
    assert "All values of shared depend on their sum, too." in repr(found)
    texts = [text.get_text() for text in pm_temper.plot_structure(found).texts]
    assert texts.count("3\n+ sum") == 1
    assert sum("sum" in text for text in texts) == 1


@interpreted
def test_a_regression_is_dense():
    x = np.random.default_rng(7).normal(size=(30, 5))
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0.0, 1.0, shape=5)
        pm.Bernoulli("y", logit_p=pt.dot(x, slopes), observed=x[:, 0] > 0)
    found = pm_temper.structure(model)
    assert (found.kind, found.width, found.n_directions) == ("dense", 5, 5)
    assert found.n_globals == (0,)
    assert found.n_neighbours.tolist() == [[4]]
    assert found.unread == ""


@pytest.mark.parametrize("op", [Blind, Quadratic])
def test_what_cannot_be_read_is_dense_and_says_so(op):
    found = pm_temper.structure(black_box(op=op))
    assert (found.kind, found.width, found.n_globals) == ("dense", 2, (0,))
    assert found.n_neighbours.tolist() == [[1]]
    assert found.bends.all()
    assert repr(found).startswith("The structure cannot be read, and is treated as dense: ")


@interpreted
def test_too_many_values_are_dense(monkeypatch):
    monkeypatch.setattr(module, "MOST_DIM", 9)
    found = pm_temper.structure(schools(pm.Model()))
    assert found.n_neighbours[2].tolist() == [1, 1, 1, 6]
    assert "10 values are too many" in repr(found)


@interpreted
def test_a_model_is_asked_for():
    with schools(pm.Model()) as model:
        assert repr(pm_temper.structure()) == repr(pm_temper.structure(model))
    with pytest.raises(OptionError, match="expected a pymc"):
        pm_temper.structure("model")
    with pm.Model() as counts:
        pm.Poisson("n", 3.0)
    with pytest.raises(ModelError, match="n"):
        pm_temper.structure(counts)
