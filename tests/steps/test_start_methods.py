"""Every sampler and explorer draws the same in workers that are forked, spawned or served."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.steps.reproduce_everywhere import RUNS, START_METHODS

SCRIPT = Path(__file__).with_name("reproduce_everywhere.py")
ROOT = Path(__file__).resolve().parents[2]


def differences(*requested):
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *requested], capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_a_worker_of_a_server_draws_what_the_caller_would():
    """The one of the start methods that test_parallel_process.py leaves out."""
    assert differences("gist:forkserver") == {"gist:forkserver": []}


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_how_workers_are_started_decides_no_draw(name):
    requested = [f"{name}:{how}" for how in START_METHODS]
    assert differences(*requested) == {key: [] for key in requested}
