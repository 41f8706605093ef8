"""Swap decisions and the counting of trips."""

from math import exp, inf

import numba
import numpy as np
import pytest

from pymc_tempering.engine.ensembles.swap import attempt_swap, swap_probability, track_trips
from pymc_tempering.engine.tally import RESTARTS, ROUND_TRIPS, new_counts
from pymc_tempering.schedule.adapt import round_trip_rate


def test_probability_is_the_metropolis_ratio():
    assert swap_probability(0.25, 1.0, 5.0) == pytest.approx(exp(-0.25 * 4.0))
    assert swap_probability(0.25, 5.0, 1.0) == 1.0
    assert swap_probability(0.25, 3.0, 3.0) == 1.0


@pytest.mark.parametrize(
    ("lower", "upper", "expected"),
    [(-inf, 2.0, 0.0), (2.0, -inf, 1.0), (-inf, -inf, 0.0), (-1e308, 1e308, 0.0)],
)
def test_zero_density_never_moves_towards_the_target(lower, upper, expected):
    assert swap_probability(0.5, lower, upper) == expected


def test_detailed_balance_of_a_pair():
    """p(state) P(swap) equals p(swapped) P(swap back), with states weighed by their betas."""
    low, high, a, b = 0.2, 0.7, 1.3, -0.4
    forward = exp(low * a + high * b) * swap_probability(high - low, a, b)
    back = exp(low * b + high * a) * swap_probability(high - low, b, a)
    assert forward == pytest.approx(back)


def test_attempt_reads_delta_by_replica_and_exchanges_levels():
    betas, delta = np.array([0.0, 0.5, 1.0]), np.array([7.0, 1.0, 3.0])
    replica_at = np.array([2, 0, 1])
    # levels 0 and 1 hold deltas 3 and 7: probability exp(-2)
    assert not attempt_swap(0, betas, delta, replica_at, exp(-2.0) + 1e-9)
    assert replica_at.tolist() == [2, 0, 1]
    assert attempt_swap(0, betas, delta, replica_at, exp(-2.0) - 1e-9)
    assert replica_at.tolist() == [0, 2, 1]
    assert attempt_swap(1, betas, delta, replica_at, 1.0 - 1e-12)
    assert replica_at.tolist() == [0, 1, 2]
    delta[0] = -inf
    assert not attempt_swap(0, betas, delta, replica_at, 0.0)


def trips(sequence):
    """Counts after each of a sequence of `replica_at`."""
    last_end = np.zeros(len(sequence[0]), dtype=np.int64)
    [counts] = new_counts(1)
    history = []
    for replica_at in sequence:
        track_trips(np.array(replica_at), last_end, counts)
        history.append((int(counts[ROUND_TRIPS]), int(counts[RESTARTS])))
    assert counts.sum() == sum(history[-1])
    return history


def test_counts_on_a_sequence_made_by_hand():
    sequence = [
        (0, 1, 2),  # 0 at the base, 2 at the target
        (1, 0, 2),  # 1 has been at the base too
        (1, 2, 0),  # 0 arrives from the base: first restart
        (2, 1, 0),  # 2 comes back, but had started at the target: no round trip
        (2, 0, 1),  # 1 arrives: second restart
        (0, 2, 1),  # 0 has gone up and down: first round trip
        (0, 1, 2),  # 2 arrives: third restart
        (0, 1, 2),  # staying counts once
        (1, 0, 2),  # second round trip
        (1, 2, 0),  # 0 again: fourth restart
    ]
    assert trips(sequence) == [
        (0, 0), (0, 0), (0, 1), (0, 1), (0, 2), (1, 2), (1, 3), (1, 3), (2, 3), (2, 4),
    ]  # fmt: skip


def test_half_way_and_back_is_no_trip():
    assert trips([(0, 1, 2), (1, 0, 2), (0, 1, 2), (0, 2, 1), (0, 1, 2)])[-1] == (0, 1)
    assert trips([(0, 1, 2), (1, 0, 2), (0, 1, 2), (1, 0, 2)])[-1] == (0, 0)


@numba.njit
def _deo(n_scans, acceptance, counts, rng):
    """Deterministic even-odd swaps that each succeed with a fixed probability, after Pigeons."""
    n = acceptance.shape[0] + 1
    replica_at, last_end = np.arange(n), np.zeros(n, np.int64)
    for scan in range(n_scans):
        for i in range(scan % 2, n - 1, 2):
            if rng.random() < acceptance[i]:
                replica_at[i], replica_at[i + 1] = replica_at[i + 1], replica_at[i]
        track_trips(replica_at, last_end, counts)


def deo_counts(n_scans, acceptance, rng):
    [counts] = new_counts(1)
    _deo(n_scans, acceptance, counts, rng)
    return counts[[ROUND_TRIPS, RESTARTS]]


@pytest.mark.parametrize("n_levels", [2, 5, 8])
def test_every_swap_accepted_gives_exact_counts(n_levels, rng):
    """Each of n replicas needs 2 n scans for a round trip and none is ever late."""
    n_periods = 50
    counts = deo_counts(2 * n_levels * n_periods, np.ones(n_levels - 1), rng)
    # in each period every replica arrives once at each end; the first period only starts trips
    assert n_levels * (n_periods - 2) <= counts[0] <= n_levels * n_periods
    assert 0 <= counts[1] - counts[0] <= n_levels
    later = deo_counts(2 * n_levels * (n_periods + 10), np.ones(n_levels - 1), rng)
    assert (later - counts).tolist() == [10 * n_levels, 10 * n_levels]


@pytest.mark.statistical
@pytest.mark.parametrize("rejection", [[0.5, 0.5, 0.5], [0.1, 0.6, 0.3, 0.2], [0.7]])
def test_rate_of_round_trips_is_that_of_the_theory(rejection, rng):
    """1 / (2 + 2 sum r / (1 - r)) per scan and ensemble; 1 % is over 5 standard errors."""
    rejection = np.array(rejection)
    n_scans = 2_000_000
    counts = deo_counts(n_scans, 1.0 - rejection, rng)
    expected = round_trip_rate(rejection)
    assert expected == pytest.approx(1.0 / (2.0 + 2.0 * np.sum(rejection / (1.0 - rejection))))
    assert counts[0] / n_scans == pytest.approx(expected, rel=0.01)
    assert counts[1] / n_scans == pytest.approx(expected, rel=0.01)
