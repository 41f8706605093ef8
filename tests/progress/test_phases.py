"""Progress of pilot runs and annealing, which pm.sample does not run."""

import pymc as pm
import pytest

from pymc_tempering import progress, testing
from pymc_tempering.annealing.bidirectional import bidirectional_check
from pymc_tempering.annealing.particles import anneal
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.progress import phases
from pymc_tempering.transform.joint_ct import run


@pytest.fixture
def model():
    return testing.scaled_normal().model()


def test_annealing_shows_its_parts(model, capsys):
    options = {"n_particles": 30, "n_levels": 20, "tune": 20, "random_seed": 1}
    shown = anneal(model, direction="both", **options)
    text = capsys.readouterr().out
    bars = [
        line.split("\N{BOX DRAWINGS HEAVY HORIZONTAL}")[0].strip() for line in text.splitlines()
    ]
    bars = [bar for bar in bars if bar]
    assert bars == [
        "Search for modes", "Pilot run", "Forward particles",
        "Reverse particles",
    ]  # fmt: skip
    assert text.count("30/30") == 2
    quiet = anneal(model, direction="both", **options, progressbar=False)
    assert capsys.readouterr().out == ""
    assert quiet.log_z == shown.log_z


def test_nothing_is_said_of_parts_that_are_left_away(model, capsys):
    base = testing.scaled_normal()
    anneal(
        model, n_particles=10, n_levels=10, tune=0, schedule="linear", step_size=0.3,
        base=GaussianBase.from_moments(base.mean, base.cov), random_seed=1,
    )  # fmt: skip
    assert "Pilot" not in capsys.readouterr().out


def test_check_shows_repeats_and_no_other_bars(capsys):
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", x, 1.0, observed=[1.0])
    options = {"n_repeats": 2, "n_particles": 10, "n_levels": 10, "random_seed": 1, "tune": 10}
    bidirectional_check(model, **options)
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.strip()]
    assert "2/2" in line
    bidirectional_check(model, **options, progressbar=False)
    assert capsys.readouterr().out == ""


@pytest.mark.slow
def test_joint_tempering_shows_its_pilot(model, capsys):
    for show in (True, False):
        run(model, draws=20, tune=20, chains=1, cores=1, random_seed=1, progressbar=show)
        assert ("Pilot run" in capsys.readouterr().out) == show


def test_gradients_of_fits_are_shown(capsys):
    with phases(True) as work:
        work.report("search for modes", 20, 20)
        work.report("local fits", 0, 1)
        work.report("local fits", 1, 1, 2_600)
    search, fits = capsys.readouterr().out.splitlines()
    assert "3k gradients" in fits
    assert "gradients" not in search


def test_lines_move_in_a_terminal_and_stop_on_errors(monkeypatch, capsys):
    console = progress.Console
    monkeypatch.setattr(progress, "Console", lambda: console(force_terminal=True, width=100))

    def work_that_fails():
        with phases(show=True) as work:
            work.add("Pilot run", 3).advance(note="half")
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        work_that_fails()
    text = capsys.readouterr().out
    assert "1/3" in text
    assert text.rstrip().endswith("\x1b[?25h")  # the cursor is shown again
