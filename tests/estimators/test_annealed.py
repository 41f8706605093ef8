"""Forward and reverse annealing with exact transitions between Gaussian levels."""

import numpy as np
import pytest

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.annealed import annealed_forward, annealed_reverse, bidirectional

BETAS = np.linspace(0.0, 1.0, 9) ** 2


def anneal(rng, ladder, n_particles, reverse=False):
    """Transitions draw afresh at every level, so the states are independent."""
    levels = np.arange(1, 9) if reverse else np.arange(8)
    means, sds = ladder.moments(BETAS[levels])
    delta = ladder.delta(means + sds * rng.normal(size=(n_particles, 8)))
    return delta @ np.diff(BETAS)


@pytest.mark.parametrize(
    ("estimator", "reverse"), [(annealed_forward, False), (annealed_reverse, True)]
)
def test_each_direction_is_right(rng, ladder, estimator, reverse):
    """20 000 particles: 6 reported errors."""
    estimate = estimator(anneal(rng, ladder, 20_000, reverse))
    se = estimate.influence.std() / np.sqrt(20_000)
    assert 0.0 < se < 0.05
    assert abs(estimate.log_z - ladder.log_z(1.0)) < 6 * se
    assert estimate.pareto_k < 0.7
    assert 1.0 < estimate.weight_ess < 20_000
    assert estimate.influence.mean() == pytest.approx(0.0, abs=1e-9)


def test_directions_are_low_and_high_in_expectation(rng, ladder):
    """Means over 2000 runs of 3 particles; bias is many of their errors, on the stated side."""
    forward = [annealed_forward(anneal(rng, ladder, 3)).log_z for _ in range(2000)]
    reverse = [annealed_reverse(anneal(rng, ladder, 3, True)).log_z for _ in range(2000)]
    truth = ladder.log_z(1.0)
    assert np.mean(forward) + 3 * np.std(forward) / np.sqrt(2000) < truth
    assert np.mean(reverse) - 3 * np.std(reverse) / np.sqrt(2000) > truth


def test_bidirectional_is_better_than_either_and_calibrated(rng, z_scores, ladder):
    """300 runs of 100 + 300 particles: the sd of z has an error of 0.04."""
    truth = ladder.log_z(1.0)
    errors, z = np.empty((300, 3)), np.empty(300)
    for i in range(300):
        both = bidirectional(anneal(rng, ladder, 100), anneal(rng, ladder, 300, True))
        se = np.hypot(
            both.forward_influence.std() / np.sqrt(100), both.reverse_influence.std() / np.sqrt(300)
        )
        z[i] = (both.log_z - truth) / se
        errors[i] = np.array([both.log_z, both.lower, both.upper]) - truth
    rmse = np.sqrt((errors**2).mean(axis=0))
    assert rmse[0] < 1.05 * rmse[1:].min()
    assert 0.83 < z.std() < 1.17
    assert abs(z.mean()) < 0.35


def test_wrong_sign_or_scale_is_noticed(rng, ladder):
    log_weights = anneal(rng, ladder, 20_000)
    truth = ladder.log_z(1.0)
    for wrong in (-log_weights, 1.05 * log_weights):
        estimate = annealed_forward(wrong)
        assert abs(estimate.log_z - truth) > 6 * estimate.influence.std() / np.sqrt(20_000)
    # The two directions confused with each other are as far apart as they overlap.
    both = bidirectional(anneal(rng, ladder, 5000, True), anneal(rng, ladder, 5000))
    assert both.lower > both.upper


def test_support_smaller_than_the_base(rng):
    """Half of the forward particles have no weight; reverse ones give log Z - log b."""
    forward = np.where(rng.uniform(size=20_000) < 0.5, np.log(3.0), -np.inf)
    reverse = np.full(20_000, np.log(3.0))
    both = bidirectional(forward, reverse, log_support_mass=np.log(0.5))
    assert both.log_z == pytest.approx(np.log(1.5), abs=0.05)
    assert both.lower == pytest.approx(np.log(1.5), abs=0.05)
    assert both.upper == pytest.approx(np.log(1.5))


def test_one_particle_holding_the_weight_shows():
    log_weights = np.zeros(200)
    log_weights[17] = 60.0
    assert annealed_forward(log_weights).weight_ess == pytest.approx(1.0)


def test_all_particles_lost():
    estimate = annealed_forward([-np.inf, -np.inf])
    assert estimate.log_z == -np.inf
    assert estimate.weight_ess == 0.0
    assert np.isnan(estimate.influence).all()


@pytest.mark.parametrize("bad", [[], [[0.0]], [np.nan], [np.inf]])
def test_invalid_weights_are_refused(bad):
    with pytest.raises(DataError, match="expected"):
        annealed_forward(bad)
    with pytest.raises(DataError, match="expected"):
        annealed_reverse(bad)


def test_reverse_weights_of_zero_are_refused():
    with pytest.raises(DataError, match="draws of the target"):
        annealed_reverse([-np.inf, 0.0])
