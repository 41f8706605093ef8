"""CPU time of compiled scans per gradient, of this checkout and another in turn.

Four levels from a Gaussian, step sizes tuned, then fixed: scans in blocks of 50, as a draw has by
default, and of 2000, where calls from Python do not matter. Both checkouts have the same seeds, so
they make the same moves unless moves have changed; the numbers of gradients say whether they do.

    python benchmarks/kernel.py --before ../other_checkout
"""

import argparse
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import numpy as np
from bench import ROOT, load_cases
from rich.console import Console
from rich.table import Table

CASES = ("bimodal_gmm", "radon")
BLOCKS = (50, 2000)
BETAS = np.array([0.0, 0.1, 0.4, 1.0])
N_SCANS = 8000


def this_ladder(model, rng):
    """Replicas of this checkout, and how many gradients a record counts."""
    from pymc_tempering.engine.ensembles.ladder import Ladder
    from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
    from pymc_tempering.engine.path.gaussian import GaussianBase
    from pymc_tempering.engine.path.tempered import TemperedPath
    from pymc_tempering.model.compile import compile_density

    density = compile_density(model)
    path = TemperedPath.from_base(density, GaussianBase(density.start, np.ones(density.dim)))
    ladder = Ladder(path, BETAS, density.start, rng, settings=Hamiltonian())
    return ladder, GaussianBase, lambda record: record.counts["n_gradients"]


def tune(ladder, gaussian, rng):
    """Fit step sizes, then a dense base to draws, then step sizes again."""
    ladder.run(500, rng, adapt=True)
    z = ladder.run(1000, rng, adapt=True, keep_positions=True).target_positions
    covariance = np.cov(z, rowvar=False)
    covariance = 0.5 * (covariance + np.diag(np.diag(covariance)))
    ladder.change_base(gaussian(z.mean(axis=0), np.linalg.cholesky(covariance)))
    ladder.run(500, rng, adapt=True)
    ladder.stop_adaptation()


def serve(case):
    """Write a line of results for every length of a block that is read, until there is none."""
    model, rng = load_cases()[case]().model, np.random.default_rng(1)
    ladder, gaussian, n_gradients = this_ladder(model, rng)
    tune(ladder, gaussian, rng)
    for line in sys.stdin:
        started, total = time.process_time(), 0
        for _ in range(N_SCANS // int(line)):
            total += n_gradients(ladder.run(int(line), rng))
        print(time.process_time() - started, total, flush=True)


def start(checkout, case):
    """A process of a checkout, with a cache of its own, that measures when it is asked to."""
    cache = ROOT / "out" / "kernel" / str(zlib.crc32(str(checkout).encode()))
    flags = f"{os.environ.get('PYTENSOR_FLAGS', '')},base_compiledir={cache}".lstrip(",")
    return subprocess.Popen(
        [sys.executable, __file__, "--serve", case], text=True, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout), "PYTENSOR_FLAGS": flags},
    )  # fmt: skip


def measure(server, block):
    """Nanoseconds per gradient, and how many there were."""
    server.stdin.write(f"{block}\n")
    server.stdin.flush()
    seconds, gradients = server.stdout.readline().split()
    return 1e9 * float(seconds) / int(gradients), int(gradients)


def rows(before, case, repeats):
    """Medians and ranges of both, measured in turn, for every length of a block."""
    servers = [start(checkout, case) for checkout in (before, ROOT)]
    for block in BLOCKS:
        found = np.array([[measure(s, block) for s in servers] for _ in range(repeats)])
        each, gradients = found[..., 0], found[..., 1].sum(axis=0)
        cells = [f"{np.median(x):.1f} ({x.min():.1f} to {x.max():.1f})" for x in each.T]
        ratio = np.median(each[:, 1]) / np.median(each[:, 0])
        counts = " / ".join(f"{n:,.0f}" for n in gradients)
        yield case, str(block), *cells, f"{ratio:.3f}", counts
    for server in servers:
        server.stdin.close()
        server.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--before", type=Path, default=ROOT)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--serve", choices=CASES)
    arguments = parser.parse_args()
    console = Console(width=140)
    if load_cases() is None:
        console.print("The reference problems (shared/cases) are not here: nothing to measure.")
        return
    if arguments.serve:
        serve(arguments.serve)
        return
    table = Table(title="CPU ns per gradient, median (range)")
    for column in ("case", "block", "before", "after", "ratio", "gradients before / after"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for case in CASES:
        for row in rows(arguments.before.resolve(), case, arguments.repeats):
            table.add_row(*row)
    console.print(table)


if __name__ == "__main__":
    main()
