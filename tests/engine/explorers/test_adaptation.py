"""Dual averaging finds the step size of a wanted acceptance rate."""

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.adaptation import (
    Adaptation,
    adapt_scale,
    averaged_step_sizes,
    new_dual_averaging,
    update_dual_averaging,
)
from pymc_tempering.engine.explorers.hamiltonian import (
    LOG_MAX_STEP_SIZE,
    MAX_STEP_SIZE,
    Hamiltonian,
)
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath


@pytest.mark.statistical
@pytest.mark.parametrize("start", [0.01, 1.0])
@pytest.mark.parametrize("target_accept", [0.65, 0.8])
def test_reaches_the_wanted_acceptance(start, target_accept, rng):
    """Within 0.05, more than 5 standard errors of the tuned step's rate."""
    target = testing.scaled_normal(dim=20, sd=0.4)
    base = GaussianBase(np.zeros(20), np.linspace(0.8, 1.2, 20))
    ladder = Ladder(
        TemperedPath.from_base(target, base), np.array([0.0, 1.0]), np.zeros(20), rng,
        settings=Hamiltonian(aim=target_accept),
    )  # fmt: skip
    ladder.scales = np.full(2, start)
    ladder.restart_adaptation()
    ladder.run(4000, rng, adapt=True)
    # independent draws have no scale
    untouched = new_dual_averaging(np.array([start]))[0]
    assert ladder.dual_averaging[0].tolist() == untouched.tolist()
    ladder.stop_adaptation()
    assert ladder.scales[1] == np.exp(ladder.dual_averaging[1, 2])
    before = ladder.scales.copy()
    rate = ladder.run(20_000, rng).acceptance_rate[1]
    assert rate == pytest.approx(target_accept, abs=0.05)
    assert ladder.scales.tolist() == before.tolist()


def test_steps_stay_in_bounds():
    state = new_dual_averaging(np.array([0.1]))
    for _ in range(500):
        largest = update_dual_averaging(state[0], 1.0, 0.8, LOG_MAX_STEP_SIZE)
    assert largest == pytest.approx(MAX_STEP_SIZE)
    for _ in range(5000):
        smallest = update_dual_averaging(state[0], 0.0, 0.8, LOG_MAX_STEP_SIZE)
    assert smallest == pytest.approx(1e-6)
    assert np.isfinite(state).all()


def test_level_hardly_used_borrows_the_step_size_of_its_neighbours():
    betas = np.array([0.0, 0.25, 0.5, 1.0])
    state = new_dual_averaging(np.array([0.8, 0.4, 1.5, 0.1]))
    np.testing.assert_allclose(averaged_step_sizes(betas, state), [0.8, 0.4, 1.5, 0.1])
    state[:, 0] = [0, 200, 3, 500]
    expected = [0.4, 0.4, np.exp(np.log(0.4) + np.log(0.1 / 0.4) / 3.0), 0.1]
    np.testing.assert_allclose(averaged_step_sizes(betas, state), expected)


def test_a_move_that_says_nothing_changes_nothing():
    explorer = Hamiltonian().packed
    scales = np.array([0.2, 0.3])
    adaptation = Adaptation(scales.copy(), new_dual_averaging(scales))
    before = adaptation.dual_averaging.copy()
    adapt_scale(adaptation, 1, np.nan, explorer)
    np.testing.assert_array_equal(adaptation.scales, scales)
    np.testing.assert_array_equal(adaptation.dual_averaging, before)
    adapt_scale(adaptation, 1, 0.0, explorer)
    assert adaptation.scales[1] < scales[1]
