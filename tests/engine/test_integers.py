"""Whole numbers drawn in compiled code are those that NumPy draws."""

import numpy as np
import pytest

from pymc_tempering.numerics import draw_below


@pytest.mark.parametrize("seed", [1, 2])
def test_numbers_and_what_follows_them_are_those_of_numpy(seed):
    mine, theirs = np.random.default_rng(seed), np.random.default_rng(seed)
    for n in (2, 3, 64, 1000, 1, 3_000_000_000, 2**32 - 1) * 10:
        drawn = draw_below(n, mine)
        assert drawn == theirs.integers(n)
        assert isinstance(drawn, int)
    assert mine.bit_generator.state == theirs.bit_generator.state
