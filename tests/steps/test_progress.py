"""What the progress bar shows of each step, where it may be shown, and that it changes nothing."""

import io
import logging
import os
import re
import subprocess
import sys

import numpy as np
import pymc as pm
import pytest
from pymc.progress_bar import rich_progress
from rich.console import Console

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.progress import Board, progress_columns, progress_update
from pymc_tempering.results.datatree import label_dimensions
from pymc_tempering.steps.gibbs_continuous import GibbsCT
from pymc_tempering.steps.hais import HAIS
from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.steps.simulated import SimulatedTempering

STEPS = {
    "pt": (ParallelTempering, {"scans_per_draw": 16}, "Round trips"),
    "gibbs_ct": (GibbsCT, {"scans_per_draw": 16}, "Round trips"),
    "st": (SimulatedTempering, {"scans_per_draw": 16}, "Round trips"),
    "hais": (HAIS, {}, "Restarts"),
}


@pytest.fixture(scope="module")
def target():
    return testing.asymmetric_bimodal()


def sample(target, name, seed, progressbar=False, **options):
    cls, settings, _ = STEPS[name]
    with target.model():
        run = {"draws": 120, "tune": 60, "chains": 2, "cores": 1} | options
        return pm.sample(
            step=cls(**settings), random_seed=seed, progressbar=progressbar, quiet=not progressbar,
            compute_convergence_checks=False, **run,
        )  # fmt: skip


@pytest.fixture
def screen(monkeypatch):
    """What PyMC's bar writes to a console of a given kind."""
    written = io.StringIO()
    monkeypatch.setenv("COLUMNS", "150")

    def make(**options):
        monkeypatch.setattr(
            rich_progress,
            "Console",
            lambda **k: Console(**(k | {"file": written, "width": 150} | options)),
        )
        return written

    return make


def so_far(stats, name):
    return stats["so_far"].sel(so_far_entry=name).values


@pytest.mark.parametrize("name", STEPS)
def test_totals_are_sums(name, target, seed):
    stats = label_dimensions(sample(target, name, seed)).sample_stats
    each = {"restarts_so_far": "n_tempered_restarts", "divergences_so_far": "diverging"}
    if name != "hais":
        each["round_trips_so_far"] = "n_round_trips"
    for total, counted in each.items():
        values = stats["accepted"].sum("scan") if counted not in stats else stats[counted]
        np.testing.assert_array_equal(so_far(stats, total), values.values.cumsum(axis=1))
    assert (stats["perf_counter_diff"].values > 0.0).all()
    assert np.isfinite(stats["global_barrier"].values).all()


def test_nothing_is_counted_in_tuning(target, seed):
    run = label_dimensions(sample(target, "pt", seed, discard_tuned_samples=False))
    assert not so_far(run["warmup_sample_stats"], "round_trips_so_far").any()
    # but gradients are, with those that no draw has, of putting replicas somewhere
    before, after = (run[group] for group in ("warmup_sample_stats", "sample_stats"))
    total, of_draw = so_far(after, "gradients_so_far"), after["n_gradients"].values
    np.testing.assert_array_equal(np.diff(total, axis=1), of_draw[:, 1:])
    spent = pm_temper.estimate_logz(run).gradients
    in_draws = before["n_gradients"].values.sum()
    assert in_draws < spent["tuning"] < in_draws + 1000
    assert spent["tuning"] == (total[:, 0] - of_draw[:, 0]).sum()
    assert spent["draws"] == after["n_gradients"].values.sum()
    assert spent["search"] == after["search"].sel(search_entry="gradients").values[0, 0] > 0


def test_draws_of_tuning_after_its_last_round_take_nothing(target, seed):
    """Rounds end early on an easy target; draws of the posterior are all made."""
    run = sample(target, "pt", seed, tune=130, discard_tuned_samples=False)
    before, after = (run[group] for group in ("warmup_sample_stats", "sample_stats"))
    made = np.isfinite(before["delta"].values).any(axis=(2, 3))
    ends = made.sum(axis=1)
    assert (ends < 65).all()
    for chain, end in enumerate(ends):
        assert made[chain, :end].all()
        assert not before["n_gradients"].values[chain, end:].any()
        x = run["warmup_posterior"]["x"].values[chain, end - 1 :]
        np.testing.assert_array_equal(x, np.broadcast_to(x[0], x.shape))
    assert np.isfinite(after["delta"].values).any(axis=(2, 3)).all()


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("kind", ["file", "terminal"])
def test_bar_shows_the_columns(name, kind, target, seed, screen):
    written = screen(force_terminal=kind == "terminal")
    sample(target, name, seed, progressbar=True, draws=40, tune=20)
    text = written.getvalue()
    for header in ("Draw", "Λ", "Divergences", "Speed", "Elapsed", "Remaining"):
        assert header in text, header
    for word in STEPS[name][2].split():
        assert word in text
    rows = [line for line in text.splitlines() if "━" in line and "done" in line]
    assert len(rows) >= 2
    assert re.search(r"done \d+k", rows[-1])  # gradients
    if kind == "file":
        # one table at the end, and no codes that a file cannot show
        assert len(rows) == 2
        assert "\x1b" not in text


@pytest.mark.parametrize("name", STEPS)
def test_quiet(name, target, seed, screen, capfd, caplog):
    written = screen(force_terminal=True)
    with caplog.at_level(logging.INFO, logger="pymc"):
        sample(target, name, seed, draws=5, tune=10)
    assert written.getvalue() == ""
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


@pytest.mark.parametrize("progressbar", ["combined", "combined+stats", "split", "split+stats"])
def test_other_kinds_of_bars(progressbar, target, seed, screen):
    written = screen()
    sample(target, "pt", seed, progressbar=progressbar, draws=40, tune=20)
    assert ("Λ" in written.getvalue()) == ("stats" in progressbar)


def test_bar_does_not_change_draws(target, seed, screen):
    screen(force_terminal=True)
    shown = sample(target, "pt", seed, progressbar=True)
    np.testing.assert_array_equal(shown.posterior["x"], sample(target, "pt", seed).posterior["x"])


def test_divergences_turn_the_bar_red():
    values = {"global_barrier": np.nan, "so_far": np.array([12_345, 3, 0, 0])}
    assert progress_update(values, "round_trips") == {
        "barrier": "-", "round_trips": 3, "divergences": 0, "gradients": "12k", "failing": False,
    }  # fmt: skip
    values = {"global_barrier": 1.23, "so_far": np.array([12_345, 3, 0, 1])}
    shown = progress_update(values, "round_trips")
    assert (shown["divergences"], shown["failing"], shown["barrier"]) == (1, True, "1.2")


@pytest.mark.slow
def test_log_file_of_a_script(tmp_path):
    """Chains in other processes, output in a file: a table per run, no codes."""
    script = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "import pymc_tempering as t\n"
        "from pymc_tempering.testing import asymmetric_bimodal\n"
        "if __name__ == '__main__':\n"
        "    t.estimate_logz(asymmetric_bimodal().model(), draws=30, tune=20, chains=2, cores=2,\n"
        "                    scans_per_draw=8, random_seed=1, compute_convergence_checks=False)\n"
    )
    (tmp_path / "run.py").write_text(script)
    log = tmp_path / "log.txt"
    with log.open("w") as out:
        subprocess.run(
            [sys.executable, str(tmp_path / "run.py")], stdout=out, stderr=out, check=True,
            env=os.environ | {"COLUMNS": "130"},
        )  # fmt: skip
    text = log.read_text()
    assert "\x1b" not in text
    assert "\r" not in text
    assert sum("done" in line for line in text.splitlines()) == 2


def test_public_calls_pass_progressbar_on(target, seed, screen):
    written = screen()
    pm_temper.sample(
        target.model(), draws=30, tune=20, chains=2, cores=1, random_seed=seed, scans_per_draw=16,
        compute_convergence_checks=False,
    )  # fmt: skip
    assert "Λ" in written.getvalue()


@pytest.mark.parametrize(
    ("width", "headings"),
    [(80, ["Phase"]), (100, ["Phase", "Λ", "trips"]),
     (170, ["Phase", "Λ", "trips", "Divergences"])],
)  # fmt: skip
def test_narrow_terminals_show_less_and_that_whole(width, headings, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    board = Board()
    board.start_chain()
    board.report("search for modes", 12_000, 50_000)
    columns, start = progress_columns(2, "round_trips", board)
    bar = rich_progress.RichProgressBackend(
        "draw", 2, 100, combined=False, full_stats=True, progress_columns=columns,
        progress_stats=start | {"draw": [0, 0]},
    )  # fmt: skip
    bar._initialize_tasks()
    now = {"barrier": "3.2", "gradients": "847k", "draw": 1130}
    bar.update(1, 30, failing=False, stats=now, is_last=False)
    console = Console(width=width, file=io.StringIO())
    console.print(bar._progress.make_tasks_table(bar._progress.tasks))
    text = console.file.getvalue()
    header = next(line for line in text.splitlines() if "Progress" in line).split()
    shown = " ".join(header)
    of_pymc = ["Progress", "Draw", "Speed", "Elapsed"]
    assert all(heading in shown for heading in (*of_pymc, *headings))
    assert shown.endswith(("Remaining", "Remain…", "Remaini…"))
    for word in ("search", "24" if width < 170 else "12000", "sampling", "847k", "1130", "0:00:00"):
        assert word in text, word
    assert "Divergences" in headings or "Diverg" not in text
    assert len(text.splitlines()) <= 9
