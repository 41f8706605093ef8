"""Draws with labels in one order: copies of a mode become one, and nothing else does."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering.diagnostics.copies import in_one_order
from pymc_tempering.diagnostics.modes import find_modes
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.errors import ModelError, OptionError, TemperingWarning
from pymc_tempering.model.at_draws import unconstrained_draws
from pymc_tempering.model.compile import density_at_hand

pytestmark = pytest.mark.usefixtures("interpreted")
N = 150
"""Draws of each of four chains."""

PLACES = np.array([[-4.0, 0.0, 5.0], [-4.0, 3.0, 3.4]])
"""Of three components, in two modes that are no copies of each other."""

SHARES = np.array([0.2, 0.3, 0.5])


def mixture():
    """Three components, and a coefficient that has no label."""
    with pm.Model(coords={"component": range(3)}) as model:
        place = pm.Normal("place", 0.0, 4.0, dims="component")
        share = pm.Dirichlet("share", np.ones(3), dims="component")
        slope = pm.Normal("slope")
        x = np.linspace(-1.0, 1.0, 7)
        pm.NormalMixture("y", share, place + slope * x[:, None], 1.0, observed=5.0 * x)
        pm.Deterministic("total", (place * share).sum())
        pm.Deterministic("square", place**2, dims="component")
    return model


def draws(rng, orders):
    """Draws of the two modes, labels in an order drawn from `orders`; the mode of each."""
    second = rng.random((4, N)) < 0.3
    place = PLACES[second.astype(int)] + 0.3 * rng.normal(size=(4, N, 3))
    share = SHARES * np.exp(0.05 * rng.normal(size=(4, N, 3)))
    share /= share.sum(axis=-1, keepdims=True)
    order = np.array(orders)[rng.integers(len(orders), size=(4, N))]
    place, share = (np.take_along_axis(x, order, axis=-1) for x in (place, share))
    dims = ("chain", "draw", "component")
    values = xr.Dataset(
        {
            "place": (dims, place),
            "share": (dims, share),
            "slope": (dims[:2], rng.normal(size=(4, N))),
            "total": (dims[:2], (place * share).sum(axis=-1)),
            "square": (dims, place**2),
        },
        coords={"chain": range(4), "draw": range(N), "component": list("abc")},
    )
    return xr.DataTree.from_dict({"posterior": values}), second


ALL = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]]


@pytest.mark.parametrize("orders", [ALL, ALL[1:3], ALL[:1]], ids=["all", "two", "one"])
def test_copies_of_a_mode_are_one_and_other_modes_stay_others(rng, orders):
    idata, second = draws(rng, orders)
    model = mixture()
    found = pm_temper.modes(idata, model=model)
    assert len(found) == 2
    np.testing.assert_array_equal(found.dataset["mode_of_draw"], second + 1)
    assert found.draws.attrs == {"n_orders": 6, "exchanged": ["place", "share"]}
    assert "6 orders of the labels of place, share" in repr(found)
    for mode, places in enumerate(PLACES):
        by_place = np.argsort(found.mean["place"][mode].values)
        # 180 draws at least: five standard errors
        np.testing.assert_allclose(found.mean["place"][mode][by_place], places, atol=0.15)
        np.testing.assert_allclose(found.mean["share"][mode][by_place], SHARES, atol=0.02)
    assert found.sd["place"].max() < 0.45


def test_draws_are_images_of_those_given(rng):
    """The same density, values and deterministics; and what has no label stays as it is."""
    idata, _ = draws(rng, ALL)
    model = mixture()
    moved = pm_temper.modes(idata, model=model).draws
    given = idata["posterior"].dataset
    assert moved["place"].dims == given["place"].dims
    assert moved["place"].coords["component"].values.tolist() == list("abc")
    for name in ("place", "share", "square"):
        np.testing.assert_allclose(np.sort(moved[name]), np.sort(given[name]), rtol=1e-12)
        assert (np.abs(moved[name] - given[name]).max("component") > 1e-3).mean() > 0.5
    for name in ("slope", "total"):
        np.testing.assert_allclose(moved[name], given[name], rtol=1e-12)
    np.testing.assert_allclose(moved["square"], moved["place"] ** 2, rtol=1e-12)
    density = density_at_hand(model)
    both = [
        [density.value_and_grad(z)[0] for z in unconstrained_draws(tree, density)[:20]]
        for tree in (idata, xr.DataTree.from_dict({"posterior": moved}))
    ]
    np.testing.assert_allclose(both[0], both[1], rtol=1e-10)


def test_overlapping_orders_are_one_mode(rng):
    """Two components whose places overlap: without the model the draws warn."""
    with pm.Model() as model:
        place = pm.Normal("place", 0.0, 4.0, shape=3)
        pm.NormalMixture("y", np.ones(3) / 3, place, 1.0, observed=[0.0, 1.0, 5.0])
    place = np.array([-5.0, 0.6, 1.5]) + 0.45 * rng.normal(size=(4, 400, 3))
    place = rng.permuted(place, axis=-1)
    idata = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"place": (("chain", "draw", "label"), place)})}
    )
    with pytest.warns(TemperingWarning, match="Pass `model=`"):
        assert 1 < len(pm_temper.modes(idata)) < 6
    found = pm_temper.modes(idata, model=model)
    assert len(found) == 1
    # of the smaller and the larger of two, where they overlap
    ordered = np.sort(place, axis=-1).reshape(-1, 3)
    np.testing.assert_allclose(np.sort(found.mean["place"][0]), ordered.mean(axis=0), atol=0.15)


def test_a_model_without_exchanges_changes_nothing(rng):
    with pm.Model() as model:
        place = pm.Normal("place", [0.0, 1.0], 4.0, shape=2)
        pm.Normal("y", place.sum(), 1.0, observed=0.0)
    place = np.array([-3.0, 3.0]) * rng.choice([-1.0, 1.0], (4, N, 1)) + rng.normal(size=(4, N, 2))
    idata = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"place": (("chain", "draw", "label"), place)})}
    )
    without, found = pm_temper.modes(idata), pm_temper.modes(idata, model=model)
    xr.testing.assert_identical(found.dataset, without.dataset)
    xr.testing.assert_identical(found.draws, without.draws)
    assert repr(found) == repr(without)


def test_in_one_order_joins_a_mode_that_another_splits(rng):
    """The first mode is as far from both copies of the second, so that it has some of each.

    Both copies of the second are then one, and all others stay.
    """
    two = Orbit(np.array([[0, 1, 2], [1, 0, 2]]), np.empty((0, 3)))
    first = np.array([0.0, 0.1, 0.0]) + 0.1 * rng.normal(size=(300, 3))
    second = np.array([-2.0, 2.0, 6.0]) + 0.1 * rng.normal(size=(100, 3))
    second[:50, :2] = second[:50, 1::-1]
    z = np.concatenate([first, second])

    def find(z):
        return find_modes(z[None])[0]

    assert find(z).max() == 2
    moved, labels = in_one_order(z, two, find)
    assert (labels == np.repeat([0, 1], [300, 100])).all()
    assert len(np.unique(np.sign(moved[300:, 0]))) == 1
    np.testing.assert_allclose(np.sort(moved, axis=1), np.sort(z, axis=1))


def test_refused():
    idata = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"k": (("chain", "draw"), np.zeros((1, 10)))})}
    )
    with pm.Model() as model:
        pm.Bernoulli("k", 0.5)
    with pytest.raises(OptionError, match="pass one of them"):
        pm_temper.modes(idata, model=model, by="k")
    with pytest.raises(OptionError, match="was given a str as its model"):
        pm_temper.modes(idata, model="mixture")
    with pytest.raises(ModelError):
        pm_temper.modes(idata, model=model)
