"""One press of Ctrl-C ends a whole run, in whatever phase it is, and keeps the draws there are.

The press comes when machine code that would run for hours says that it does, however long that
takes; a press that is not noticed leaves the test without an end.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = Path(__file__).with_name("interrupted_run.py")


def pressed_once(cores, where, call="sample"):
    """What the script prints after a press, sent as a terminal does, to all its processes."""
    process = subprocess.Popen(
        [sys.executable, str(SCRIPT), str(cores), str(where), call],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        assert process.stdout.readline() == "SLOW\n"
        os.killpg(process.pid, signal.SIGINT)
        out, _ = process.communicate()
    finally:
        process.kill()
    return [line for line in out.splitlines() if line != "SLOW"]


def test_during_fits():
    assert pressed_once(1, 0) == ["NOTHING"]


@pytest.mark.slow
def test_the_second_chain_of_three_in_turn():
    """At its fifth draw: four draws of both chains are fewer than the twelve of the first."""
    assert pressed_once(1, 22 + 15) == ["1 CHAINS OF 12, INTERRUPTED: True"]


@pytest.mark.slow
def test_two_processes_at_their_seventh_draw():
    (said,) = pressed_once(2, 17)
    assert said.endswith("INTERRUPTED: True")


@pytest.mark.slow
def test_the_rounds_of_target_se():
    """The first round has three chains, the second very many; there the third is interrupted."""
    said = pressed_once(1, 22 * 5 + 15, "target_se")
    assert said == ["5 CHAINS OF 12, INTERRUPTED: True"]
