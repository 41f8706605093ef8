"""Schedules: constructors and what is refused."""

import numpy as np
import pytest

from pymc_tempering.errors import OptionError, ScheduleError
from pymc_tempering.options import check_betas
from pymc_tempering.schedule.grid import SCHEDULES, check_n_levels, make_schedule


@pytest.mark.parametrize("kind", sorted(SCHEDULES))
@pytest.mark.parametrize("n_levels", [2, 3, 17])
def test_constructors_give_valid_schedules(kind, n_levels):
    betas = make_schedule(kind, n_levels)
    assert betas.shape == (n_levels,)
    np.testing.assert_array_equal(check_betas(betas), betas)


def test_shapes():
    np.testing.assert_allclose(np.diff(make_schedule("linear", 5)), 0.25)
    geometric = make_schedule("geometric", 9)[1:]
    np.testing.assert_allclose(geometric[1:] / geometric[:-1], 10**0.5)
    sigmoidal = make_schedule("sigmoidal", 9)
    np.testing.assert_allclose(sigmoidal + sigmoidal[::-1], 1.0, atol=1e-14)
    assert np.diff(sigmoidal)[0] < np.diff(sigmoidal)[4]
    # Grosse et al. 2015, section 6: a logistic function from -4 to 4, rescaled to [0, 1]
    ends = 1.0 / (1.0 + np.exp([4.0, 2.0, -4.0]))
    assert sigmoidal[2] == pytest.approx((ends[1] - ends[0]) / (ends[2] - ends[0]))


@pytest.mark.parametrize(
    "betas",
    [[0.0, 0.5, 0.9], [0.1, 0.5, 1.0], [0.0, 0.5, 0.5, 1.0], [0.0, 0.7, 0.3, 1.0],
     [1.0, 0.5, 0.0], [0.0, np.nan, 1.0], [-0.1, 0.0, 1.0]],
)  # fmt: skip
def test_anything_but_increasing_from_0_to_1_is_refused(betas):
    with pytest.raises(ScheduleError, match="increase strictly from 0"):
        check_betas(betas)


@pytest.mark.parametrize("betas", [1.0, [0.0], [[0.0, 1.0]], []])
def test_other_shapes_are_refused(betas):
    with pytest.raises(ScheduleError, match="vector of at least two"):
        check_betas(betas)


def test_checked_betas_are_a_copy():
    given = np.array([0.0, 0.5, 1.0])
    check_betas(given)[1] = 0.7
    assert given[1] == 0.5


@pytest.mark.parametrize("n_levels", [1, 0, -3, 2.5, "4", None, True])
def test_wrong_numbers_of_levels_are_refused(n_levels):
    with pytest.raises(ScheduleError, match="at least 2"):
        check_n_levels(n_levels)


def test_numbers_of_levels_of_numpy_are_fine():
    assert check_n_levels(np.int64(5)) == 5


def test_unknown_kind_lists_the_known():
    with pytest.raises(OptionError, match=r"'cosine'.*geometric.*linear.*sigmoidal"):
        make_schedule("cosine", 4)
