"""What chains do before their first draw, seen from another process, and that nothing is left."""

import gc
import os
import pickle
import re
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest
from rich.console import Console

import pymc_tempering as pm_temper
from pymc_tempering import progress as board_module
from pymc_tempering import testing
from pymc_tempering.model.compile import compile_density
from pymc_tempering.progress import Board, PhaseColumn, format_seconds
from pymc_tempering.references.search import find_modes

# as text, since to import this module a server of processes would import PyMC
WORK = """
import pickle
board = pickle.loads(pickled)
board.start_chain()
board.report("local fits", 0, 31)
"""


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_workers_write_to_the_row_of_their_chain(method):
    board = Board()
    process = get_context(method).Process(
        target=exec, args=(WORK, {"pickled": pickle.dumps(board)}), name="worker_chain_3"
    )
    process.start()
    process.join()
    assert process.exitcode == 0
    assert [board.describe(chain) for chain in (2, 3, 4)] == [
        "waiting",
        "local fits 0/31",
        "waiting",
    ]


def test_chains_of_one_process_are_counted():
    board = Board()
    for run in range(2):
        board.rewind()
        for chain in range(2):
            board.start_chain()
            assert board.describe(chain) == "waiting"
            board.report(f"run {run}", 0, 0)
            assert board.describe(chain) == f"run {run}"
    assert board.describe(10**6) == ""


def test_time_left(monkeypatch):
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(board_module, "time", SimpleNamespace(time=lambda: clock.now))
    board = Board()
    board.report("nobody's", 1, 2)  # of a step that runs outside a chain
    board.start_chain()
    board.report("local fits", 0, 20)
    clock.now = 110.0
    assert board.describe(0) == "local fits 0/20"
    board.report("local fits", 5, 20)
    assert board.describe(0) == "local fits 5/20, 0:30 left"
    board.report("local fits", 5, 20, 2_600)
    assert board.describe(0) == "local fits 5/20, 3k gradients, 0:30 left"
    board.report("shapes of modes", 0, 2)
    assert board.describe(0) == "shapes of modes 0/2"
    assert format_seconds(59.7) == "1:00"


def test_without_a_folder_for_the_file(monkeypatch):
    def refuse(**_):
        raise OSError

    monkeypatch.setattr(board_module.tempfile, "mkstemp", refuse)
    board = Board()
    board.start_chain()
    board.report("local fits", 0, 2)
    assert board.describe(0) == "local fits 0/2"
    copy = pickle.loads(pickle.dumps(board))
    assert copy.describe(0) == "waiting"


def test_file_goes_with_the_board():
    board = Board()
    path = board.path
    copy = pickle.loads(pickle.dumps(board))
    del copy
    gc.collect()
    assert os.path.exists(path)
    del board
    gc.collect()
    assert not os.path.exists(path)


def test_phases_after_the_fits():
    column = PhaseColumn(Board())

    def shown(completed, **fields):
        task = SimpleNamespace(completed=completed, finished=completed == 30, fields=fields)
        return str(column.render(task))

    assert shown(0, task_idx=0) == "waiting"
    assert [shown(n, marker_pos=10) for n in (1, 9, 10, 30)] == [
        "tuning", "tuning", "sampling", "done",
    ]  # fmt: skip
    assert shown(1) == "sampling"


def test_reports_do_not_change_fits(seed):
    """What is done is reported, and the modes are those of a search that nobody watches."""
    density = compile_density(testing.asymmetric_bimodal().model())
    said = []
    searches = [
        find_modes(density, density.start, np.random.default_rng(seed), **more)
        for more in ({}, {"report": lambda *state: said.append(state)})
    ]
    for first, second in zip(searches[0].fits, searches[1].fits, strict=True):
        np.testing.assert_array_equal(first.mean, second.mean)
    for part in ("search for modes", "shapes of modes", "local fits"):
        counts = [done for name, done, *_ in said if name == part]
        assert counts == sorted(counts)
        assert counts or part == "local fits"  # of which a search of good fits has none
    assert all(done <= total for _, done, total, *_ in said)


@pytest.mark.parametrize("cores", [1, 2])
def test_plain_pm_sample_shows_fits(cores, seed, monkeypatch, tmp_path):
    """From the first second: a row says how many fits are done before there is any draw."""
    from pymc.progress_bar import rich_progress

    with (tmp_path / "screen").open("w+") as screen:
        terminal = {"file": screen, "width": 150, "force_terminal": True}
        monkeypatch.setattr(rich_progress, "Console", lambda **k: Console(**(k | terminal)))
        with testing.asymmetric_bimodal().model() as model:
            step = pm_temper.ParallelTempering(model=model, scans_per_draw=8)
            if cores == 1:
                # the screen is renewed ten times a second; these fits are faster
                slow, bar = step._known, []

                def watched(self):
                    def report(*state):
                        self._board.report(*state)
                        bar.append(self._board.describe(0))

                    return slow(report)

                monkeypatch.setattr(type(step), "_known", watched)
            pm.sample(
                20, tune=10, step=step, chains=cores, cores=cores, random_seed=seed,
                compute_convergence_checks=False,
            )  # fmt: skip
        screen.seek(0)
        text = screen.read()
    assert "Phase" in text
    assert "done" in text
    if cores == 1:
        assert any(re.match(r"search for modes \d+/\d+, \d:\d\d left", line) for line in bar)
