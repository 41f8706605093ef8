"""HAIS as a PyMC step: posterior draws, evidence, statistics, resuming, wrong input."""

import numpy as np
import pymc as pm
import pytest

from pymc_tempering import testing
from pymc_tempering.errors import DataError
from pymc_tempering.evidence.common import combine
from pymc_tempering.evidence.hais import collect
from pymc_tempering.results.statistics import unpacked
from pymc_tempering.steps.hais import HAIS, N_KNOTS


@pytest.fixture(scope="module")
def target():
    return testing.asymmetric_bimodal()


@pytest.fixture(scope="module")
def model(target):
    return target.model()


def read(group):
    return unpacked({name: values.values for name, values in group.data_vars.items()})


def sample(model, draws=300, tune=100, chains=2, random_seed=1, discard=True, **options):
    with model:
        return pm.sample(
            draws, tune=tune, step=HAIS(**options), chains=chains, cores=1,
            random_seed=random_seed, progressbar=False, quiet=True,
            discard_tuned_samples=discard,
        )  # fmt: skip


def statistics(idata):
    return read(idata["sample_stats"])


@pytest.fixture(scope="module")
def run(model):
    return sample(model, draws=800)


@pytest.mark.statistical
def test_draws_are_from_the_posterior(run, target):
    """Weight of the modes and means within 5 standard errors at the run's ESS: 1e-6."""
    x = run["posterior"]["x"].values.reshape(-1, target.dim)
    for i in range(target.dim):
        se = np.sqrt(target.cov[i, i] / 300)
        assert abs(x[:, i].mean() - target.mean[i]) < 5 * se
    weight = float(target.survival(0, 0.0))
    assert (x[:, 0] > 0).mean() == pytest.approx(weight, abs=5 * 0.5 / np.sqrt(300))


@pytest.mark.statistical
def test_evidence_of_the_run(run, target):
    """Within 5 reported errors (6e-7), and the error itself is small; bounds beside it."""
    parts = collect(statistics(run))
    estimate = combine(parts, "hais")
    assert not estimate.warnings
    assert abs(estimate.log_z - target.log_z) < 5 * estimate.se
    assert estimate.se < 0.1
    # A bound is off by more than a nat with probability exp(-1) only for one particle.
    assert parts.lower < target.log_z + 0.3
    assert parts.upper > target.log_z - 0.3
    assert parts.log_z.shape == (2,)
    assert all(abs(influence.mean()) < 1e-6 for influence in parts.influences)


def test_draws_of_tuning_are_refused_by_the_estimate(model):
    tuned = sample(model, draws=5, tune=20, chains=1, discard=False)
    warmup = read(tuned["warmup_sample_stats"])
    with pytest.raises(DataError, match="after tuning"):
        collect(warmup)


def test_statistics_have_fixed_shapes(run):
    stats = run["sample_stats"]
    assert stats["log_weight_forward"].shape == (2, 800, 4)
    assert stats["betas"].shape == (2, 800, N_KNOTS)
    n_levels = read(stats)["n_levels"]
    assert (n_levels == n_levels[:, :1]).all()
    betas = stats["betas"].values[0, 0]
    used = betas[np.isfinite(betas)]
    assert used[0] == 0.0
    assert used[-1] == 1.0
    assert (stats["n_gradients"].values > 0).all()


def test_model_logp_is_that_of_the_draw(run, target):
    x = run["posterior"]["x"].values
    name = "lp" if "lp" in run["sample_stats"] else "model_logp"
    lp = run["sample_stats"][name].values
    assert np.allclose(lp, target.log_density(x), atol=1e-8)


@pytest.mark.parametrize(
    "options",
    [
        {"betas": np.linspace(0, 1, 40)},
        {"n_levels": 30, "schedule": "ess"},
        {"n_levels": 30, "schedule": "sigmoidal", "transitions": "fresh_momentum"},
        {"n_levels": 60, "transitions": "random_walk"},
        {"n_leapfrog": 3, "short_steps": False},
    ],
)
def test_options_give_the_same_evidence(model, target, options):
    """Within 6 reported errors (2e-9) or 0.15 nats, for weights of few levels."""
    idata = sample(model, draws=200, tune=60, chains=2, **options)
    estimate = combine(collect(statistics(idata)), "hais")
    assert abs(estimate.log_z - target.log_z) < max(6 * estimate.se, 0.15)


def test_hard_edge(seed):
    """Within 6 reported errors; the reverse bound is corrected by the base's mass inside."""
    target = testing.hard_edge_gaussian()
    idata = sample(target.model(), draws=200, tune=60, random_seed=seed)
    parts = collect(statistics(idata))
    estimate = combine(parts, "hais")
    assert abs(estimate.log_z - target.log_z) < 6 * estimate.se
    assert abs(parts.upper - target.log_z) < 0.15
    [diagnostic] = [w for w in estimate.warnings if w.code == "no_base_overlap"]
    inside = np.isfinite(statistics(idata)["log_weight_forward"])
    assert diagnostic.measured == {"outside_target": {"support_mass": inside.mean()}}
