"""Evidence under other priors, against closed forms; and what is said where weights fail."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from losing import Losing
from scipy import stats
from scipy.special import gammaln

import pymc_tempering as pm_temper
from pymc_tempering.comparison.sensitivity import prior_sensitivity
from pymc_tempering.errors import DataError, ModelError, OptionError, TemperingWarning, WorkerError
from pymc_tempering.methods import METHOD_CODE, METHODS
from pymc_tempering.testing import asymmetric_bimodal
from tests.chains import run_of

QUICK = {"draws": 100, "tune": 100, "chains": 2, "cores": 1, "progressbar": False, "quiet": True,
         "compute_convergence_checks": False, "scans_per_draw": 8}  # fmt: skip

SHARED = np.random.default_rng(8)
X = np.column_stack([np.ones(25), SHARED.normal(size=25)])
Y = X @ [0.6, -0.9] + 0.8 * SHARED.normal(size=25)
MEAN, SD = np.array([0.3, -0.2]), np.array([1.5, 0.8])


def linear(scale=1.0, y=Y, noise=0.8):
    """Gaussian coefficients about a mean that is not zero; unequal prior sds."""
    with pm.Model() as model:
        w = pm.Normal("w", MEAN, scale * SD)
        pm.Normal("y", (X * w).sum(axis=1), noise, observed=y)
    return model


def linear_log_z(scale=1.0, power=1.0):
    """L^a of a Gaussian is a Gaussian of precision a, times a constant."""
    cov = (scale * X * SD) @ (scale * X * SD).T + 0.64 / power * np.eye(25)
    constant = 12.5 * (np.log(2 * np.pi * 0.64 / power) - power * np.log(2 * np.pi * 0.64))
    return stats.multivariate_normal(X @ MEAN, cov).logpdf(Y) + constant


def linear_draws(rng, n_chains=4, n_draws=1000):
    precision = X.T @ X / 0.64 + np.diag(1 / SD**2)
    cov = np.linalg.inv(precision)
    mean = cov @ (X.T @ Y / 0.64 + MEAN / SD**2)
    return rng.multivariate_normal(mean, cov, (n_chains, n_draws))


def assert_within(table, exact, n_errors=4.5):
    """Fails by chance once in 10^5 for each row, that is once in 10^4 for ten rows."""
    rows = table.iloc[1:]
    miss = rows["log_bayes_factor"] - exact
    assert (np.abs(miss) < n_errors * rows["log_bayes_factor_se"]).all(), table
    assert (rows["log_bayes_factor_se"] > 0).all()


def test_scaled_prior_and_powers_of_a_linear_model(rng):
    scales, powers = (0.5, 0.8, 2.0, 5.0), (0.7, 1.5)
    table = prior_sensitivity(
        run_of(w=linear_draws(rng)), linear(), prior_scale={"w": scales}, likelihood_power=powers
    )
    exact = [linear_log_z(scale=s) for s in scales] + [linear_log_z(power=a) for a in powers]
    assert_within(table, np.array(exact) - linear_log_z())
    assert table["change"].tolist() == ["original"] + 4 * ["prior scale"] + 2 * ["likelihood power"]
    assert table["name"].tolist() == ["", "w", "w", "w", "w", "likelihood", "likelihood"]
    assert table["value"].tolist() == [1.0, *scales, *powers]
    assert (table["warning"] == "").all()
    assert table["log_z"].isna().all()  # draws of another sampler have no evidence
    assert table["source"].tolist() == 7 * ["draws"]
    assert table["log_bayes_factor_se"].max() < 0.1


def test_alternatives_are_the_general_form(rng):
    """The same prior, said as a scale and as a model; another likelihood too."""
    tree = run_of(w=linear_draws(rng))
    table = prior_sensitivity(
        tree, linear(), prior_scale={"w": [2.0]}, alternatives={"wide": linear(2.0)}
    )
    a, b = table.iloc[1], table.iloc[2]
    assert a["log_bayes_factor"] == pytest.approx(b["log_bayes_factor"], abs=1e-6)
    assert (b["change"], b["name"]) == ("alternative", "wide")
    assert np.isnan(b["value"])
    noisier = prior_sensitivity(tree, linear(), alternatives={"noisier": linear(noise=0.9)})
    cov = (X * SD) @ (X * SD).T
    exact = [stats.multivariate_normal(X @ MEAN, cov + v * np.eye(25)).logpdf(Y)
             for v in (0.81, 0.64)]  # fmt: skip
    assert_within(noisier, exact[0] - exact[1])


@pytest.mark.parametrize("make", [lambda: 2, lambda: ThreadPoolExecutor(3), lambda: Losing({0})])
def test_an_executor_changes_nothing(make, rng):
    tree, others = run_of(w=linear_draws(rng)), {"wide": linear(1.5), "noisier": linear(noise=0.9)}
    options = {"prior_scale": {"w": [2.0]}, "alternatives": others}
    local = prior_sensitivity(tree, linear(), **options)
    pd.testing.assert_frame_equal(
        prior_sensitivity(tree, linear(), executor=make(), **options), local, check_exact=True
    )


def test_an_alternative_that_is_lost_is_an_error(rng):
    tree, others = run_of(w=linear_draws(rng)), {"wide": linear(1.5)}
    with pytest.raises(WorkerError, match="switched off"):
        prior_sensitivity(tree, linear(), alternatives=others, executor=Losing({0, 1}))
    with pytest.raises(OptionError, match="`executor` is 0"):
        prior_sensitivity(tree, linear(), alternatives=others, executor=0)


def normal_inverse_gamma(v0=4.0, b0=2.0, a0=3.0):
    with pm.Model() as model:
        s2 = pm.InverseGamma("s2", a0, b0)
        w = pm.Normal("w", 0.0, pm.math.sqrt(v0 * s2), shape=2)
        pm.Normal("y", (X * w).sum(axis=1), pm.math.sqrt(s2), observed=Y)
    vn = np.linalg.inv(X.T @ X + np.eye(2) / v0)
    mn = vn @ X.T @ Y
    an, bn = a0 + 12.5, b0 + 0.5 * (Y @ Y - mn @ np.linalg.solve(vn, mn))
    log_z = (
        -12.5 * np.log(2 * np.pi) + 0.5 * np.linalg.slogdet(vn)[1] - np.log(v0)
        + a0 * np.log(b0) - an * np.log(bn) + gammaln(an) - gammaln(a0)
    )  # fmt: skip
    return model, log_z, (mn, vn, an, bn)


def test_variables_that_depend_on_one_another(rng):
    """Normal-inverse-gamma: scaling s2 scales b0, scaling w scales v0 by the square; both at once.

    s2 is positive with a Jacobian of its own, which must not enter twice.
    """
    model, log_z, (mn, vn, an, bn) = normal_inverse_gamma()
    s2 = stats.invgamma(an, scale=bn).rvs((4, 1000), random_state=rng)
    noise = rng.normal(size=(4, 1000, 2)) @ np.linalg.cholesky(vn).T
    tree = run_of(s2=s2, w=mn + np.sqrt(s2)[..., None] * noise)
    table = prior_sensitivity(
        tree, model, prior_scale={"s2": (0.6, 1.5), "w": (0.5, 2.0), ("s2", "w"): (1.5,)}
    )
    changed = [{"b0": 1.2}, {"b0": 3.0}, {"v0": 1.0}, {"v0": 16.0}, {"b0": 3.0, "v0": 9.0}]
    assert_within(table, np.array([normal_inverse_gamma(**c)[1] for c in changed]) - log_z)
    assert table["name"].tolist()[-1] == "s2, w"


def test_two_modes_of_unequal_weight(rng):
    """Another target with the weights turned round, and another log Z."""
    target, other = asymmetric_bimodal(), asymmetric_bimodal((0.6, 0.4), log_z=0.4)
    tree = run_of(x=target.draw(rng, 2000).reshape(4, 500, 2))
    table = prior_sensitivity(tree, target.model(), alternatives={"turned": other.model()})
    assert_within(table, other.log_z - target.log_z)
    powers = prior_sensitivity(tree, target.model(), likelihood_power=(0.8, 1.3))
    grid = np.stack(np.meshgrid(np.linspace(-9, 12, 421), np.linspace(-9, 9, 361)), axis=-1)
    logs = target.log_density(grid)
    exact = [np.log(np.exp(a * logs).sum() * 0.05**2) - target.log_z for a in (0.8, 1.3)]
    assert_within(powers, np.array(exact))


@pytest.mark.parametrize("bug", ["no_normaliser", "jacobian", "sign"])
def test_planted_bugs_are_noticed(bug, rng, monkeypatch):
    import pymc_tempering.evidence.reweighted as module

    right = module.log_prior_ratio

    def wrong(model, constrained, name, factor):
        ratio = right(model, constrained, name, factor)
        value = constrained.rvs_to_values[constrained[name]]
        if bug == "sign":
            return -ratio
        return ratio + (value.size * np.log(factor) if bug == "no_normaliser" else value.sum())

    monkeypatch.setattr(module, "log_prior_ratio", wrong)
    table = prior_sensitivity(run_of(w=linear_draws(rng)), linear(), prior_scale={"w": (0.7, 2.0)})
    exact = np.array([linear_log_z(scale=s) for s in (0.7, 2.0)]) - linear_log_z()
    with pytest.raises(AssertionError):
        assert_within(table, exact)


def test_collapsed_weights_are_named(rng):
    tree = run_of(w=linear_draws(rng))
    with pytest.warns(TemperingWarning) as seen:
        table = prior_sensitivity(tree, linear(), prior_scale={"w": (0.05, 0.8)})
    assert table["warning"].tolist() == ["", "weights_collapse", ""]
    [diagnostic] = [w.message.diagnostic for w in seen]
    assert diagnostic.code == "weights_collapse"
    assert diagnostic.measured["rows"] == ["prior scale of w 0.05"]
    assert diagnostic.measured["weight_ess_share"] == [table["weight_ess_share"].iloc[1]]
    assert "prior scale of w 0.05" in diagnostic.text


def test_heavy_tails_are_named(rng):
    """The weights ``L^-0.8`` of a Gaussian have the tail index 0.8, with an error of 0.08."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1e3, shape=3)
        pm.Normal("y", x, 1.0, observed=np.zeros(3))
    with pytest.warns(TemperingWarning) as seen:
        table = prior_sensitivity(
            run_of(x=rng.normal(size=(4, 4000, 3))), model, likelihood_power=(0.2, 0.8)
        )
    [diagnostic] = [w.message.diagnostic for w in seen]
    assert diagnostic.code in ("heavy_tailed_weights", "weights_collapse")
    assert diagnostic.measured["rows"] == ["likelihood power 0.2"]
    assert diagnostic.measured["pareto_k"] == [table["pareto_k"].iloc[1]]
    assert 0.5 < table["pareto_k"].iloc[1] < 1.2
    assert table["warning"].iloc[2] == ""


def test_few_weights_are_named(rng):
    with pytest.warns(TemperingWarning) as seen:
        prior_sensitivity(run_of(w=linear_draws(rng, 2, 40)), linear(), prior_scale={"w": (2.0,)})
    [diagnostic] = [w.message.diagnostic for w in seen]
    assert (diagnostic.code, diagnostic.measured["rows"]) == (
        "too_few_effective_draws",
        ["prior scale of w 2"],
    )


def test_prior_mass_that_no_draw_can_see_is_named(rng):
    """Weights are all equal, and the answer is wrong by a factor: only the support tells."""

    def bounded(upper):
        with pm.Model() as model:
            p = pm.Uniform("p", 0.0, upper)
            pm.Normal("y", p, 1.0, observed=np.array([1.5, 2.0]))
        return model

    x = stats.truncnorm(-1.75 * 2**0.5, -0.75 * 2**0.5, 1.75, 0.5**0.5)
    tree = run_of(p=x.rvs((4, 300), random_state=rng))
    with pytest.warns(TemperingWarning, match="alternative 'wide' has prior mass") as seen:
        table = prior_sensitivity(tree, bounded(1.0), alternatives={"wide": bounded(3.0)})
    assert [w.message.diagnostic.code for w in seen] == ["prior_mass_out_of_reach"]
    assert table["weight_ess_share"].iloc[1] == pytest.approx(1.0)
    # the other way round nothing is out of reach
    tree = run_of(p=stats.truncnorm(-1.75 * 2**0.5, 1.25 * 2**0.5, 1.75, 0.5**0.5)
               .rvs((4, 300), random_state=rng))  # fmt: skip
    table = prior_sensitivity(tree, bounded(3.0), alternatives={"narrow": bounded(2.0)})
    normal = stats.norm(1.75, 0.5**0.5)
    exact = np.log(1.5 * np.diff(normal.cdf([0, 2])) / np.diff(normal.cdf([0, 3])))
    assert_within(table, exact)


def test_space_that_a_potential_cuts_off_is_out_of_reach(rng):
    """Weights are all one: that the alternative is wider than the run shows nowhere else."""

    def model(cut):
        with pm.Model() as model:
            w = pm.Normal("w", 0.0, 2.0, initval=1.0)
            if cut:
                pm.Potential("positive", pm.math.switch(w > 0.0, 0.0, -np.inf))
            pm.Normal("y", w, 0.5, observed=np.array([-0.2, 0.1]))
        return model

    sd = (1 / 4 + 2 / 0.25) ** -0.5
    mean = sd**2 * (-0.1 / 0.25)
    x = stats.truncnorm(-mean / sd, np.inf, mean, sd).rvs((4, 300), random_state=rng)
    with pytest.warns(TemperingWarning) as seen:
        prior_sensitivity(run_of(w=x), model(cut=True), alternatives={"whole": model(cut=False)})
    [diagnostic] = [w.message.diagnostic for w in seen]
    assert (diagnostic.code, diagnostic.measured["rows"]) == (
        "prior_mass_out_of_reach",
        ["alternative 'whole'"],
    )
    # what neither model allows is not missing
    table = prior_sensitivity(run_of(w=x), model(cut=True), alternatives={"cut": model(cut=True)})
    assert table["warning"].tolist() == ["", ""]
    assert table["log_bayes_factor"].iloc[1] == pytest.approx(0.0, abs=1e-9)


def test_a_variable_without_entries_is_no_obstacle(rng):
    with linear() as model:
        pm.Normal("none", shape=0)
    tree = run_of(w=linear_draws(rng), none=np.empty((4, 1000, 0)))
    table = prior_sensitivity(tree, model, prior_scale={"w": (2.0,)})
    assert_within(table, linear_log_z(scale=2.0) - linear_log_z())


@pytest.fixture(scope="module")
def tempered(seed):
    return pm_temper.sample(linear(), random_seed=seed, **QUICK)


@pytest.fixture(scope="module")
def from_prior(seed):
    base = pm_temper.GaussianBase(MEAN, SD)
    return pm_temper.sample(linear(), base=base, adapt_base=False, random_seed=seed, **QUICK)


def test_a_run_gives_log_z_with_the_error_of_both(tempered):
    estimate = pm_temper.estimate_logz(tempered)
    table = prior_sensitivity(tempered, linear(), prior_scale={"w": (0.8, 2.0)})
    original = table.iloc[0]
    assert original["log_z"] == estimate.log_z
    assert original["se"] == estimate.se
    np.testing.assert_allclose(table["log_z"], estimate.log_z + table["log_bayes_factor"])
    exact = np.array([linear_log_z(s) for s in (1.0, 0.8, 2.0)])
    # once in 10^4 seeds for each row, errors being Student's with few degrees of freedom
    assert (np.abs(table["log_z"] - exact) < 5 * table["se"] + 1e-3).all(), table
    least = np.abs(estimate.se - table["log_bayes_factor_se"])
    assert (table["se"] > 0.8 * least).all()
    assert (table["se"] < 1.2 * (estimate.se + table["log_bayes_factor_se"])).all()


def test_a_stored_run_or_an_estimate_gives_the_same(tempered, tmp_path):
    tempered.to_netcdf(tmp_path / "run.nc", engine="h5netcdf")
    table = prior_sensitivity(tempered, linear(), prior_scale=(0.8,))
    with xr.open_datatree(tmp_path / "run.nc", engine="h5netcdf") as stored:
        assert table.equals(prior_sensitivity(stored, linear(), prior_scale=(0.8,)))
    estimate = pm_temper.estimate_logz(tempered)
    with linear():
        assert table.equals(prior_sensitivity(estimate, prior_scale=(0.8,)))


def test_powers_use_the_ladder_where_the_base_is_the_prior(from_prior, tempered):
    powers = (0.05, 0.5, 1.5)
    table = prior_sensitivity(from_prior, linear(), likelihood_power=powers)
    assert table["source"].tolist() == ["draws", "ladder", "ladder", "ladder"]
    assert_within(table, np.array([linear_log_z(power=a) for a in powers]) - linear_log_z(), 5)
    assert (table["warning"] == "").all()
    exact = np.array([linear_log_z(power=a) for a in (1.0, *powers)])
    assert (np.abs(table["log_z"] - exact) < 5 * table["se"]).all()
    # a base that was fitted says nothing of the likelihood
    other = prior_sensitivity(tempered, linear(), likelihood_power=(1.2,))
    assert other["source"].tolist() == ["draws", "draws"]


@pytest.mark.statistical
def test_reported_errors_of_log_z_are_calibrated(make_run, rng):
    """100 exact runs of 4 x 100 draws: sd of z within 4 of its standard errors, 0.07.

    The error of a changed log Z is that of sums of both influences: adding the two errors in
    quadrature would miss that they come from the same draws.
    """
    from pymc_tempering.evidence.reweighted import from_draws, original_of

    z = np.empty((100, 2))
    for i in range(100):
        tree, log_weights, truth = make_run(rng)
        row = from_draws(original_of(tree), log_weights)
        z[i] = (
            (row.log_z - truth[0]) / row.se,
            ((row.log_bayes_factor - truth[1]) / row.log_bayes_factor_se),
        )
    assert (np.abs(z.mean(axis=0)) < 0.4 + 0.2).all(), z.mean(axis=0)
    assert ((z.std(axis=0) > 0.72) & (z.std(axis=0) < 1.3)).all(), z.std(axis=0)


@pytest.fixture
def make_run():
    """Exact draws of the levels of a scaled Gaussian, whose square has a closed form too."""
    betas = np.array([0.0, 0.15, 0.45, 1.0])

    def make(rng, shape=(4, 100)):
        # base N(0, 1), target exp(-1) N(0.5, 0.6^2): the path stays Gaussian
        precision = 1 - betas + betas / 0.36
        mean = betas * 0.5 / 0.36 / precision
        x = mean + rng.normal(size=(*shape, 1, 4)) / np.sqrt(precision)
        log_target = -1.0 + stats.norm(0.5, 0.6).logpdf(x)
        statistics = {
            "delta": log_target - stats.norm.logpdf(x),
            "betas": np.broadcast_to(betas, (*shape, 4)).copy(),
            "swap_acceptance_rate": np.full((*shape, 3), 0.5),
            "n_round_trips": np.ones(shape), "n_tempered_restarts": np.ones(shape),
            "base_id": np.full(shape, 7), METHOD_CODE: np.full(shape, METHODS["pt"].code),
        }  # fmt: skip
        dims = {"delta": ("scan", "level"), "betas": ("level",), "swap_acceptance_rate": ("pair",)}
        dataset = xr.Dataset(
            {n: (("chain", "draw", *dims.get(n, ())), a) for n, a in statistics.items()},
            coords={"chain": np.arange(shape[0])},
        )
        tree = run_of(x=x[..., 0, -1])
        tree["sample_stats"] = xr.DataTree(dataset)
        log_weights = 0.4 * stats.norm(0.5, 0.6).logpdf(x[..., 0, -1])
        # integral of N(m, s^2)^1.4
        ratio = -0.2 * np.log(2 * np.pi * 0.36) - 0.5 * np.log(1.4)
        return tree, log_weights, (-1.0 + ratio, ratio)

    return make


def test_defaults_scale_what_can_be_and_raise_the_likelihood(rng):
    model, _, (mn, vn, an, bn) = normal_inverse_gamma()
    s2 = stats.invgamma(an, scale=bn).rvs((4, 500), random_state=rng)
    noise = rng.normal(size=(4, 500, 2)) @ np.linalg.cholesky(vn).T
    table = prior_sensitivity(run_of(s2=s2, w=mn + np.sqrt(s2)[..., None] * noise), model)
    # w depends on s2, whose scale moves it already
    assert table["name"].tolist() == ["", "s2", "s2", "likelihood", "likelihood"]
    assert table["value"].tolist() == [1.0, 0.5, 2.0, 0.8, 1.25]


def test_print_fits_80_columns(rng):
    tree = run_of(w=linear_draws(rng))
    powers = {"likelihood_power": (1.0,), "alternatives": {"a long name" * 9: linear(noise=0.9)}}
    table = prior_sensitivity(tree, linear(), prior_scale={"w": (0.7, 2.0)}, **powers)
    lines = repr(table).split("\n")
    assert max(map(len, lines)) <= 80
    assert [line.split("  ")[0] for line in lines[1:4]] == ["original", "w * 0.7", "w * 2"]
    assert lines[4].startswith("likelihood ** 1")
    # with as many digits as its error allows
    value, error = (float(part) for part in lines[2].removeprefix("w * 0.7").split("±"))
    assert abs(value - table["log_bayes_factor"].iloc[1]) <= 0.5 * error


def test_unit_factors_change_nothing(rng):
    table = prior_sensitivity(
        run_of(w=linear_draws(rng)), linear(), prior_scale={"w": 1.0}, likelihood_power=[1.0]
    )
    np.testing.assert_allclose(table["log_bayes_factor"], 0.0, atol=1e-6)
    np.testing.assert_allclose(table["log_bayes_factor_se"], 0.0, atol=1e-6)


def test_another_model_than_the_sampled_one_is_refused(tempered, rng):
    with pytest.raises(DataError, match=r"of another model.*what differs is the prior of 'w'"):
        prior_sensitivity(tempered, linear(scale=3.0), prior_scale=(2.0,))
    with pytest.raises(DataError, match=r"The run is of another model.* different observed data"):
        prior_sensitivity(tempered, linear(y=Y + 1.0), prior_scale=(2.0,))
    with pm.Model() as positive:
        w = pm.HalfNormal("w", 1.0, shape=2)
        pm.Normal("y", (X * w).sum(axis=1), 0.8, observed=Y)
    with pytest.raises(DataError, match="have no density under the model"):
        prior_sensitivity(run_of(w=linear_draws(rng)), positive, prior_scale=(2.0,))


def test_alternatives_of_other_variables_or_data_are_refused(rng):
    tree = run_of(w=linear_draws(rng))
    with pm.Model() as other:
        v = pm.Normal("v", 0.0, 1.0, shape=2)
        pm.Normal("y", (X * v).sum(axis=1), 0.8, observed=Y)
    with pytest.raises(DataError, match=r"'b' has the free variables \['v'\].*\['w'\].*`compare`"):
        prior_sensitivity(tree, linear(), alternatives={"b": other})
    tree["observed_data"] = xr.DataTree(xr.Dataset({"y": ("obs", Y)}))
    with pytest.raises(DataError, match=r"alternative 'c' .* different observed data"):
        prior_sensitivity(tree, linear(), alternatives={"c": linear(y=2 * Y)})


def test_what_has_no_run_no_likelihood_or_no_scale_is_refused(rng):
    with pm.Model() as prior_only:
        pm.Uniform("u", 0.0, 1.0)
    tree = run_of(u=rng.uniform(size=(2, 100)))
    with pytest.raises(OptionError, match="no observed variables"):
        prior_sensitivity(tree, prior_only, likelihood_power=(0.5,))
    with pytest.raises(OptionError, match="no prior that can be scaled by itself"):
        prior_sensitivity(tree, prior_only)
    with pytest.raises(ModelError, match="'u' cannot be scaled"):
        prior_sensitivity(tree, prior_only, prior_scale={"u": (2.0,)})


def test_a_run_of_variables_that_depend_on_one_another(seed):
    """Normal-inverse-gamma: log Z, and wider coefficients that are paid for."""
    model, *_ = normal_inverse_gamma()
    tree = pm_temper.sample(model, random_seed=seed, **(QUICK | {"draws": 250}))
    table = prior_sensitivity(tree, model, prior_scale={"w": (0.5, 2.0)})
    exact = np.array([normal_inverse_gamma(v0=v0)[1] for v0 in (4.0, 1.0, 16.0)])
    assert (np.abs(table["log_z"] - exact) < 5 * table["se"]).all(), table
    assert (table["warning"] == "").all()
    assert table["log_bayes_factor"].iloc[2] < 0 < table["log_bayes_factor"].iloc[1]
