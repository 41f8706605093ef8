"""Results of joint continuous tempering keep what their estimate is made from."""

import re
import warnings

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import DataError, TemperingWarning
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.evidence.trace import log_z_trace
from pymc_tempering.results.schema import SAMPLE_STATS, TEMPERING
from pymc_tempering.testing import hard_edge_gaussian
from pymc_tempering.transform import Bias, untemper

mpl.use("Agg")
pytestmark = pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")


@pytest.fixture(scope="module")
def result(seed, exact):
    """Three chains, so that draws of the base do not come out even."""
    target = hard_edge_gaussian()
    base = GaussianBase(target.mean, 1.4 * np.sqrt(np.diag(target.cov)))
    bias = Bias([0.0, 0.3, 1.0], [0.0, 0.2, 0.5])
    tree = exact(target, base, bias, np.random.default_rng(seed), n_chains=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemperingWarning)
        return untemper(tree, random_seed=seed)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


def test_same_estimate_without_sampling(result, tmp_path):
    estimate = pm_temper.estimate_logz(result)
    assert estimate.log_z == float(result["tempering"]["log_marginal_likelihood"])
    assert estimate.se == float(result["tempering"]["log_marginal_likelihood_se"])
    assert estimate.method == result["tempering"].attrs["method"]
    assert set(estimate.per_method) == {"bridge", "continuous tempering"}
    result.to_netcdf(tmp_path / "run.nc")
    with xr.open_datatree(tmp_path / "run.nc") as read:
        assert pm_temper.estimate_logz(read) == estimate
    # and again from what the estimate carries
    again = pm_temper.estimate_logz(estimate.idata)
    assert again == estimate
    xr.testing.assert_identical(again.idata["tempering"].ds, estimate.idata["tempering"].ds)
    assert set(estimate.idata["tempering"].data_vars) == set(result["tempering"].data_vars)


def test_chains_and_draws_can_be_cut(result):
    whole = pm_temper.estimate_logz(result)
    for chains in ([0], [2, 1]):
        part = pm_temper.estimate_logz(result.isel(chain=chains))
        np.testing.assert_array_equal(part.per_chain, whole.per_chain[chains])
        assert part.idata["tempering"]["chain"].values.tolist() == chains
    half = pm_temper.estimate_logz(result.sel(draw=slice(None, 199)))
    assert half.idata["posterior"].sizes["draw"] == half.idata["tempering"].sizes["draw"] == 200
    assert abs(half.log_z - whole.log_z) < 6 * half.se
    assert half.se > whole.se
    with pytest.raises(DataError, match=r"nothing along \['chain'\].*isel\(chain=\[0\]\)"):
        pm_temper.estimate_logz(result.isel(chain=0))
    bare = result.copy()
    bare["tempering"] = xr.DataTree(bare["tempering"].to_dataset().drop_vars("base_delta"))
    with pytest.raises(DataError, match=r"lacks \['base_delta'\]"):
        pm_temper.estimate_logz(bare)


def test_names_are_those_of_all_methods(result):
    for group, schema in (("sample_stats", SAMPLE_STATS), ("tempering", TEMPERING)):
        dataset = result[group].dataset
        assert set(dataset.data_vars) <= set(schema)
        assert not [dim for dim in dataset.dims if re.search(r"_dim_\d", str(dim))]
    dataset = result["tempering"].dataset
    for name, variable in dataset.data_vars.items():
        assert variable.dims == TEMPERING[name].dims[: variable.ndim], name
        assert variable.attrs["long_name"] == TEMPERING[name].meaning
    assert dataset["log_marginal_likelihood"].ndim == 0
    assert dataset["log_z_chain"].sizes == {"chain": 3}
    np.testing.assert_array_equal(
        result["sample_stats"]["log_marginal_likelihood"], dataset["log_z_chain"]
    )


def test_trace_ends_at_the_estimate(result):
    trace = log_z_trace(result, 5)
    np.testing.assert_allclose(trace.per_chain[-1], result["tempering"]["log_z_chain"], rtol=1e-12)
    assert trace.draws[-1] == 400
    assert np.isfinite(trace.log_z).all()
    assert np.isnan(trace.seconds).all()


def test_comparison_and_pictures(result, tmp_path):
    table = pm_temper.compare({"a": result, "b": result.isel(chain=[0, 1])})
    assert table.loc["a", "log_marginal_likelihood"] == stored_estimate(result).log_z
    # not what was stored of all chains
    cut = pm_temper.estimate_logz(result.isel(chain=[0, 1]))
    assert table.loc["b", "log_marginal_likelihood"] == cut.log_z
    assert pm_temper.bayes_factor(result, result).log_bayes_factor == 0.0
    curve = pm_temper.plot_logz_curve(result)
    assert len(curve.get_lines()) >= 3
    for draw in (pm_temper.plot_logz_trace, pm_temper.plot_beta_occupancy):
        assert draw(result).get_xlabel()
    assert len(pm_temper.plot_report(result)) == 3
    page = pm_temper.report(result, tmp_path / "report.html").read_text()
    assert "by continuous tempering" in page
    for draw in (pm_temper.plot_barrier, pm_temper.plot_index_process, pm_temper.plot_log_weights):
        with pytest.raises(DataError):
            draw(result)
    with pytest.raises(DataError, match="did not record"):
        pm_temper.plot_logz_trace(result, x="time")
