"""Default runs of models of many kinds: a right log Z or a refusal by name, and at what cost.

    make corpus
    python benchmarks/corpus.py --only horseshoe,ising --record out/other.jsonl

For every model of ``corpus_models``: a default run of :func:`pymc_tempering.estimate_logz`, a
second log Z (exact, a grid, or bridge sampling of nutpie's draws), and nutpie with 4 chains of 1000
+ 1000 draws for its gradients and CPU seconds. Every model has processes of
its own, with a limit, so that what hangs or is killed is a line of the table and no end of the
study. Every result is a line of ``--record``; what is there is not made again.
"""

import argparse
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path

from bench import commit
from corpus_models import CORPUS
from corpus_runs import NUTPIE, OURS, ROLES, SECOND
from peers import ONE_THREAD, read

RECORD = Path(__file__).resolve().parents[1] / "out" / "corpus.jsonl"
_TOGETHER = ((OURS, SECOND), (NUTPIE,))
"""Roles that share a process: a second log Z by other means needs hardly more than the model."""


def in_own_process(context, name, roles, limit):
    """Rows of some roles; how it ended where it did not end by itself."""
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(name, roles, theirs))
    process.start()
    theirs.close()
    rows, until = [], time.monotonic() + limit
    try:
        while len(rows) < len(roles) and mine.poll(max(until - time.monotonic(), 0.0)):
            rows.append(mine.recv())
    except EOFError:
        process.join()
    if len(rows) < len(roles):
        rows.append({"name": name, "role": roles[len(rows)]} | ending(process, limit))
    process.kill()
    process.join()
    return rows


def ending(process, limit):
    """Why a process has no more rows."""
    if process.is_alive():
        return {"timeout": limit}
    if process.exitcode < 0:
        return {"killed": signal.Signals(-process.exitcode).name}
    return {"crashed": f"exit code {process.exitcode}"}


def study(names, roles, limit, n_jobs, record):
    """Make the runs that the record lacks."""
    record.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["name"], row["role"]) for row in read(record)}
    missing = []
    for together in _TOGETHER:
        for name in names:
            left = [r for r in together if r in roles and (name, r) not in done]
            missing += [(name, left)] if left else []
    stamp = {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    os.environ.update(ONE_THREAD)
    # every process begins with what was imported, and nothing else
    context = get_context("forkserver")
    context.set_forkserver_preload(["corpus_runs", "corpus_second", "nutpie"])
    # threads only wait for the processes
    with ThreadPoolExecutor(n_jobs) as pool, record.open("a") as file:
        runs = [pool.submit(in_own_process, context, *what, limit) for what in missing]
        for run in as_completed(runs):
            for row in run.result():
                file.write(json.dumps(row | stamp) + "\n")
                file.flush()
                print(row["name"], row["role"], short(row), flush=True)


def short(row):
    """What came out, in a few words."""
    for end in ("refused", "crashed", "killed", "timeout"):
        if end in row:
            return f"{end}: {row[end]}"
    log_z = f"{row['log_z']:.3f} +- {row['se']:.3f}" if "log_z" in row else ""
    return f"{log_z} {row.get('gradients', '')} {row.get('warnings', '')}".strip()


def work(name, roles, to):
    """Runs of one model in this process, each sent as a row."""
    import logging
    import warnings

    import pytensor
    from corpus_runs import run

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    with pytensor.config.change_flags(**CORPUS[name].flags):
        for role in roles:
            to.send(run(name, role))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="models, separated by commas; default: all")
    parser.add_argument("--kinds", help="kinds of models, separated by commas; default: all")
    parser.add_argument("--roles", help=f"of {', '.join(ROLES)}; default: all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds of a process")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--table-only", action="store_true", help="make no runs")
    parser.add_argument("--publish", action="store_true", help="write the documentation's table")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else list(CORPUS)
    if unknown := sorted(set(names) - set(CORPUS)):
        parser.error(f"unknown models {unknown}; there are {sorted(CORPUS)}")
    if args.kinds:
        names = [name for name in names if CORPUS[name].kind in args.kinds.split(",")]
    roles = args.roles.split(",") if args.roles else ROLES
    if not args.table_only:
        study(names, roles, args.limit, args.jobs, args.record)
    from corpus_tables import report

    rows = [row for row in read(args.record) if row["name"] in names]
    report(rows, args.publish)


if __name__ == "__main__":
    main()
