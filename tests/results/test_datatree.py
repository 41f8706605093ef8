"""Results that PyMC and ArviZ understand, whole and labelled."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.results.concat import concat_chains
from pymc_tempering.results.datatree import label_dimensions, read_statistics


def test_groups(tempered):
    assert {
        "posterior", "sample_stats", "warmup_posterior", "warmup_sample_stats", "observed_data",
        "tempering",
    } <= set(tempered.children)  # fmt: skip


def test_tempered_states_never_enter_the_posterior(tempered):
    posterior = tempered["posterior"]
    assert set(posterior.data_vars) == {"mu", "sd", "shift", "mean"}
    assert posterior["mu"].dims == ("chain", "draw")
    assert posterior["shift"].dims == ("chain", "draw", "unit")
    np.testing.assert_allclose(posterior["mean"], posterior["mu"] + posterior["shift"])


def test_draws_are_those_of_the_recorded_density(regression, tempered):
    """`lp` is the log density at beta = 1 of the very draws in the posterior."""
    logp = regression.compile_logp(mode="FAST_COMPILE")
    posterior, lp = tempered["posterior"], tempered["sample_stats"]["lp"]
    for draw in (0, 17, 59):
        at = posterior.isel(chain=1, draw=draw)
        point = {"mu": at["mu"].values, "sd_log__": np.log(at["sd"].values),
                 "shift": at["shift"].values}  # fmt: skip
        assert float(logp(point)) == pytest.approx(float(lp[1, draw]), abs=1e-9)


def test_estimate_is_attached_per_chain_and_combined(tempered):
    per_chain = tempered["sample_stats"]["log_marginal_likelihood"]
    assert per_chain.dims == ("chain",)
    group = tempered["tempering"]
    np.testing.assert_array_equal(per_chain, group["log_z_chain"])
    assert float(group["log_marginal_likelihood"]) == pytest.approx(float(per_chain.mean()))
    assert group.attrs["method"] == "pt, mbar"
    assert group["chain"].values.tolist() == [0, 1]


def test_arviz_summary(tempered):
    summary = az.summary(tempered)
    assert "mu" in summary.index
    assert "shift[a]" in summary.index
    assert not any("delta" in str(name) for name in summary.index)


def test_posterior_predictive(regression, tempered):
    with regression:
        predicted = pm.sample_posterior_predictive(tempered, random_seed=1, progressbar=False)
    assert predicted["posterior_predictive"]["y"].shape == (2, 60, 4)


@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_files_keep_everything(tempered, kind, tmp_path):
    if kind == "zarr":
        pytest.importorskip("zarr")
        tempered.to_zarr(tmp_path / "run.zarr")
        stored = xr.open_datatree(tmp_path / "run.zarr", engine="zarr")
    else:
        tempered.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
        stored = xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf")
    with stored:
        assert set(stored.children) == set(tempered.children)
        for name, node in tempered.children.items():
            xr.testing.assert_equal(stored[name].to_dataset(), node.to_dataset())
        delta = stored["sample_stats"]["delta"]
        assert delta.attrs["units"] == "nats"
        assert delta.dtype == np.float64
        assert stored["sample_stats"]["diverging"].dtype == np.bool_
        assert stored["tempering"].attrs["method"] == "pt, mbar"


def test_label_dimensions_leaves_its_argument_and_is_idempotent(tempered):
    raw = xr.DataTree.from_dict(
        {
            "/sample_stats": tempered["sample_stats"]
            .to_dataset()
            .rename(scan="delta_dim_0", level="delta_dim_1")
        }
    )
    labelled = label_dimensions(raw)
    assert raw["sample_stats"]["delta"].dims[2:] == ("delta_dim_0", "delta_dim_1")
    assert labelled["sample_stats"]["delta"].dims[2:] == ("scan", "level")
    again = label_dimensions(labelled)
    xr.testing.assert_identical(
        again["sample_stats"].to_dataset(), labelled["sample_stats"].to_dataset()
    )


def test_statistics_of_other_samplers_keep_their_names():
    stats = xr.Dataset({"tree_depth": (("chain", "draw", "tree_depth_dim_0"), np.zeros((1, 2, 3)))})
    labelled = label_dimensions(xr.DataTree.from_dict({"/sample_stats": stats}))
    assert labelled["sample_stats"]["tree_depth"].dims[2:] == ("tree_depth_dim_0",)


def test_read_statistics_orders_dimensions(tempered):
    turned = tempered["sample_stats"].to_dataset().transpose(..., "draw", "chain")
    statistics = read_statistics(xr.DataTree.from_dict({"/sample_stats": turned}))
    expected = read_statistics(tempered)
    assert set(statistics) == set(expected)
    assert "log_marginal_likelihood" not in statistics
    for name, array in expected.items():
        np.testing.assert_array_equal(statistics[name], array)


def test_concat_chains_numbers_chains_and_keeps_the_data(tempered):
    both = concat_chains([tempered.isel(chain=[1]), tempered.isel(chain=[0])])
    assert both["posterior"]["chain"].values.tolist() == [0, 1]
    np.testing.assert_array_equal(both["posterior"]["mu"][0], tempered["posterior"]["mu"][1])
    assert both["warmup_sample_stats"].sizes["chain"] == 2
    xr.testing.assert_identical(
        both["observed_data"].to_dataset(), tempered["observed_data"].to_dataset()
    )


def test_concat_chains_refuses_other_numbers_of_scans(tempered):
    """Of one tempered replica: the scans of a ladder may differ, as they do between its chains."""
    pair = tempered.copy()
    pair["sample_stats"] = xr.DataTree(tempered["sample_stats"].to_dataset().isel(level=0))
    fewer = pair.isel(scan=slice(4), missing_dims="ignore")
    with pytest.raises(DataError, match="expected the same in all"):
        concat_chains([pair, fewer])
