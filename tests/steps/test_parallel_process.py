"""Same seed, same draws, byte for byte: fresh processes, any number of cores, fork and spawn."""

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("reproduce.py")


def test_draws_depend_on_the_seed_alone():
    runs = [["1:none", "2:fork"], ["2:spawn", "1:none"]]
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), *run], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True,
        )
        for run in runs
    ]  # fmt: skip
    digests = []
    for process in processes:
        out, err = process.communicate()
        assert process.returncode == 0, err
        digests += json.loads(out).values()
    assert len(digests) == 4
    assert all(d == digests[0] for d in digests)
    assert digests[0][0] != digests[0][1]
