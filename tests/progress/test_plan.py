"""What is said before a run, and when nothing is."""

import numpy as np
import pytest

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.progress import plan
from pymc_tempering.steps.parallel import ParallelTempering

RUN = {"tune": 10, "chains": 2, "cores": 1, "random_seed": 1, "scans_per_draw": 4,
       "compute_convergence_checks": False}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return testing.scaled_normal().model()


def test_plan_names_what_follows(model):
    step = ParallelTempering(model=model)
    run = {"draws": 160, "tune": None, "chains": 4, "compiled": 65.0}
    first, stop = plan(step, **run, most=np.inf).split("\n")
    assert first == (
        f"Compiled in 1:05: {step.dim} unconstrained value{'s' * (step.dim > 1)}. In each of 4 "
        "chains: search for modes and fit them, tune (130 draws), sample (160 draws of up to 50 "
        "scans)."
    )
    assert "Ctrl-C stops" in stop
    assert "In 1 chain:" in plan(step, **(run | {"chains": 1}), most=np.inf)
    limited = plan(step, **run, most=100_000)
    assert "No more than 100,000 evaluations (`max_gradients`)." in limited


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
