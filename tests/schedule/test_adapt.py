"""From rejection rates to the barrier and to the next schedule, against exact answers."""

import exact_barrier
import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.options import check_betas
from pymc_tempering.schedule.adapt import (
    cumulative_barrier,
    equal_barrier_schedule,
    n_levels_for,
    round_trip_rate,
)
from pymc_tempering.schedule.grid import make_schedule


def setting(name):
    target = testing.TARGETS[name]()
    return target, GaussianBase(target.mean, 3.0 * np.sqrt(np.diag(target.cov)))


@pytest.mark.parametrize("name", ["scaled_normal", "skewed_gamma"])
def test_exact_rejection_rates_add_up_to_the_exact_barrier(name):
    """Syed et al. 2021, theorem 2: the error is third order in the steps."""
    target, base = setting(name)
    betas = make_schedule("geometric", 40)
    rejection = 1.0 - exact_barrier.swap_acceptance_rates(target, betas, base)
    barrier = cumulative_barrier(rejection)
    exact = exact_barrier.cumulative_barrier(target, betas, base)
    np.testing.assert_allclose(barrier, exact, atol=0.03)
    assert barrier[0] == 0.0
    assert barrier[-1] == pytest.approx(exact_barrier.global_barrier(target, base), rel=0.03)


@pytest.mark.parametrize("name", ["skewed_gamma", "asymmetric_bimodal"])
def test_equal_barrier_gives_equal_rejection(name):
    """From a coarse linear schedule, two updates as in tuning."""
    target, base = setting(name)
    betas = make_schedule("linear", 8)
    first = 1.0 - exact_barrier.swap_acceptance_rates(target, betas, base)
    for _ in range(3):
        rejection = 1.0 - exact_barrier.swap_acceptance_rates(target, betas, base)
        betas = check_betas(equal_barrier_schedule(betas, rejection, 8))
    rejection = 1.0 - exact_barrier.swap_acceptance_rates(target, betas, base)
    assert np.ptp(rejection) < 0.06
    assert np.ptp(rejection) < 0.5 * np.ptp(first)


def test_any_number_of_new_levels_and_rates_of_zero():
    betas = make_schedule("geometric", 6)
    for n_levels in (2, 3, 40):
        new = equal_barrier_schedule(betas, np.zeros(5), n_levels)
        assert check_betas(new).size == n_levels
    # all the barrier in one pair: nearly all the new levels lie there
    new = check_betas(equal_barrier_schedule(betas, np.array([0, 0, 0.9, 0, 0.0]), 20))
    inside = (new > betas[2]) & (new < betas[3])
    assert inside.sum() >= 17


def test_levels_stay_apart_where_the_barrier_jumps():
    """An edge rejects swaps with the base however near the next level is."""
    betas = np.array([0.0, 1e-300, 1e-8, 1.0])
    new = equal_barrier_schedule(betas, np.array([1.0, 1.0, 0.0]), 24)
    assert (np.diff(new) > 0).all()


def test_number_of_levels_follows_the_barrier():
    assert n_levels_for(2.5, most=32) == 6
    assert n_levels_for(0.0, most=32) == 3
    assert n_levels_for(1.0, most=32, least=6) == 6
    assert n_levels_for(40.0, most=32) == 32


def test_round_trip_rate():
    assert round_trip_rate(np.zeros(4)) == 0.5
    assert round_trip_rate(np.array([0.2, 0.5])) == pytest.approx(1 / (2 + 2 * (0.25 + 1.0)))
    assert round_trip_rate(np.array([0.2, 1.0])) == 0.0
