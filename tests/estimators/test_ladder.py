"""Validation of what one chain hands to an estimator."""

import numpy as np
import pytest

from pymc_tempering.errors import DataError, ScheduleError
from pymc_tempering.estimators.ladder import check_ladder, finite_floor


@pytest.mark.parametrize(
    "betas", [[0.0], [0.1, 1.0], [0.0, 0.9], [0.0, 0.5, 0.5, 1.0], [[0.0, 1.0]]]
)
def test_bad_schedules_are_refused(betas):
    with pytest.raises(ScheduleError, match="expected"):
        check_ladder(np.zeros((3, 2)), betas)


@pytest.mark.parametrize(
    "delta",
    [
        np.zeros(3),
        np.zeros((0, 3)),
        np.zeros((4, 2)),
        np.array([[0.0, np.nan, 0.0]]),
        np.array([[np.inf, 0.0, 0.0]]),
        np.array([[0.0, 0.0, -np.inf]]),
    ],
)
def test_bad_deltas_are_refused(delta):
    with pytest.raises(DataError, match="expected"):
        check_ladder(delta, [0.0, 0.5, 1.0])


def test_base_may_leave_the_support():
    delta, betas = check_ladder([[-np.inf, 1.0], [2.0, 3.0]], [0.0, 1.0])
    floored = finite_floor(delta)
    assert np.isneginf(delta[0, 0])
    assert floored[0, 0] * betas[0] == 0.0
    assert np.exp(floored[0, 0] * 1e-6) == 0.0
