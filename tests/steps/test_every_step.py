"""What every step with compiled moves keeps to: seeds, states, statistics, refusals."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest

from pymc_tempering import testing
from pymc_tempering.errors import OptionError
from pymc_tempering.steps.gibbs_continuous import GibbsCT
from pymc_tempering.steps.hais import HAIS
from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.steps.simulated import SimulatedTempering

N_TUNE, N = 20, 30
STEPS = (ParallelTempering, GibbsCT, SimulatedTempering, HAIS)
every_step = pytest.mark.parametrize("kind", STEPS, ids=lambda kind: kind.name)


@pytest.fixture(scope="module")
def model():
    return testing.trimodal_1d().model()


def fresh(kind, model, seed):
    with model:
        step = kind(scans_per_draw=4)
    step.setup_chain(np.random.default_rng(seed), tune=N_TUNE, draws=N - N_TUNE)
    return step


def advance(step, point, begin=0, end=N):
    """The last point, and one row of draws and statistics for each step."""
    rows = []
    for i in range(begin, end):
        if i == N_TUNE:
            step.stop_tuning()
        point, (statistics,) = step.step(point)
        assert statistics.pop("perf_counter_diff") > 0.0  # not the same twice
        values = (*point.values(), *statistics.values())
        rows.append(np.concatenate([np.ravel(v).astype(float) for v in values]))
    return point, np.array(rows)


@every_step
def test_same_seed_same_draws(kind, model, seed):
    point = model.initial_point()
    first, second, other = (
        advance(fresh(kind, model, s), point)[1] for s in (seed, seed, seed + 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not (first == other).all(axis=1).any()


@every_step
@pytest.mark.parametrize("stop", [0, 5, 14, 25])
def test_a_stored_state_continues_exactly(kind, stop, model, seed):
    """Before the first step, in the first and the last rounds of tuning, and after it."""
    step = fresh(kind, model, seed)
    point, _ = advance(step, model.initial_point(), 0, stop)
    stored = cloudpickle.loads(cloudpickle.dumps((step.sampling_state, step.rng)))
    _, expected = advance(step, point, stop)
    resumed = fresh(kind, model, seed + 5)
    resumed.sampling_state, resumed.rng = stored
    np.testing.assert_array_equal(advance(resumed, point, stop)[1], expected)


@every_step
def test_a_pickled_step_gives_the_same_draws(kind, model, seed):
    step = fresh(kind, model, seed)
    other = cloudpickle.loads(cloudpickle.dumps(step))
    other.setup_chain(np.random.default_rng(seed), tune=N_TUNE, draws=N - N_TUNE)
    point = model.initial_point()
    np.testing.assert_array_equal(advance(step, point)[1], advance(other, point)[1])


@every_step
def test_statistics_are_as_announced(kind, model, seed):
    """Dtype and shape of every statistic, in a pilot and after it, are those of the table."""
    step, point = fresh(kind, model, seed), model.initial_point()
    for _ in range(N_TUNE):
        point, (statistics,) = step.step(point)
        assert set(statistics) == set(step.stats_dtypes_shapes)
        for name, (dtype, shape) in step.stats_dtypes_shapes.items():
            assert np.shape(statistics[name]) == tuple(shape), name
            assert np.can_cast(np.asarray(statistics[name]).dtype, np.dtype(dtype).base), name


@every_step
def test_without_tuning_draws_are_made(kind, model, seed):
    with model:
        idata = pm.sample(
            5, tune=0, step=kind(scans_per_draw=4), chains=1, cores=1, random_seed=seed,
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
    assert np.isfinite(idata["posterior"]["x"].values).all()
    size = idata["sample_stats"]["step_size"].values
    np.testing.assert_array_equal(size, np.broadcast_to(size[:, :1], size.shape))


@every_step
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"scans_per_draw": 0}, "scans_per_draw"),
        ({"target_accept": 1.0}, "target_accept"),
        ({"temperature": 1.0}, "temperature"),
        ({"base": "prior belief"}, "base"),
        ({"search": "everywhere"}, "search"),
    ],
)
def test_wrong_options_are_refused(kind, options, said, model):
    with model, pytest.raises(OptionError, match=said):
        kind(**options)
