"""Runs in the hands of ArviZ, PyMC, bambi and files: what users do after sampling."""

import arviz as az
import matplotlib as mpl
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_tempering as pm_temper

mpl.use("Agg")

# sixty draws are few, and the estimate says so; here only what can be done with them is asked
pytestmark = pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")

SETTINGS = {
    "chains": 2, "cores": 1, "progressbar": False, "quiet": True,
    "compute_convergence_checks": False,
}  # fmt: skip
METHODS = {
    "pt": {"scans_per_draw": 8},
    "gibbs_ct": {"scans_per_draw": 8},
    "st": {"scans_per_draw": 8},
    "hais": {},
    "joint_ct": {},
}
DATA = np.array([0.3, 1.2, -0.4, 0.8, 1.9, 0.6])


@pytest.fixture(scope="module")
def model():
    with pm.Model(coords={"obs": np.arange(6), "side": ["left", "right"]}) as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        offset = pm.Normal("offset", 0.0, 0.5, dims="side")
        sd = pm.HalfNormal("sd", 1.0)
        pm.Deterministic("total", mu + offset, dims="side")
        pm.Normal("y", mu + offset.sum(), sd, observed=DATA, dims="obs")
    return model


# NUTS of a tempered model is compiled for half a minute
@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=pytest.mark.slow if name == "joint_ct" else ()) for name in METHODS
    ],
)
def run(request, model, seed):
    return pm_temper.sample(
        model, method=request.param, draws=60, tune=60, random_seed=seed,
        **METHODS[request.param], **SETTINGS,
    )  # fmt: skip


@pytest.fixture(autouse=True)
def close_figures():
    yield
    mpl.pyplot.close("all")


@pytest.mark.parametrize("kind", ["netcdf", "zarr"])
def test_files(kind, run, tmp_path):
    """Everything comes back, and plain ArviZ reads it without this package."""
    path = str(tmp_path / f"run.{kind}")
    if kind == "zarr":
        pytest.importorskip("zarr")
        run.to_zarr(path)
        loaded = [xr.open_datatree(path, engine="zarr"), az.from_zarr(path)]
    else:
        run.to_netcdf(path)
        loaded = [xr.open_datatree(path), az.from_netcdf(path)]
    for tree in loaded:
        assert set(tree.children) == set(run.children)
        for group in run.children:
            xr.testing.assert_equal(tree[group].to_dataset(), run[group].to_dataset())
        assert az.summary(tree, kind="stats").shape[0] == 6
        again = pm_temper.bayes_factor(tree, tree)
        assert again.log_bayes_factor == 0.0


def test_estimate_from_a_file_is_the_same(run, tmp_path):
    path = tmp_path / "run.nc"
    run.to_netcdf(path)
    estimate = pm_temper.estimate_logz(xr.open_datatree(path))
    assert estimate.log_z == float(run["tempering"]["log_marginal_likelihood"])


def test_summary_lists_parameters_only(run):
    table = az.summary(run)
    assert sorted({str(name).split("[")[0] for name in table.index}) == [
        "mu", "offset", "sd", "total",
    ]  # fmt: skip
    assert np.isfinite(table.iloc[:, 0].astype(float)).all()


@pytest.mark.parametrize("plot", ["plot_trace", "plot_trace_dist", "plot_dist", "plot_rank"])
def test_plots(plot, run):
    assert getattr(az, plot)(run, var_names=["mu", "offset"], backend="matplotlib") is not None


def test_diagnostics(run):
    assert az.ess(run)["mu"] > 0
    assert np.isfinite(az.rhat(run)["sd"])


def test_loo(run, model):
    tree = run.copy()
    with model:
        pm.compute_log_likelihood(tree, progressbar=False)
    assert tree["log_likelihood"]["y"].sizes["obs"] == 6
    result = az.loo(tree)
    assert np.isfinite(result.elpd)


def test_log_likelihood_while_sampling(model, seed):
    idata = pm_temper.sample(
        model, draws=30, tune=30, scans_per_draw=8, random_seed=seed,
        idata_kwargs={"log_likelihood": True}, **SETTINGS,
    )  # fmt: skip
    assert np.isfinite(az.loo(idata).elpd)


def test_predictions(run, model, seed):
    with model:
        pm.sample_posterior_predictive(
            run, extend_inferencedata=False, progressbar=False, random_seed=seed
        )
        predicted = pm.sample_posterior_predictive(run, progressbar=False, random_seed=seed)
    y = predicted["posterior_predictive"]["y"]
    assert y.sizes == {"chain": 2, "draw": run["posterior"].sizes["draw"], "obs": 6}
    spread = np.sqrt(run["posterior"]["sd"].values.mean() ** 2 + DATA.var())
    assert abs(float(y.mean()) - DATA.mean()) < 2.0 * spread


def test_comparison_by_loo_beside_evidence(run, model):
    tree = run.copy()
    with model:
        pm.compute_log_likelihood(tree, progressbar=False)
    table = az.compare({"one": tree, "two": tree})
    assert sorted(table.index) == ["one", "two"]


class TestBambi:
    @pytest.fixture(scope="class")
    def fitted(self):
        bambi = pytest.importorskip("bambi", reason="bambi is not installed; see the extra `tests`")
        pd = pytest.importorskip("pandas")
        # Student's sleep data (Biometrika 1908): hours of sleep gained with drugs 1 and 2
        gained = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0,
                  1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]  # fmt: skip
        drug, patient = ["one"] * 10 + ["two"] * 10, [*range(10)] * 2
        data = pd.DataFrame({"gained": gained, "drug": drug, "patient": patient})
        model = bambi.Model("gained ~ drug", data)
        model.build()
        return model

    def test_our_step_samples_the_model(self, fitted, seed):
        with fitted.backend.model:
            step = pm_temper.ParallelTempering(scans_per_draw=8)
            idata = pm.sample(60, tune=60, step=step, random_seed=seed, **SETTINGS)
        estimate = pm_temper.estimate_logz(idata)
        assert np.isfinite(estimate.log_z)
        assert "drug" in idata.posterior
        assert not az.summary(idata).empty

    def test_sample_and_compare(self, fitted, seed):
        idata = pm_temper.sample(
            fitted.backend.model, draws=60, tune=60, scans_per_draw=8, random_seed=seed, **SETTINGS
        )
        # the difference of the means is 1.58 hours, with a standard error of 0.85
        assert 0.0 < float(idata.posterior["drug"].mean()) < 3.0

    def test_compare_takes_bambi_models(self, fitted, seed):
        import bambi

        plain = bambi.Model("gained ~ patient", fitted.data)
        options = {"draws": 40, "tune": 60, "scans_per_draw": 8, "random_seed": seed}
        table = pm_temper.compare({"plain": plain, "drugs": fitted}, **options, **SETTINGS)
        assert sorted(table.index) == ["drugs", "plain"]
        assert np.isfinite(table["log_marginal_likelihood"]).all()

    def test_update_takes_bambi_models(self, fitted, seed):
        """With priors that do not depend on the data."""
        import bambi

        priors = {"Intercept": bambi.Prior("Normal", mu=1.0, sigma=2.0),
                  "drug": bambi.Prior("Normal", mu=0.0, sigma=2.0),
                  "sigma": bambi.Prior("HalfNormal", sigma=3.0)}  # fmt: skip
        data = fitted.data.iloc[[0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15, 6, 16]]
        given = {"formula": "gained ~ drug", "priors": priors, "center_predictors": False}
        options = {"draws": 60, "tune": 60, "random_seed": seed} | SETTINGS
        first, both = (bambi.Model(data=data.iloc[:n], **given) for n in (8, 14))
        run = pm_temper.update(pm_temper.sample(first, **options), both, **options)
        assert run.observed_data["gained"].size == 14
        whole = pm_temper.estimate_logz(both, **options)
        found = run["updates"].dataset
        errors = np.hypot(found["log_marginal_likelihood_se"][0], whole.se)
        assert abs(found["log_marginal_likelihood"][0] - whole.log_z) < 5 * errors + 0.02
        automatic = bambi.Model("gained ~ drug", data)
        with pytest.raises(pm_temper.errors.DataError, match="center_predictors=False"):
            pm_temper.update(run, automatic, **options)

    def test_bambi_passes_a_step_on(self, fitted, seed):
        """By the name of PyMC's argument, from bambi's own fit."""
        with fitted.backend.model:
            step = pm_temper.ParallelTempering(scans_per_draw=8)
        idata = fitted.fit(draws=30, tune=60, step=step, random_seed=seed, **SETTINGS)
        assert np.isfinite(pm_temper.estimate_logz(idata).log_z)
        predicted = fitted.predict(idata, kind="response", inplace=False)
        assert "gained" in predicted["posterior_predictive"]
