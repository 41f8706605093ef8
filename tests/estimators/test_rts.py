"""RTS against exact Gaussian ladders sampled as simulated tempering would."""

import numpy as np
import pytest

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.rts import (
    level_log_probability,
    rts,
    rts_bias_and_variance,
    rts_mixed,
)


def tempered_draws(rng, ladder, betas, log_level_weights, n_scans):
    """Independent draws of (position, level) from the exact joint density, eq. 8."""
    exact = np.array([ladder.log_z(beta) for beta in betas])
    probability = np.exp(exact + log_level_weights)
    level = rng.choice(len(betas), size=n_scans, p=probability / probability.sum())
    means, sds = np.array([ladder.moments(beta) for beta in betas]).T
    return ladder.delta(means[level] + sds[level] * rng.normal(size=n_scans))


@pytest.fixture
def log_level_weights(exact):
    return -exact + np.array([0.3, -0.2, 0.0, 0.4, -0.5])


def test_every_level_is_right(rng, ladder, betas, exact, log_level_weights):
    """Every level within 6 of its own standard errors (eq. 16): one seed in 10^8."""
    delta = tempered_draws(rng, ladder, betas, log_level_weights, 20_000)
    estimate = rts(delta, betas, log_level_weights)
    bias, variance = rts_bias_and_variance(delta, betas, log_level_weights)
    assert np.all(np.abs(estimate.log_z - exact) <= 6 * np.sqrt(variance) + 1e-12)
    assert np.sqrt(variance[-1]) == pytest.approx(
        estimate.influence.std() / np.sqrt(20_000), rel=0.3
    )
    assert np.sqrt(variance.max()) < 0.05
    assert np.abs(bias).max() < 0.01
    assert estimate.level_probability.sum() == pytest.approx(1.0)


def test_reported_error_is_calibrated(rng, z_scores, ladder, betas, exact, log_level_weights):
    """300 runs: sd of z has an error of 0.04, coverage one of 0.013."""
    z, covered = z_scores(
        rng,
        lambda delta: rts(delta, betas, log_level_weights),
        exact[-1],
        lambda generator: tempered_draws(generator, ladder, betas, log_level_weights, 300),
        n_repeats=300,
        n_chains=4,
    )
    assert abs(z.mean()) < 0.4
    assert 0.8 < z.std() < 1.2
    assert covered.mean() > 0.9


def test_bias_formula_predicts_the_bias(rng, ladder, betas, exact):
    """Rare target level and 40 scans; 1500 runs leave an error of the mean far below the bias."""
    weights = -exact + np.array([2.5, 1.0, 0.0, 0.0, -1.5])
    runs = [tempered_draws(rng, ladder, betas, weights, 40) for _ in range(1500)]
    error = np.array([rts(delta, betas, weights).log_z[-1] - exact[-1] for delta in runs])
    predicted = np.mean([rts_bias_and_variance(d, betas, weights)[0][-1] for d in runs[:200]])
    assert predicted < -0.02
    assert error.mean() == pytest.approx(predicted, abs=4 * error.std() / np.sqrt(1500) + 0.05)


@pytest.mark.parametrize("change", [lambda d: -d, lambda d: 1.05 * d])
def test_wrong_delta_is_noticed(rng, ladder, betas, exact, log_level_weights, change):
    delta = change(tempered_draws(rng, ladder, betas, log_level_weights, 20_000))
    estimate = rts(delta, betas, log_level_weights)
    se = estimate.influence.std() / np.sqrt(20_000)
    assert not abs(estimate.log_z[-1] - exact[-1]) < 6 * se


def test_mixed_weights_reduce_to_constant_ones(rng, ladder, betas, log_level_weights):
    delta = tempered_draws(rng, ladder, betas, log_level_weights, 2000)
    a = rts(delta, betas, log_level_weights)
    b = rts_mixed(delta, betas, np.tile(log_level_weights, (2000, 1)))
    np.testing.assert_allclose(a.log_z, b.log_z, atol=1e-9)
    np.testing.assert_allclose(a.influence, b.influence, atol=1e-7)


def test_mixed_weights_are_right(rng, ladder, betas, exact, log_level_weights):
    """Two runs with different weights pooled: 6 reported errors."""
    other = -exact + np.array([-1.0, 0.0, 0.5, 0.0, 1.0])
    delta = np.concatenate(
        [tempered_draws(rng, ladder, betas, w, 10_000) for w in (log_level_weights, other)]
    )
    weights = np.repeat([log_level_weights, other], 10_000, axis=0)
    estimate = rts_mixed(delta, betas, weights)
    se = estimate.influence.std() / np.sqrt(20_000)
    assert 0.0 < se < 0.05
    assert abs(estimate.log_z[-1] - exact[-1]) < 6 * se
    assert estimate.influence.mean() == pytest.approx(0.0, abs=1e-8)


def test_target_on_half_of_the_base(rng):
    """Levels of equal mass: base N(0,1), others half normal, log Z = log 1.5."""
    level = rng.integers(3, size=20_000)
    outside = (level == 0) & (rng.uniform(size=20_000) < 0.5)
    delta = np.where(outside, -np.inf, np.log(3.0))
    betas = np.array([0.0, 0.4, 1.0])
    weights = -np.array([0.0, 0.4 * np.log(3) + np.log(0.5), np.log(1.5)])
    estimate = rts(delta, betas, weights)
    assert estimate.log_z[-1] == pytest.approx(np.log(1.5), abs=0.06)


def test_initial_iterations_reach_flat_levels(rng, ladder, betas, exact):
    """Section 2.4: weights from short runs until the shares are those of the prior."""
    log_z = exact + np.array([0.0, 1.0, -1.5, 2.0, 1.0])
    for _ in range(30):
        estimate = rts(tempered_draws(rng, ladder, betas, -log_z, 3000), betas, -log_z)
        if np.abs(estimate.level_probability - 0.2).max() < 0.1 / 5:
            break
        log_z = estimate.log_z
    else:
        pytest.fail("no convergence")
    np.testing.assert_allclose(estimate.log_z, exact, atol=0.4)


def test_invalid_input_is_refused():
    with pytest.raises(DataError, match="n_scans"):
        rts([[1.0]], [0, 1], [0, 0])
    with pytest.raises(DataError, match="one per beta"):
        rts([1.0], [0, 1], [0, 0, 0])
    with pytest.raises(DataError, match="rts_mixed"):
        rts([1.0], [0, 1], [[0, 0]])
    with pytest.raises(DataError, match="finite"):
        level_log_probability([np.nan], [0, 1], [0, 0])
