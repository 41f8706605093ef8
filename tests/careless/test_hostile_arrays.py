"""Hostile arrays and settings, written by hypothesis: a named error or an answer, nothing else.

What is nearly right is drawn more often than junk: it gets past the first check.
"""

import contextlib
import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from pymc_tempering import GaussianBase, LogZEstimate
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.explorers.slice import Slice
from pymc_tempering.errors import TemperingError
from pymc_tempering.estimators.annealed import annealed_forward, annealed_reverse, bidirectional
from pymc_tempering.estimators.bar import bar, bar_ladder, neighbour_overlap
from pymc_tempering.estimators.bridge import bridge
from pymc_tempering.estimators.continuous import continuous_tempering, log_beta_density
from pymc_tempering.estimators.mbar import mbar, mbar_samples
from pymc_tempering.estimators.reweighting import mbar_powers, reweight
from pymc_tempering.estimators.rts import rts, rts_bias_and_variance, rts_mixed
from pymc_tempering.estimators.stepping_stone import (
    stepping_stone,
    stepping_stone_reverse,
    support_mass,
)
from pymc_tempering.estimators.thermodynamic import (
    thermodynamic_integration,
    thermodynamic_integration_rb,
)
from pymc_tempering.references.fit import base_from_draws
from pymc_tempering.schedule.adapt import (
    cumulative_barrier,
    equal_barrier_schedule,
    n_levels_for,
    round_trip_rate,
)
from pymc_tempering.schedule.grid import make_schedule

EXAMPLES = 7
"""Of each function: about 200 in all."""

NASTY = [0.0, -0.0, 1.0, -1.0, 1e-308, 1e308, -1e308, np.inf, -np.inf, np.nan, 700.0, -1e5]
numbers = st.one_of(st.floats(-50.0, 50.0), st.sampled_from(NASTY))
junk = st.sampled_from(
    [None, "text", [], {}, [[]], [[1.0], [1.0, 2.0]], ["a", "b"], 1j, True, 10**400, b"\x00",
     np.array(["x"]), np.array([None]), np.zeros((0, 3)), np.zeros((2, 0)), np.zeros((1, 1, 1)),
     np.array(3.0), np.array([1 + 1j]), np.array(["2020-01-01"], dtype="datetime64[D]")]
)  # fmt: skip


def reals(*shape):
    return hnp.arrays(np.float64, shape, elements=numbers)


def or_junk(likely):
    return st.one_of(likely, likely, likely, numbers, junk)


vectors, draws, ladders = or_junk(reals(6)), or_junk(reals(6, 2)), or_junk(reals(6, 3))
betas = or_junk(st.one_of(st.just([0.0, 0.4, 1.0]), reals(3)))
level = or_junk(hnp.arrays(np.int64, 6, elements=st.integers(-1, 3)))
rates = or_junk(st.one_of(hnp.arrays(np.float64, 2, elements=st.floats(0.0, 1.0)), reals(2)))
scales = st.one_of(or_junk(reals(2)), reals(2, 2))
count = or_junk(st.integers(-2, 40))
word = or_junk(st.sampled_from(["geometric", "linear", "sigmoidal", "power", ""]))

CALLS = [
    (
        GaussianBase,
        [or_junk(reals(2)), st.one_of(or_junk(reals(2)), reals(2, 2)), or_junk(numbers)],
    ),
    (base_from_draws, [draws]),
    (LogZEstimate, [or_junk(numbers), or_junk(numbers), st.just("pt"), vectors]),
    (mbar, [ladders, betas]),
    (mbar_samples, [vectors, level, betas]),
    (reweight, [vectors]),
    (mbar_powers, [ladders, betas, vectors]),
    (bar, [vectors, vectors]),
    (bar_ladder, [ladders, betas]),
    (neighbour_overlap, [ladders, betas]),
    (bridge, [vectors, vectors]),
    (stepping_stone, [ladders, betas]),
    (stepping_stone_reverse, [ladders, betas]),
    (support_mass, [vectors]),
    (thermodynamic_integration, [ladders, betas]),
    (thermodynamic_integration_rb, [vectors, betas, vectors]),
    (rts, [vectors, betas, or_junk(reals(3))]),
    (rts_bias_and_variance, [vectors, betas, or_junk(reals(3))]),
    (rts_mixed, [vectors, betas, or_junk(reals(3))]),
    (continuous_tempering, [vectors, betas, or_junk(reals(3))]),
    (log_beta_density, [vectors, betas, or_junk(reals(3)), or_junk(numbers)]),
    (annealed_forward, [vectors]),
    (annealed_reverse, [vectors, or_junk(numbers)]),
    (bidirectional, [vectors, vectors]),
    (make_schedule, [word, count]),
    (cumulative_barrier, [rates]),
    (equal_barrier_schedule, [betas, rates, count]),
    (n_levels_for, [or_junk(numbers), count]),
    (round_trip_rate, [rates]),
    (Hamiltonian, [or_junk(numbers), or_junk(numbers), count]),
    (Slice, [or_junk(numbers), count, count]),
]


@pytest.mark.parametrize(("function", "arguments"), CALLS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_named_error_or_an_answer(function, arguments):
    @settings(
        max_examples=EXAMPLES, deadline=None, derandomize=True, database=None,
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.tuples(*arguments))
    def call(given_arguments):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with contextlib.suppress(TemperingError):
                function(*given_arguments)

    call()
