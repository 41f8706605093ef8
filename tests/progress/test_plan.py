"""What is said before a run, and when nothing is."""

import numpy as np
import pytest

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.progress.plan import FIT_GRADIENTS, expected_seconds, plan, seconds_of_gradient
from pymc_tempering.steps.parallel import ParallelTempering

RUN = {"tune": 10, "chains": 2, "cores": 1, "random_seed": 1, "scans_per_draw": 4,
       "compute_convergence_checks": False}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return testing.scaled_normal().model()


def test_plan_names_what_follows(model):
    step = ParallelTempering(model=model)
    text = plan(step, draws=160, tune=None, chains=4, cores=2, compiled=65.0)
    first, stop = text.split("\n")
    assert first.startswith(f"Compiled in 1:05: {step.dim} unconstrained values, ")
    assert "for a gradient. In each of 4 chains: search for modes and fit them" in first
    assert "tune (130 draws), sample (160 draws of up to 50 scans). This takes about 0:0" in first
    assert "Ctrl-C stops" in stop
    assert "In 1 chain:" in plan(step, draws=1, tune=5, chains=1, cores=1, compiled=0.0)
    assert 0.0 < seconds_of_gradient(step._density) < 1.0


def test_expected_time():
    settings = {"scans": 10_000, "chains": 4, "cores": 2}
    low, high = expected_seconds(1e-5, "parallel_tempering", **settings)
    assert 0.0 < low < high
    slower = expected_seconds(2e-5, "parallel_tempering", **settings)
    assert slower.tolist() == pytest.approx([2 * low, 2 * high])
    # all chains share the fits
    alone = expected_seconds(1e-5, "parallel_tempering", **(settings | {"cores": 1}))
    fits = 1e-5 * np.array(FIT_GRADIENTS)
    assert (alone - fits).tolist() == pytest.approx([2 * (low - fits[0]), 2 * (high - fits[1])])
    assert expected_seconds(1e-5, "hais", **settings) is None


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
@pytest.mark.parametrize("call", [pm_temper.sample, pm_temper.estimate_logz])
@pytest.mark.parametrize(
    ("options", "shown"),
    [({}, True), ({"progressbar": False}, False), ({"progressbar": False, "quiet": True}, False)],
)
def test_said_unless_it_is_to_be_quiet(call, options, shown, model, capsys):
    call(model, draws=10, **RUN, **options)
    out = capsys.readouterr().out
    assert ("search for modes and fit them" in out) == shown
    assert ("Ctrl-C stops" in out) == shown
    if not shown:
        assert out == ""


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_rounds_of_chains_are_announced(model, capsys):
    pm_temper.estimate_logz(model, draws=10, target_se=1e-9, max_chains=4, **RUN)
    assert "nats after 2 chains; 2 more to reach 1e-09." in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_words_do_not_change_draws(model, capsys):
    shown = pm_temper.sample(model, draws=10, **RUN)
    quiet = pm_temper.sample(model, draws=10, progressbar=False, quiet=True, **RUN)
    assert (shown["posterior"]["x"].values == quiet["posterior"]["x"].values).all()
