"""Counters: what each outcome adds to."""

import numpy as np
import pytest

from pymc_tempering.engine.move import ACCEPTED, DIVERGENT, REJECTED, ZERO_DENSITY, Move
from pymc_tempering.engine.tally import (
    COUNTERS,
    count_move,
    count_reference_draw,
    counts_by_name,
    new_counts,
    zero_density_by_level,
)


def added(function, *arguments):
    counts = new_counts(1)
    function(counts[0], *arguments)
    return {name: n for name, n in counts_by_name(counts).items() if n}


@pytest.mark.parametrize("at_target", [False, True])
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (ACCEPTED, {}),
        (REJECTED, {}),
        (DIVERGENT, {"n_divergences": 1}),
        (ZERO_DENSITY, {"n_zero_density": 1}),
    ],
)
def test_moves(status, expected, at_target):
    expected = {"n_gradients": 5, "n_bad_gradients": 2, **expected}
    if status == DIVERGENT and at_target:
        expected["n_target_divergences"] = 1
    assert added(count_move, Move(0.3, 0.3, status, 5, 2), at_target) == expected


def test_reference_draws():
    inside = {"n_gradients": 1, "n_base_draws": 1, "n_base_support": 1}
    assert added(count_reference_draw, -3.0, False) == inside
    assert added(count_reference_draw, np.inf, False) == inside
    assert added(count_reference_draw, -3.0, True) == {**inside, "n_bad_gradients": 1}
    assert added(count_reference_draw, -np.inf, False) == {"n_gradients": 1, "n_base_draws": 1}


def test_counters_add_up_and_keep_their_order():
    counts = new_counts(2)
    assert counts.dtype == np.int64
    assert not counts.any()
    for _ in range(3):
        count_move(counts[1], Move(0.0, 0.0, DIVERGENT, 7, 1), True)
    count_reference_draw(counts[0], 0.0, False)
    assert counts.sum(axis=0).tolist() == [0, 0, 22, 3, 3, 0, 3, 1, 1]
    named = counts_by_name(counts, np.array([5, 6]))
    assert list(named) == [
        *(f"n_{name}" for name in COUNTERS), "n_infinite_density", "n_nan_density",
    ]  # fmt: skip
    assert list(named.values()) == [*counts.sum(axis=0), 5, 6]
    assert all(type(n) is int for n in named.values())
    assert len(set(COUNTERS)) == len(COUNTERS) == 9


def test_zero_density_by_level():
    """Of draws at the reference those without a density, elsewhere moves that met with one."""
    counts = new_counts(3)
    for delta in (-np.inf, 1.0, -np.inf):
        count_reference_draw(counts[0], delta, False)
    for status in (ZERO_DENSITY, DIVERGENT, ZERO_DENSITY, ACCEPTED, ZERO_DENSITY):
        count_move(counts[2], Move(0.0, 0.0, status, 1, 0), True)
    assert zero_density_by_level(counts).tolist() == [2, 0, 3]
