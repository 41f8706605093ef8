"""Planted errors reach the compiled code, and only what leads to them is compiled again."""

import pytest
from planted import with_planted

from pymc_tempering.engine.ensembles.beta import draw_level
from pymc_tempering.engine.ensembles.pair_scans import redraw_level
from pymc_tempering.engine.ensembles.swap import swap_probability


def never(d_beta, delta_lower, delta_upper):
    return 0.0


def test_a_function_that_is_not_called_is_reported():
    with pytest.raises(
        AssertionError, match=r"redraw_level no longer calls \['swap_probability'\]"
    ):
        with_planted(redraw_level, {swap_probability: never, draw_level: never})
