"""log Z so far: exact answers, its error, blocks of any length, states."""

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import DataError
from pymc_tempering.estimators.continuous import continuous_tempering
from pymc_tempering.estimators.rts import rts
from pymc_tempering.estimators.running import RunningLogZ
from pymc_tempering.estimators.running_weights import (
    annealing_log_weights,
    continuous_log_weights,
    level_log_weights,
    neighbour_log_weights,
)


def feed(log_weights, signs, n_blocks, constant=0.0):
    running = RunningLogZ(signs)
    for block in np.split(log_weights, n_blocks):
        latest = running.add(np.ascontiguousarray(block), constant)
    return running, latest


@pytest.mark.parametrize("n_blocks", [1, 7, 35, 70, 140])
def test_the_estimate_does_not_depend_on_blocks(n_blocks, seed):
    weights = np.random.default_rng(seed).normal([1000.0, 0.0, -1000.0], 30, size=(140, 3))
    weights[3, 1] = -np.inf
    _, (log_z, _) = feed(weights, [1, -1, 1], n_blocks)
    means = np.logaddexp.reduce(weights, axis=0) - np.log(140)
    assert log_z == pytest.approx(means @ [1, -1, 1], rel=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("n_blocks", [16, 40, 200, 1000])
def test_the_error_is_that_of_repeats(n_blocks, seed):
    """Spread of 300 estimates within 25 % of the mean error: 6 standard errors of a spread."""
    rng = np.random.default_rng(seed)
    got = np.array(
        [feed(rng.normal(0, 0.5, size=(2000, 2)), [1, -1], n_blocks)[1] for _ in range(300)]
    )
    assert np.sqrt(np.mean(got[:, 1] ** 2)) == pytest.approx(got[:, 0].std(), rel=0.25)


def test_the_error_counts_autocorrelation(seed):
    """Every weight 20 times over: the error grows by sqrt(20); the bounds allow a factor 1.5."""
    weights = np.random.default_rng(seed).normal(0, 0.5, size=(400, 1))
    _, (_, se) = feed(np.repeat(weights, 20, axis=0), [1.0], 400)
    _, (_, plain) = feed(weights, [1.0], 400)
    assert se == pytest.approx(plain, rel=1e-9)
    assert plain == pytest.approx(np.std(np.exp(weights)) / np.exp(weights).mean() / 20, rel=0.5)


def test_nothing_is_known_at_first():
    running = RunningLogZ([1.0, -1.0])
    assert np.isnan(running.add(np.array([[-np.inf, 0.0]]))).all()
    log_z, se = running.add(np.zeros((1, 2)))
    assert log_z == pytest.approx(-np.log(2.0))
    assert np.isnan(se)


def test_a_replica_without_density_does_not_spoil_the_sums():
    running = RunningLogZ([1.0])
    running.add(np.array([[np.inf]]))
    assert np.isfinite(running.add(np.zeros((1, 1)))[0])


def test_states_continue(seed):
    weights = np.random.default_rng(seed).normal(size=(90, 1, 2))
    whole, first = RunningLogZ([1, -1]), RunningLogZ([1, -1])
    for block in weights[:50]:
        whole.add(block)
        first.add(block)
    state = first.state()
    first.add(weights[0])  # a stored state does not follow its origin
    second = RunningLogZ.restored(state)
    for block in weights[50:]:
        assert second.add(block) == whole.add(block)


def test_another_number_of_levels_is_refused():
    with pytest.raises(DataError, match="3 columns"):
        RunningLogZ([1, 1, 1]).add(np.zeros((5, 2)))


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["scaled_normal", "hard_edge_gaussian"])
def test_bridge_between_levels_is_right(name, seed):
    """Independent draws at every level of an exact ladder, within 5 errors: 6e-7."""
    target = getattr(testing, name)()
    base = GaussianBase.from_moments(target.mean, 3.0 * target.cov)
    betas = np.array([0.0, 0.1, 0.3, 0.6, 1.0])
    rng = np.random.default_rng(seed)
    delta = np.stack([sample_delta(target, base, beta, 4000, rng) for beta in betas], axis=1)
    _, (log_z, se) = feed(neighbour_log_weights(delta, betas), np.repeat([1, -1], 4), 100)
    assert se < 0.1
    assert abs(log_z - target.log_z) < 5 * se


def sample_delta(target, base, beta, n, rng):
    """Deltas of draws at one beta, by weighting draws from the base and resampling."""
    z = (
        base.mean
        + rng.standard_normal((400_000, base.dim)) @ np.linalg.cholesky(3.0 * target.cov).T
    )
    delta = target.log_density(z) - base.log_density(z)
    if beta == 0.0:
        return delta[:n]
    weights = np.exp(beta * (delta - delta.max()))
    return rng.choice(delta, n, p=weights / weights.sum())


def test_simulated_tempering_agrees_with_its_estimator(seed):
    rng = np.random.default_rng(seed)
    delta, betas, weights = rng.normal(0, 3, 200), np.array([0.0, 0.2, 1.0]), rng.normal(size=3)
    delta[5] = -np.inf
    log_weights = level_log_weights(delta, betas, weights)
    _, (log_z, _) = feed(log_weights, [1, -1], 10, weights[0] - weights[2])
    assert log_z == pytest.approx(rts(delta, betas, weights).log_z[-1])


def test_continuous_tempering_agrees_with_its_estimator(seed):
    rng = np.random.default_rng(seed)
    delta, knots, bias = rng.normal(0, 3, 200), np.array([0.0, 0.2, 1.0]), np.array([0.0, 1.0, -2])
    delta[5] = -np.inf
    log_weights = continuous_log_weights(delta, knots, bias, 0.25)
    _, (log_z, _) = feed(log_weights, [1, -1, 1], 10, -2.0)
    exact = continuous_tempering(delta, knots, bias, log_support_mass=np.log(0.25)).log_z[-1]
    assert log_z == pytest.approx(exact)


@pytest.mark.statistical
def test_annealing_bridge_is_right(seed):
    """Gaussian log weights that obey Crooks' relation, log Z = 2, within 5 errors: 6e-7."""
    rng = np.random.default_rng(seed)
    forward, reverse = 2.0 + rng.normal([-0.5, 0.5], 1.0, size=(4000, 2)).T
    _, (log_z, se) = feed(annealing_log_weights(forward, reverse), [1, -1], 100)
    assert abs(log_z - 2.0) < 5 * se < 0.15
