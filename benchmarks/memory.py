"""Memory of one long chain of parallel tempering in one dimension, by what records it.

    python benchmarks/memory.py
    python benchmarks/memory.py --draws 10000 --rows pm.sample

Each row is a run in a process of its own, with the chain in it. Resident memory is read at some of
its draws, on Linux, which has it in a file; the peak is that of the process, with what putting the
result together took.
"""

import argparse
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path

import pymc as pm
from figures import table

import pymc_tempering as pm_temper

TUNE = 300
SHARES = (0.1, 0.5, 1.0)
FEW = {"n_levels": 4, "scans_per_draw": 4}
HEADS = ("recorded by", "draws", "MB at 1", "at 10 %", "at 50 %", "at 100 %", "peak", "kB per draw")
MEGABYTE = 2.0**20


def resident():
    """Megabytes of this process."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


class Watch:
    """Resident megabytes at the first draw and at shares of all, as a callback of ``pm.sample``."""

    def __init__(self, draws):
        self.seen, self.at = {}, {1, *(int(share * draws) for share in SHARES)}

    def __call__(self, trace, draw):  # noqa: D102
        if not draw.tuning and (n := draw.draw_idx - TUNE + 1) in self.at:
            self.seen[n] = resident()


def with_pymc(model, options, **of_step):
    with model:
        pm.sample(step=pm_temper.ParallelTempering(**of_step), **options)


def kept(model, options):
    with tempfile.TemporaryDirectory() as folder:
        pm_temper.sample(model, resume=folder, **options)


ROWS = {
    "sample": lambda model, options: pm_temper.sample(model, **options),
    "sample, resume=": kept,
    "pm.sample": with_pymc,
    "pm.sample, 4 levels, 4 scans": lambda model, options: with_pymc(model, options, **FEW),
}


def measure(name, draws):
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        pm.Normal("y", x, 0.5, observed=1.0)
    watch = Watch(draws)
    ROWS[name](model, {
        "draws": draws, "tune": TUNE, "chains": 1, "cores": 1, "random_seed": 1, "callback": watch,
        "progressbar": False, "quiet": True, "compute_convergence_checks": False,
    })  # fmt: skip
    laplace = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024.0 / MEGABYTE
    return [*watch.seen.values(), laplace]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=100_000)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--measure", choices=ROWS, help=argparse.SUPPRESS)
    requested = parser.parse_args()
    if requested.measure:
        print(json.dumps(measure(requested.measure, requested.draws)))
        return
    lines = []
    for name in requested.rows:
        call = [sys.executable, __file__, "--measure", name, "--draws", str(requested.draws)]
        done = subprocess.run(call, check=True, capture_output=True, text=True)
        figures = json.loads(done.stdout.splitlines()[-1])
        per_draw = (figures[-1] - figures[0]) * 1024.0 / requested.draws
        lines.append([name, requested.draws, *(f"{mb:.0f}" for mb in figures), f"{per_draw:.1f}"])
    table("memory of one chain", HEADS, lines)


if __name__ == "__main__":
    main()
