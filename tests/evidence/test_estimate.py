"""``estimate_logz`` from a model: bad input before any sampling, and errors to be reached."""

import functools

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import (
    ModelError,
    TemperingWarning,
)
from pymc_tempering.evidence.more_chains import round_seeds
from pymc_tempering.evidence.reading import stored_estimate

QUICK = {"draws": 40, "tune": 60, "cores": 1, "progressbar": False, "quiet": True,
         "compute_convergence_checks": False, "scans_per_draw": 8}  # fmt: skip


@pytest.fixture
def no_sampling(monkeypatch):
    """Sampling is a failure of the test."""

    @functools.wraps(pm.sample)
    def sample(*args, **kwargs):
        pytest.fail("pm.sample was called")

    monkeypatch.setattr(pm, "sample", sample)


def discrete_model():
    with pm.Model() as model:
        pm.Poisson("count", 2.0)
        pm.Normal("x")
    return model


@pytest.mark.parametrize("call", [pm_temper.estimate_logz, pm_temper.sample])
@pytest.mark.parametrize("method", ["gibbs_ct", "joint_ct", "st", "hais"])
def test_discrete_variables_are_refused_before_sampling(call, method, no_sampling):
    with pytest.raises(ModelError, match="count"):
        call(discrete_model(), method=method)


def test_stored_run_is_not_sampled_again(labelled_run, no_sampling):
    assert np.isfinite(pm_temper.estimate_logz(labelled_run).se)


def test_stored_run_says_when_its_error_is_too_large(labelled_run, no_sampling):
    with pytest.warns(TemperingWarning):
        estimate = pm_temper.estimate_logz(labelled_run, target_se=1e-6)
    [diagnostic] = estimate.warnings
    assert diagnostic.code == "target_se_not_reached"
    assert diagnostic.measured == {"log_marginal_likelihood_se": estimate.se, "chains": 2}
    assert "Pass the model" in diagnostic.remedy
    assert stored_estimate(estimate.idata).warnings == (diagnostic,)
    pm_temper.estimate_logz(labelled_run, target_se=10.0)


def test_model_of_the_context_and_whole_numbers_of_numpy(model, base):
    options = QUICK | {"draws": np.int64(40)}
    with model:
        here = pm_temper.estimate_logz(chains=2, base=base, random_seed=3, **options)
    there = pm_temper.estimate_logz(model, chains=2, base=base, random_seed=3, **options)
    assert here == there


def test_target_se_adds_chains_until_reached(target, model, base, seed):
    first = pm_temper.estimate_logz(model, chains=2, base=base, random_seed=seed, **QUICK)
    goal = 0.6 * first.se
    estimate = pm_temper.estimate_logz(
        model, chains=2, base=base, random_seed=seed, target_se=goal, **QUICK
    )
    n_chains = estimate.per_chain.size
    assert estimate.se <= goal
    assert estimate.warnings == ()
    # (1 / 0.6)^2 = 2.8 times as many, with room for the error of the error
    assert 4 <= n_chains <= 32
    np.testing.assert_array_equal(estimate.per_chain[:2], first.per_chain)
    assert len(set(estimate.per_chain)) == n_chains
    assert estimate.idata["posterior"]["chain"].values.tolist() == list(range(n_chains))
    # fails once in 10^5 seeds
    assert abs(estimate.log_z - target.log_z) < 4.5 * estimate.se
    again = pm_temper.estimate_logz(estimate.idata)
    assert abs(again.log_z - estimate.log_z) < 1e-12


def test_target_se_reached_at_once_adds_nothing(model, base):
    estimate = pm_temper.estimate_logz(
        model, chains=2, base=base, random_seed=5, target_se=5.0, **QUICK
    )
    assert estimate.per_chain.size == 2


def test_target_se_gives_up_at_max_chains_and_says_so(model, base):
    with pytest.warns(TemperingWarning) as record:
        estimate = pm_temper.estimate_logz(
            model, chains=2, base=base, random_seed=5, target_se=1e-4, max_chains=5, **QUICK
        )
    assert estimate.per_chain.size == 5
    (diagnostic,) = (w for w in estimate.warnings if w.code == "target_se_not_reached")
    assert diagnostic.measured == {"log_marginal_likelihood_se": estimate.se, "chains": 5}
    assert "after 5 chains" in diagnostic.text
    assert "max_chains` (now 5)" in diagnostic.remedy
    assert diagnostic in [w.message.diagnostic for w in record]
    assert diagnostic in stored_estimate(estimate.idata).warnings


@pytest.mark.parametrize("random_seed", [7, None, np.random.default_rng(7), [3, 4]])
def test_rounds_have_seeds_of_their_own(random_seed):
    seeds = round_seeds(random_seed)
    assert next(seeds) is random_seed
    rest = [next(seeds) for _ in range(3)]
    if isinstance(random_seed, np.random.Generator):
        assert all(r is random_seed for r in rest)
    else:
        assert len(set(rest)) == 3
        assert random_seed not in rest
