"""Averaging over models: shares, laws of the mixture, and what is refused."""

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_tempering as pm_temper
from pymc_tempering.comparison.averaging import average
from pymc_tempering.comparison.table import compare
from pymc_tempering.errors import DataError, OptionError, TemperingWarning
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate

Y = np.array([0.4, -1.1, 2.3, 0.9, 1.7])


def estimate(log_z, se=0.1, **kwargs):
    return LogZEstimate(log_z, se, "pt, mbar", np.full(4, log_z), **kwargs)


def numbered(first, shape=(2, 50), group="posterior_predictive", **more):
    """A run whose draws are the numbers from `first` on."""
    values = first + np.arange(np.prod(shape)).reshape(shape)
    variables = {"y": (("chain", "draw", "obs"), np.stack([values, -values], axis=-1))} | more
    coords = {"chain": np.arange(shape[0]), "draw": np.arange(shape[1]), "obs": ["p", "q"]}
    return xr.DataTree.from_dict({group: xr.Dataset(variables, coords=coords)})


RUNS = {"a": numbered(0), "b": numbered(1000)}
ESTIMATES = {"a": estimate(-10.0), "b": estimate(-11.0)}


def test_shares_are_the_probabilities_of_the_table():
    table = compare(ESTIMATES)
    mixture = average(RUNS, table, carry_error=False, random_seed=1)
    weights = mixture["model_weights"].dataset
    np.testing.assert_allclose(weights["weight"], table.loc[["a", "b"], "probability"])
    np.testing.assert_allclose(weights["weight"].values, [1 / (1 + np.exp(-1)), 1 / (1 + np.e)])
    assert weights["n_draws"].values.tolist() == [73, 27]
    assert weights["model"].values.tolist() == ["a", "b"]
    np.testing.assert_allclose(weights["prior_probability"], 0.5)
    assert weights["log_marginal_likelihood"].values.tolist() == [-10.0, -11.0]


def test_each_draw_is_one_of_the_model_that_it_names():
    mixture = average(RUNS, ESTIMATES, random_seed=3)["posterior_predictive"].dataset
    assert mixture["y"].dims == ("chain", "draw", "obs")
    assert mixture["obs"].values.tolist() == ["p", "q"]
    model = mixture["model"]
    assert model.dims == ("chain", "draw")
    y = mixture["y"].sel(obs="p").values
    np.testing.assert_array_equal(mixture["y"].sel(obs="q").values, -y)
    np.testing.assert_array_equal(np.where(y >= 1000, "b", "a"), model.values)
    # none twice, and each model's draws evenly from both chains
    assert np.unique(y).size == y.size == 100
    for name, first in (("a", 0), ("b", 1000)):
        chosen = y[model.values == name] - first
        assert abs((chosen < 50).mean() - 0.5) < 0.06
        assert np.diff(np.sort(chosen)).max() <= np.ceil(100 / chosen.size)


def test_order_is_random_so_that_parts_are_mixtures():
    first = average(RUNS, ESTIMATES, random_seed=5)["posterior_predictive"].dataset["model"][0, :50]
    # hypergeometric, mean 36 of 50 and sd 2.2: beyond 10 once in 10^5
    assert abs(int((first == "a").sum()) - 36) < 10


def test_the_seed_determines_the_mixture():
    one, two, other = (average(RUNS, ESTIMATES, random_seed=seed) for seed in (4, 4, 5))
    assert one.identical(two)
    assert not one.identical(other)
    average(RUNS, ESTIMATES, random_seed=np.random.default_rng(4))


@pytest.mark.statistical
def test_every_draw_is_equally_likely_and_shares_are_exact_on_average(seed):
    """400 mixtures of 10 draws: chi-square of 20 draws at a rate of 10^-5."""
    runs = {"a": numbered(0, (2, 5)), "b": numbered(1000, (2, 5))}
    counts: dict[float, int] = {}
    shares = np.empty(400)
    for i in range(400):
        mixture = average(runs, ESTIMATES, carry_error=False, random_seed=[seed, i])
        y = mixture["posterior_predictive"]["y"].values[0, :, 0]
        shares[i] = (y < 1000).mean()
        for value in y:
            counts[value] = counts.get(value, 0) + 1
    weight = 1 / (1 + np.exp(-1))
    assert set(np.unique(shares * 10).round(6)) <= {7.0, 8.0}
    # a share of 7 or 8 of 10: sd of the mean 0.0023
    assert abs(shares.mean() - weight) < 0.0105
    table = np.array([counts.get(v, 0) for v in [*range(10), *range(1000, 1010)]])
    expected = 400 * np.repeat([weight, 1 - weight], 10)
    statistic = ((table - expected) ** 2 / expected).sum()
    assert stats.chi2.sf(statistic, 18) > 1e-5


def test_moments_are_those_of_the_mixture(rng):
    """Two normals: mean and variance of the mixture within 4.5 errors, once in 10^5."""

    def normal(mean, sd):
        draws = rng.normal(mean, sd, (4, 5000))
        return xr.DataTree.from_dict({"posterior": xr.Dataset({"x": (("chain", "draw"), draws)})})

    mixture = average({"a": normal(0.0, 1.0), "b": normal(3.0, 0.5)}, ESTIMATES,
                      group="posterior", carry_error=False, random_seed=1)  # fmt: skip
    x = mixture["posterior"]["x"].values
    w = 1 / (1 + np.exp(-1))
    mean = 3.0 * (1 - w)
    variance = w * (1 + mean**2) + (1 - w) * (0.25 + (3 - mean) ** 2)
    assert abs(x.mean() - mean) < 4.5 * np.sqrt(variance / x.size)
    assert abs(x.var() - variance) < 4.5 * variance * np.sqrt(2 / x.size)


def test_errors_of_log_z_are_carried():
    """The weight is the mean of a logistic function of a normal or Student difference."""
    wide = {"a": estimate(-10.0, 1.5), "b": estimate(-12.0, 2.0)}
    weights = average(RUNS, wide, random_seed=1)["model_weights"].dataset
    grid = np.linspace(-60, 60, 200_001)
    exact = np.trapezoid(stats.norm(2.0, 2.5).pdf(grid) / (1 + np.exp(-grid)), grid)
    # 4000 draws of a number with an sd below 0.3
    assert float(weights["weight"][0]) == pytest.approx(exact, abs=0.02)
    assert float(weights["probability"][0]) == pytest.approx(1 / (1 + np.exp(-2)))
    assert float(weights["weight"].sum()) == pytest.approx(1.0)
    table = average(RUNS, compare(wide), random_seed=1)["model_weights"].dataset
    np.testing.assert_allclose(table["weight"], weights["weight"])
    few = {name: estimate(e.log_z, e.se, df=1.0) for name, e in wide.items()}
    by_student = average(RUNS, few, random_seed=1)["model_weights"].dataset
    assert float(by_student["weight"][0]) < exact - 0.02


def test_an_unknown_error_is_carried_by_nobody():
    unknown = ESTIMATES | {"b": estimate(-11.0, np.nan)}
    with pytest.raises(OptionError, match=r"log Z of \['b'\] has no error.*carry_error=False"):
        average(RUNS, unknown)
    average(RUNS, unknown, carry_error=False)
    with pytest.raises(DataError, match=r"log Z of \['b'\] is not finite"):
        average(RUNS, ESTIMATES | {"b": estimate(np.nan)}, carry_error=False)


@pytest.mark.parametrize("by_table", [True, False])
def test_prior_probabilities(by_table):
    prior = {"a": 1.0, "b": 3.0}
    comparison = compare(ESTIMATES, prior) if by_table else ESTIMATES
    kwargs = {} if by_table else {"prior_probs": prior}
    weights = average(RUNS, comparison, carry_error=False, **kwargs)["model_weights"].dataset
    np.testing.assert_allclose(weights["prior_probability"], [0.25, 0.75])
    np.testing.assert_allclose(weights["weight"][0], 1 / (1 + 3 * np.exp(-1)))


def test_number_of_draws():
    longer = {"a": numbered(0, (4, 100)), "b": numbered(1000)}
    assert average(longer, ESTIMATES)["posterior_predictive"].sizes["draw"] == 100
    repeated = average(RUNS, ESTIMATES, num_samples=1000)["posterior_predictive"].dataset
    values, counts = np.unique(repeated["y"].values[..., 0], return_counts=True)
    assert values.size == 200
    # draws of one model are repeated equally often, to within one
    for part in (counts[:100], counts[100:]):
        assert np.ptp(part) <= 1


def test_a_model_without_probability_has_no_draws():
    hopeless = {"a": estimate(-10.0), "b": estimate(-1e5)}
    mixture = average(RUNS, hopeless)
    assert mixture["model_weights"]["n_draws"].values.tolist() == [100, 0]
    assert set(mixture["posterior_predictive"]["model"].values.ravel()) == {"a"}


def test_common_variables_are_mixed_and_may_be_chosen():
    more = numbered(0, extra=(("chain", "draw"), np.zeros((2, 50))))
    mixture = average({"a": more, "b": RUNS["b"]}, ESTIMATES)
    assert list(mixture["posterior_predictive"].data_vars) == ["y"]
    both = {"a": more, "b": more}
    chosen = average(both, ESTIMATES, var_names="extra")["posterior_predictive"]
    assert list(chosen.data_vars) == ["extra"]
    with pytest.raises(DataError, match=r"of 'b' lacks the variables \['extra'\]"):
        average({"a": more, "b": RUNS["b"]}, ESTIMATES, var_names=["extra"])
    other = RUNS["b"].copy()
    other["posterior_predictive"] = xr.DataTree(
        other["posterior_predictive"].to_dataset().rename(y="z")
    )
    with pytest.raises(DataError, match="No variable of `posterior_predictive` is common"):
        average({"a": RUNS["a"], "b": other}, ESTIMATES)


def test_quantities_of_other_shape_or_order_are_refused():
    def replaced(**changes):
        tree = RUNS["b"].copy()
        dataset = tree["posterior_predictive"].to_dataset()
        tree["posterior_predictive"] = xr.DataTree(changes["by"](dataset))
        return {"a": RUNS["a"], "b": tree}

    with pytest.raises(DataError, match=r"'y' has dimensions \{'obs': 1\} in 'b' and \{'obs': 2\}"):
        average(replaced(by=lambda d: d.isel(obs=[0])), ESTIMATES)
    with pytest.raises(DataError, match=r"'y' has dimensions \{'other': 2\} in 'b'"):
        average(replaced(by=lambda d: d.rename(obs="other")), ESTIMATES)
    with pytest.raises(DataError, match="'y' has other coordinates along 'obs' in 'b'"):
        average(replaced(by=lambda d: d.isel(obs=[1, 0])), ESTIMATES)


def test_different_data_are_refused():
    runs = {}
    for name, shift in {"a": 0.0, "b": 1.0}.items():
        runs[name] = RUNS[name].copy()
        runs[name]["observed_data"] = xr.DataTree(xr.Dataset({"y": ("obs", Y + shift)}))
    with pytest.raises(DataError, match=r"different data: 'a' \(y of .*; 'b' \(y of "):
        average(runs, ESTIMATES)
    runs["b"]["observed_data"] = runs["a"]["observed_data"].copy()
    assert "observed_data" in average(runs, ESTIMATES).children


def test_a_missing_group_names_both_remedies():
    bare = {name: xr.DataTree.from_dict({"posterior": xr.Dataset()}) for name in "ab"}
    with pytest.raises(DataError, match=r'sample_posterior_predictive.*`group="posterior"`'):
        average(bare, ESTIMATES)


def test_a_table_of_other_weights_is_refused():
    with pytest.raises(
        OptionError, match=r"weights of `arviz\.compare`|Weights of `arviz\.compare`"
    ):
        average(RUNS, pd.DataFrame({"weight": [0.5, 0.5]}, index=["a", "b"]))


def test_doubtful_evidence_is_named():
    doubtful = ESTIMATES | {"b": estimate(-11.0, warnings=(Diagnostic("no_overlap", "x.", "y."),))}
    for comparison in (doubtful, compare(doubtful)):
        with pytest.warns(TemperingWarning) as record:
            average(RUNS, comparison)
        [diagnostic] = [w.message.diagnostic for w in record]
        assert (diagnostic.code, diagnostic.measured) == ("doubtful_evidence", {"models": ["b"]})


@pytest.fixture(scope="module")
def stored(tmp_path_factory, seed):
    """Runs of three models of the mean, with posterior predictive draws, read from netCDF."""
    folder, runs = tmp_path_factory.mktemp("runs"), {}
    for name, sd in {"narrow": 0.5, "wide": 5.0}.items():
        with pm.Model() as model:
            mu = pm.Normal("mu", 0.0, sd)
            pm.Normal("y", mu, 1.0, observed=Y)
            run = pm_temper.sample(
                random_seed=seed, draws=300, tune=60, chains=2, cores=1, progressbar=False,
                quiet=True, compute_convergence_checks=False, scans_per_draw=8,
            )  # fmt: skip
            run = pm.sample_posterior_predictive(
                run, extend_inferencedata=True, progressbar=False, random_seed=seed
            )
        del model
        run.to_netcdf(folder / f"{name}.nc", engine="h5netcdf")
        runs[name] = xr.open_datatree(folder / f"{name}.nc", engine="h5netcdf")
    yield runs
    for run in runs.values():
        run.close()


@pytest.mark.statistical
def test_stored_runs_alone_give_the_averaged_predictive(stored, tmp_path, monkeypatch):
    """Mean of the averaged predictive from conjugacy, within 5 errors of 600 draws."""
    monkeypatch.setattr(pm, "sample", lambda *a, **k: pytest.fail("pm.sample was called"))
    mixture = average(stored, random_seed=1)
    sds = {"narrow": 0.5, "wide": 5.0}
    log_z = [stats.multivariate_normal(np.zeros(5), np.eye(5) + s**2).logpdf(Y)
             for s in sds.values()]  # fmt: skip
    weight = 1 / (1 + np.exp(log_z[1] - log_z[0]))
    assert float(mixture["model_weights"]["weight"][0]) == pytest.approx(weight, abs=0.02)
    means = [Y.sum() / (5 + 1 / s**2) for s in sds.values()]
    mean = weight * means[0] + (1 - weight) * means[1]
    y = mixture["posterior_predictive"]["y"]
    assert y.sizes == {"chain": 1, "draw": 600, y.dims[2]: 5}
    # draws of one mu are shared by five observations: sd of their mean below 0.7
    assert abs(float(y.mean()) - mean) < 5 * 0.7 / np.sqrt(600) + 0.02
    assert "y" in mixture["observed_data"]
    mixture.to_netcdf(tmp_path / "mixture.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "mixture.nc", engine="h5netcdf") as again:
        assert again["posterior_predictive"]["model"].values[0, 0] in sds
        xr.testing.assert_allclose(again["posterior_predictive"]["y"], y)
    summary = az.summary(mixture, group="posterior_predictive", kind="stats")
    assert len(summary) == 5
