"""What is said before a run, and when nothing is."""

import re

import pytest

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.progress.plan import expected_gradients, plan, seconds_of_gradient
from pymc_tempering.steps.hais import HAIS
from pymc_tempering.steps.parallel import ParallelTempering

RUN = {"tune": 10, "chains": 2, "cores": 1, "random_seed": 1, "scans_per_draw": 4,
       "compute_convergence_checks": False}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return testing.scaled_normal().model()


def test_plan_names_what_follows(model):
    step = ParallelTempering(model=model)
    run = {"search": "default", "draws": 160, "tune": None, "chains": 4, "cores": 2}
    text = plan(step, **run, compiled=65.0)
    first, stop = text.split("\n")
    assert first.startswith(f"Compiled in 1:05: {step.dim} unconstrained values, ")
    assert "for a gradient. In each of 4 chains: search for modes and fit them" in first
    assert first.endswith("tune (130 draws), sample (160 draws of up to 50 scans).")
    assert "max_gradients" not in first
    assert "Ctrl-C stops" in stop
    one = run | {"draws": 1, "tune": 5, "chains": 1, "cores": 1}
    assert "In 1 chain:" in plan(step, **one, compiled=0.0)
    assert 0.0 < seconds_of_gradient(step._density) < 1.0
    known = plan(ParallelTempering(model=model, scans_per_draw=10), **run, compiled=0.0)
    assert re.search(r" about \d+k to \d+k gradients, \d+:\d\d to \d+:\d\d, and more where", known)
    limited = plan(step, **run, compiled=0.0, most=100_000)
    assert "No more than 100,000 gradients (`max_gradients`)." in limited


def test_expected_gradients(model):
    step = ParallelTempering(model=model, scans_per_draw=10)
    run = {"search": "default", "draws": 160, "tune": 130, "chains": 4, "cores": 2}
    two, one = (expected_gradients(step, **(run | {"cores": cores})) for cores in (2, 1))
    low, high = two.total
    assert 0.0 < low < high
    # all chains share the search, and two are made at once
    assert two.total.tolist() == one.total.tolist() == one.in_turn.tolist()
    search = 2 * two.in_turn - two.total
    none = expected_gradients(step, **(run | {"search": "none"}))
    assert (search > none.total - two.total + search).all()
    longer = expected_gradients(step, **(run | {"draws": 1760, "tune": 1430}))
    assert (longer.total - search).tolist() == pytest.approx(11 * (two.total - search))
    most = (low + high) / 2
    limited = expected_gradients(step, **run, most=most)
    assert limited.total.tolist() == pytest.approx([low, most])
    assert expected_gradients(HAIS(model=model), **run) is None


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
