"""What steps record is what was declared, and nothing is filled in by hand."""

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.methods import METHOD_CODE, METHODS, load
from pymc_tempering.results.statistics import LABELS, STEP_METHODS, statistics_of
from pymc_tempering.steps.recorder import Recorder

SIZES = {
    "scan": 3, "level": 4, "pair": 3, "knot": 5, "well_fitted_mode": 8, "component": 16,
    "search_entry": 37,
}  # fmt: skip
ALL_SIZES = SIZES | {dim: len(labels) for dim, labels in LABELS.items()}


@pytest.mark.parametrize("method", STEP_METHODS)
def test_a_blank_draw_has_every_statistic_in_its_type_and_shape(method):
    recorder = Recorder(method, SIZES)
    blank = recorder.record(recorder.blank())
    assert "n_bad_gradients" in recorder.blank()
    assert blank.keys() == recorder.dtypes_shapes.keys() == statistics_of(method).keys()
    for name, entry in statistics_of(method).items():
        assert np.shape(blank[name]) == tuple(ALL_SIZES[dim] for dim in entry.methods[method])
        assert np.asarray(blank[name]).dtype == entry.dtype
        if name != METHOD_CODE and not entry.entries:
            np.testing.assert_array_equal(blank[name], entry.fill)
    assert blank[METHOD_CODE] == METHODS[method].code


def test_short_ladders_are_filled_up():
    recorder = Recorder("pt", SIZES)
    values = recorder.blank() | {
        "delta": np.arange(6.0).reshape(3, 2), "replica": np.array([1, 0]), "betas": np.ones(4),
    }  # fmt: skip
    recorded = recorder.record(values)
    expected = [[0, 1, np.nan, np.nan], [2, 3, np.nan, np.nan], [4, 5, np.nan, np.nan]]
    np.testing.assert_array_equal(recorded["delta"], expected)
    assert recorded["replica"].tolist() == [1, 0, -1, -1]
    assert recorded["replica"].dtype == np.int64
    assert recorded["betas"] is values["betas"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda values: values.pop("delta"), "delta"),
        (lambda values: values.update(bias=np.zeros(5)), "bias"),
        (lambda values: values.update(delta=np.zeros(3)), r"declared is \(3, 4\)"),
    ],
    ids=["missing", "undeclared", "too few dimensions"],
)
def test_what_was_not_declared_is_an_error(change, message):
    recorder = Recorder("pt", SIZES)
    values = recorder.blank()
    change(values)
    with pytest.raises(RuntimeError, match=message):
        recorder.record(values)


def test_more_than_declared_is_an_error():
    recorder = Recorder("pt", SIZES)
    with pytest.raises(ValueError, match="broadcast"):
        recorder.record(recorder.blank() | {"betas": np.zeros(9)})


def test_counters_that_are_not_of_the_method_are_left_out():
    counts = {"n_gradients": 5, "n_base_draws": 3}
    assert Recorder("pt", SIZES).counted(counts) == {"n_gradients": 5}
    assert Recorder("st", SIZES).counted(counts) == counts


@pytest.mark.parametrize("method", STEP_METHODS)
def test_every_draw_of_a_step_has_what_was_declared(method, seed):
    """Also those of a pilot run; :meth:`Recorder.record` raises otherwise."""
    with pm.Model() as model:
        pm.Normal("y", pm.Normal("x"), 0.5, observed=1.0)
        step = load(METHODS[method].step)(scans_per_draw=2)
    step.setup_chain(np.random.default_rng(seed), tune=12, draws=1)
    point = model.initial_point()
    for draw in range(13):
        if draw == 12:
            step.stop_tuning()
        point, (statistics,) = step.step(point)
        for name, (_, shape) in step.stats_dtypes_shapes.items():
            assert np.shape(statistics[name]) == tuple(shape), name
        assert statistics[METHOD_CODE] == METHODS[method].code
    assert pm_temper.ParallelTempering.method == "pt"
