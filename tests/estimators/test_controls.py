"""Controls take out what they explain, no more, and say truly what error is left."""

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.controls import DRAWS_PER_CONTROL, with_controls
from pymc_tempering.estimators.uncertainty import log_z_standard_error

N_DRAWS = 160
LOG_Z = -3.0
WEIGHTS = np.array([0.15, 0.6, 0.25])


def run(rng, n_scans=4, strength=0.3, noise=0.1, phi=0.5, lag=0.0):
    """Scans whose log Z follows the components that were drawn, now and in the scan that follows.

    Returns
    -------
    log_z, influence, controls, n_scans
        As an estimator returns them; log Z is `LOG_Z` on average.
    """
    counts = np.full(N_DRAWS, n_scans)
    total = counts.sum()
    which = rng.choice(3, size=total, p=WEIGHTS)
    apart = (which[:, None] == np.arange(3)) - WEIGHTS
    of_components = apart @ (strength * np.array([-1.0, 0.4, 0.0]))
    error = lfilter([1.0], [1.0, -phi], noise * rng.normal(size=total))
    error += (1.0 - lag) * of_components + lag * np.roll(of_components, 1)
    by_draw = apart.reshape(N_DRAWS, n_scans, -1).sum(axis=1)
    return LOG_Z + error.mean(), error - error.mean(), by_draw, counts


def test_what_they_explain_is_gone(rng):
    log_z, influence, controls, counts = run(rng, noise=0.0)
    better = with_controls(log_z, influence, controls, counts)
    assert np.abs(influence).max() > 0.1
    assert abs(log_z - LOG_Z) > 1e-8
    assert better.log_z == pytest.approx(LOG_Z, abs=1e-12)
    assert np.abs(better.influence).max() < 1e-12
    assert better.influence.size == N_DRAWS


@pytest.mark.statistical
@pytest.mark.parametrize("lag", [0.0, 0.5])
def test_errors_fall_and_stay_true(lag, rng):
    """400 runs of four chains: coverage has a standard error of 0.011, 3.7 below is 0.91.

    With the correction's sign the other way the error would double instead.
    """
    errors, before, covered = [], [], 0
    for _ in range(400):
        chains = [run(rng, lag=lag) for _ in range(4)]
        better = [with_controls(*chain) for chain in chains]
        log_z = np.array([chain.log_z for chain in better])
        error = log_z_standard_error(log_z, [chain.influence for chain in better])
        errors.append(log_z.mean() - LOG_Z)
        before.append(np.mean([chain[0] for chain in chains]) - LOG_Z)
        covered += abs(errors[-1]) < stats.t.ppf(0.975, error.df) * error.se
    assert np.std(errors) < 0.9 * np.std(before)
    assert abs(np.mean(errors)) < 4.5 * np.std(errors) / 20
    assert 0.91 < covered / 400 < 0.985


@pytest.mark.statistical
def test_controls_that_explain_nothing_cost_as_many_draws(rng):
    """Sixteen of them for 160 draws: the variance is a tenth larger, and the error says so.

    If it did not, errors would be 10 % too small; 5.8 % is 4.5 errors of a standard deviation of
    3000.
    """
    weights = np.full(16, 1 / 16)
    errors, reported = [], []
    for _ in range(3000):
        log_z, influence, _, counts = run(rng, strength=0.0, phi=0.0)
        which = rng.choice(16, size=(N_DRAWS, 4), p=weights)
        controls = (which[..., None] == np.arange(16)).sum(axis=1) - 4 * weights
        better = with_controls(log_z, influence, controls, counts)
        assert better.n_controls == 16
        errors.append(better.log_z - LOG_Z)
        reported.append(better.influence.std(ddof=1) / np.sqrt(N_DRAWS))
    assert np.std(errors) == pytest.approx(np.mean(reported), rel=0.058)


def test_draws_of_unequal_length(rng):
    """One to four scans, and ten draws without any, as where gradients are bounded."""
    lengths = np.concatenate([np.zeros(10, int), rng.integers(1, 5, N_DRAWS - 10)])
    which = rng.choice(3, size=lengths.sum(), p=WEIGHTS)
    apart = (which[:, None] == np.arange(3)) - WEIGHTS
    controls = np.zeros((N_DRAWS, 3))
    np.add.at(controls, np.repeat(np.arange(N_DRAWS), lengths), apart)
    error = apart @ np.array([-0.3, 0.1, 0.05])
    better = with_controls(LOG_Z + error.mean(), error - error.mean(), controls, lengths)
    assert abs(error.mean()) > 1e-8
    assert better.log_z == pytest.approx(LOG_Z, abs=1e-12)
    assert better.influence.size == N_DRAWS - 10
    assert np.abs(better.influence).max() < 1e-12


def test_it_stays_as_it_is_where_nothing_can_be_said(rng):
    log_z, influence, controls, counts = run(rng)
    few = slice(0, 40)
    cases = {
        "few draws": (log_z, influence[:160], controls[few], counts[few]),
        "no draw of any": (log_z, influence, 0.01 * controls, counts),
        "no controls": (log_z, influence, np.zeros((N_DRAWS, 16)), counts),
        "levels apart": (log_z, np.full_like(influence, np.nan), controls, counts),
        "infinite": (np.inf, influence, controls, counts),
    }
    for name, case in cases.items():
        same = with_controls(*case)
        assert same.n_controls == 0, name
        assert same.log_z == case[0], name
        assert same.influence is case[1], name


def test_no_more_than_draws_can_tell(rng):
    """Those that vary most: here the three that explain all."""
    log_z, influence, controls, counts = run(rng, noise=0.0)
    many = np.hstack([0.4 * rng.normal(size=(N_DRAWS, 30)), controls])
    better = with_controls(log_z, influence, many, counts)
    assert better.n_controls == N_DRAWS // DRAWS_PER_CONTROL
    assert better.log_z == pytest.approx(LOG_Z, abs=1e-12)


def test_arrays_that_do_not_go_together_are_refused(rng):
    log_z, influence, controls, counts = run(rng)
    for shorter in ((influence, controls[:-1], counts), (influence, controls[:, 0], counts)):
        with pytest.raises(DataError, match="one row, and the number of scans, for each draw"):
            with_controls(log_z, *shorter)
    with pytest.raises(DataError, match=r"influence has shape \(639,\); expected \(640,\)"):
        with_controls(log_z, influence[:-1], controls, counts)
