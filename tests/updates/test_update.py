"""Updates with more data: right posteriors and increments, and a refusal of what does not fit."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import pymc_tempering as pm_temper
from pymc_tempering.errors import DataError, ModelError, TemperingWarning
from pymc_tempering.model.open_data import OpenDensity
from pymc_tempering.results.identity import recorded_identity
from pymc_tempering.updates import rows as module
from tests.losing import Losing

SHORT = {"draws": 100, "tune": 100, "chains": 2, "cores": 1, "progressbar": False, "quiet": True}
SHAPE, SCALE, PRECISION = 3.0, 2.0, 0.5
SLOPES = np.array([1.0, -0.5])


def normal_model(y):
    """Normal data of unknown mean and variance: conjugate."""
    with pm.Model() as model:
        variance = pm.InverseGamma("variance", SHAPE, SCALE)
        mean = pm.Normal("mean", 0.0, pm.math.sqrt(variance / PRECISION))
        pm.Normal("y", mean, pm.math.sqrt(variance), observed=y)
    return model


def log_z(y):
    shape = SCALE / SHAPE * (np.eye(len(y)) + 1.0 / PRECISION)
    return stats.multivariate_t(np.zeros(len(y)), shape, df=2 * SHAPE).logpdf(y)


def exact_run(y, rng, n=1000):
    """Exact draws of its posterior, with log Z by bridge sampling."""
    precision, shape = PRECISION + len(y), SHAPE + len(y) / 2
    mean = y.sum() / precision
    scale = SCALE + 0.5 * (y**2).sum() - 0.5 * precision * mean**2
    variance = stats.invgamma(shape, scale=scale).rvs((2, n), random_state=rng)
    draws = {"variance": variance, "mean": rng.normal(mean, np.sqrt(variance / precision))}
    groups = {
        "posterior": xr.Dataset({name: (("chain", "draw"), x) for name, x in draws.items()}),
        "observed_data": xr.Dataset({"y": ("row", y)}),
    }
    return pm_temper.estimate_logz(xr.DataTree.from_dict(groups), model=normal_model(y)).idata


@pytest.fixture(scope="module")
def parts(seed):
    rng = np.random.default_rng(seed)
    return [rng.normal(1.0, 1.5, n) for n in (10, 15, 40, 7)]


@pytest.fixture(scope="module")
def runs(parts, seed):
    """The run of the first part, and those of one update after the other."""
    model = normal_model(parts[0])
    runs = [exact_run(parts[0], np.random.default_rng(seed))]
    for k, new in enumerate(parts[1:]):
        runs.append(pm_temper.update(runs[-1], {"y": new}, model, random_seed=seed + k, **SHORT))
    return runs


@pytest.mark.statistical
def test_increments_are_those_of_conjugate_data(runs, parts):
    """False alarms: 1e-4 each, and for errors three times too small or large."""
    exact = [log_z(np.concatenate(parts[: k + 1])) for k in range(len(parts))]
    found = runs[-1]["updates"].dataset
    z = (found["log_increment"] - np.diff(exact)) / found["log_increment_se"]
    assert np.abs(z).max() < 4.5
    z = (found["log_marginal_likelihood"] - exact[1:]) / found["log_marginal_likelihood_se"]
    assert np.abs(z).max() < 4.5
    assert (found["log_increment_se"] < 0.1).all()


@pytest.mark.statistical
def test_draws_are_of_all_data(runs, parts, rng):
    """False alarms: 1e-4."""
    exact = exact_run(np.concatenate(parts), rng, n=20_000).posterior
    for name in ("mean", "variance"):
        draws = runs[-1].posterior[name]
        error = float(exact[name].std()) / np.sqrt(draws.size / 4)
        assert abs(float(draws.mean() - exact[name].mean())) < 4.0 * error


@pytest.fixture(scope="module")
def weighted(runs, parts, seed):
    """The last of the same updates, each by weights."""
    run, model = runs[0], normal_model(parts[0])
    for k, new in enumerate(parts[1:]):
        options = SHORT | {"draws": 400, "random_seed": seed + k, "quick": True}
        run = pm_temper.update(run, {"y": new}, model, **options)
        assert "sample_stats" not in run.children
    return run


@pytest.mark.statistical
def test_weights_give_the_same(weighted, runs, parts, rng):
    """False alarms: 2e-4 of log Z, and of draws."""
    exact = [log_z(np.concatenate(parts[: k + 1])) for k in range(len(parts))]
    found = weighted["updates"].dataset
    z = (found["log_marginal_likelihood"] - exact[1:]) / found["log_marginal_likelihood_se"]
    assert np.abs(z).max() < 4.5
    assert (found["log_marginal_likelihood_se"] < 0.021).all()
    assert (found["gradients"] < runs[-1]["updates"]["gradients"]).all()
    draws, of_all = weighted.posterior, exact_run(np.concatenate(parts), rng, n=20_000).posterior
    assert dict(draws.sizes) == {"chain": 2, "draw": 400}
    for name in ("mean", "variance"):
        # of independent draws, few of which come twice
        error = float(of_all[name].std()) * np.sqrt(2.0 / draws[name].size)
        assert abs(float(of_all[name].mean() - draws[name].mean())) < 4.0 * error
        assert 0.8 < float(draws[name].std() / of_all[name].std()) < 1.25
    assert recorded_identity(weighted) == recorded_identity(runs[-1])
    np.testing.assert_array_equal(weighted.observed_data["y"], np.concatenate(parts))
    table = pm_temper.compare({"tempered": runs[-1], "weighted": weighted})
    assert table.loc["weighted", "se"] == float(found["log_marginal_likelihood_se"][-1])


def test_a_budget_is_kept_by_weights(runs, parts, seed):
    given = runs[0], {"y": parts[1]}, normal_model(parts[0])
    options = SHORT | {"random_seed": seed, "quick": True, "max_gradients": 3000, "draws": 10}
    assert float(pm_temper.update(*given, **options)["updates"]["gradients"][-1]) <= 3000


def test_increments_telescope(runs):
    first = float(runs[0]["tempering"]["log_marginal_likelihood"])
    last = float(runs[-1]["tempering"]["log_marginal_likelihood"])
    found = runs[-1]["updates"].dataset
    assert found.sizes == {"update": 3}
    assert first + float(found["log_increment"].sum()) == pytest.approx(last, abs=1e-9)
    errors = [float(run["tempering"]["log_marginal_likelihood_se"]) for run in runs]
    np.testing.assert_allclose(found["log_increment_se"], np.hypot(errors[:-1], errors[1:]))


def test_the_result_is_a_run_of_all_data(runs, parts):
    y = np.concatenate(parts)
    np.testing.assert_array_equal(runs[-1].observed_data["y"], y)
    whole = normal_model(y)
    assert recorded_identity(runs[-1]) == module.Identity.of(whole)
    again = pm_temper.estimate_logz(runs[-1])
    assert again.log_z == float(runs[-1]["tempering"]["log_marginal_likelihood"])
    assert "search" in again.gradients


def assert_same(run, expected):
    for group in ("posterior", "updates"):
        xr.testing.assert_equal(run[group].dataset, expected[group].dataset)


def test_an_executor_and_a_folder_change_nothing(runs, parts, seed, tmp_path):
    """A chain whose worker is lost twice is left out, and sampled by the same call."""
    given = runs[0], {"y": parts[1]}, normal_model(parts[0])
    options = {name: value for name, value in SHORT.items() if name != "cores"}
    options["random_seed"] = seed
    assert_same(pm_temper.update(*given, executor=2, **options), runs[1])
    options["resume"] = tmp_path / "run"
    with pytest.warns(TemperingWarning, match="1 of 2 chains"):
        pm_temper.update(*given, executor=Losing({1, 2}), **options)
    assert_same(pm_temper.update(*given, executor=Losing(set()), **options), runs[1])
    with pytest.raises(DataError, match="another one: the data of 'y' changed"):
        pm_temper.update(given[0], {"y": parts[2]}, given[2], **options)
    # the same data after other draws: another reference
    with pytest.raises(DataError, match="base: draws is"):
        pm_temper.update(exact_run(parts[0], np.random.default_rng([seed, 1])), *given[1:],
                         **options)  # fmt: skip


def test_it_is_compiled_once(parts, rng, seed, monkeypatch):
    made, model = [], normal_model(parts[0])

    def counted(*args, **options):
        made.append(args)
        return OpenDensity(*args, **options)

    monkeypatch.setattr(module, "OpenDensity", counted)
    run = exact_run(parts[0], rng)
    for new in parts[1:3]:
        run = pm_temper.update(run, {"y": new}, model, random_seed=seed, **SHORT | {"draws": 10})
    assert len(made) == 1
    np.testing.assert_array_equal(model.rvs_to_values[model["y"]].data, parts[0])


def test_rows_that_are_left_out_would_be_noticed(parts, rng, seed, monkeypatch):
    right = module._checked_rows
    monkeypatch.setattr(module, "_checked_rows", lambda *args: right(*args)[:-3])
    run = exact_run(parts[0], rng)
    wrong = pm_temper.update(
        run, {"y": parts[1]}, normal_model(parts[0]), random_seed=seed, **SHORT
    )
    exact = log_z(np.concatenate(parts[:2])) - log_z(parts[0])
    found = wrong["updates"].dataset
    assert abs(float(found["log_increment"][0]) - exact) > 4.5 * float(found["log_increment_se"][0])


def regression(x, y, observed):
    """Regression with known noise; rows have labels."""
    with pm.Model(coords={"row": [f"r{i}" for i in range(len(y))]}) as model:
        covariates = pm.Data("x", x, dims=("row", "slope"))
        slopes = pm.Normal("slopes", 0.0, 1.0, shape=2)
        observed = pm.Data("values", y, dims="row") if observed == "data" else y
        pm.Normal("y", covariates @ slopes, 0.5, observed=observed, dims="row")
    return model


@pytest.mark.statistical
@pytest.mark.parametrize("observed", ["data", "constant"])
def test_covariates_grow_with_observations(observed, rng, seed):
    """False alarms: 1e-5."""
    x = rng.normal(size=(30, 2))
    y = x @ SLOPES + rng.normal(0.0, 0.5, 30)
    name = "values" if observed == "data" else "y"
    model = regression(x[:12], y[:12], observed)
    run = pm_temper.sample(model, random_seed=seed, **SHORT)
    for k, rows in enumerate((slice(12, 20), slice(20, 30))):
        # of the variable, or of what it observes
        new = {"x": x[rows], (name if k else "y"): y[rows]}
        run = pm_temper.update(run, new, model, random_seed=seed, **SHORT)
    if observed == "data":
        with pytest.raises(DataError, match="of which some observe others"):
            pm_temper.update(run, {"x": x[:3], "y": y[:3], "values": y[3:6]}, model, **SHORT)
    exact = stats.multivariate_normal(cov=x @ x.T + 0.25 * np.eye(30)).logpdf(y)
    found = pm_temper.estimate_logz(run)
    assert abs(found.log_z - exact) < 4.5 * found.se
    more = {"x": x[:3], name: y[:3]}
    later, quick = (
        pm_temper.update(run, more, model, random_seed=seed, quick=quick, **SHORT | {"draws": 20})
        for quick in (False, True)
    )
    for group in ("observed_data", "constant_data"):
        xr.testing.assert_equal(later[group].dataset, quick[group].dataset)
    assert quick["posterior"]["slopes"].dims == later["posterior"]["slopes"].dims
    np.testing.assert_array_equal(run.constant_data["x"], x)
    assert run.observed_data["y"].sizes == {"row": 30}
    assert model["x"].get_value().shape == (12, 2)


def two_modes(y):
    """Two modes by the sign of position, which the data part ever more."""
    with pm.Model() as model:
        position = pm.Normal("position", 0.3, 1.5)
        pm.Normal("y", position**2 + 0.05 * position, 0.5, observed=y)
    return model


def exact_share(y):
    t = np.linspace(-4.0, 4.0, 40_001)
    log_p = stats.norm(0.3, 1.5).logpdf(t)
    log_p += stats.norm(t**2 + 0.05 * t, 0.5).logpdf(y[:, None]).sum(axis=0)
    p = np.exp(log_p - log_p.max())
    return p[t < 0].sum() / p.sum(), np.log(p.sum() * (t[1] - t[0])) + log_p.max()


def of_shares(y, negative, rng):
    """Draws around both modes, a share of them negative, whatever the posterior says."""
    centre = np.sqrt(y.mean())
    sign = np.where(rng.random((2, 400)) < negative, -1.0, 1.0)
    draws = sign * centre + rng.normal(0.0, 0.25 / centre / np.sqrt(len(y)), (2, 400))
    groups = {
        "posterior": xr.Dataset({"position": (("chain", "draw"), draws)}),
        "observed_data": xr.Dataset({"y": ("row", y)}),
        "tempering": xr.Dataset({
            "log_marginal_likelihood": exact_share(y)[1], "log_marginal_likelihood_se": 1e-4,
            "log_z_chain": ("chain", [exact_share(y)[1]] * 2),
        }),
    }  # fmt: skip
    return xr.DataTree.from_dict(groups)


@pytest.mark.statistical
def test_wrong_weights_of_modes_are_corrected(rng, seed):
    """False alarms: 1e-4, where draws count a tenth."""
    y = rng.normal(2.0, 0.5, 50)
    run = of_shares(y[:20], 0.95, rng)
    new = pm_temper.update(run, {"y": y[20:]}, two_modes(y[:20]), random_seed=seed, **SHORT)
    share, exact = exact_share(y)
    draws = new.posterior["position"].to_numpy()
    error = np.sqrt(share * (1.0 - share) / draws.size * 10)
    assert abs((draws < 0).mean() - share) < 4.0 * error
    found = new["updates"].dataset
    assert abs(float(found["log_marginal_likelihood"][0]) - exact) < 4.5 * float(
        found["log_marginal_likelihood_se"][0]
    )
    assert not found["warnings"].item()
    # weights are of one mode alone, and what it took to see that is counted
    quick = pm_temper.update(
        run, {"y": y[20:]}, two_modes(y[:20]), random_seed=seed, quick=True, **SHORT
    )
    xr.testing.assert_equal(quick["posterior"].dataset, new["posterior"].dataset)
    assert quick["updates"]["gradients"].item() > found["gradients"].item()


def test_draws_of_weights_are_of_their_variables(rng, seed):
    """PyMC orders those of a frozen model anew; six standard errors of exact means."""
    centres = {"first": 5.0, "second": np.array([-7.0, 12.0]), "third": 1.0}

    def model_of(n):
        with pm.Model() as model:
            for name, centre in centres.items():
                mean = pm.Normal(name, 0.0, 20.0, shape=np.shape(centre))
                pm.Normal(
                    f"y_{name}", mean, 1.0, observed=np.tile(centre, (n, *[1] * np.ndim(centre)))
                )
        return model

    few, many = model_of(10), model_of(30)
    run = pm_temper.estimate_logz(few, random_seed=seed, **SHORT).idata
    new = pm_temper.update(run, many, random_seed=seed, **SHORT | {"quick": True, "draws": 200})
    assert "sample_stats" not in new.children  # weights did
    for name, centre in centres.items():
        drawn = new["posterior"][name].mean(("chain", "draw")).to_numpy()
        np.testing.assert_allclose(drawn, centre, atol=6.0 / np.sqrt(30 * 400) + 0.001)


def test_a_mode_that_ascents_find_and_draws_lack_is_named(rng, seed):
    y = rng.normal(2.0, 0.5, 50)
    run = of_shares(y[:20], 0.0, rng)
    options = SHORT | {"quick": True}
    with pytest.warns(match="a mode may be missing"):
        new = pm_temper.update(run, {"y": y[20:]}, two_modes(y[:20]), random_seed=seed, **options)
    assert new["updates"]["warnings"].item() == "mode_missing"
    # and it is in the reference
    assert (new.posterior["position"] < 0).mean() > 0.2
    # later runs inherit the warning, which their own modes do not explain
    more = rng.normal(2.0, 0.5, 5)
    with pytest.warns(match="a mode may be missing"):
        later = pm_temper.update(new, {"y": more}, two_modes(y[:20]), random_seed=seed, **SHORT)
    assert later["updates"]["warnings"].to_numpy().tolist() == ["mode_missing"] * 2


def test_the_model_of_all_data_serves_as_well(parts, rng, seed):
    run, y = exact_run(parts[0], rng), np.concatenate(parts[:2])
    by_rows = pm_temper.update(
        run, {"y": parts[1]}, normal_model(parts[0]), random_seed=seed, **SHORT
    )
    whole = pm_temper.update(run, normal_model(y), random_seed=seed, **SHORT)
    assert float(whole["updates"]["log_increment"][0]) == pytest.approx(
        float(by_rows["updates"]["log_increment"][0]), abs=0.1
    )
    with pytest.raises(DataError, match="does not begin with"):
        pm_temper.update(run, normal_model(y[::-1]), **SHORT)
    with pytest.raises(DataError, match="no more than the run"):
        pm_temper.update(run, normal_model(parts[0]), **SHORT)
    changed = normal_model(y)
    with changed:
        pm.Normal("other", 0.0, 1.0)
    with pytest.raises(DataError, match="in more than data: in the prior of 'other'"):
        pm_temper.update(by_rows, changed, **SHORT)


@pytest.mark.parametrize(
    ("new", "error"),
    [
        ({}, "at least one name"),
        ([1.0], "a mapping"),
        ({"z": [1.0]}, r"has \['z'\].*it has \['y'\]"),
        ({"y": []}, r"shape \(0,\)"),
        ({"y": 1.0}, r"shape \(\)"),
        ({"y": [[1.0]]}, r"shape \(1, 1\)"),
        ({"y": [1.0, np.nan]}, "missing values"),
        ({"y": np.ma.masked_array([1.0, 2.0], [True, False])}, "missing values"),
        ({"y": [1j]}, "of type complex128"),
        ({"y": ["a"]}, "of type"),
        ({"y": [[1.0], [1.0, 2.0]]}, "no array"),
    ],
)
def test_rows_that_do_not_fit_are_refused(new, error, parts, runs):
    with pytest.raises(DataError, match=error):
        pm_temper.update(runs[0], new, normal_model(parts[0]), **SHORT)


def test_runs_that_do_not_fit_are_refused(parts, runs):
    bare = xr.DataTree.from_dict({"posterior": runs[0].posterior.to_dataset()})
    with pytest.raises(DataError, match="no log Z"):
        pm_temper.update(bare, {"y": [1.0]}, normal_model(parts[0]))
    with pytest.raises(DataError, match="expected the DataTree"):
        pm_temper.update("run.nc", {"y": [1.0]}, normal_model(parts[0]))
    with pm.Model() as other:
        variance = pm.InverseGamma("variance", SHAPE, 2 * SCALE)
        mean = pm.Normal("mean", 0.0, pm.math.sqrt(variance / PRECISION))
        pm.Normal("y", mean, pm.math.sqrt(variance), observed=parts[0])
    with pytest.raises(DataError, match="the prior of 'variance'"):
        pm_temper.update(runs[1], {"y": [1.0]}, other, **SHORT)
    with pm.Model() as discrete:
        k = pm.Bernoulli("k", 0.3)
        pm.Normal("y", k, 1.0, observed=parts[0])
    with pytest.raises(ModelError, match=r"\['k'\] are discrete"):
        pm_temper.update(runs[1], {"y": [1.0]}, discrete, **SHORT)


def test_priors_that_depend_on_the_rows_are_refused(runs):
    with pm.Model(coords={"row": range(10)}) as model:
        x = pm.Data("x", np.zeros(10), dims="row")
        own = pm.Normal("own", 0.0, 1.0, dims="row")
        pm.Normal("y", own + x, 1.0, observed=np.zeros(10), dims="row")
    with pytest.raises(DataError, match=r"priors of \['own'\] depend on"):
        pm_temper.update(runs[1], {"x": [0.0], "y": [0.0]}, model, **SHORT)
    with pm.Model() as model:
        x = pm.Data("x", np.ones(10))
        slope = pm.Normal("slope", 0.0, 1.0 / x.std())
        pm.Normal("y", slope * x, 1.0, observed=np.zeros(10))
    with pytest.raises(DataError, match=r"priors of \['slope'\] depend on"):
        pm_temper.update(runs[1], {"x": [0.0], "y": [0.0]}, model, **SHORT)


@pytest.mark.statistical
def test_names_grow_one_after_the_other(rng, seed):
    """A part of data is observed, and another of its parts a covariate; false alarms: 1e-5."""
    series, others = np.cumsum(rng.normal(size=25)), rng.normal(0.5, 1.0, size=9)
    with pm.Model() as model:
        values = pm.Data("values", series[:15])
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Normal("y", slope * values[:-1], 1.0, observed=values[1:])
        pm.Normal("other", slope, 1.0, observed=others[:4])
    run = pm_temper.sample(model, random_seed=seed, **SHORT)
    for new in ({"values": series[15:]}, {"other": others[4:]}):
        run = pm_temper.update(run, new, model, random_seed=seed, **SHORT)
    design = np.append(series[:-1], np.ones(9))
    law = stats.multivariate_normal(cov=np.outer(design, design) + np.eye(33))
    last = run["updates"].dataset.isel(update=-1)
    error = float(last["log_marginal_likelihood"]) - law.logpdf(np.append(series[1:], others))
    assert abs(error) < 4.5 * float(last["log_marginal_likelihood_se"])
    with pytest.raises(DataError, match=r"has \['y'\]"):
        pm_temper.update(run, {"y": [1.0]}, model, **SHORT)


def test_models_that_other_numbers_of_rows_do_not_fit_are_refused(seed):
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(3))
        slope = pm.Normal("slope", 0.0, 1.0)
        pm.Normal("y", slope * x, 1.0, observed=np.zeros(3))
    run = pm_temper.sample(model, random_seed=seed, **SHORT)
    with pytest.raises(ModelError, match="cannot be built"):
        pm_temper.update(run, {"x": [0.0], "y": [0.0, 1.0]}, model, **SHORT)
    with model:
        pm.Normal("part", slope, 1.0, observed=np.zeros(3), total_size=6)
    with pytest.warns(TemperingWarning, match="total_size"):
        run = pm_temper.sample(model, random_seed=seed, **SHORT)
    with pytest.raises(ModelError, match="'part' has a `total_size`"):
        pm_temper.update(run, {"part": [0.0]}, model, **SHORT)
