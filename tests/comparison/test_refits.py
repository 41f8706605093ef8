"""Refits for the cross-validation of ArviZ, against exact predictive densities."""

import arviz_stats
import numpy as np
import pymc as pm
import pytest
from scipy import stats

from pymc_tempering import Refits, sample
from pymc_tempering.comparison import refits as module
from pymc_tempering.errors import ModelError, OptionError

N, SD = 6, 0.7
QUICK = {"draws": 100, "tune": 50, "chains": 2, "cores": 1, "progressbar": False, "quiet": True}
RNG = np.random.default_rng(4)
X = np.column_stack([np.ones(N), RNG.normal(size=N)])
MEAN, SCALE = np.array([0.2, -0.3]), np.array([1.5, 1.0])
# the last one is far out, where no draw without it has been
Y = X @ [0.5, 1.0] + SD * RNG.normal(size=N) + 4.0 * (np.arange(N) == N - 1)
# pareto shapes that are too high are what `reloo` is for
pytestmark = pytest.mark.filterwarnings("ignore:Estimated shape parameter")


@pytest.fixture(scope="module")
def model():
    with pm.Model(coords={"row": list("abcdef")}) as model:
        w = pm.Normal("w", MEAN, SCALE)
        pm.Normal("y", X @ w, SD, observed=Y, dims="row")
    return model


@pytest.fixture(scope="module")
def run(model, seed):
    run = sample(model, random_seed=seed, **QUICK)
    return pm.compute_log_likelihood(run, model=model, progressbar=False)


@pytest.fixture
def refits(model, run, seed):
    return Refits(model, run, random_seed=seed, **QUICK)


def log_z(kept):
    x = X[kept]
    cov = (x * SCALE) @ (x * SCALE).T + SD**2 * np.eye(len(x))
    return stats.multivariate_normal(x @ MEAN, cov).logpdf(Y[kept])


def predictive(out):
    """Exact log density of rows given all others."""
    return log_z(np.arange(N)) - log_z(np.setdiff1d(np.arange(N), out))


def posterior_sd(out):
    """Exact deviations of coefficients without rows."""
    x = np.delete(X, out, axis=0)
    return np.sqrt(np.diag(np.linalg.inv(x.T @ x / SD**2 + np.diag(SCALE**-2.0))))


def test_one_left_out_is_known_from_evidences(refits):
    """Errors of log Z are 0.001 or so here: 0.02 is missed once in 10^4 seeds at most."""
    found = arviz_stats.reloo(refits, pointwise=True, k_threshold=0.6)
    refitted = np.flatnonzero(found.pareto_k == 0.0)
    assert N - 1 in refitted
    exact = [predictive(i) for i in refitted]
    np.testing.assert_allclose(found.elpd_i.values[refitted], exact, atol=0.02)


def test_folds(refits, run):
    """The mean of 200 draws; its error is told from their spread, with five errors."""
    folds = [1, 1, 1, 2, 2, 2]
    found = arviz_stats.loo_kfold(run, refits, folds=folds, pointwise=True, save_fits=True)
    for fold, out in ((1, [0, 1, 2]), (2, [3, 4, 5])):
        fit = found.fold_fits[fold]["fit"]
        joint = run["tempering"]["log_marginal_likelihood"]
        joint = float(joint - fit["tempering"]["log_marginal_likelihood"])
        assert joint == pytest.approx(predictive(out), abs=0.02)
        draws = fit["posterior"]["w"].to_numpy().reshape(-1, 2)
        np.testing.assert_allclose(draws.std(axis=0), posterior_sd(out), rtol=0.3)
        # without the row that is far out, whose mean no draw knows
        for i in out[: 3 if fold == 1 else 2]:
            density = stats.norm(draws @ X[i], SD).pdf(Y[i])
            assert found.elpd_i.values[i] == pytest.approx(np.log(density.mean()), abs=1e-9)
            x = np.delete(X, out, axis=0)
            cov = np.linalg.inv(x.T @ x / SD**2 + np.diag(SCALE**-2.0))
            mean = cov @ (x.T @ np.delete(Y, out) / SD**2 + MEAN / SCALE**2)
            exact = stats.norm(X[i] @ mean, np.sqrt(X[i] @ cov @ X[i] + SD**2)).pdf(Y[i])
            # draws of a tempered run are few, and nearly independent
            assert abs(density.mean() - exact) < 5.0 * density.std() / len(density) ** 0.5


def test_a_refit_with_all_data_would_be_noticed(refits, run, monkeypatch):
    right = refits.sample
    monkeypatch.setattr(refits, "sample", lambda kept: right(np.ones_like(kept)))
    found = arviz_stats.reloo(refits, pointwise=True, k_threshold=0.6)
    assert abs(found.elpd_i.values[-1] - predictive(N - 1)) > 0.5


def test_a_refit_depends_on_what_it_leaves_out_alone(model, run, refits, seed):
    kept, _ = refits.sel_observations([1])
    refits.sample(refits.sel_observations([4])[0])
    one = refits.sample(kept)
    other = Refits(model, run, random_seed=seed, **QUICK).sample(kept)
    np.testing.assert_array_equal(one["posterior"]["w"], other["posterior"]["w"])
    np.testing.assert_array_equal(model.rvs_to_values[model["y"]].eval(), Y)


def test_compiled_once(refits, monkeypatch):
    compiled = []
    right = module.OpenDensity
    monkeypatch.setattr(module, "OpenDensity", lambda *a: compiled.append(1) or right(*a))
    for i in range(3):
        refits.sample(refits.sel_observations(i)[0])
    assert compiled == [1]


def test_rows_of_a_table_and_whole_numbers(seed):
    """A coordinate for each dimension says which; a fixed probability, so known without draws."""
    counts = np.array([[1, 0, 2], [0, 3, 1]])
    with pm.Model(coords={"site": ["north", "south"], "year": [2024, 2025, 2026]}) as model:
        rate = pm.Gamma("rate", 2.0, 1.0)
        pm.Poisson("count", rate, observed=counts, dims=("site", "year"))
        pm.Normal("other", rate, 1.0, observed=1.0)
    run = sample(model, random_seed=seed, **QUICK)
    run = pm.compute_log_likelihood(run, model=model, progressbar=False)
    refits = Refits(model, run, var_name="count", random_seed=seed, **QUICK)
    kept, out = refits.sel_observations({"site": "south", "year": 2025})
    assert out.tolist() == [4]
    assert kept.tolist() == [[True] * 3, [True, False, True]]
    _, pair = refits.sel_observations(np.array([4, 0]))
    found = refits.log_likelihood__i(pair, run)
    rates = run["posterior"]["rate"].to_numpy()
    np.testing.assert_allclose(found[..., 0], stats.poisson(rates).logpmf(3))
    np.testing.assert_allclose(found[..., 1], stats.poisson(rates).logpmf(1))


@pytest.mark.slow
def test_discrete_variables(seed):
    """Two places: the predictive density is a sum of two terms."""
    y = np.array([0.4, 1.1, 0.9])
    with pm.Model() as model:
        place = pm.Bernoulli("place", 0.3)
        pm.Normal("y", place.astype(float), 1.0, observed=y)
    run = sample(model, random_seed=seed, **QUICK)
    run = pm.compute_log_likelihood(run, model=model, progressbar=False)
    refits = Refits(model, run, random_seed=seed, **QUICK)
    kept, out = refits.sel_observations(2)
    found = refits.log_likelihood__i(out, refits.sample(kept)).to_numpy()

    def of(data):
        densities = stats.norm(np.array([[0.0], [1.0]]), 1.0).pdf(data).prod(axis=1)
        return np.log(densities @ [0.7, 0.3])

    np.testing.assert_allclose(found, of(y) - of(y[:2]), atol=0.05)


def test_refusals(model):
    with pm.Model() as nothing:
        pm.Normal("x", 0.0, 1.0)
    with pytest.raises(ModelError, match="no observed variables"):
        Refits(nothing)
    with pytest.raises(OptionError, match=r"expected one of the observed \['y'\]"):
        Refits(model, var_name="w")
    with pm.Model() as whole:
        x = pm.Normal("x", 0.0, 1.0, shape=2)
        pm.MvNormal("y", x, np.eye(2), observed=np.zeros(2))
    with pytest.raises(ModelError, match="one term for all values"):
        Refits(whole)
    with whole:
        pm.Normal("z", x, 1.0, observed=np.zeros(2))
    with pytest.raises(OptionError, match="`var_name` is None"):
        Refits(whole)
