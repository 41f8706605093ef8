"""What log Z costs with this package and with its peers: one run, one core, exact answers.

    make peers
    python benchmarks/peers.py --cases bimodal_gmm,radon --methods pymc_tempering --seeds 11

For every problem and method: CPU seconds (compilation included and excluded), RMSE of log Z over
the seeds, reported error over RMSE, seconds x (RMSE / 0.1)^2, which is the time to an error of 0.1
nats, and that of the best peer over that of this package. A problem and a method have a process of
their own, one after the other, with one thread and empty caches: its first run is the cold one, the
others are warm.

Every run is written to ``--record`` as one line. What is there is not made again, so that a study
can be interrupted, and a new version of one method measured beside the others of old: move the
record away, or ``--methods pymc_tempering --record other.jsonl``, then ``--against record.jsonl``.
Interrupted studies make one run anew, so that all others of that process are warm.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).parent
RECORD = FOLDER.parent / "out" / "peers.jsonl"
ONE_THREAD = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS",
                     "NUMBA_NUM_THREADS", "RAYON_NUM_THREADS"), "1"),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "JAX_PLATFORMS": "cpu",
}  # fmt: skip


def cpu_seconds():
    """Of this process and of its children that have ended."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def measure(case, method, seeds, limit, file):
    """Runs of one method on one problem in this process, each written as a line to ``file``.

    A negative seed is a run to compile, not written; seed 0 is the cold run.
    """
    from bench import commit
    from peer_methods import METHODS
    from peer_models import problem

    logging.getLogger("pymc").setLevel(logging.ERROR)
    logging.getLogger("pymc.smc.sampling").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    given = problem(case)
    row = {"case": case, "method": method, "commit": commit(), "n_values": n_values(given.model)}
    started = begun = cpu_seconds()
    run = METHODS[method](given)
    for seed in seeds:
        log_z, se, codes = run(abs(seed))
        seconds = cpu_seconds() - started
        if seed >= 0:
            line = row | {
                "seed": seed, "cold": seed == 0, "log_z": log_z, "error": log_z - given.log_z,
                "se": se, "seconds": seconds, "warnings": codes,
                "date": f"{datetime.now(UTC):%Y-%m-%d}",
            }  # fmt: skip
            file.write(json.dumps(line) + "\n")
            file.flush()
        if cpu_seconds() - begun > limit:
            break
        started = cpu_seconds()


def n_values(model):
    return sum(value.size for value in model.initial_point().values())


def read(path):
    """Rows of a record, none where there is no file."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def missing_seeds(rows, case, method, n_seeds):
    """Seeds to run, a negative one before them where the cold run is there already."""
    done = {row["seed"] for row in rows if (row["case"], row["method"]) == (case, method)}
    seeds = [seed for seed in range(n_seeds) if seed not in done]
    return seeds if not seeds or seeds[0] == 0 else [-1, *seeds]


def in_own_process(case, method, seeds, limit, record):
    """Have :func:`measure` run elsewhere, with empty caches; what it said where it failed."""
    with tempfile.TemporaryDirectory() as cache:
        flags = {"PYTENSOR_FLAGS": f"base_compiledir={cache}/pytensor", "NUMBA_CACHE_DIR": cache}
        done = subprocess.run(
            [sys.executable, __file__, "--worker", "--cases", case, "--methods", method,
             f"--run={','.join(map(str, seeds))}", "--limit", str(limit), "--record", str(record)],
            env=os.environ | ONE_THREAD | flags, capture_output=True, text=True, check=False,
        )  # fmt: skip
    return "" if done.returncode == 0 else done.stderr.strip().splitlines()[-1]


def study(cases, methods, n_seeds, limit, record):
    """Make the runs that the record lacks."""
    from figures import console

    record.parent.mkdir(parents=True, exist_ok=True)
    for case in cases:
        for method in methods:
            seeds = missing_seeds(read(record), case, method, n_seeds)
            if not seeds:
                continue
            started = time.monotonic()
            failed = in_own_process(case, method, seeds, limit, record)
            wall = time.monotonic() - started
            console.print(f"{case}, {method}: {failed or f'{wall:.0f} s'}", markup=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", help="separated by commas; default: all")
    parser.add_argument("--methods", help="separated by commas; default: all")
    parser.add_argument("--seeds", type=int, default=11, help="the first of them is the cold run")
    parser.add_argument("--limit", type=float, default=900.0, help="CPU seconds of a method on a "
                        "case after which no run begins")  # fmt: skip
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--against", type=Path, help="record with rows that this one lacks")
    parser.add_argument("--table-only", action="store_true", help="make no runs")
    parser.add_argument("--publish", action="store_true",
                        help="write the picture and the table of the documentation")  # fmt: skip
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        with args.record.open("a") as file:
            seeds = [int(seed) for seed in args.run.split(",")]
            measure(args.cases, args.methods, seeds, args.limit, file)
        return
    from peer_methods import METHODS, installed
    from peer_models import available
    from peer_tables import report

    methods = args.methods.split(",") if args.methods else list(METHODS)
    unknown = sorted(set(methods) - set(METHODS))
    if unknown:
        parser.error(f"unknown methods {unknown}; there are {list(METHODS)}")
    have, lacking = available()
    if lacking and not args.cases:
        print(f"Left out, since shared/cases is not beside this checkout: {', '.join(lacking)}")
    cases = args.cases.split(",") if args.cases else have
    if not args.table_only:
        for peer in ("nutpie", "blackjax"):
            if any(method.startswith(peer) for method in methods):
                installed(peer)
        study(cases, methods, args.seeds, args.limit, args.record)
    rows = read(args.record)
    here = {(row["case"], row["method"]) for row in rows}
    others = read(args.against) if args.against else []
    rows += [row for row in others if (row["case"], row["method"]) not in here]
    report([row for row in rows if row["case"] in cases], args.publish)


if __name__ == "__main__":
    main()
