"""Draws of many posteriors: those of exact ones, in files or memory, whatever the workers."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from scipy import stats

from pymc_tempering import sample_many
from pymc_tempering.errors import OptionError, TemperingWarning
from pymc_tempering.evidence import blocks, many_worker
from pymc_tempering.references import importance

N, N_OBS, N_DRAWS = 30, 5, 200
PRIOR = stats.gamma(3.0, scale=0.5)


@pytest.fixture(scope="module")
def model():
    """Counts whose rate has a gamma posterior: skewed, and no Gaussian in what is sampled."""
    with pm.Model(coords={"place": ["a", "b"]}) as model:
        rate = pm.Gamma("rate", 3.0, 2.0)
        pm.Deterministic("rates", rate * np.array([1.0, 2.0]), dims="place")
        pm.Poisson("y", rate, observed=np.zeros(N_OBS, dtype=int))
    return model


@pytest.fixture(scope="module")
def counts(seed):
    rng = np.random.default_rng(seed)
    return rng.poisson(PRIOR.rvs(N, random_state=rng)[:, None], size=(N, N_OBS))


@pytest.fixture(scope="module")
def drawn(model, counts, seed):
    return sampled(model, counts, seed)


def sampled(model, counts, seed, **options):
    options = {"draws": N_DRAWS, "progressbar": False} | options
    return sample_many(model, {"y": counts}, random_seed=seed, **options)


def ranks(tree, counts):
    """Probabilities of draws under the exact posteriors, (draw, data set)."""
    exact = stats.gamma(3.0 + counts.sum(axis=1), scale=1.0 / (2.0 + N_OBS))
    return exact.cdf(tree["posterior"]["rate"].to_numpy()[0])


@pytest.mark.statistical
def test_draws_are_of_the_exact_posteriors(drawn, counts):
    """False alarms: 1e-4. Draws of one posterior are nearly independent."""
    u = ranks(drawn, counts)
    p = [stats.kstest(u[:, i], "uniform").pvalue for i in range(N)]
    assert min(p) > 0.5e-4 / N
    assert stats.kstest(u.ravel(), "uniform").pvalue > 0.5e-4
    # of equal weight, and few twice
    assert all(len(np.unique(u[:, i])) > 0.95 * N_DRAWS for i in range(N))


@pytest.mark.statistical
def test_intervals_cover_what_data_were_drawn_from(seed, model):
    """False alarms: 1e-4. Ranks of rates among draws given their data are uniform."""
    rng = np.random.default_rng(seed + 1)
    rates = PRIOR.rvs(200, random_state=rng)
    counts = rng.poisson(rates[:, None], size=(200, N_OBS))
    tree = sampled(model, counts, seed, draws=99)
    rank = (tree["posterior"]["rate"].to_numpy()[0] < rates).sum(axis=0)
    observed = np.bincount(rank // 10, minlength=10)
    assert stats.chisquare(observed).pvalue > 1e-4


def test_draws_without_their_weights_would_be_noticed(model, counts, seed, monkeypatch):
    monkeypatch.setattr(
        importance.QuickEvidence, "draws", lambda self, n, rng: self.weighted[0][:n]
    )
    u = ranks(sampled(model, counts, seed), counts)
    assert stats.kstest(u.ravel(), "uniform").pvalue < 1e-4


def test_the_tree_has_what_a_run_has(drawn, counts):
    posterior = drawn["posterior"].dataset
    assert posterior["rate"].dims == ("chain", "draw", "dataset")
    assert posterior["rates"].dims == ("chain", "draw", "dataset", "place")
    assert posterior["place"].values.tolist() == ["a", "b"]
    np.testing.assert_allclose(posterior["rates"].sel(place="b"), 2.0 * posterior["rate"])
    found = drawn["tempering"].dataset
    assert (found["how"] == "importance").mean() > 0.8
    total = counts.sum(axis=1)
    exact = stats.nbinom(3.0, 2.0 / (2.0 + N_OBS)).logpmf(total) + (
        stats.multinomial(total, np.full(N_OBS, 1.0 / N_OBS)).logpmf(counts)
    )
    z = (found["log_marginal_likelihood"] - exact) / found["se"]
    assert np.abs(z).max() < 4.5


def test_draws_in_a_folder_are_files_and_the_same(model, counts, drawn, seed, tmp_path):
    there = sampled(model, counts, seed, resume=tmp_path / "run")
    xr.testing.assert_identical(there, drawn)
    values, base = there["posterior"]["rate"].variable._data, None
    while (values := getattr(values, "base", getattr(values, "array", None))) is not None:
        base = values
        if isinstance(values, np.memmap):
            break
    assert isinstance(base, np.memmap)
    again = sampled(model, counts, None, resume=tmp_path / "run", threads=2)
    xr.testing.assert_identical(again, drawn)


@pytest.mark.parametrize("reference", ["fit", "neighbour"])
@pytest.mark.parametrize("threads", [1, 2])
def test_ctrl_c_within_a_block_costs_no_draws(
    model, counts, seed, tmp_path, monkeypatch, reference, threads
):
    outcome, options = many_worker.Worker.outcome, {"reference": reference, "draws": 20}
    whole = sampled(model, counts, seed, **options)
    # of 15, or 25 of neighbours
    monkeypatch.setattr(blocks, "_BLOCKS", 2)

    def presses(self, i, *rest):
        if i == 10:
            raise KeyboardInterrupt
        return outcome(self, i, *rest)

    options |= {"resume": tmp_path / "run", "threads": threads}
    monkeypatch.setattr(many_worker.Worker, "outcome", presses)
    with pytest.warns(TemperingWarning, match="after 10 of 30 data sets"):
        stopped = sampled(model, counts, seed, **options)
    kept = stopped["posterior"].dataset
    xr.testing.assert_identical(
        kept.isel(dataset=slice(10)), whole["posterior"].dataset.isel(dataset=slice(10))
    )
    assert np.isnan(kept["rate"].isel(dataset=slice(10, None))).all()
    monkeypatch.setattr(many_worker.Worker, "outcome", outcome)
    xr.testing.assert_identical(sampled(model, counts, seed, **options), whole)


def test_runs_give_draws_too_and_what_fails_has_none(seed):
    with pm.Model() as model:
        x = pm.Normal("x", 0.3, 1.5)
        pm.Exponential("y", x**2, observed=1.0)
    data = {"y": np.array([0.2, -1.0])}
    tree = sample_many(
        model, data, draws=150, random_seed=seed, progressbar=False, tune=100, chains=2,
        max_chains=2,
    )  # fmt: skip
    x = tree["posterior"]["x"].to_numpy()[0]
    assert x.shape == (150, 2)
    assert np.isnan(x[:, 1]).all()
    assert tree["tempering"]["failure"].to_numpy()[1] != ""
    # both modes
    assert 10 < (x[:, 0] > 0.0).sum() < 140


def test_names_are_kept_and_others_refused(model, counts, seed):
    tree = sampled(model, counts[:2], seed, var_names=["rates"], draws=3)
    assert list(tree["posterior"].data_vars) == ["rates"]
    with pytest.raises(OptionError, match="rate"):
        sampled(model, counts[:2], seed, var_names=["ratse"])
    with pytest.raises(OptionError, match="draws"):
        sampled(model, counts[:2], seed, draws=0)


def test_draws_of_weights_are_of_their_variables(seed):
    """PyMC orders those of a frozen model anew; six standard errors of exact means."""
    n_rows, centres = 30, {"first": 5.0, "second": np.array([-7.0, 12.0]), "third": 1.0}
    with pm.Model() as model:
        for name, centre in centres.items():
            shape = np.shape(centre)
            mean = pm.Normal(name, 0.0, 20.0, shape=shape)
            data = pm.Data(f"data_{name}", np.zeros((n_rows, *shape)))
            pm.Normal(f"y_{name}", mean, 1.0, observed=data)
    # of the second data set all is one more
    data = {
        f"data_{name}": np.stack([np.broadcast_to(np.add(centre, i), (n_rows, *np.shape(centre)))
                                  for i in range(2)])
        for name, centre in centres.items()
    }  # fmt: skip
    found = sample_many(model, data, draws=N_DRAWS, random_seed=seed, progressbar=False)
    assert (found["tempering"]["how"] == "importance").all()
    for name, centre in centres.items():
        means = found["posterior"][name].mean(("chain", "draw")).to_numpy()
        expected = np.stack([centre, np.add(centre, 1)])
        np.testing.assert_allclose(means, expected, atol=6.0 / np.sqrt(n_rows * N_DRAWS) + 0.001)


def test_variables_that_cannot_be_put_together_are_refused_before_sampling(monkeypatch):
    monkeypatch.setattr(many_worker, "OpenDensity", None)
    with pm.Model(coords={"dataset": ["a", "b"]}) as model:
        x = pm.Normal("x", 0.0, 1.0, dims="dataset")
        place = pm.Data("place", np.zeros(3))
        mean = pm.Deterministic("mean", x[0] * place)
        pm.Normal("y", mean, 1.0, observed=np.zeros(3))
    data = {name: [np.zeros(3), np.zeros(3), np.zeros(2)] for name in ("place", "y")}
    with pytest.raises(OptionError, match=r"\['mean'\] have different shapes"):
        sample_many(model, data, var_names=["mean"], progressbar=False)
    with pytest.raises(OptionError, match=r"\['x'\] have a dim 'dataset'"):
        sample_many(model, data, progressbar=False)


@pytest.mark.parametrize("name", ["counted", "picked", "observed"])
def test_shapes_that_follow_values_are_refused_before_sampling(name, monkeypatch):
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=3)
        n, used = pm.Data("n", 2), pm.Data("used", [1, 0, 1])
        y = pm.Poisson("y", pt.exp(x + n * used), observed=np.zeros(3, dtype=int))
        shapes = {"counted": pt.arange(n), "picked": used.nonzero()[0], "observed": pt.arange(y[0])}
        pm.Deterministic("follows", x.sum() * shapes[name])
    data = {
        "n": np.array([2, 2, 3]), "used": np.array([[1, 0, 1], [1, 1, 0], [1, 1, 1]]),
        "y": np.array([[1, 2, 3], [1, 0, 0], [2, 0, 0]]),
    }  # fmt: skip
    same = {key: values[:2] for key, values in data.items()}
    found = sample_many(model, same, draws=10, random_seed=1, progressbar=False)
    assert found["posterior"]["follows"].shape[:3] == (1, 10, 2)
    monkeypatch.setattr(many_worker, "OpenDensity", None)
    with pytest.raises(OptionError, match=r"\['follows'\] have different shapes"):
        sample_many(model, data, progressbar=False)
