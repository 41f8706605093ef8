"""Same seed, same draws, byte for byte: fresh processes, any number of cores, fork and spawn."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # test_start_methods.py has one kind of worker for all

SCRIPT = Path(__file__).with_name("reproduce.py")
RUNS = [["1:none", "2:fork"], ["2:spawn", "1:none"]]


@pytest.fixture(scope="module")
def digests():
    """Of all runs from both bases, each as a list of one digest for each chain."""
    found = {"gaussian": [], "prior": []}
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), *(f"{how}:{base}" for base in found for how in run)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for run in RUNS
    ]  # fmt: skip
    for process in processes:
        out, err = process.communicate()
        assert process.returncode == 0, err
        for run, digest in json.loads(out).items():
            found[run.split(":")[-1]].append(digest)
    return found


@pytest.mark.parametrize("base", ["gaussian", "prior"])
def test_draws_depend_on_the_seed_alone(digests, base):
    """From the prior, the parent's own fits or those that every worker was given."""
    found = digests[base]
    assert len(found) == 4
    assert all(d == found[0] for d in found)
    assert found[0][0] != found[0][1]
