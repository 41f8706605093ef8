"""Ratios of normalisers from weights, against exact Gaussians, their coverage, and planted bugs."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from pymc_tempering.errors import DataError, ScheduleError
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.estimators.reweighting import mbar_powers, reweight
from pymc_tempering.estimators.uncertainty import log_z_standard_error


def autocorrelated_normals(rng, shape, phi):
    noise = rng.normal(size=shape)
    noise[:, 1:] *= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=1)


def calibration(rng, power, n_repeats=300, phi=0.7, change=lambda w: w):
    """z scores and coverage for a three-dimensional Gaussian raised to a power.

    The normaliser of ``exp(-|u|^2 a / 2)`` relative to a = 1 is ``a^(-3/2)``.
    """
    z, covered = np.empty(n_repeats), np.empty(n_repeats, dtype=bool)
    for r in range(n_repeats):
        u = autocorrelated_normals(rng, (4, 500, 3), phi)
        estimate = reweight(change((power - 1.0) * -0.5 * (u**2).sum(axis=-1)))
        error = log_z_standard_error(np.zeros(4), estimate.influence)
        z[r] = (estimate.log_ratio + 1.5 * np.log(power)) / error.se
        covered[r] = abs(z[r]) < stats.t.ppf(0.975, error.df)
    return z, covered


@pytest.mark.statistical
@pytest.mark.parametrize("power", [0.75, 1.5])
def test_reported_error_is_calibrated(rng, power):
    """300 runs of 4 x 500 autocorrelated draws.

    The sd of z has a standard error near 0.045, coverage one of 0.013 and the mean of z one of
    0.058. Bounds are 4 of these and more, plus a bias of a fifth of the error: a correct estimator
    fails less than once in 10^4 seeds.
    """
    z, covered = calibration(rng, power)
    assert abs(z.mean()) < 0.23 + 0.2
    assert 0.80 < z.std() < 1.25
    assert covered.mean() > 0.89


@pytest.mark.parametrize(
    "bug",
    [
        lambda w: w - w.mean(),  # weights known up to a constant only
        lambda w: w + np.log(1.1),
        lambda w: 0.5 * w,
    ],
)
def test_wrong_weights_are_noticed(rng, bug):
    z, _ = calibration(rng, 1.5, n_repeats=30, change=bug)
    assert abs(z.mean()) > 1.0


def test_error_knows_autocorrelation_and_chains_that_differ(rng):
    w = 0.1 * rng.normal(size=(4, 1000))
    independent = log_z_standard_error(np.zeros(4), reweight(w).influence).se
    sticky = 0.1 * autocorrelated_normals(rng, (4, 1000), 0.9)
    assert log_z_standard_error(np.zeros(4), reweight(sticky).influence).se > 2.5 * independent
    apart = w + np.array([[-0.3], [-0.1], [0.1], [0.3]])
    assert log_z_standard_error(np.zeros(4), reweight(apart).influence).se > 20 * independent


def test_influence_predicts_a_change_of_one_draw(rng):
    w = rng.normal(size=(2, 500))
    estimate = reweight(w)
    changed = w.copy()
    changed[0, 7] = w[1, 9]
    moved = reweight(changed).log_ratio - estimate.log_ratio
    expected = (estimate.influence[1, 9] - estimate.influence[0, 7]) / w.size
    assert moved == pytest.approx(expected, rel=0.05)
    assert estimate.influence.mean() == pytest.approx(0.0, abs=1e-12)


def test_equal_weights_are_exact():
    estimate = reweight(np.full((2, 100), -1e5))
    assert estimate.log_ratio == -1e5
    assert estimate.weight_ess == pytest.approx(200)
    assert log_z_standard_error(np.zeros(2), estimate.influence).se == 0.0


def test_zero_weights():
    half = np.where(np.arange(100) % 2, 0.0, -np.inf)[None]
    assert reweight(half).log_ratio == pytest.approx(-np.log(2.0))
    none = reweight(np.full((1, 50), -np.inf))
    assert none.log_ratio == -np.inf
    assert none.weight_ess == 0.0


@pytest.mark.parametrize("bad", [[[np.nan, 1.0]], [[np.inf, 1.0]], [[]], np.zeros((2, 2, 2))])
def test_refuses_what_are_no_log_weights(bad):
    with pytest.raises(DataError, match="expected"):
        reweight(bad)


def test_powers_at_levels_are_mbar(rng, ladder, betas):
    delta = ladder.draw(rng, 800, betas, phi=0.5, shared=0.5)
    full = mbar(delta, betas)
    powers = mbar_powers(delta, betas, betas[1:])
    np.testing.assert_allclose(powers.log_z, full.log_z[1:], atol=1e-9)
    np.testing.assert_allclose(powers.influence[-1], full.influence, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(np.exp(powers.log_weights).sum(axis=1), 1.0)


@pytest.mark.statistical
@pytest.mark.parametrize("power", [0.6, pytest.param(1.4, marks=pytest.mark.slow)])
def test_error_between_and_beyond_levels_is_calibrated(rng, ladder, betas, power):
    """The bounds and the rate of false alarms of `test_reported_error_is_calibrated`."""
    z, covered = np.empty(300), np.empty(300, dtype=bool)
    for r in range(300):
        chains = [
            mbar_powers(ladder.draw(rng, 250, betas, phi=0.7, shared=0.5), betas, power)
            for _ in range(4)
        ]
        log_z = np.array([chain.log_z[0] for chain in chains])
        error = log_z_standard_error(log_z, [chain.influence[0] for chain in chains])
        z[r] = (log_z.mean() - ladder.log_z(power)) / error.se
        covered[r] = abs(z[r]) < stats.t.ppf(0.975, error.df)
    assert abs(z.mean()) < 0.43
    assert 0.80 < z.std() < 1.25
    assert covered.mean() > 0.89


def test_influence_of_a_power_predicts_a_change_of_one_scan(rng, ladder, betas):
    delta = ladder.draw(rng, 2000, betas)
    estimate = mbar_powers(delta, betas, [0.6])
    influence = estimate.influence[0]
    best, worst = np.argmax(influence), np.argmin(influence)
    changed = delta.copy()
    changed[worst] = delta[best]
    moved = mbar_powers(changed, betas, [0.6]).log_z[0] - estimate.log_z[0]
    assert moved == pytest.approx(np.ptp(influence) / 2000, rel=0.05)
    assert influence.mean() == pytest.approx(0.0, abs=1e-7)


def test_levels_without_overlap_have_no_error():
    delta = np.tile([-1e4, 1e4], (50, 1)) + np.random.default_rng(1).normal(size=(50, 2))
    assert np.isnan(mbar_powers(delta, [0, 1], [0.5]).influence).all()


def test_zero_density_at_the_base_is_allowed(rng, ladder, betas):
    delta = ladder.draw(rng, 400, betas)
    delta[::3, 0] = -np.inf
    assert np.isfinite(mbar_powers(delta, betas, [0.3, 2.0]).log_z).all()


@pytest.mark.parametrize("power", [0.0, -1.0, np.nan])
def test_refuses_powers(power):
    with pytest.raises(DataError, match="expected positive"):
        mbar_powers(np.zeros((5, 2)), [0, 1], [1.0, power])


def test_refuses_other_ladders():
    with pytest.raises(ScheduleError):
        mbar_powers(np.zeros((5, 2)), [0, 0.5], [1.0])
