"""Dual averaging finds the step size of a wanted acceptance rate."""

import numba
import numpy as np
import pytest
from pymc_tempering.kernels.adaptation import (
    averaged_step_sizes,
    new_dual_averaging,
    update_dual_averaging,
)
from pymc_tempering.kernels.density import TargetInBase, evaluate
from pymc_tempering.kernels.hmc import MAX_STEP_SIZE, draw_trajectory, hmc_transition

from pymc_tempering import testing


@numba.njit
def chain(address, scale, beta, step_size, row, target_accept, n, rng):
    dim = scale.shape[1]
    mean, u, grad = np.zeros(dim), np.zeros(dim), np.empty(dim)
    work = np.empty((5, dim))
    target = TargetInBase(address, mean, scale, 0.0)
    log_target = evaluate(target, u, grad, work)
    total = 0.0
    for _ in range(n):
        jittered, n_steps = draw_trajectory(step_size, 1.5, 64, rng)
        log_target, rate, _, _ = hmc_transition(
            target, beta, jittered, n_steps, u, grad, log_target, work, rng
        )
        total += rate
        if row.shape[0] > 0:
            step_size = update_dual_averaging(row, rate, target_accept)
    return total / n


@pytest.mark.statistical
@pytest.mark.parametrize("start", [0.01, 1.0])
@pytest.mark.parametrize("target_accept", [0.65, 0.8])
def test_reaches_the_wanted_acceptance(start, target_accept, rng):
    """Within 0.05, more than 5 standard errors of the tuned step's rate."""
    target = testing.scaled_normal(dim=20, sd=0.4)
    scale = np.linspace(0.8, 1.2, 20)[None]
    state = new_dual_averaging(np.array([start, start]))
    chain(target.address, scale, 1.0, start, state[1], target_accept, 4000, rng)
    tuned = np.exp(state[1, 2])
    rate = chain(target.address, scale, 1.0, tuned, np.empty(0), 0.0, 20_000, rng)
    assert rate == pytest.approx(target_accept, abs=0.05)
    assert state[0].tolist() == new_dual_averaging(np.array([start]))[0].tolist()


def test_steps_stay_in_bounds():
    state = new_dual_averaging(np.array([0.1]))
    for _ in range(500):
        largest = update_dual_averaging(state[0], 1.0, 0.8)
    assert largest == pytest.approx(MAX_STEP_SIZE)
    for _ in range(5000):
        smallest = update_dual_averaging(state[0], 0.0, 0.8)
    assert smallest == pytest.approx(1e-6)
    assert np.isfinite(state).all()


def test_level_hardly_used_borrows_the_step_size_of_its_neighbours():
    betas = np.array([0.0, 0.25, 0.5, 1.0])
    state = new_dual_averaging(np.array([0.8, 0.4, 1.5, 0.1]))
    np.testing.assert_allclose(averaged_step_sizes(betas, state), [0.8, 0.4, 1.5, 0.1])
    state[:, 0] = [0, 200, 3, 500]
    expected = [0.4, 0.4, np.exp(np.log(0.4) + np.log(0.1 / 0.4) / 3.0), 0.1]
    np.testing.assert_allclose(averaged_step_sizes(betas, state), expected)
