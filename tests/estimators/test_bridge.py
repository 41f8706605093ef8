"""Bridge sampling of arrays against exact normalisers, with planted errors."""

import numpy as np
import pytest
from scipy import stats

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.bar import bar
from pymc_tempering.estimators.bridge import bridge, bridge_halves
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from tests.chains import autoregressive_chains

LOG_Z = 1.7


def gaussian_half(rng, n_draws=500, correlation=0.0, n_chains=4, mean=0.6, sd=0.7, shift=0.0):
    """Target exp(1.7) N(0.6, 0.7), proposal N(0, 1)."""
    z = mean + sd * autoregressive_chains(rng, (n_chains, n_draws, 1), correlation)[..., 0]
    proposed = rng.normal(size=n_chains * n_draws)

    def delta(x):
        return LOG_Z + stats.norm.logpdf(x, mean, sd) - stats.norm.logpdf(x)

    return bridge(delta(z) + shift, delta(proposed))


@pytest.fixture
def halves(rng):
    return gaussian_half(rng), gaussian_half(rng)


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_estimate_is_right(rng, correlation):
    """Fails once in 10^5 seeds."""
    both = bridge_halves(*(gaussian_half(rng, correlation=correlation) for _ in range(2)))
    assert abs(both.log_z - LOG_Z) < stats.t.isf(5e-6, both.df) * both.se
    assert both.se < 0.1
    assert both.log_z == pytest.approx(both.per_half.mean(), abs=1e-12)


def test_error_is_calibrated_for_chains(rng):
    """150 runs of 4 x 2 x 150 draws at autocorrelation 0.9, an effective 60 or so of them.

    Binomial at 0.95: fewer than 130 covered once in 10^4 seeds; as wide as the ratio of the error.
    """
    runs = [
        bridge_halves(*(gaussian_half(rng, 150, correlation=0.9) for _ in range(2)))
        for _ in range(150)
    ]
    covered = [abs(r.log_z - LOG_Z) < stats.t.isf(0.025, r.df) * r.se for r in runs]
    assert sum(covered) >= 130
    rmse = np.sqrt(np.mean([(r.log_z - LOG_Z) ** 2 for r in runs]))
    assert 0.75 < np.median([r.se for r in runs]) / rmse < 1.35
    assert np.median([r.ess for r in runs]) < 0.25 * 4 * 2 * 150


def test_independent_draws_give_bennetts_estimate(rng):
    delta, proposed = rng.normal(0.2, 0.5, size=(1, 400)), rng.normal(-0.2, 0.5, size=900)
    estimate = bridge(delta, proposed)
    plain = bar(proposed, -delta)
    # the effective number differs from 400 by what the estimate of it is uncertain
    assert estimate.log_z == pytest.approx(plain.log_ratio, abs=0.01)
    assert estimate.draw_influence.shape == (1, 400)
    assert estimate.proposal_influence.shape == (900,)


def test_correlated_draws_count_for_less_than_the_proposals(rng):
    """The bridge function is that of the effective number of draws."""
    slow = autoregressive_chains(rng, (2, 2000, 1), 0.98)[..., 0]
    delta, proposed = 0.5 + 0.6 * slow, rng.normal(-0.5, 0.6, size=4000)
    estimate = bridge(delta, proposed)
    candidates = [bar(proposed, -delta, n_effective=(4000.0, n)).log_ratio for n in (10.0, 400.0)]
    assert min(candidates) < estimate.log_z < max(candidates)
    assert estimate.log_z != pytest.approx(bar(proposed, -delta).log_ratio, abs=1e-6)


def test_error_has_the_part_of_the_proposals(rng):
    half = gaussian_half(rng, correlation=0.5)
    both = bridge_halves(half, half)
    chains = log_z_standard_error(np.zeros(4), np.tile(half.draw_influence, 2)).se
    proposals = half.proposal_influence.std(ddof=1) / np.sqrt(2 * half.proposal_influence.size)
    assert both.se == pytest.approx(np.hypot(chains, proposals), rel=1e-9)
    assert proposals > 0.2 * both.se


def test_chains_and_halves_that_differ_raise_the_error(rng, halves):
    shifted = gaussian_half(rng, shift=0.5)
    differing = bridge_halves(halves[0], shifted)
    agreeing = bridge_halves(*halves)
    assert agreeing.halves_p > 1e-5  # once in 10^5 seeds
    assert differing.halves_p < 1e-8
    assert differing.se > 1.2 * agreeing.se
    assert differing.ess < 0.5 * agreeing.ess
    assert differing.per_half.tolist() == [halves[0].log_z, shifted.log_z]


def test_chain_estimates_are_of_their_own_draws(rng):
    z = rng.normal(0.3, 0.5, size=(3, 400)) + np.array([[0.0], [0.0], [0.15]])
    estimate = bridge(z, rng.normal(-0.3, 0.5, size=1200))
    assert abs(estimate.per_chain[0] - estimate.per_chain[1]) < 0.1
    assert estimate.per_chain[2] > estimate.per_chain[:2].max() + 0.02


def test_halves_of_unequal_length_are_weighted(rng):
    first, second = gaussian_half(rng, 101), gaussian_half(rng, 300)
    both = bridge_halves(first, second)
    assert both.log_z == pytest.approx((101 * first.log_z + 300 * second.log_z) / 401, abs=1e-12)
    assert both.influence.shape == (4, 401)
    assert both.influence.mean() == pytest.approx(0.0, abs=1e-10)


def test_exact_proposal_has_no_error():
    half = bridge(np.full((2, 50), LOG_Z), np.full(100, LOG_Z))
    both = bridge_halves(half, half)
    assert both.log_z == pytest.approx(LOG_Z, abs=1e-12)
    assert (both.se, both.halves_p, both.df) == (0.0, 1.0, np.inf)


def test_tail_index_is_that_of_the_importance_weights(rng):
    """Weights of index 1.2 from the proposal, bounded ones back: only the first is heavy."""
    half = bridge(np.abs(rng.normal(size=(4, 1000))), 1.2 * rng.exponential(size=4000))
    forward, reverse = bridge_halves(half, half).pareto_k
    assert forward > 0.8
    assert reverse < 0.5


def test_no_overlap_has_no_error():
    half = bridge(np.full((2, 10), 3.0), np.full(20, -np.inf))
    assert np.isneginf(half.log_z)
    both = bridge_halves(half, half)
    assert np.isnan(both.se)
    assert np.isnan(both.halves_p)


def test_influence_at_other_draws_is_that_of_the_estimate(rng):
    delta, proposed = rng.normal(0.2, 0.5, size=(2, 400)), rng.normal(-0.2, 0.5, size=900)
    estimate = bridge(delta, proposed, delta[:, ::-1])
    np.testing.assert_allclose(
        estimate.fitted_influence[:, ::-1], estimate.draw_influence, rtol=1e-8, atol=1e-10
    )


def test_errors_that_the_halves_share_are_counted(rng):
    """Proposals fitted to the halves of Gaussian draws: errors of the two estimates are equal.

    400 runs: the correlation is 0.43 and the ratio of the error 1.06, and either fails once in 10^4
    seeds; without the shared part the ratio is 0.86.
    """
    estimates, errors = [], []
    for _ in range(400):
        z = rng.normal(size=(2, 2, 100))
        halves = []
        for entering, fitted in (z, z[::-1]):
            mean, sd = fitted.mean(), fitted.std()
            points = (entering, rng.normal(mean, sd, size=200), fitted)
            halves.append(bridge(*(stats.norm.logpdf(x) - stats.norm.logpdf(x, mean, sd)
                                   for x in points)))  # fmt: skip
        both = bridge_halves(*halves)
        estimates.append(both.per_half)
        errors.append(both.se)
    assert np.corrcoef(np.array(estimates).T)[0, 1] > 0.2
    rmse = np.sqrt(np.mean(np.mean(estimates, axis=1) ** 2))
    assert 0.92 < np.sqrt(np.mean(np.square(errors))) / rmse < 1.3


@pytest.mark.parametrize("bad", [[[]], [[np.nan, 1.0]], [[-np.inf, 0.0]], [[np.inf, 0.0]]])
def test_invalid_draws_are_refused(bad):
    with pytest.raises(DataError, match=r"delta_draws.*zero at its own draws"):
        bridge(bad, [0.0, 1.0])


def test_halves_of_other_chains_are_refused(rng, halves):
    with pytest.raises(DataError, match=r"\[4, 3\] chains"):
        bridge_halves(halves[0], gaussian_half(rng, n_chains=3))
