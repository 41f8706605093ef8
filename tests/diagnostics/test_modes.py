"""The table of modes: shares and errors that are known, evidence by mode, and what is refused."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.errors import DataError, OptionError, TemperingWarning
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.results.modes import telling_entries

WEIGHTS = np.array([0.55, 0.3, 0.15])
CENTRES = np.array([[0.0, 0.0], [9.0, 0.0], [9.0, 7.0]])


def tree(**variables):
    named = {
        name: (("chain", "draw", *(f"{name}_dim_{i}" for i in range(np.ndim(v) - 2))), v)
        for name, v in variables.items()
    }
    n_chains, n_draws = np.shape(next(iter(variables.values())))[:2]
    coords = {"chain": np.arange(n_chains), "draw": np.arange(n_draws)}
    return xr.DataTree.from_dict({"posterior": xr.Dataset(named, coords=coords)})


def three(rng, n_draws=1000, n_chains=4):
    which = rng.choice(3, size=(n_chains, n_draws), p=WEIGHTS)
    return CENTRES[which] + rng.normal(size=(n_chains, n_draws, 2)), which


@pytest.fixture
def found(rng):
    return pm_temper.modes(tree(x=three(rng)[0], noise=rng.normal(size=(4, 1000))))


def test_shares_and_locations_are_those_of_the_mixture(found, rng):
    """Shares within 5 of their errors, means within 5 of theirs."""
    data = found.dataset
    assert data["mode"].values.tolist() == [1, 2, 3]
    assert (np.abs(data["share"] - WEIGHTS) < 5 * data["share_se"]).all()
    np.testing.assert_allclose(data["share_se"], np.sqrt(WEIGHTS * (1 - WEIGHTS) / 4000), rtol=0.3)
    np.testing.assert_allclose(found.mean["x"], CENTRES, atol=5 / np.sqrt(4000 * 0.15))
    np.testing.assert_allclose(found.sd["x"], 1.0, atol=0.15)
    np.testing.assert_allclose(data["share_chain"].sum("mode"), 1.0)
    assert data["share_chain"].dims == ("mode", "chain")
    assert set(found.telling(2)) == {"x[0]", "x[1]"}
    assert np.isnan(data["log_z"]).all()


def test_error_is_that_of_correlated_draws(rng):
    """A two-state chain that changes with probability 0.02 has errors sqrt(49) times larger."""
    changes = rng.random((4, 4000)) < 0.02
    right = (np.cumsum(changes, axis=1) + rng.integers(2, size=(4, 1))) % 2
    data = pm_temper.modes(tree(x=8.0 * right + rng.normal(size=(4, 4000)))).dataset
    expected = np.sqrt(0.25 / 16000 * (1 + 0.96) / (1 - 0.96))
    np.testing.assert_allclose(data["share_se"], expected, rtol=0.5)
    assert (np.abs(data["share"] - 0.5) < 5 * expected).all()


def test_chains_that_never_meet_are_named_and_make_the_error_large(rng):
    x = rng.normal(size=(4, 500))
    x[2] += 10.0
    with pytest.warns(TemperingWarning) as record:
        found = pm_temper.modes(tree(x=x))
    [diagnostic] = found.warnings
    assert [w.message.diagnostic for w in record] == [diagnostic]
    assert diagnostic.code == "chains_disagree"
    unseen = {"chains without mode 1": [2], "chains without mode 2": [0, 1, 3]}
    assert diagnostic.measured == {"modes": unseen}
    assert found.dataset["share"].values.tolist() == [0.75, 0.25]
    # the standard error of 4 zeros and ones
    np.testing.assert_allclose(found.dataset["share_se"], 0.25, rtol=0.35)
    assert "3 of 4" in repr(found)
    assert "chains disagree: mode 1 has no draws of chain 2" in repr(found)


def test_evidence_of_a_mode_is_its_part(found, rng):
    run = tree(x=three(rng)[0])
    estimate = LogZEstimate(-20.0, 0.05, "pt, mbar", np.full(4, -20.0), idata=run)
    data = pm_temper.modes(estimate).dataset
    np.testing.assert_allclose(data["log_z"], -20.0 + np.log(data["share"]))
    relative = data["share_se"] / data["share"]
    np.testing.assert_allclose(data["log_z_se"], np.sqrt(0.05**2 + relative**2))
    assert "log Z (nats)" in repr(pm_temper.modes(estimate))
    assert "log Z" not in repr(found)


def test_run_of_a_tempered_sampler(seed):
    """Shares 0.3 and 0.7 and the evidence of each, exact; from `sample` and from `pm.sample`."""
    target = testing.asymmetric_bimodal()
    settings = {
        "chains": 2, "cores": 1, "random_seed": seed, "progressbar": False, "quiet": True,
        "draws": 300, "tune": 150,
    }  # fmt: skip
    idata = pm_temper.sample(target.model(), **settings)
    with target.model():
        plain = pm.sample(
            step=pm_temper.ParallelTempering(), compute_convergence_checks=False, **settings
        )
    for run in (idata, plain, pm_temper.estimate_logz(plain)):
        data = pm_temper.modes(run).dataset
        # each fails once in 10^5 seeds; errors of few draws are uncertain by a third
        assert (np.abs(data["share"] - [0.7, 0.3]) < 6 * data["share_se"]).all()
        exact = target.log_z + np.log([0.7, 0.3])
        assert (np.abs(data["log_z"] - exact) < 6 * data["log_z_se"]).all()


def test_by_variable_function_and_labels(rng):
    draws, which = three(rng)
    names = np.array(["home", "work", "shop"])[which]
    run = tree(x=draws, place=which, name=names)
    expected = np.bincount(which.ravel()) / which.size
    for by in ("place", "name", names, lambda p: p["place"], run["posterior"]["name"]):
        data = pm_temper.modes(run, by=by).dataset
        np.testing.assert_allclose(data["share"], expected)
        assert data["mode_of_draw"].values.tolist() == (which + 1).tolist()
    assert pm_temper.modes(run, by="name").dataset["label"].values.tolist() == [
        "home", "work", "shop",
    ]  # fmt: skip
    # real values are searched: the second coordinate tells two groups apart
    data = pm_temper.modes(run, by=lambda p: p["x"][..., 1]).dataset
    np.testing.assert_allclose(data["share"], [expected[:2].sum(), expected[2]], atol=2e-3)
    data = pm_temper.modes(run, by=lambda p: p["x"].transpose("x_dim_0", "draw", "chain")[1] > 3.5)
    np.testing.assert_allclose(data.dataset["share"][1], expected[2], atol=2e-3)


def test_chosen_variables(rng):
    draws, _ = three(rng)
    run = tree(x=draws, noise=rng.normal(size=(4, 1000)))
    assert len(pm_temper.modes(run, var_names="noise")) == 1
    assert len(pm_temper.modes(run, var_names=["x"])) == 3


def test_print_fits_and_frame_has_every_number(found):
    lines = repr(found).split("\n")
    assert lines[0] == "3 modes in 4000 draws of 4 chains"
    assert max(map(len, lines)) <= 80
    table = found.to_dataframe()
    assert table.index.tolist() == [1, 2, 3]
    columns = ["share", "share_se", "log_z", "log_z_se", "n_chains", "x[0]", "x[1]", "noise"]
    assert table.columns.tolist() == columns
    np.testing.assert_allclose(table[["x[0]", "x[1]"]], found.mean["x"])
    assert (table["n_chains"] == 4).all()
    assert "<pre>" in found._repr_html_()


@pytest.mark.parametrize("n_chains", [1, 4, 20])
def test_print_fits_with_long_names_and_many_chains(rng, n_chains):
    draws, _ = three(rng, 2000 // n_chains, n_chains)
    run = tree(**{f"a_variable_with_a_long_name_{i}": draws + 1e5 * i for i in range(4)})
    text = repr(pm_temper.modes(run))
    assert max(map(len, text.split("\n"))) <= 80
    assert ("share by chain" in text) == (n_chains <= 8)


def test_labels_of_dimensions_name_scalars(rng):
    run = tree(x=three(rng)[0])
    named = run["posterior"].to_dataset().rename(x_dim_0="axis").assign_coords(axis=["east", "up"])
    found = pm_temper.modes(xr.DataTree.from_dict({"posterior": named}))
    assert set(found.telling()) == {"x[east]", "x[up]"}
    mean, sd, values = found.location("x[up]")
    np.testing.assert_allclose(mean, found.mean["x"].sel(axis="up"))
    np.testing.assert_allclose(values, named["x"].sel(axis="up"))
    assert sd.shape == (3,)


def test_scalars_that_tell_modes_apart_complement_each_other():
    mean = np.array([[0.0, 0.0, 9.0], [5.0, 5.1, 9.0], [5.0, 5.0, 2.0]])
    assert telling_entries(mean, np.ones((3, 3)), 2) == [2, 1]
    # constants within modes, and a single mode
    assert telling_entries(np.array([[0.0, 1.0], [0.0, 2.0]]), np.zeros((2, 2)), 1) == [1]
    assert telling_entries(np.zeros((1, 2)), np.ones((1, 2)), 3) == [0, 1]


def test_refuses(rng):
    run = tree(x=three(rng, 50)[0], n=rng.integers(3, size=(4, 50)))
    with pytest.raises(DataError, match="was given a float"):
        pm_temper.modes(3.0)
    with pytest.raises(DataError, match="without a run"):
        pm_temper.modes(LogZEstimate(-1.0, 0.1, "pt, mbar", np.zeros(2)))
    with pytest.raises(DataError, match=r"open_datatree"):
        pm_temper.modes("run.nc")
    with pytest.raises(DataError, match="no `posterior`"):
        pm_temper.modes(xr.DataTree.from_dict({"prior": xr.Dataset()}))
    with pytest.raises(DataError, match="chains of at least 4 draws"):
        pm_temper.modes(tree(x=np.zeros((2, 3))))
    with pytest.raises(DataError, match="chains of at least 4 draws"):
        pm_temper.modes(run.isel(chain=0))
    with pytest.raises(OptionError, match=r"`var_names` has \['z'\]; .* \['x'\]"):
        pm_temper.modes(run, var_names="z")
    with pytest.raises(OptionError, match=r"`var_names` has \['n'\]"):
        pm_temper.modes(run, var_names=["n"])
    with pytest.raises(OptionError, match=r"`by` is 'z'; the posterior has \['n', 'x'\]"):
        pm_temper.modes(run, by="z")
    with pytest.raises(OptionError, match=r"shape \(7,\)"):
        pm_temper.modes(run, by=np.zeros(7))
    with pytest.raises(OptionError, match=r"labels of shape \(4, 50, 2\)"):
        pm_temper.modes(run, by=lambda p: p["x"] > 0)
    bad = tree(x=np.where(rng.random((2, 50)) < 0.1, np.nan, 1.0))
    with pytest.raises(DataError, match="'x' has draws that are not finite"):
        pm_temper.modes(bad)


@pytest.mark.statistical
def test_shares_are_as_far_off_as_they_say(seed):
    """z of the share over 40 runs of 4 x 250: sum of squares beyond the 10^-4 quantiles fails."""
    z = []
    for i in range(40):
        draws, _ = three(np.random.default_rng([seed, i]), 250)
        data = pm_temper.modes(tree(x=draws)).dataset
        z.append(float((data["share"][0] - 0.55) / data["share_se"][0]))
    # errors of 1000 draws vary by a twentieth
    assert (
        stats.chi2.ppf(1e-4, 40) / 1.3 < np.sum(np.square(z)) < stats.chi2.ppf(1 - 1e-4, 40) * 1.3
    )


def test_slow_chains_in_different_places_are_warned_of():
    """No valley can be seen between chains that hardly move, and none is claimed to be absent."""
    rng = np.random.default_rng(0)
    z = np.zeros((4, 400))
    for i in range(1, 400):
        z[:, i] = 0.95 * z[:, i - 1] + rng.normal(size=4) * np.sqrt(1.0 - 0.95**2)
    apart = z + 1000.0 * np.arange(4)[:, None]
    run = xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw"), apart)})})
    with pytest.warns(TemperingWarning, match="R-hat of x"):
        found = pm_temper.modes(run)
    assert [diagnostic.code for diagnostic in found.warnings] == ["chains_disagree"]
