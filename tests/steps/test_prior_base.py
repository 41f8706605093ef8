"""Steps from the prior: the same draws after pickling, from a stored state, and again."""

import cloudpickle
import numpy as np
import pytest

from pymc_tempering.methods import METHODS, load
from tests.steps.prior_model import skewed_model

N_TUNE, N = 12, 22
STEPS = [row for row in METHODS.values() if row.step]


@pytest.fixture(scope="module")
def model():
    return skewed_model()


@pytest.fixture(scope="module", params=STEPS, ids=lambda row: row.name)
def step(request, model):
    """A step whose local fits are made, so that its copies have them too."""
    step = load(request.param.step)(model=model, base="prior", scans_per_draw=4)
    step.prepare(1)
    return step


def run(step, point, first, last):
    """Steps of ``pm.sample``; every value that each gave, and the last point."""
    rows = []
    for i in range(first, last):
        if i == N_TUNE:
            step.stop_tuning()
        point, (statistics,) = step.step(point)
        statistics.pop("perf_counter_diff")
        rows.append(np.concatenate([np.ravel(v) for v in (*point.values(), *statistics.values())]))
    return np.array(rows, dtype=float), point


def start(step, model, seed):
    step.setup_chain(np.random.default_rng(seed), N_TUNE, N - N_TUNE)
    return model.initial_point()


@pytest.fixture(scope="module")
def whole(step, model, seed):
    return run(step, start(step, model, seed), 0, N)[0]


def test_another_chain_with_the_same_seed_is_the_same(step, model, seed, whole):
    again, _ = run(step, start(step, model, seed), 0, N)
    np.testing.assert_array_equal(again, whole)
    other, _ = run(step, start(step, model, seed + 1), 0, N)
    assert (other[:, 0] != whole[:, 0]).all()


@pytest.mark.parametrize("stop", [3, 9, 16])
def test_stored_states_continue_in_a_pickled_step(step, model, seed, whole, stop):
    """As a worker process gets a step, and stored in the pilot or rounds, before and after the end.

    The reference is part of what is pickled, and its draws of the generator that is.
    """
    before, point = run(step, start(step, model, seed), 0, stop)
    np.testing.assert_array_equal(before, whole[:stop])
    parts = cloudpickle.loads(cloudpickle.dumps((step, step.sampling_state)))
    run(step, start(step, model, seed + 1), 0, 3)  # a stored state must not follow its origin
    copied, state = parts
    start(copied, model, seed + 2)
    copied.sampling_state = state
    after, _ = run(copied, point, stop, N)
    np.testing.assert_array_equal(after, whole[stop:])
