"""Files of runs: small, and the same estimate to far below its error."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.results.compact import DELTA_DIGIT, compact, compress, round_delta
from pymc_tempering.results.concat import concat_chains, pad_ladder


def raw_run(regression, seed, **options):
    with regression:
        step = pm_temper.ParallelTempering(scans_per_draw=24, n_levels=12)
        return pm.sample(
            60, tune=60, step=step, chains=2, cores=1, random_seed=seed, progressbar=False,
            quiet=True, compute_convergence_checks=False, **options,
        )  # fmt: skip


def test_rounding_keeps_what_is_not_a_number(seed):
    delta = np.random.default_rng(seed).normal(-1e4, 300.0, size=(50, 4))
    delta[0] = -np.inf, np.nan, 1e12, -1e300
    rounded = round_delta(delta)
    np.testing.assert_array_equal(rounded[0], delta[0])
    assert np.abs(rounded[1:] - delta[1:]).max() <= DELTA_DIGIT / 2
    np.testing.assert_array_equal(round_delta(rounded), rounded)


@pytest.mark.parametrize("spread", [1e-7, 1e-3, 1.0, 3.0])
def test_rounding_is_far_below_the_error(spread, seed):
    """Half a digit where all values are rounded alike, a thousandth of the error otherwise.

    Over 300 seeds the error itself changed by 1.4e-6 of it at most, and by 0.0044 where all values
    lie within a hundred digits, which shifts where its sums of autocorrelations end.
    """
    betas = np.array([0.0, 0.3, 1.0])
    delta = -7.3 + spread * np.random.default_rng(seed).normal(size=(4000, 3))
    delta += spread**2 * betas  # draws at beta of a base for which delta is normal
    exact, rounded = mbar(delta, betas), mbar(round_delta(delta), betas)
    se, se_rounded = (log_z_standard_error([0.0], [e.influence]).se for e in (exact, rounded))
    change = abs(exact.log_z[-1] - rounded.log_z[-1])
    assert change <= DELTA_DIGIT / 2 + 1e-9
    if spread >= 1e-3:
        assert change < 1e-2 * se
        assert se_rounded == pytest.approx(se, rel=1e-5 if spread >= 1.0 else 0.02)


def test_recorded_delta_is_rounded_and_levels_are_left_away(regression, seed):
    raw = raw_run(regression, seed, discard_tuned_samples=False)
    delta = raw["sample_stats"]["delta"].values
    finite = delta[np.isfinite(delta)]
    np.testing.assert_array_equal(finite, round_delta(finite))
    estimate = pm_temper.estimate_logz(raw)
    small = estimate.idata["sample_stats"]
    used = int(np.isfinite(small["betas"].values).any((0, 1)).sum())
    assert used < 12
    assert small["delta"].shape == (2, 60, 24, used)
    assert small["swap_acceptance_rate"].shape == (2, 60, used - 1)
    assert raw["sample_stats"]["delta"].shape[-1] == 12
    assert not raw["sample_stats"]["delta"].encoding.get("zlib")
    # tuning has more levels than what it leads to
    assert estimate.idata["warmup_sample_stats"].sizes["level"] >= used


# one in twenty of runs as short as this says so
@pytest.mark.filterwarnings("ignore:too few effective draws")
def test_files_are_compressed(regression, seed, tmp_path):
    """Of a ladder with room for 24 levels, less than a fifth of what was written before;
    the headers alone of what says how far the modes were searched for, and for how many gradients,
    are some 30 kB.
    """
    run = pm_temper.sample(
        regression, draws=120, tune=60, chains=2, cores=1, random_seed=seed, progressbar=False,
        quiet=True, compute_convergence_checks=False,
    )  # fmt: skip
    run.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    delta = run["sample_stats"]["delta"]
    before = 8 * delta[..., 0, 0].size * 50 * 24
    assert 5 * (tmp_path / "run.nc").stat().st_size < before
    # a run that was read and cut is compressed again
    with xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as stored:
        part = stored.load().isel(draw=slice(60))
    part.to_netcdf(tmp_path / "part.nc", engine="h5netcdf")
    assert 2.5 * (tmp_path / "part.nc").stat().st_size < before / 2


def test_chains_with_other_numbers_of_levels_are_put_together(tempered):
    stats = tempered["sample_stats"].to_dataset()
    n = stats.sizes["level"]
    other = stats.assign(delta=-stats["delta"])  # the same chain twice is refused
    wider = tempered.copy()
    wider["sample_stats"] = xr.DataTree(pad_ladder(other, {"level": n + 2}))
    assert (wider["sample_stats"]["replica"].values[..., n:] == -1).all()
    assert wider["sample_stats"]["replica"].dtype == np.int64
    both = concat_chains([tempered, wider])["sample_stats"]
    assert (both.sizes["level"], both.sizes["pair"]) == (n + 2, n + 1)
    assert np.isnan(both["delta"].values[..., n:]).all()
    back = compact(concat_chains([tempered, wider]))["sample_stats"].to_dataset()
    for chains, own in (([0, 1], stats), ([2, 3], other)):
        part = back.isel(chain=chains).assign_coords(chain=[0, 1])
        for name in ("delta", "replica", "swap_acceptance_rate", "lp"):
            xr.testing.assert_equal(part[name], own[name])


def test_scans_that_were_not_run_are_left_away(tempered):
    """And what is left is no view that would keep them."""
    stats = tempered["sample_stats"].to_dataset()
    sizes = {"scan": stats.sizes["scan"] + 3, "level": stats.sizes["level"] + 2}
    wider = tempered.copy()
    wider["sample_stats"] = xr.DataTree(pad_ladder(stats, sizes))
    assert {dim: wider["sample_stats"].sizes[dim] for dim in sizes} == sizes
    back = compact(wider)["sample_stats"]
    xr.testing.assert_identical(back.to_dataset()[list(stats)], stats)
    for name in ("delta", "betas", "swap_acceptance_rate"):
        assert not np.shares_memory(back[name].values, wider["sample_stats"][name].values)


def test_compress_leaves_texts_and_its_argument():
    dataset = xr.Dataset({"x": ("draw", np.zeros(3)), "name": ("draw", ["a", "b", "c"])})
    tree = xr.DataTree.from_dict({"/posterior": dataset})
    small = compress(tree)["posterior"]
    assert small["x"].encoding["zlib"]
    assert "zlib" not in small["name"].encoding
    assert "zlib" not in tree["posterior"]["x"].encoding
