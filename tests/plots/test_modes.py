"""The picture of modes shows the numbers of the table."""

import numpy as np
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering import plot_modes
from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.plots.common import CYCLE, INK


def tree(x):
    dims = ("chain", "draw", "axis")[: x.ndim]
    coords = {"chain": np.arange(len(x))} | ({"axis": ["east", "up"]} if x.ndim > 2 else {})
    return xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (dims, x)}, coords=coords)})


@pytest.fixture
def plane(rng):
    upper = rng.random((3, 400)) < np.array([0.2, 0.3, 0.4])[:, None]
    return tree(rng.normal(size=(3, 400, 2)) + 9.0 * upper[..., None])


def test_shares_of_chains_and_their_error(plane):
    found = pm_temper.modes(plane)
    shares, _ = plot_modes(found)
    by_chain = [line for line in shares.lines if line.get_color() in CYCLE]
    drawn = np.array([line.get_ydata() for line in by_chain])
    np.testing.assert_allclose(drawn.T, found.dataset["share_chain"])
    bars, middles = shares.collections
    share = found.dataset["share"].values
    np.testing.assert_allclose([s[0, 1] for s in middles.get_segments()], share)
    half = np.array([s[1, 1] - s[0, 1] for s in bars.get_segments()]) / 2
    assert (half > 1.9 * found.dataset["share_se"].values).all()
    assert shares.get_xticks().tolist() == [1, 2]
    assert shares.get_legend().get_texts()[-1].get_text() == "all, 95 %"


def test_draws_in_the_two_scalars_that_tell_modes_apart(plane):
    found = pm_temper.modes(plane)
    _, places = plot_modes(found)
    assert {places.get_xlabel(), places.get_ylabel()} == {
        "x[east] of the draws", "x[up] of the draws",
    }  # fmt: skip
    points = [line for line in places.lines if line.get_color() in CYCLE[:3]]
    assert sum(len(line.get_xdata()) for line in points) == 1200
    numbers = {text.get_text(): text.xy for text in places.texts}
    assert set(numbers) == {"1", "2"}
    mean = found.mean["x"].sel(mode=2).values
    expected = {"x[east] of the draws": mean[0], "x[up] of the draws": mean[1]}
    drawn = dict(zip((places.get_xlabel(), places.get_ylabel()), numbers["2"], strict=True))
    assert drawn == pytest.approx(expected, rel=1e-9)


def test_one_scalar_is_drawn_as_histograms(rng):
    run = tree(rng.normal(size=(2, 300)) + 9.0 * (rng.random((2, 300)) < 0.3))
    _, places = plot_modes(run)
    assert places.get_ylabel() == "share of the draws"
    assert len(places.patches) == 2
    np.testing.assert_allclose([p.get_data().values.sum() for p in places.patches], 1.0)
    assert {text.get_text() for text in places.texts} == {"1", "2"}


def test_chosen_scalars(plane):
    _, places = plot_modes(plane, var_names=["x[up]"])
    assert places.get_xlabel() == "x[up] of the draws"
    _, places = plot_modes(plane, var_names=["x[up]", "x[east]"])
    assert (places.get_xlabel(), places.get_ylabel()) == (
        "x[up] of the draws", "x[east] of the draws",
    )  # fmt: skip
    for wrong in (["y"], ["x[up]"] * 3, []):
        with pytest.raises(OptionError, match=r"one or two of the scalars \['x"):
            plot_modes(plane, var_names=wrong)
    with pytest.raises(DataError, match="expected a DataTree"):
        plot_modes(3)


def test_many_chains_and_modes_stay_readable(rng):
    corners = 9.0 * np.arange(14)
    run = tree(corners[rng.integers(14, size=(8, 500))] + rng.normal(size=(8, 500)))
    shares, _ = plot_modes(run)
    assert len(shares.get_legend().get_texts()) == 2
    shares.figure.canvas.draw()
    assert all(float(t).is_integer() for t in shares.get_xticks())
    assert len(shares.collections[0].get_segments()) == 14
    assert shares.collections[0].get_color()[0][0] == pytest.approx(int(INK[1:3], 16) / 255)
