"""How many scans a draw takes."""

import numpy as np
import pytest

from pymc_tempering.steps.budget import (
    CHAIN_ERROR,
    LEAST_SCANS,
    MOST_CHAIN_ERROR,
    MOST_SCANS,
    Account,
    ScanPlan,
    error_for_its_price,
    scans_for_error,
)


def test_scans_follow_from_the_error():
    assert scans_for_error(np.nan, 100) == MOST_SCANS
    assert scans_for_error(np.inf, 100) == LEAST_SCANS
    assert scans_for_error(1e-9, 160) == scans_for_error(1e-9, 1000) == LEAST_SCANS
    assert scans_for_error(1e9, 100) == MOST_SCANS
    few, many = scans_for_error(3.0, 400), scans_for_error(3.0, 100)
    assert LEAST_SCANS < few < many < MOST_SCANS
    assert many == pytest.approx(4 * few, abs=4)
    assert scans_for_error(3.0, 100, error=0.02) == MOST_SCANS


def test_a_dear_error_is_a_larger_one():
    """Where a chain's draws would take more than 10,000 gradients, up to 2.5 times as large."""
    variance, scans = 1.0, 1.3 / CHAIN_ERROR**2
    assert error_for_its_price(variance, 1e4 / scans) == pytest.approx(CHAIN_ERROR)
    assert error_for_its_price(variance, 16e4 / scans) == pytest.approx(2.0 * CHAIN_ERROR)
    assert error_for_its_price(variance, 1e9) == MOST_CHAIN_ERROR
    assert error_for_its_price(0.01, 5.0) == CHAIN_ERROR
    for unknown in ((np.nan, 5.0), (variance, np.nan)):
        assert error_for_its_price(*unknown) == CHAIN_ERROR


def test_a_requested_error_is_dear_at_no_price():
    for error, n_scans in ((None, 4), (0.02, 21)):
        plan = ScanPlan(MOST_SCANS, True, error, 160, Account(), 66)
        assert plan.settled(1.0, 100.0, 6) == (n_scans, n_scans)
    assert ScanPlan(7, False, None, 160, Account(), 66).settled(1.0, 100.0, 6) == (7, 7)


@pytest.mark.parametrize(("left", "expected"), [(1e5, 19.0), (1e3, 1.0), (np.inf, 50.0)])
def test_scans_that_gradients_are_enough_for(left, expected):
    """100 draws of scans at 40 gradients, with room for dearer ones; the last of 500 at most."""
    plan = ScanPlan(MOST_SCANS, True, None, 100, Account(left), 499)
    n_requested, n_scans = plan.settled(np.nan, 40.0, 2)
    assert n_requested == MOST_SCANS
    assert n_scans == pytest.approx(expected, abs=1.0)
    # on average over draws, each of a whole number
    taken = [plan.of_draw(i, n_scans, 2) for i in range(20)]
    if left > 1e4:
        assert sum(taken) == int(20 * n_scans)
