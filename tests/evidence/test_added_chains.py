"""Chains added to a stored run: other chains, of the same model, until the error is reached."""

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import DataError, OptionError, TemperingWarning
from pymc_tempering.evidence.more_chains import _other_seed

QUICK = {"cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False}


def test_chains_are_added_until_the_error_is_reached(target, model, base, labelled_run, seed):
    before = pm_temper.estimate_logz(labelled_run)
    goal = 0.7 * before.se
    # the seed of the run itself, which must not give its chains again
    estimate = pm_temper.estimate_logz(
        labelled_run, model=model, target_se=goal, base=base, chains=2, random_seed=seed + 1,
        **QUICK,
    )  # fmt: skip
    assert estimate.se <= goal
    np.testing.assert_allclose(estimate.per_chain[:2], before.per_chain, rtol=0, atol=1e-12)
    assert len(set(estimate.per_chain)) == estimate.per_chain.size > 2
    assert labelled_run["posterior"].sizes["chain"] == 2
    n_chains = estimate.per_chain.size
    assert estimate.idata["posterior"]["chain"].values.tolist() == list(range(n_chains))
    # fails once in 10^5 seeds
    assert abs(estimate.log_z - target.log_z) < 4.5 * estimate.se
    assert pm_temper.estimate_logz(estimate.idata).log_z == pytest.approx(estimate.log_z, abs=1e-12)


def test_max_chains_counts_stored_ones(labelled_run, model):
    with pytest.warns(TemperingWarning) as record:
        estimate = pm_temper.estimate_logz(
            labelled_run, model=model, target_se=1e-6, max_chains=2, **QUICK
        )
    assert estimate.per_chain.size == 2
    [diagnostic] = [w.message.diagnostic for w in record]
    assert diagnostic.code == "target_se_not_reached"
    assert diagnostic.measured == {"log_marginal_likelihood_se": estimate.se, "chains": 2}


def test_nothing_is_sampled_where_the_error_is_small_enough(labelled_run, model, monkeypatch):
    monkeypatch.setattr(
        "pymc_tempering.evidence.more_chains.run_chains", lambda *a, **k: pytest.fail("sampled")
    )
    for options in ({}, {"target_se": 10.0}):
        estimate = pm_temper.estimate_logz(labelled_run, model=model, **options)
        assert estimate == pm_temper.estimate_logz(labelled_run)


# what is said of so few draws depends on them; right they have to be
@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_bridge_sampling_of_a_tempered_run(labelled_run, model, target, seed):
    estimate = pm_temper.estimate_logz(
        labelled_run, model=model, method="bridge", random_seed=seed
    )  # fmt: skip
    assert estimate.method == "bridge, warp-III"
    # fails once in 10^5 seeds
    assert abs(estimate.log_z - target.log_z) < 5 * estimate.se
    # the run keeps its own estimate
    assert estimate.idata["tempering"].attrs["method"] == "pt, mbar"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target_se": 0.01, "draws": 30}, "`draws` is 30, .* stored run have 60"),
        ({"target_se": 0.01, "method": "st"}, "`method` is 'st', but .* sampled with 'pt'"),
        ({"target_se": -1.0}, "`target_se` is -1.0; expected a positive"),
        ({"scans_per_draw": 8}, "for a `target_se`. Pass one, or leave them out"),
    ],
)
def test_what_does_not_fit_the_run_is_refused(labelled_run, model, options, message, monkeypatch):
    monkeypatch.setattr(
        "pymc_tempering.evidence.more_chains.run_chains", lambda *a, **k: pytest.fail("sampled")
    )
    with pytest.raises(OptionError, match=message):
        pm_temper.estimate_logz(labelled_run, model=model, **options)


def test_statistics_of_other_lengths_are_refused(labelled_run, model):
    """But those of scans and levels, in which chains of a run differ too."""
    cut = labelled_run.isel(search_entry=slice(3), missing_dims="ignore")
    with pytest.raises(OptionError, match=r"would record `search` of shape \(37,\)"):
        pm_temper.estimate_logz(cut, model=model, target_se=0.01)


def test_other_models_are_refused(labelled_run):
    with pm.Model() as other:
        pm.Normal("x", 0.0, 3.0, shape=labelled_run["posterior"]["x"].shape[2:])
    with pytest.raises(DataError, match="the potential 'target' and the prior of 'x'"):
        pm_temper.estimate_logz(labelled_run, model=other, target_se=0.01)


@pytest.mark.parametrize("random_seed", [7, [3, 4], np.int64(7)])
def test_a_seed_gives_other_chains_once_the_run_has_grown(labelled_run, random_seed):
    now, again = (_other_seed(random_seed, labelled_run) for _ in range(2))
    later = _other_seed(random_seed, labelled_run.isel(draw=slice(1, None)))
    assert now == again != later
    assert now != random_seed


def test_seeds_that_are_no_numbers_are_kept(labelled_run):
    generator = np.random.default_rng(1)
    assert _other_seed(None, labelled_run) is None
    assert _other_seed(generator, labelled_run) is generator
