"""Warnings of a parallel tempering run: bad runs raise exactly theirs, 50 good ones none."""

import exact_barrier
import numpy as np
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import DataError, TemperingWarning
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.estimators.stepping_stone import stepping_stone, stepping_stone_reverse
from pymc_tempering.evidence.common import combine, combine_chains
from pymc_tempering.evidence.parallel import collect
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.testing import TARGETS, correlated_gaussian, hard_edge_gaussian

GOOD = ("asymmetric_bimodal", "correlated_gaussian", "heavy_tail", "skewed_gamma", "trimodal_1d")


def wide_base(target, factor=1.3):
    variances = np.diag(target.cov)
    return pm_temper.GaussianBase(
        target.mean, factor * np.sqrt(np.where(np.isfinite(variances), variances, 4.0))
    )


def codes(estimate):
    return [warning.code for warning in estimate.warnings]


def assert_only(statistics, code, remedy, make_tree):
    """Exactly this warning, in the result, in the stored run and through ``warnings``.

    Returns what measured it.
    """
    with pytest.warns(TemperingWarning) as record:
        estimate = pm_temper.estimate_logz(make_tree(statistics))
    assert codes(estimate) == [code]
    [diagnostic] = estimate.warnings
    assert remedy in diagnostic.remedy
    assert [w.message.diagnostic for w in record] == [diagnostic]
    assert [str(w.message) for w in record] == [str(diagnostic)]
    assert stored_estimate(estimate.idata).warnings == (diagnostic,)
    assert str(diagnostic) in repr(estimate)
    return diagnostic.measured


@pytest.fixture(scope="module")
def good_statistics(target, base, seed, make_statistics):
    return make_statistics(target, base, np.random.default_rng(seed))


def test_no_round_trips(good_statistics, make_tree):
    bad = good_statistics | {"n_round_trips": good_statistics["n_round_trips"].copy()}
    bad["n_round_trips"][2] = 0
    remedy = "Raise `tune` and `draws`, or `n_levels`"
    measured = assert_only(bad, "mode_missing", remedy, make_tree)
    assert measured == {"no_round_trips": {"n_round_trips": [0.0], "chain": [2]}}


def test_swap_rate_near_zero(good_statistics, make_tree):
    rates = good_statistics["swap_acceptance_rate"].copy()
    rates[1, :, 2] = 0.03
    bad = good_statistics | {"swap_acceptance_rate": rates}
    measured = assert_only(bad, "swap_rate_near_zero", "`n_levels`", make_tree)
    assert measured["swap_acceptance_rate"] == pytest.approx(0.03)
    assert measured["betas"] == good_statistics["betas"][1, 0, 2:4].tolist()
    assert measured["chain"] == [1]


def test_two_levels_too_far_apart_show_as_swaps(rng, make_statistics, make_tree):
    """With 60 base sds to go and no level between, nothing of the run can be used."""
    target = correlated_gaussian()
    base = pm_temper.GaussianBase(target.mean + 30.0, np.ones(3))
    statistics = make_statistics(target, base, rng, betas=np.array([0.0, 0.5, 1.0]))
    with pytest.warns(TemperingWarning):
        estimate = pm_temper.estimate_logz(make_tree(statistics))
    assert "swap_rate_near_zero" in codes(estimate)


def test_chains_disagree(target, base, rng, make_statistics, make_tree):
    """One of four chains off by 0.3 nats, ten of its own errors.

    Between chains that differ this little there are still some 170 effective scans.
    """
    bad = make_statistics(target, base, rng, n_draws=160)
    bad["delta"][3] += 0.3  # as from a chain that found more of the posterior
    remedy = "Raise `tune` and `draws`; look at the swap"
    log_z = assert_only(bad, "chains_disagree", remedy, make_tree)["log_z"]["log_z_chain"]
    assert log_z[3] == max(log_z) > np.mean(log_z[:3]) + 0.2


def test_too_few_effective_draws(target, base, rng, make_statistics, make_tree):
    few = make_statistics(target, base, rng, n_chains=2, n_draws=5)
    few["n_tempered_restarts"] = np.full((2, 5), 4)
    remedy = "Raise `draws`, or pass `target_se`"
    measured = assert_only(few, "too_few_effective_draws", remedy, make_tree)
    assert 0.0 < measured["scans"]["log_marginal_likelihood_ess"] < 100.0


def test_slow_chains_have_few_effective_draws(good_statistics, make_tree):
    # every scan repeated: as many numbers, a twentieth of the information
    repeated = {
        name: np.repeat(array[:, ::20], 20, axis=1) for name, array in good_statistics.items()
    }
    delta = good_statistics["delta"][:, ::20, :1]
    repeated["delta"] = np.broadcast_to(
        np.repeat(delta, 20, axis=1), good_statistics["delta"].shape
    ).copy()
    with pytest.warns(TemperingWarning):
        estimate = pm_temper.estimate_logz(make_tree(repeated))
    [diagnostic] = estimate.warnings
    assert diagnostic.code == "too_few_effective_draws"
    assert diagnostic.measured["scans"]["log_marginal_likelihood_ess"] == estimate.ess < 100


def laplace(rng, shape, up, down):
    """Density proportional to exp(-x / up) above zero and exp(x / down) below."""
    side = rng.uniform(size=shape) < up / (up + down)
    return np.where(side, up, -down) * rng.exponential(size=shape)


def test_heavy_weights_in_both_directions_are_no_harm(rng):
    """Weights of index 0.8 both ways between two levels; those of MBAR are bounded all the same.

    With deltas of exponential tails, 0.8 up and 4 down at the base, the target has 4 up and 0.8
    down, and Z is 1. Of 60 errors none is beyond 5: fails once in 10^4 seeds.
    """
    indices = []
    for _ in range(60):
        base, target = laplace(rng, (4, 320), 0.8, 4.0), laplace(rng, (4, 320), 4.0, 0.8)
        deltas = np.stack([base, target], axis=-1)
        estimate = combine_chains([mbar(delta, [0, 1]) for delta in deltas], "exact, mbar")
        assert abs(estimate.log_z) < 5 * estimate.se
        indices.append([stepping(delta, [0, 1]).pareto_k[0] for delta in deltas[:1]
                        for stepping in (stepping_stone, stepping_stone_reverse)])  # fmt: skip
    assert np.all(np.mean(indices, axis=0) > 0.6)


def test_target_zero_on_most_of_the_base(rng, make_statistics, make_tree):
    target = hard_edge_gaussian()
    base = wide_base(target)
    beyond = pm_temper.GaussianBase(target.mean - [2.4 * base.scale[0], 0.0, 0.0], base.scale)
    statistics = make_statistics(target, beyond, rng)
    measured = assert_only(statistics, "no_base_overlap", "choose a transform", make_tree)
    mass = collect(statistics).arrays["support_mass"].min()
    assert measured == {"outside_target": {"support_mass": mass}}
    assert 0.0 < mass < 0.1
    # the warning is about precision: every estimate is right, the reverse one by its correction.
    # Fails once in 10^5 seeds.
    estimate = combine(collect(statistics), "pt, mbar")
    assert abs(estimate.log_z - target.log_z) < 4.5 * estimate.se
    for method, value in estimate.per_method.items():
        assert abs(value - target.log_z) < 0.5, method


def test_a_hard_edge_through_the_base_is_not_worth_a_warning(rng, make_statistics):
    target = hard_edge_gaussian()
    parts = collect(make_statistics(target, wide_base(target), rng))
    assert (parts.arrays["support_mass"] < 0.9).all()
    assert combine(parts, "pt, mbar").warnings == ()


def test_support_mass_is_counted(good_statistics):
    delta = good_statistics["delta"].copy()
    delta[0, 0, 0, 0] = -np.inf
    parts = collect(good_statistics | {"delta": delta})
    assert parts.arrays["support_mass"][0] == 1 - 1 / 320
    assert combine(parts, "pt, mbar").warnings == ()


def test_no_overlap(good_statistics, make_tree):
    delta = good_statistics["delta"].copy()
    delta[..., 0] = -np.inf
    with pytest.warns(TemperingWarning):
        estimate = pm_temper.estimate_logz(make_tree(good_statistics | {"delta": delta}))
    # a base that never meets the target is both
    assert codes(estimate) == ["no_overlap", "no_base_overlap"]
    assert "Raise `n_levels` and `tune`" in estimate.warnings[0].remedy
    assert not np.isfinite(estimate.log_z) or not np.isfinite(estimate.se)


def test_50_good_runs_raise_nothing(seed, make_statistics):
    """Exact runs of 4 x 200 scans on five targets; over 1000 of them none was warned of.

    Expected rates of false alarms: chains disagree below 1e-5, effective draws below 1e-3 with
    these ladders.
    """
    rng = np.random.default_rng(seed)
    found = []
    for name in GOOD:
        target = TARGETS[name]()
        base = wide_base(target)
        betas = make_statistics(target, base, rng, n_draws=1)["betas"][0, 0]
        for _ in range(10):
            statistics = make_statistics(target, base, rng, n_draws=25, betas=betas)
            estimate = combine(collect(statistics), "pt, mbar")
            found += [(name, diagnostic) for diagnostic in estimate.warnings]
            # 50 checks: fails once in 10^4 seeds
            assert abs(estimate.log_z - target.log_z) < 5 * estimate.se
    assert found == []


@pytest.mark.parametrize("run_seed", range(4))
def test_good_real_runs_raise_nothing(target, model, base, seed, run_seed):
    """None of 63 runs over other seeds was warned of."""
    estimate = pm_temper.estimate_logz(
        model, base=base, draws=100, tune=80, chains=4, cores=1, scans_per_draw=16,
        random_seed=1000 * seed + run_seed, progressbar=False, quiet=True,
        compute_convergence_checks=False,
    )  # fmt: skip
    assert estimate.warnings == ()


def test_unused_levels_are_nan_and_change_nothing(good_statistics):
    padded = dict(good_statistics)
    for name in ("delta", "betas", "swap_acceptance_rate"):
        array = good_statistics[name]
        nan = np.full((*array.shape[:-1], 3), np.nan)
        padded[name] = np.concatenate([array, nan], axis=-1)
    bare, more = collect(good_statistics), collect(padded)
    np.testing.assert_array_equal(bare.log_z, more.log_z)
    assert combine(more, "pt, mbar").warnings == ()
    assert np.isnan(more.arrays["log_z_levels"][:, 5:]).all()


def test_chains_may_have_ladders_of_different_length(target, base, rng, make_statistics):
    short, long = (make_statistics(target, base, rng, n_chains=1, n_levels=n) for n in (4, 6))
    both = {}
    for name in short:
        parts = [short[name], long[name]]
        if name in ("delta", "betas", "swap_acceptance_rate"):
            nan = np.full((*parts[0].shape[:-1], 2), np.nan)
            parts[0] = np.concatenate([parts[0], nan], axis=-1)
        both[name] = np.concatenate(parts)
    expected = [collect(s).log_z[0] for s in (short, long)]
    np.testing.assert_array_equal(collect(both).log_z, expected)


def test_arrays_say_what_the_run_did(target, base, good_statistics):
    arrays = collect(good_statistics).arrays
    betas = good_statistics["betas"][0, 0]
    exact = target.log_z_path(betas, base)
    # four chains of 320 scans: errors near 0.05
    np.testing.assert_allclose(arrays["log_z_levels"].mean(0), exact, atol=0.25)
    rates = exact_barrier.swap_acceptance_rates(target, betas, base)
    np.testing.assert_allclose(arrays["swap_acceptance_rate"].mean(0), rates, atol=0.06)
    np.testing.assert_allclose(
        arrays["cumulative_barrier"][:, -1], arrays["global_barrier"], rtol=1e-12
    )
    np.testing.assert_array_equal(arrays["n_round_trips"], 40.0)


@pytest.mark.parametrize("name", ["betas", "base_id"])
def test_tuning_draws_are_refused(name, good_statistics):
    changed = good_statistics[name].copy()
    changed[1, :3] = changed[1, :3] * 0 + 2
    with pytest.raises(DataError, match=r"Chain 1 .*more than one schedule or base"):
        collect(good_statistics | {name: changed})
