import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import DataError, TemperingWarning
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.testing import asymmetric_bimodal, correlated_gaussian, hard_edge_gaussian
from pymc_tempering.transform import Bias, temper, untemper
from pymc_tempering.transform.analysis import collect
from pymc_tempering.transform.untempered import statistics_of_draws

TARGETS = {
    "asymmetric_bimodal": Bias([0.0, 0.05, 0.4, 1.0], [0.0, -1.0, -1.5, -1.8]),
    "correlated_gaussian": Bias([0.0, 0.1, 1.0], [0.0, 0.5, 2.0]),
    "hard_edge_gaussian": Bias.linear(0.5),
}
FACTORIES = {
    "asymmetric_bimodal": asymmetric_bimodal,
    "correlated_gaussian": correlated_gaussian,
    "hard_edge_gaussian": hard_edge_gaussian,
}


def over(target, factor=1.4):
    return GaussianBase(target.mean, factor * np.sqrt(np.diag(target.cov)))


@pytest.fixture(
    scope="module",
    params=[
        "asymmetric_bimodal",
        "correlated_gaussian",
        pytest.param("hard_edge_gaussian", marks=pytest.mark.slow),
    ],
)
def drawn(request, seed, exact):
    target, bias = FACTORIES[request.param](), TARGETS[request.param]
    return target, exact(target, over(target), bias, np.random.default_rng(seed)), bias


@pytest.fixture
def case(drawn):
    target, tree, bias = drawn
    return target, tree.copy(deep=True), bias


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_log_z_moments_and_mode_weights(case, rng):
    """Independent exact draws; each of some 20 comparisons fails at 4.5 standard errors, 1e-5."""
    target, tree, _ = case
    result = untemper(tree, random_seed=rng)
    tempering = result["tempering"]
    error = float(tempering["log_marginal_likelihood"]) - target.log_z
    assert abs(error) < 4.5 * float(tempering["log_marginal_likelihood_se"])
    assert float(tempering["log_marginal_likelihood_se"]) < 0.1
    plain = tempering["log_z_continuous"].values - target.log_z
    assert abs(plain.mean()) < 4.5 * plain.std(ddof=1)
    weight_ess = tempering["weight_ess"].values.sum()
    x = result["posterior"]["x"].values.reshape(-1, target.dim)
    # resampling adds at most the variance of the draws once more
    se = np.sqrt(np.diag(target.cov) * (1 / weight_ess + 1 / len(x)))
    assert (np.abs(x.mean(axis=0) - target.mean) < 4.5 * se).all()
    share, exact = (x[:, 0] > 1.0).mean(), float(target.survival(0, 1.0))
    assert abs(share - exact) < 4.5 * np.sqrt(exact * (1 - exact) * (1 / weight_ess + 1 / len(x)))


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_planted_bugs_are_noticed(case):
    target, tree, bias = case
    if target.name == "correlated_gaussian":
        pytest.skip("its log z(beta) is too close to a line for its sign to show")
    if target.name == "hard_edge_gaussian":
        # without the mass of the base on the support eq. 21 gives log Z - log b
        tree["constant_data"] = (
            tree["constant_data"]
            .to_dataset()
            .assign(tempering_base_delta=("base_delta_0", np.zeros(4000)))
        )
    else:
        tree["constant_data"] = (
            tree["constant_data"].to_dataset().assign(tempering_bias=("bias_0", -bias.values))
        )
    estimate = untemper(tree, random_seed=1)["tempering"]
    plain = estimate["log_z_continuous"].values - target.log_z
    assert abs(plain.mean()) > 4.5 * plain.std(ddof=1) / 2


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_posterior_has_the_original_variables_only(case):
    target, tree, _ = case
    result = untemper(tree, random_seed=1)
    posterior = result["posterior"].to_dataset()
    assert list(posterior.data_vars) == ["x"]
    assert set(posterior.dims) == {"chain", "draw", "x_dim_0"}
    assert posterior["x"].dims == ("chain", "draw", "x_dim_0")
    assert posterior["x"].shape == tree["posterior"]["x"].shape
    picked = result["tempering"]["tempered_draw"].values
    source = tree["posterior"]["x"].values
    for chain, index in enumerate(picked):
        np.testing.assert_array_equal(posterior["x"].values[chain], source[chain, index])
        assert (np.diff(index) >= 0).all()
    assert np.isfinite(target.log_density(posterior["x"].values)).all()
    statistics = result["sample_stats"]["log_marginal_likelihood"]
    assert statistics.dims == ("chain",)
    np.testing.assert_array_equal(statistics.values, result["tempering"]["log_z_chain"].values)


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_works_after_a_round_trip_through_netcdf(case, tmp_path):
    _, tree, _ = case
    path = tmp_path / "tempered.nc"
    tree.to_netcdf(path, engine="h5netcdf")
    with xr.open_datatree(path, engine="h5netcdf") as read:
        again = untemper(read, random_seed=3)
        again.to_netcdf(tmp_path / "untempered.nc", engine="h5netcdf")
        at_once = untemper(tree, random_seed=3)
        np.testing.assert_array_equal(again["posterior"]["x"], at_once["posterior"]["x"])
        np.testing.assert_array_equal(
            again["tempering"]["log_z_chain"], at_once["tempering"]["log_z_chain"]
        )


def test_draws_of_zero_density_are_never_picked(case):
    _, tree, _ = case
    posterior = tree["posterior"].to_dataset()
    delta = posterior["tempering_delta"].values.copy()
    delta[:, :7] = -np.inf
    tree["posterior"] = posterior.assign(tempering_delta=(("chain", "draw"), delta))
    run = collect(statistics_of_draws(tree))
    assert np.isneginf(run.arrays["log_weights"][:, :7]).all()
    assert np.isfinite(run.log_z).all()


@pytest.mark.parametrize(
    ("group", "name"),
    [
        ("posterior", "tempering_delta"),
        ("posterior", "beta"),
        ("constant_data", "tempering_bias"),
        ("constant_data", "tempering_base_mean"),
    ],
)
def test_refuses_draws_without_a_record(draw_exactly, group, name):
    target = correlated_gaussian()
    tree = draw_exactly(target, over(target), Bias.linear(2.0), n_draws=20)
    tree[group] = tree[group].to_dataset().drop_vars(name)
    with pytest.raises(DataError, match=f"{name}.*temper"):
        untemper(tree)


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_refuses_its_own_result(case):
    _, tree, _ = case
    with pytest.raises(DataError, match="untemper"):
        untemper(untemper(tree, random_seed=1))


def test_warns_of_a_chain_that_never_left_the_cold_end(draw_exactly):
    target = correlated_gaussian()
    tree = draw_exactly(target, over(target), Bias.linear(2.0), n_draws=50)
    posterior = tree["posterior"].to_dataset()
    tree["posterior"] = posterior.assign(beta=0.5 + 0.5 * posterior["beta"])
    with pytest.warns(TemperingWarning) as record:
        untemper(tree, random_seed=1)
    measured = {w.message.diagnostic.code: w.message.diagnostic.measured for w in record}
    assert set(measured["mode_missing"]["no_round_trips"]["n_round_trips"]) == {0.0}


def regression():
    rng = np.random.default_rng(2)
    x = rng.normal(size=12)
    y = 0.5 + 1.2 * x + 0.7 * rng.normal(size=12)
    with pm.Model(coords={"case": np.arange(12)}) as model:
        covariate = pm.Data("covariate", x, dims="case")
        beta = pm.Normal("beta", 0.0, 2.0, shape=2)
        pm.Normal("y", beta[0] + beta[1] * covariate, 0.7, observed=y, dims="case")
    design = np.stack([np.ones(12), x], axis=1)
    covariance = 0.49 * np.eye(12) + 4.0 * design @ design.T
    log_z = -0.5 * (y @ np.linalg.solve(covariance, y) + np.linalg.slogdet(covariance)[1])
    gain = 4.0 * design.T @ np.linalg.inv(covariance)
    return model, log_z - 6 * np.log(2 * np.pi), gain @ y, y


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("sampler", ["pymc", "nutpie", "numpyro", "blackjax"])
def test_whole_way_with_any_nuts(sampler, seed, tmp_path):
    """False alarm below 1 in 1000: five standard errors of some 200 effective draws."""
    if sampler != "pymc":
        pytest.importorskip(sampler)
    model, log_z, mean, y = regression()
    with temper(model, random_seed=seed):
        tempered = pm.sample(
            1000, tune=500, chains=2, cores=1, random_seed=seed, nuts_sampler=sampler,
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
    tempered.to_netcdf(tmp_path / "tempered.nc", engine="h5netcdf")
    with xr.open_datatree(tmp_path / "tempered.nc", engine="h5netcdf") as read:
        idata = untemper(read, random_seed=seed).load()
    estimate = stored_estimate(idata)
    assert abs(estimate.log_z - log_z) < 5 * estimate.se
    assert estimate.se < 0.15
    draws = idata["posterior"]["beta"].values.reshape(-1, 2)
    assert (np.abs(draws.mean(axis=0) - mean) < 5 * draws.std(axis=0) / np.sqrt(150)).all()
    assert idata["posterior"]["beta"].dims == ("chain", "draw", "beta_dim_0")
    np.testing.assert_array_equal(idata["observed_data"]["y"], y)
    assert "covariate" in idata["constant_data"]
    with model:
        predicted = pm.sample_posterior_predictive(idata, random_seed=1, progressbar=False)
    assert predicted["posterior_predictive"]["y"].shape == (2, 1000, 12)


@pytest.mark.slow
@pytest.mark.statistical
def test_nuts_finds_both_modes(seed):
    """Weight of the right mode within five standard errors; a lost mode gives 0 or 1."""
    target = asymmetric_bimodal()
    with temper(target.model(), random_seed=seed):
        tempered = pm.sample(
            1500, tune=500, chains=2, cores=1, random_seed=seed, nuts_sampler="pymc",
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
    idata = untemper(tempered, random_seed=seed)
    share = float((idata["posterior"]["x"].values[..., 0] > 0).mean())
    assert abs(share - 0.7) < 5 * np.sqrt(0.21 / 150)
    estimate = stored_estimate(idata)
    assert abs(estimate.log_z - target.log_z) < 5 * estimate.se
    assert (idata["tempering"]["n_round_trips"] > 5).all()
