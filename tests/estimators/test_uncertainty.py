"""Standard errors against AR(1) series, whose error is known exactly."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from pymc_tempering.errors import DataError
from pymc_tempering.estimators import uncertainty


def ar1(rng, shape, phi):
    noise = rng.normal(size=shape)
    noise[..., 1:] *= np.sqrt(1 - phi**2)
    return lfilter([1.0], [1.0, -phi], noise, axis=-1)


def as_run(series):
    """Split a series into what an estimator returns: value per chain, influence of mean zero."""
    log_z = series.mean(axis=1)
    return log_z, series - log_z[:, None]


def exact_se(phi, n_chains, n_scans):
    lags = np.arange(1, n_scans)
    return np.sqrt((1 + 2 * np.sum((1 - lags / n_scans) * phi**lags)) / (n_chains * n_scans))


@pytest.mark.parametrize("phi", [0.0, 0.6, 0.9])
def test_error_of_an_autocorrelated_series(rng, phi):
    # A relative error of 10 % (sd) is usual here; 45 % is more than 4 of these.
    log_z, influence = as_run(ar1(rng, (4, 4000), phi))
    expected = exact_se(phi, 4, 4000)
    error = uncertainty.log_z_standard_error(log_z - 1e4, influence)
    assert error.se == pytest.approx(expected, rel=0.45)
    assert error.ess <= 16_000
    own = uncertainty.chain_standard_errors(influence)
    np.testing.assert_allclose(own, 2 * expected, rtol=0.7)


@pytest.mark.parametrize(
    ("n_chains", "n_scans", "phi"), [(4, 60, 0.7), (4, 500, 0.9), (1, 300, 0.8)]
)
def test_nominal_intervals_cover(rng, n_chains, n_scans, phi):
    """400 runs: coverage has a standard error of 0.011, and 0.91 is 3.7 of them below 0.95."""
    covered = 0
    for series in ar1(rng, (400, n_chains, n_scans), phi):
        log_z, influence = as_run(series)
        error = uncertainty.log_z_standard_error(log_z, influence)
        covered += abs(log_z.mean()) < stats.t.ppf(0.975, error.df) * error.se
    assert covered / 400 > 0.91


def test_disagreement_of_chains_is_in_the_error(rng):
    log_z, influence = as_run(rng.normal(size=(4, 1000)))
    log_z = log_z + np.array([0.0, 5.0, 0.0, -5.0])
    error = uncertainty.log_z_standard_error(log_z, influence)
    assert error.se == pytest.approx(log_z.std(ddof=1) / 2, rel=0.05)
    assert error.df == 3
    assert uncertainty.chain_standard_errors(influence).max() < 0.06


@pytest.mark.parametrize("n_chains", [2, 3, 8])
def test_chains_stuck_in_their_modes_count_as_one_draw_each(rng, n_chains):
    log_z = rng.normal(size=n_chains)
    for noise in (0.0, 1e-4):
        influence = noise * rng.normal(size=(n_chains, 300))
        influence -= influence.mean(axis=1, keepdims=True)
        error = uncertainty.log_z_standard_error(log_z, influence)
        assert error.se == pytest.approx(log_z.std(ddof=1) / np.sqrt(n_chains), rel=0.05)
        assert error.df == n_chains - 1


def test_errors_are_equivariant(rng):
    log_z, influence = as_run(ar1(rng, (3, 200), 0.5))
    error = uncertainty.log_z_standard_error(log_z, influence)
    scaled = uncertainty.log_z_standard_error(1e-9 * log_z, 1e-9 * influence)
    assert scaled.se == pytest.approx(1e-9 * error.se, rel=1e-6)
    assert scaled.ess == pytest.approx(error.ess, rel=1e-6)


def test_longer_chains_are_averaged_not_cut(rng):
    long, short = ar1(rng, (900,), 0.5), ar1(rng, (400,), 0.5)
    influences = [long - long.mean(), short - short.mean()]
    series = uncertainty.pooled_series([long.mean(), short.mean()], influences)
    assert series.shape == (2, 400)
    assert series[0].mean() == pytest.approx(long.mean(), abs=0.05)
    np.testing.assert_allclose(series[1], short)
    error = uncertainty.log_z_standard_error([long.mean(), short.mean()], influences)
    expected = 0.5 * np.hypot(exact_se(0.5, 1, 900), exact_se(0.5, 1, 400))
    assert error.se == pytest.approx(expected, rel=0.6)


def test_limits():
    constant = uncertainty.log_z_standard_error([-3.0, -3.0], np.zeros((2, 50)))
    assert constant == (0.0, np.inf, 100.0)
    for bad in (np.full((2, 50), np.nan), np.zeros((2, 3)), np.tile([1e200, -1e200], (2, 25))):
        assert np.isnan(uncertainty.log_z_standard_error([1.0, 2.0], bad).se)
    assert np.isnan(uncertainty.log_z_standard_error([1.0, -np.inf], np.zeros((2, 50))).se)
    # finite, but not their squares
    huge = np.append(np.zeros(49), 1e200)
    assert np.isnan(uncertainty.log_z_standard_error([1.0], [huge]).se)


def test_mismatched_input_is_refused():
    with pytest.raises(DataError, match="one non-empty series per chain"):
        uncertainty.log_z_standard_error([1.0, 2.0], np.zeros((3, 10)))
    with pytest.raises(DataError, match="non-empty"):
        uncertainty.log_z_standard_error([1.0], [np.zeros(0)])
