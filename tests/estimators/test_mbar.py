"""MBAR against exact ladders, its own equation, and planted errors."""

import sys

import numpy as np
import pytest
from scipy.special import logsumexp

from pymc_tempering.errors import DataError, ScheduleError
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.estimators.mbar import mbar, mbar_samples


def test_solves_the_self_consistent_equation(rng, ladder, betas):
    delta = ladder.draw(rng, 3000, betas, phi=0.5)
    log_z = mbar(delta, betas).log_z
    exponent = delta.ravel()[:, None] * betas
    mixture = logsumexp(exponent - log_z + np.log(3000), axis=1)
    np.testing.assert_allclose(logsumexp(exponent - mixture[:, None], axis=0), log_z, atol=1e-9)


def test_two_levels_are_bar(rng, ladder):
    delta = ladder.draw(rng, 500, [0.0, 1.0])
    a, b = mbar(delta, [0.0, 1.0]), bar_ladder(delta, [0.0, 1.0])
    assert a.log_z[-1] == pytest.approx(b.log_z[-1], abs=1e-9)
    np.testing.assert_allclose(a.influence, b.influence, rtol=1e-6, atol=1e-9)


def test_samples_that_visit_levels_unequally(rng, ladder, betas, exact):
    """Level 2 is never visited and predicted; 6 reported errors, 1 seed in 10^8."""
    n_per_level = [4000, 9000, 0, 7000, 2500]
    level = rng.permutation(np.repeat(np.arange(5), n_per_level))
    draws = ladder.draw(rng, level.size, betas)
    estimate = mbar_samples(draws[np.arange(level.size), level], level, betas)
    se = estimate.influence.std() / np.sqrt(level.size)
    assert 0.0 < se < 0.05
    assert abs(estimate.log_z[-1] - exact[-1]) < 6 * se
    np.testing.assert_allclose(estimate.log_z, exact, atol=0.15)


def test_sample_form_agrees_with_the_ladder_form(rng, ladder, betas):
    delta = ladder.draw(rng, 400, betas)
    level = np.tile(np.arange(5), 400)
    a, b = mbar(delta, betas), mbar_samples(delta.ravel(), level, betas)
    np.testing.assert_allclose(a.log_z, b.log_z, atol=1e-9)
    per_scan = b.influence.reshape(400, 5).mean(axis=1)
    np.testing.assert_allclose(a.influence, per_scan, atol=1e-9)


def test_levels_without_overlap_have_no_error(rng):
    delta = rng.normal(size=(200, 3)) + np.array([-4000.0, 0.0, 4000.0])
    assert np.isnan(mbar(delta, [0.0, 0.5, 1.0]).influence).all()


def test_a_descent_in_minute_steps_is_given_up(rng, monkeypatch):
    """Along a gap, of numbers of 1e35 as of data that are all the same: it took minutes."""
    n_evaluations = 0

    def objective(delta, betas, n, c):
        nonlocal n_evaluations
        n_evaluations += 1
        value = 1e6 - 1e-5 * n_evaluations if c[1] < 1e-8 * n_evaluations else 2e6
        return value, np.array([0.0, 1.0]), np.eye(2)

    # the package has a function of the module's name
    module = sys.modules["pymc_tempering.estimators.mbar"]
    monkeypatch.setattr(module, "_bar_start", lambda groups, betas: np.zeros(2))
    monkeypatch.setattr(module, "_objective", objective)
    monkeypatch.setattr(module, "_project", lambda delta, *args: np.zeros(delta.size))
    assert np.isnan(mbar(rng.normal(size=(50, 2)), [0.0, 1.0]).influence).all()
    assert n_evaluations < 30


def test_large_offsets_do_not_matter(rng, ladder, betas):
    delta = ladder.draw(rng, 1000, betas)
    a, b = mbar(delta, betas), mbar(delta - 1e5, betas)
    np.testing.assert_allclose(b.log_z + 1e5 * betas, a.log_z, atol=1e-6)
    np.testing.assert_allclose(a.influence, b.influence, atol=1e-5)


def test_invalid_input_is_refused():
    with pytest.raises(ScheduleError):
        mbar(np.zeros((3, 2)), [0.0, 0.5])
    with pytest.raises(DataError, match="one level per delta"):
        mbar_samples([1.0, 2.0], [0, 1, 1], [0.0, 1.0])
    with pytest.raises(DataError, match="both ends"):
        mbar_samples([1.0, 2.0], [1, 1], [0.0, 1.0])
    with pytest.raises(DataError, match="-inf"):
        mbar_samples([1.0, -np.inf], [0, 1], [0.0, 1.0])
