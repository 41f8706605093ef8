"""Model comparison from evidences that are known exactly."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_tempering as pm_temper
from pymc_tempering.comparison.probabilities import model_probabilities
from pymc_tempering.comparison.table import compare
from pymc_tempering.errors import DataError, OptionError, TemperingWarning
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.checks import CODES

Y = np.array([0.4, -1.1, 2.3, 0.9, 1.7])
QUICK = {"draws": 60, "tune": 60, "chains": 2, "cores": 1, "progressbar": False, "quiet": True,
         "compute_convergence_checks": False, "scans_per_draw": 8}  # fmt: skip


def estimate(log_z, se=0.1, **kwargs):
    return LogZEstimate(log_z, se, "pt, mbar", np.full(4, log_z), **kwargs)


def normal_mean(prior_sd, y=Y, name="y"):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, prior_sd)
        pm.Normal(name, mu, 1.0, observed=y)
    return model


def exact_log_z(prior_sd, y=Y):
    cov = np.eye(len(y)) + prior_sd**2
    return stats.multivariate_normal(np.zeros(len(y)), cov).logpdf(y)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Runs of two models of the same data, read back from netCDF."""
    folder = tmp_path_factory.mktemp("runs")
    stored = {}
    for name, sd in {"narrow": 0.5, "wide": 20.0}.items():
        pm_temper.sample(normal_mean(sd), random_seed=3, **QUICK).to_netcdf(
            folder / f"{name}.nc", engine="h5netcdf"
        )
        stored[name] = xr.open_datatree(folder / f"{name}.nc", engine="h5netcdf")
    yield stored
    for run in stored.values():
        run.close()


def test_files_of_runs_are_read(runs, tmp_path):
    files = {name: str(tmp_path / f"{name}.nc") for name in runs}
    for name, run in runs.items():
        run.to_netcdf(files[name], engine="h5netcdf")
    expected = compare(runs)
    assert compare(files).equals(expected)
    mixed = {"narrow": Path(files["narrow"]), "wide": runs["wide"]}
    assert compare(mixed).equals(expected)


def test_rows_are_ordered_best_first():
    table = compare({"c": estimate(-9.0), "a": estimate(-4.0), "b": estimate(-6.5)})
    assert table.index.tolist() == ["a", "b", "c"]
    assert table.index.name == "model"
    assert table["rank"].tolist() == [0, 1, 2]
    assert table["log_marginal_likelihood"].tolist() == [-4.0, -6.5, -9.0]
    assert table["log_bayes_factor"].tolist() == [0.0, -2.5, -5.0]


def test_probabilities_are_exact():
    table = compare({"a": estimate(-4.0), "b": estimate(-5.5), "c": estimate(-7.0)})
    weights = np.exp([0.0, -1.5, -3.0])
    np.testing.assert_allclose(table["probability"], weights / weights.sum(), rtol=1e-12)


def test_large_evidences_do_not_overflow():
    table = compare({"a": estimate(-1e6), "b": estimate(-1e6 - np.log(3.0))})
    np.testing.assert_allclose(table["probability"], [0.75, 0.25], rtol=1e-8)


def test_prior_probabilities_enter_and_are_scaled():
    models = {"a": estimate(-4.0), "b": estimate(-5.0)}
    table = compare(models, {"b": 6.0, "a": 2.0})
    weights = np.array([2.0, 6.0 * np.exp(-1.0)])
    np.testing.assert_allclose(table.loc[["a", "b"], "probability"], weights / weights.sum())
    # ranked by evidence, which priors of models do not change
    assert table.index.tolist() == ["a", "b"]
    impossible = compare(models, {"a": 0.0, "b": 1.0})
    assert impossible["probability"].tolist() == [0.0, 1.0]


def test_error_of_the_log_bayes_factor_adds_both():
    table = compare({"a": estimate(-4.0, 0.3), "b": estimate(-5.0, 0.4), "c": estimate(-6.0, 0.0)})
    np.testing.assert_allclose(table["log_bayes_factor_se"], [0.0, 0.5, 0.3])


@pytest.mark.parametrize("prob", [0.5, 0.95])
def test_intervals_of_probabilities_are_those_of_the_difference(prob):
    """Two models: the probability is the logistic function of a normal difference."""
    table = compare({"a": estimate(-4.0, 0.3), "b": estimate(-5.0, 0.4)}, prob=prob)
    half = 0.5 * stats.norm.ppf(0.5 + 0.5 * prob)
    # 4000 draws: quantiles of the difference within 0.05 sd, 5 of their errors
    low, high = 1 / (1 + np.exp(-(1.0 + np.array([-half, half]))))
    assert table.loc["a", "probability_low"] == pytest.approx(low, abs=0.012)
    assert table.loc["a", "probability_high"] == pytest.approx(high, abs=0.012)
    np.testing.assert_allclose(table.loc["b", "probability_low"],
                               1 - table.loc["a", "probability_high"], atol=1e-9)  # fmt: skip


def test_few_degrees_of_freedom_widen_intervals():
    def width(df):
        table = compare({"a": estimate(-4.0, 0.5, df=df), "b": estimate(-4.5, 0.5, df=df)})
        return (table["probability_high"] - table["probability_low"]).iloc[0]

    assert width(2.0) > 1.3 * width(np.inf)


def test_rank_stability_is_the_probability_of_keeping_the_rank():
    table = compare({"a": estimate(-4.0, 0.3), "b": estimate(-4.5, 0.4), "c": estimate(-99.0, 0.1)})
    expected = stats.norm.cdf(0.5 / 0.5)
    # 4000 draws: sd 0.006
    np.testing.assert_allclose(table["rank_stability"], [expected, expected, 1.0], atol=0.03)


def test_an_unknown_error_leaves_intervals_unknown():
    table = compare({"a": estimate(-4.0, np.nan), "b": estimate(-5.0, 0.1)})
    assert table.index.tolist() == ["a", "b"]
    for column in ("probability_low", "probability_high", "rank_stability"):
        assert table[column].isna().all()
    assert np.isnan(table.loc["b", "log_bayes_factor_se"])
    assert table["probability"].sum() == pytest.approx(1.0)


def test_an_unknown_evidence_comes_last():
    table = compare({"a": estimate(np.nan, np.nan), "b": estimate(-5.0, 0.1)})
    assert table.index.tolist() == ["b", "a"]
    assert table["probability"].isna().all()


def test_warnings_of_estimates_are_flagged():
    diagnostics = tuple(Diagnostic(code, "x.", "y.") for code in ("no_overlap", "chains_disagree"))
    models = {"a": estimate(-4.0), "b": estimate(-5.0, warnings=diagnostics)}
    table = compare(models)
    assert table["warning"].tolist() == [False, True]
    assert table["warning_codes"].tolist() == ["", "no_overlap, chains_disagree"]
    assert repr(table).endswith("\nb: no_overlap, chains_disagree")


def test_one_folder_for_several_runs_is_refused():
    with pytest.raises(OptionError, match="'kept', which would be one folder for several runs"):
        compare({"a": estimate(-1.0), "b": estimate(-2.0)}, resume="kept")


def test_different_data_are_refused_naming_the_groups(monkeypatch):
    monkeypatch.setattr(pm, "sample", lambda *a, **k: pytest.fail("pm.sample was called"))
    models = {
        "first": normal_mean(1.0),
        "other": normal_mean(1.0, Y[:4]),
        "same": normal_mean(2.0, name="response"),
    }
    expected = (
        r"'first' and 'same' \(y of shape \(5,\) and mean 0.84\); "
        r"'other' \(y of shape \(4,\) and mean 0.625\)"
    )
    with pytest.raises(DataError, match=expected):
        compare(models)


def test_stored_runs_are_compared_without_sampling(runs, monkeypatch):
    monkeypatch.setattr(pm, "sample", lambda *a, **k: pytest.fail("pm.sample was called"))
    table = compare(runs)
    exact = {name: exact_log_z(sd) for name, sd in {"narrow": 0.5, "wide": 20.0}.items()}
    assert table.index.tolist() == sorted(exact, key=exact.get, reverse=True)
    for name, row in table.iterrows():
        # fails once in 10^5 seeds
        assert abs(row["log_marginal_likelihood"] - exact[name]) < 4.5 * row["se"]
        assert row["log_marginal_likelihood"] == pm_temper.estimate_logz(runs[name]).log_z


def test_models_runs_and_estimates_together(runs):
    sds = {"narrow": 0.5, "wide": 20.0, "middle": 2.0}
    models = {
        "narrow": pm_temper.estimate_logz(runs["narrow"]),
        "wide": runs["wide"],
        "middle": normal_mean(2.0),
    }
    table = compare(models, random_seed=1, **QUICK)
    exact = np.array([exact_log_z(sds[name]) for name in table.index])
    assert (np.diff(exact) < 0).all()
    np.testing.assert_allclose(table["log_marginal_likelihood"], exact, atol=0.3)
    truth = model_probabilities(exact, np.full(3, 1 / 3))
    # four or more errors wide, as the intervals are of 95 %
    assert (table["probability_low"] - 0.05 < truth).all()
    assert (truth < table["probability_high"] + 0.05).all()


def test_seeds_of_models_differ_and_repeat(monkeypatch):
    seeds = []

    def remember(model, *, random_seed=None, **kwargs):
        seeds.append(random_seed)
        return estimate(-float(len(seeds)))

    monkeypatch.setattr("pymc_tempering.comparison.estimates.estimate_logz", remember)
    for _ in range(2):
        compare({"a": normal_mean(1.0), "b": normal_mean(2.0)}, random_seed=5)
    assert seeds[0] != seeds[1]
    assert seeds[:2] == seeds[2:]
    compare({"a": normal_mean(1.0), "b": normal_mean(2.0)}, random_seed=np.random.default_rng(5))


def test_doubts_about_priors_reach_the_table():
    with pm.Model() as flat:
        pm.Normal("y", pm.Flat("mu"), 1.0, observed=Y)
    with pytest.warns(TemperingWarning):
        table = compare({"flat": flat, "proper": estimate(-9.0)}, random_seed=1, **QUICK)
    assert table["warning"].to_dict() == {"flat": True, "proper": False}
    assert "improper_priors" in table["warning_codes"]["flat"].split(", ")


@pytest.mark.parametrize("quiet", [False, True])
def test_says_which_model_is_sampled_unless_quiet(quiet, caplog):
    models = {"narrow": normal_mean(0.5), "other": estimate(-9.0)}
    with caplog.at_level("INFO", logger="pymc"):
        compare(models, random_seed=1, **{**QUICK, "quiet": quiet})
    assert ("Sampling the model 'narrow'" in caplog.text) is not quiet


class Builder:
    """A package that builds PyMC models, as bambi does: a backend once it is built."""

    def __init__(self, model):
        self.model, self.backend = model, None

    def build(self):
        self.backend = SimpleNamespace(model=self.model)


def test_objects_that_hold_a_pymc_model(monkeypatch):
    sampled = []

    def remember(model, **kwargs):
        sampled.append(model)
        return estimate(-float(len(sampled)))

    monkeypatch.setattr("pymc_tempering.comparison.estimates.estimate_logz", remember)
    plain, inside = normal_mean(1.0), normal_mean(2.0)
    for builder in (Builder(inside), Builder(inside)):
        assert compare({"a": plain, "b": builder}, random_seed=5).index.tolist() == ["a", "b"]
    assert sampled == [plain, inside] * 2
    with pytest.raises(OptionError, match=r"'b' is a Builder; expected a pymc\.Model"):
        compare({"a": plain, "b": Builder("no model")}, random_seed=5)


def test_evidence_of_other_programs():
    smc = xr.Dataset(
        {"log_marginal_likelihood": (("chain", "stage"), [[np.nan, -8.9], [-9.1, np.nan]])}
    )
    models = {
        "ours": estimate(-9.0),
        "dynesty": LogZEstimate.from_dynesty(
            SimpleNamespace(logz=[-20.0, -8.0], logzerr=[1.0, 0.2])
        ),
        "ultranest": LogZEstimate.from_ultranest({"logz": -8.5, "logzerr": 0.3}),
        "nautilus": LogZEstimate.from_nautilus(SimpleNamespace(log_z=-8.2, n_eff=400.0)),
        "smc": xr.DataTree.from_dict({"sample_stats": smc}),
    }
    table = compare(models)
    assert table["log_marginal_likelihood"].to_dict() == pytest.approx(
        {"dynesty": -8.0, "nautilus": -8.2, "ultranest": -8.5, "ours": -9.0, "smc": -9.0}
    )
    errors = table["se"][["dynesty", "ultranest", "nautilus", "smc"]]
    assert errors.tolist() == pytest.approx([0.2, 0.3, 0.05, 0.1])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("chains", [1, 2])
def test_evidence_of_sample_smc(chains):
    """As PyMC stores it, which depends on the number of chains."""
    with pm.Model():
        x = pm.Normal("x", 0.0, 1.0)
        pm.Normal("y", x, 1.0, observed=1.0)
        idata = pm.sample_smc(200, chains=chains, cores=1, random_seed=1, progressbar=False)
    estimate = LogZEstimate.from_smc(idata)
    assert estimate.per_chain.size == chains
    assert estimate.log_z == pytest.approx(stats.norm(0.0, 2.0**0.5).logpdf(1.0), abs=0.3)


@pytest.mark.parametrize(
    ("read", "result"),
    [
        (LogZEstimate.from_dynesty, SimpleNamespace()),
        (LogZEstimate.from_ultranest, {}),
        (LogZEstimate.from_nautilus, SimpleNamespace(log_z=None, n_eff=0)),
        (LogZEstimate.from_smc, xr.DataTree()),
    ],
)
def test_results_without_evidence(read, result):
    with pytest.raises(DataError, match="The result holds no evidence where"):
        read(result)


def test_print_fits_80_columns_and_has_errors_beside_numbers():
    diagnostics = tuple(
        Diagnostic(c, "x.", "y.")
        for c, kind in CODES.items()
        if not (kind.mass_missing or kind.of_comparison)
    )
    models = {
        "a": estimate(-1081.026, 0.031), "b" * 40: estimate(-1083.4, 0.2, warnings=diagnostics),
    }  # fmt: skip
    table = compare(models)
    text = repr(table)
    assert max(map(len, text.split("\n"))) <= 80
    assert "-1081.03 ± 0.03" in text
    assert "-2.37 ± 0.20" in text
    assert "0.91 [" in text
    assert [line.endswith("yes") for line in text.split("\n")[:3]] == [False, False, True]
    assert all(diagnostic.code in text for diagnostic in diagnostics)
    assert str(table) == text
    # what is made of it is a plain table with all columns
    assert type(table.round(2)) is type(table.T) is pd.DataFrame
    assert "-4.00 ± ?" in repr(compare({"a": estimate(-4.0, np.nan), "b": estimate(-5.0)}))
