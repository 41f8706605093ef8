"""Chains combined: the error, and diagnostics that do not depend on the method."""

from dataclasses import replace

import numpy as np
import pytest

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.annealed import annealed_forward
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.evidence.checks.few_draws import MIN_ESS
from pymc_tempering.evidence.common import MethodEstimate, combine, combine_chains


def parts(log_z, rng, n_scans=400, sd=1.0, **kwargs):
    """Chains of independent scans, whose means are part of their estimates."""
    influences = [sd * rng.normal(size=n_scans) for _ in log_z]
    values = [z + influence.mean() for z, influence in zip(log_z, influences, strict=True)]
    centred = [influence - influence.mean() for influence in influences]
    return MethodEstimate(np.array(values), centred, **kwargs)


def codes(estimate):
    return [warning.code for warning in estimate.warnings]


def test_mean_of_chains_and_error_of_their_scans(rng):
    estimate = combine(parts([-3.0] * 4, rng), "pt, mbar")
    # 1600 scans of unit variance; the estimated error is 5 % uncertain
    assert estimate.se == pytest.approx(1 / 40, rel=0.25)
    assert abs(estimate.log_z + 3.0) < 4.5 / 40
    assert estimate.log_z == estimate.per_chain.mean()
    assert estimate.method == "pt, mbar"
    assert estimate.warnings == ()


def test_what_the_method_says_is_kept(rng):
    given = parts([0.0] * 2, rng, per_method={"bar": 0.1}, lower=-1.0, upper=1.0)
    estimate = combine(given, "x")
    assert (estimate.lower, estimate.upper) == (-1.0, 1.0)
    assert estimate.per_method == {"bar": 0.1}


def test_false_alarms_of_disagreement(rng):
    """1000 runs whose chains agree, 4 x 30 scans each: expected alarms 0.01 at 1e-5 each.

    Errors from 30 scans have t tails, which the leniency covers: 0 alarms in 20 000 such runs.
    """
    alarms = sum(
        "chains_disagree" in codes(combine(parts([1.0] * 4, rng, n_scans=30), "x"))
        for _ in range(1000)
    )
    assert alarms == 0


@pytest.mark.parametrize("n_chains", [2, 4, 16])
def test_power_of_disagreement(rng, n_chains):
    """One chain off by 12 of its errors is found every time; by 2, never of note."""
    own = 1.0 / 20.0
    far, near = ([0.0] * (n_chains - 1) + [shift * own] for shift in (12.0, 2.0))
    estimate = combine(parts(far, rng), "x")
    [diagnostic] = [w for w in estimate.warnings if w.code == "chains_disagree"]
    assert diagnostic.measured["log_z"]["log_z_chain"] == estimate.per_chain.tolist()
    assert "chains_disagree" not in codes(combine(parts(near, rng), "x"))


@pytest.mark.parametrize(("n_scans", "few"), [(20, True), (60, False)])
def test_few_effective_draws(rng, n_scans, few):
    # 80 and 240 independent scans; `ess` never exceeds their number, and 240 estimates fall below
    # 100 less than once in 10^6 seeds
    estimate = combine(parts([0.0] * 4, rng, n_scans=n_scans), "x")
    measured = {w.code: w.measured for w in estimate.warnings}
    assert ("too_few_effective_draws" in measured) == (estimate.ess < MIN_ESS) == few
    if few:
        found = measured["too_few_effective_draws"]
        assert found == {"scans": {"log_marginal_likelihood_ess": estimate.ess}}


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_no_overlap_is_named_and_nothing_else(rng, value):
    given = parts([0.0, 0.0], rng)
    given.log_z[1] = value
    estimate = combine(given, "x")
    assert codes(estimate) == ["no_overlap"]
    np.testing.assert_array_equal(estimate.warnings[0].measured["log_z_chain"], given.log_z)
    assert not np.isfinite(estimate.se)


@pytest.mark.parametrize("n_chains", [4, 7])
def test_low_chain_is_left_out_and_named(rng, n_chains):
    """Others agree, so that theirs is the number, and no mean that nobody holds."""
    low = 2
    values = np.full(n_chains, -7.3)
    values[low] -= 5.6
    estimate = combine(parts(values, rng), "x")
    # n - 1 chains of 400 independent scans each
    assert abs(estimate.log_z + 7.3) < 5.0 / np.sqrt(400 * (n_chains - 1))
    assert estimate.se == pytest.approx(1 / np.sqrt(400 * (n_chains - 1)), rel=0.3)
    [diagnostic] = [w for w in estimate.warnings if w.code == "chains_disagree"]
    assert diagnostic.measured["log_z"]["chain"] == [low]
    assert "Chains [2] are lower" in str(diagnostic)
    assert estimate.per_chain.size == n_chains


def test_a_high_chain_without_a_round_trip_has_no_say(rng):
    """Its levels do not know of one another; a low one is left out all the same."""
    given = parts(np.array([0.4, 0.4, 11.9, 0.4]), rng)
    trips = np.array([3.0, 9.0, 0.0, 4.0])
    estimate = combine(replace(given, arrays={"n_round_trips": trips}), "x")
    assert abs(estimate.log_z - 0.4) < 5.0 / np.sqrt(1200)
    [diagnostic] = [w for w in estimate.warnings if w.code == "chains_disagree"]
    assert diagnostic.measured["log_z"]["chain"] == [2]
    other = replace(given, arrays={"n_round_trips": np.array([0.0, 9.0, 2.0, 4.0])})
    assert np.isnan(combine(other, "x").log_z)
    low = replace(parts(np.array([0.4, -8.0, 0.4, 0.4]), rng), arrays=other.arrays)
    assert abs(combine(low, "x").log_z - 0.4) < 5.0 / np.sqrt(1200)


@pytest.mark.parametrize(
    "values",
    [[0.0, 0.0, 0.0, 18.7], [0.0, 0.0, 3.1, 3.1], [1.0, 4.0, 9.0, 2.0, -5.0], [0.0, 2.5]],
)
def test_chains_that_say_different_things_have_no_mean(rng, values):
    """One that is higher has found more, and halves are no majority."""
    estimate = combine(parts(values, rng), "x")
    assert np.isnan(estimate.log_z)
    assert np.isnan(estimate.se)
    [diagnostic] = [w for w in estimate.warnings if w.code == "chains_disagree"]
    assert "So there is no estimate" in str(diagnostic)
    np.testing.assert_allclose(diagnostic.measured["log_z"]["log_z_chain"], values, atol=0.3)


def test_chains_without_a_round_trip_are_not_explained_by_their_errors(rng):
    """Stuck at a top, they say too much, as of shares of 20 sites, and it is no lower bound."""
    given = parts([-95.3, -99.6, -90.4, -94.7], rng, sd=70.0)
    stuck = replace(given, arrays={"n_round_trips": np.zeros(4)})
    estimate = combine(stuck, "x")
    assert np.isnan([estimate.log_z, estimate.se]).all()
    found = {w.code: w for w in estimate.warnings}
    assert "none had a round trip" in str(found["chains_disagree"])
    one = replace(given, arrays={"n_round_trips": np.array([0.0, 0.0, 1.0, 0.0])})
    assert combine(one, "x").log_z == pytest.approx(given.log_z.mean())
    # a mean of chains less than a nat apart stays
    near = replace(parts([-0.2, 0.2], rng, sd=0.1), arrays={"n_round_trips": np.zeros(2)})
    assert combine(near, "x").log_z == pytest.approx(near.log_z.mean())


def test_no_chain_is_left_out_where_its_weights_explain_it(rng):
    """Log-normal weights of which some chains lack the largest, 1000 runs: errors know of it.

    Chains are up to several nats apart, and the means of all are as they were.
    """
    n_far = 0
    for _ in range(1000):
        chains = [annealed_forward(rng.normal(-4.5, 3.0, 60)) for _ in range(4)]
        log_z = np.array([chain.log_z for chain in chains])
        estimate = combine(MethodEstimate(log_z, [chain.influence for chain in chains]), "x")
        n_far += np.ptp(log_z) > 1.0
        assert estimate.log_z == pytest.approx(log_z.mean())
    assert n_far > 500


def test_exact_chains_have_no_error():
    estimate = combine(MethodEstimate(np.array([2.0, 2.0]), [np.zeros(50), np.zeros(50)]), "x")
    assert (estimate.log_z, estimate.se) == (2.0, 0.0)
    assert estimate.warnings == ()


def test_combine_chains_of_a_ladder(rng):
    betas = np.array([0.0, 0.4, 1.0])
    chains = [mbar(rng.normal(-2.0, 0.3, size=(n, 3)), betas) for n in (300, 400, 300)]
    estimate = combine_chains(chains, "own sampler, mbar")
    # the target is the last level
    assert estimate.per_chain.tolist() == [chain.log_z[-1] for chain in chains]
    error = log_z_standard_error(estimate.per_chain, [chain.influence for chain in chains])
    assert (estimate.se, estimate.ess, estimate.df) == error[:1] + error[:0:-1]
    assert estimate.log_z == estimate.per_chain.mean()


def test_combine_chains_warns_where_they_disagree(rng):
    chains = [annealed_forward(rng.normal(mean, 0.1, size=400)) for mean in (0.0, 0.0, 3.0)]
    estimate = combine_chains(chains, "own sampler, ais")
    assert "chains_disagree" in codes(estimate)


@pytest.mark.parametrize("chains", [[], [1.0, 2.0]])
def test_combine_chains_refuses_what_is_no_estimate(chains):
    with pytest.raises(DataError, match="expected the result of one estimator"):
        combine_chains(chains, "own sampler")
