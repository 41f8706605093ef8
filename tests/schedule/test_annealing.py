"""Annealing schedules from a pilot's rejection rates and deltas."""

import numpy as np
import pytest

from pymc_tempering.errors import OptionError, ScheduleError
from pymc_tempering.schedule.annealing import (
    annealing_schedule,
    constant_ess_schedule,
    n_levels_for_gap,
    schedule_knots,
)


def gaussian_deltas(betas, dim, ratio, rng, n=4000):
    """Base N(0, 1)^dim, target N(0, 1 / ratio)^dim: delta by level, exactly."""
    sd = 1.0 / np.sqrt(1.0 + betas * (ratio - 1.0))
    u = rng.standard_normal((n, betas.size, dim)) * sd[:, None]
    return -0.5 * (ratio - 1.0) * (u**2).sum(axis=2)


def test_conditional_ess_is_constant_along_the_schedule(rng):
    """Steps in log precision are equal there, as the path only scales; within 10 %."""
    betas = np.linspace(0.0, 1.0, 30) ** 2
    ratio = 20.0
    delta = gaussian_deltas(betas, 5, ratio, rng)
    schedule = constant_ess_schedule(betas, delta, 40)
    steps = np.diff(np.log(1.0 + schedule * (ratio - 1.0)))
    assert steps.max() / steps.min() < 1.2
    assert (np.diff(schedule) > 0).all()
    assert (schedule[0], schedule[-1]) == (0.0, 1.0)


def test_draws_outside_the_support_do_not_matter(rng):
    betas = np.linspace(0.0, 1.0, 10)
    delta = gaussian_deltas(betas, 2, 5.0, rng)
    edge = delta.copy()
    edge[::3, 0] = -np.inf
    a, b = (constant_ess_schedule(betas, d, 20) for d in (delta, edge))
    assert np.allclose(a, b, atol=0.02)


@pytest.mark.parametrize("kind", ["barrier", "ess", "linear", "sigmoidal", "geometric"])
def test_every_kind_is_a_schedule(kind, rng):
    betas = np.linspace(0.0, 1.0, 6)
    schedule = annealing_schedule(
        kind, 50, betas, np.full(5, 0.3), gaussian_deltas(betas, 2, 5.0, rng)
    )
    assert schedule.shape == (50,)
    assert (np.diff(schedule) > 0).all()
    assert (schedule[0], schedule[-1]) == (0.0, 1.0)


def test_wrong_input_is_refused(rng):
    betas = np.array([0.0, 1.0])
    with pytest.raises(OptionError, match="barrier"):
        annealing_schedule("cubic", 5, betas, np.ones(1), np.zeros((3, 2)))
    with pytest.raises(ScheduleError, match="deltas"):
        constant_ess_schedule(betas, np.zeros((3, 4)), 5)


def test_number_of_levels_follows_the_gap_within_bounds():
    assert n_levels_for_gap(100, 3.0, 1.5, 16, 1000) == 200
    assert n_levels_for_gap(100, np.inf, 1.5, 16, 1000) == 400
    assert n_levels_for_gap(100, -1.0, 1.5, 16, 1000) == 25
    assert n_levels_for_gap(900, 15.0, 1.5, 16, 1000) == 1000


def test_knots_keep_both_ends():
    betas = np.linspace(0.0, 1.0, 1000) ** 2
    knots = schedule_knots(betas, 33)
    assert knots.size == 33
    assert (knots[0], knots[-1]) == (0.0, 1.0)
    assert np.isin(knots, betas).all()
