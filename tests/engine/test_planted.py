"""Planted errors reach the compiled code, and only what leads to them is compiled again."""

import numba
import pytest
from planted import with_planted

from pymc_tempering.engine.ensembles.beta import draw_level, exchange_probability, level_masses
from pymc_tempering.engine.ensembles.pair_scans import exchange_at_levels, redraw_level
from pymc_tempering.engine.ensembles.swap import attempt_swap, swap_probability, swap_sweep


def never(d_beta, delta_lower, delta_upper):
    return 0.0


def test_indirect_calls_reach_the_planted_function():
    planted = with_planted(swap_sweep, {swap_probability: never})
    assert isinstance(planted, numba.core.dispatcher.Dispatcher)
    inner = planted.py_func.__globals__["attempt_swap"]
    assert inner is not attempt_swap
    assert inner.py_func.__globals__["swap_probability"].py_func is never
    # the package itself is left alone
    assert swap_sweep.py_func.__globals__["attempt_swap"] is attempt_swap
    assert swap_probability(0.5, 3.0, 3.0) == 1.0


def test_what_does_not_lead_there_is_the_package_s_own():
    planted = with_planted(exchange_at_levels, {swap_probability: never})
    names = planted.py_func.__globals__
    assert names["level_masses"] is level_masses
    assert names["exchange_probability"] is exchange_probability


def test_a_function_that_is_not_called_is_reported():
    with pytest.raises(
        AssertionError, match=r"redraw_level no longer calls \['swap_probability'\]"
    ):
        with_planted(redraw_level, {swap_probability: never, draw_level: never})
