"""Estimates from stored runs equal those made right after sampling."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering.errors import DataError, TemperingWarning
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.evidence.common import with_warnings
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.evidence.stored import method_of
from pymc_tempering.methods import METHOD_CODE, METHODS
from pymc_tempering.results.concat import concat_chains
from pymc_tempering.results.datatree import diagnostic_variables

# runs this short may say so, and which of them do depends on the machine's last digits
pytestmark = pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")


def assert_same(estimate, other):
    assert abs(estimate.log_z - other.log_z) < 1e-12
    assert abs(estimate.se - other.se) < 1e-12
    np.testing.assert_allclose(estimate.per_chain, other.per_chain, rtol=0, atol=1e-12)


def test_live_estimate_equals_that_of_its_run(model, base, seed, run_options):
    live = pm_temper.estimate_logz(
        model, base=base, scans_per_draw=8, random_seed=seed, **run_options
    )
    assert_same(pm_temper.estimate_logz(live.idata), live)


def test_numbered_and_labelled_dimensions_agree(model, base, seed, raw_run, run_options):
    labelled = pm_temper.sample(model, base=base, scans_per_draw=8, random_seed=seed, **run_options)
    assert "delta_dim_0" in raw_run["sample_stats"].dims
    assert "scan" in labelled["sample_stats"].dims
    assert_same(pm_temper.estimate_logz(raw_run), pm_temper.estimate_logz(labelled))


def test_estimate_is_right(target, raw_run, labelled_run):
    # normal errors: fails once in 10^5 seeds
    for run in (raw_run, labelled_run):
        estimate = pm_temper.estimate_logz(run)
        assert abs(estimate.log_z - target.log_z) < 4.5 * estimate.se
        assert estimate.method == "pt, mbar"


@pytest.mark.parametrize("run", ["raw_run", "labelled_run"])
@pytest.mark.parametrize("selection", [slice(10, None), slice(None, None, 2), list(range(40))])
def test_sliced_draws_equal_an_estimate_from_these_arrays(run, selection, request):
    run = request.getfixturevalue(run)
    sliced = pm_temper.estimate_logz(run.isel(draw=selection))
    index = np.arange(run["posterior"].sizes["draw"])[selection]
    stats = run["sample_stats"].to_dataset().isel(draw=index)
    bare = xr.DataTree.from_dict({"/sample_stats": stats})
    assert_same(sliced, pm_temper.estimate_logz(bare))
    assert sliced.log_z != pm_temper.estimate_logz(run).log_z


@pytest.mark.parametrize("run", ["raw_run", "labelled_run"])
@pytest.mark.parametrize("kind", ["nc", "zarr"])
def test_round_trip_through_a_file(run, kind, request, tmp_path):
    run = request.getfixturevalue(run)
    if kind == "zarr":
        pytest.importorskip("zarr")
        run.to_zarr(tmp_path / "run.zarr")
        stored = xr.open_datatree(tmp_path / "run.zarr", engine="zarr")
    else:
        run.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
        stored = xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf")
    with stored:
        estimate = pm_temper.estimate_logz(stored)
        assert_same(estimate, pm_temper.estimate_logz(run))
        if "tempering" in stored.children:
            assert float(stored["tempering"]["log_marginal_likelihood"]) == estimate.log_z


def by_hand(runs):
    groups = ("posterior", "sample_stats")
    return xr.DataTree.from_dict(
        {
            f"/{name}": xr.concat(
                [r[name].to_dataset() for r in runs], dim="chain", data_vars="all"
            )
            for name in groups
        }
    )


@pytest.mark.parametrize("together", [concat_chains, by_hand], ids=["concat_chains", "by_hand"])
@pytest.mark.parametrize("run", ["raw_run", "labelled_run"])
def test_chains_of_several_runs(together, run, request):
    run = request.getfixturevalue(run)
    runs = [run.isel(chain=[1]), run.isel(chain=[0])]
    both = pm_temper.estimate_logz(together(runs))
    parts = [pm_temper.estimate_logz(r).per_chain for r in runs]
    np.testing.assert_allclose(both.per_chain, np.concatenate(parts), rtol=0, atol=1e-12)
    assert abs(both.log_z - np.concatenate(parts).mean()) < 1e-12


@pytest.mark.parametrize("times", [2, 4])
def test_the_same_chain_twice_is_refused(times, labelled_run):
    one = labelled_run.isel(chain=[0])
    with pytest.raises(DataError, match=r"chain 0 of run 1 repeats chain 0 of run 0"):
        concat_chains([one] * times)
    with pytest.raises(DataError, match=r"1 repeats 0.*random_seed"):
        pm_temper.estimate_logz(by_hand([one] * times))


def test_a_chain_is_known_without_its_unused_levels(raw_run):
    """A run as ``pm.sample`` returns it has room for levels that its labelled form leaves out."""
    trimmed = pm_temper.estimate_logz(raw_run).idata
    assert trimmed["sample_stats"].sizes["level"] < raw_run["sample_stats"].sizes["betas_dim_0"]
    with pytest.raises(DataError, match=r"chain 0 of run 1 repeats chain 0 of run 0"):
        concat_chains([raw_run, trimmed])


def test_concat_chains_takes_numbered_and_labelled_runs(raw_run, labelled_run):
    both = concat_chains([raw_run, labelled_run])
    assert both["posterior"]["chain"].values.tolist() == [0, 1, 2, 3]
    assert "tempering" not in both.children
    assert pm_temper.estimate_logz(both).per_chain.size == 4


def test_warm_up_groups_do_not_enter(model, base, seed, raw_run, run_options):
    with model:
        step = pm_temper.ParallelTempering(base=base, scans_per_draw=8)
        run = pm.sample(step=step, random_seed=seed, discard_tuned_samples=False, **run_options)
    assert "warmup_sample_stats" in run.children
    estimate = pm_temper.estimate_logz(run)
    assert_same(estimate, pm_temper.estimate_logz(raw_run))
    assert "scan" in estimate.idata["warmup_sample_stats"].dims
    mixed = xr.concat(
        [run[name].to_dataset() for name in ("warmup_sample_stats", "sample_stats")],
        dim="draw",
        data_vars="all",
    )
    with pytest.raises(DataError, match=r"mixes tuning with sampling\. Pass the draws after"):
        pm_temper.estimate_logz(xr.DataTree.from_dict({"/sample_stats": mixed}))


def test_a_base_that_changes_is_tuning_also_with_a_fixed_schedule(labelled_run):
    stats = labelled_run["sample_stats"].to_dataset().copy(deep=True)
    stats["base_id"][0, :20] += 1
    with pytest.raises(DataError, match="more than one schedule or base"):
        pm_temper.estimate_logz(xr.DataTree.from_dict({"/sample_stats": stats}))


def test_nuts_is_refused_by_name():
    with pm.Model():
        pm.Normal("x")
        nuts = pm.sample(
            draws=5, tune=5, chains=1, cores=1, random_seed=1, progressbar=False, quiet=True,
            nuts_sampler="pymc", compute_convergence_checks=False,
        )  # fmt: skip
    with pytest.raises(DataError, match=r"come from NUTS.*ParallelTempering\(base=idata\)"):
        pm_temper.estimate_logz(nuts)


def with_statistics(**statistics):
    variables = {name: (("chain", "draw"), array) for name, array in statistics.items()}
    return xr.DataTree.from_dict({"/sample_stats": xr.Dataset(variables)})


def test_another_sampler_is_refused():
    with pytest.raises(DataError, match="a sampler without tempering"):
        method_of(with_statistics(accepted=np.zeros((2, 3))))


def test_what_else_a_run_records_says_nothing_about_its_method(labelled_run):
    """As of a sixth method that has a statistic of each of the others."""
    run = labelled_run.copy()
    statistics = run["sample_stats"].to_dataset()
    for name in ("bias", "log_level_weights", "log_weight_forward", "base_delta"):
        statistics[name] = statistics["n_round_trips"] * 1.0
    run["sample_stats"] = statistics
    assert method_of(run) is METHODS["pt"]
    assert_same(pm_temper.estimate_logz(run), pm_temper.estimate_logz(labelled_run))


@pytest.mark.parametrize(
    ("codes", "message"),
    [
        ([[1, 1], [3, 3]], r"several methods, \['pt', 'st'\]"),
        ([[1, 1], [99, 99]], r"several methods, \['pt', 'code 99'\]"),
        ([[99, 99], [99, 99]], r"code 99, which this version"),
    ],
)
def test_codes_that_make_no_run_are_refused(codes, message):
    with pytest.raises(DataError, match=message):
        method_of(with_statistics(**{METHOD_CODE: np.array(codes)}))


@pytest.mark.parametrize("needed", ["delta", "betas", "base_id"])
def test_a_run_that_lacks_what_its_method_needs_is_refused(needed, labelled_run):
    run = labelled_run.copy()
    run["sample_stats"] = run["sample_stats"].to_dataset().drop_vars(needed)
    with pytest.raises(DataError, match=rf"lacks \['{needed}'\], which log Z of pt is made from"):
        pm_temper.estimate_logz(run)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda run: xr.DataTree.from_dict({"/posterior": run["posterior"].to_dataset()}),
         r"\['posterior'\] but no `sample_stats`"),
        (lambda run: run.isel(chain=0), r"nothing along \['chain'\].*isel\(chain=\[0\]\)"),
        (lambda run: run.isel(draw=3), r"nothing along \['draw'\]"),
        (lambda run: run.isel(draw=slice(0)), r"nothing along \['draw'\]"),
        (lambda run: by_hand([run.isel(draw=slice(30)), run]), "unequal numbers of draws"),
    ],
    ids=["no statistics", "no chain", "no draw", "no draws", "unequal draws"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_damaged_runs_are_refused(change, message, labelled_run):
    with pytest.raises(DataError, match=message):
        pm_temper.estimate_logz(change(labelled_run))


def stored_with(estimate, diagnostics):
    """The estimate with more warnings, in its run too."""
    estimate = with_warnings(estimate, diagnostics)
    idata = estimate.idata.copy()
    dataset = idata["tempering"].to_dataset().drop_dims("warning", errors="ignore")
    idata["tempering"] = xr.DataTree(dataset.assign(diagnostic_variables(estimate.warnings)))
    return replace(estimate, idata=idata)


def test_what_concerns_the_model_is_kept_for_later_estimates(labelled_run):
    estimate = pm_temper.estimate_logz(labelled_run)
    of_model = Diagnostic("improper_priors", "['x'].", "Give proper ones.", {"variables": ["x"]})
    of_run = Diagnostic("target_se_not_reached", "0.1.", "Raise `draws`.", {"chains": 2})
    endless = Diagnostic("divergent_integral", "along x.", "Give a proper prior.", {})

    def added(estimate):
        """Without what so short a run has to say itself."""
        return [
            diagnostic
            for diagnostic in estimate.warnings
            if diagnostic in (of_model, of_run, endless)
        ]

    diagnosticed = stored_with(estimate, [of_model, of_run])
    assert added(diagnosticed) == added(stored_estimate(diagnosticed.idata)) == [of_model, of_run]
    assert added(stored_estimate(estimate.idata)) == []
    with pytest.warns(TemperingWarning, match="^improper priors: "):
        again = pm_temper.estimate_logz(diagnosticed.idata.isel(draw=slice(40)))
    assert added(again) == [of_model]
    # what all else follows from where it is found comes first
    worst = stored_with(diagnosticed, [endless])
    assert worst.warnings[0] == endless
    assert added(worst) == [endless, of_model, of_run]
    assert stored_estimate(worst.idata).warnings == worst.warnings
    # once more, so that nothing is repeated twice
    more = stored_with(again, [of_run])
    with pytest.warns(TemperingWarning, match="improper priors"):
        last = pm_temper.estimate_logz(more.idata)
    assert stored_estimate(last.idata).warnings == last.warnings
    assert added(last) == [of_model]


@pytest.mark.slow
def test_tempered_draws_are_sent_to_untemper(model, base, seed):
    options = {"chains": 2, "cores": 1, "random_seed": seed, "progressbar": False, "quiet": True}
    with pm_temper.temper(model, base=base, log_zeta=0.0, random_seed=seed):
        draws = pm.sample(
            50, tune=50, nuts_sampler="pymc", compute_convergence_checks=False, **options
        )
    with pytest.raises(DataError, match="Pass them to `untemper`"):
        pm_temper.estimate_logz(draws)
    untempered = pm_temper.untemper(draws, random_seed=seed)
    estimate = pm_temper.estimate_logz(untempered)
    stored = stored_estimate(untempered)
    assert (estimate.log_z, estimate.se) == (stored.log_z, stored.se)
    assert estimate.warnings == stored.warnings


def test_an_interrupted_run_stays_one(labelled_run):
    estimate = pm_temper.estimate_logz(labelled_run)
    diagnostic = Diagnostic(
        "interrupted", "stopped after 1 of 4 chains.", "Run it again.", {"chains": 1}
    )
    with pytest.warns(TemperingWarning, match="stopped after 1 of 4 chains"):
        again = pm_temper.estimate_logz(stored_with(estimate, [diagnostic]).idata)
    assert diagnostic in again.warnings
