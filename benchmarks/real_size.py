"""Default runs of models of the size that people have, beside nutpie's default run.

    make real_size
    python benchmarks/real_size.py --only irt_2,season --limit 600 --roles map,ours

For every model of ``real_models``: numbers of values D and globals k, V of the map that is found of
it, a default run of :func:`pymc_tempering.estimate_logz` on one core, nutpie's (4 chains of 1000 +
1000 draws), and a reference: *exact*, with all locals integrated out by quadrature or algebra and
importance sampling over the globals; else bridge sampling of nutpie's draws or, with ``--roles
long``, a long run of ours with another seed, whichever has the smaller error. Every model has
processes of its own, with a limit of CPU seconds, compiling included. CPU seconds of the table are
without compiling. Every result is a line of ``--record``; what is there is not made again.
"""

import argparse
import json
import os
import resource
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from multiprocessing import get_context
from pathlib import Path
from threading import Lock

from bench import commit
from corpus import ending, short
from peers import ONE_THREAD, read
from real_models import REAL
from real_runs import EXACT, LONG, MAP, NUTPIE, OURS, ROLES

RECORD = Path(__file__).resolve().parents[1] / "out" / "real_size.jsonl"


_TOGETHER = ((EXACT,), (MAP, OURS), (NUTPIE,), (LONG,))
"""Roles that share a process, since they compile the same."""


def in_own_process(context, name, roles, limit, write):
    """Have roles of a model run elsewhere; what did not end by itself has a row of how it did."""
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(name, roles, limit, theirs))
    process.start()
    theirs.close()
    n_rows = 0
    try:
        while n_rows < len(roles):
            write(mine.recv())
            n_rows += 1
    except EOFError:
        process.join()
        ended = ending(process, limit)
        if ended.get("killed") in ("SIGXCPU", "SIGKILL"):
            ended = {"timeout": limit}
        write({"name": name, "role": roles[n_rows]} | ended)
    finally:
        process.kill()
        process.join()


def work(name, roles, limit, to):
    """Runs of one model in this process, each sent as a row."""
    import logging
    import warnings

    from real_runs import run

    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 5))
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    for role in roles:
        to.send(run(name, role))


def study(names, roles, limit, n_jobs, record):
    """Make the runs that the record lacks, model by model."""
    record.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["name"], row["role"]) for row in read(record)}
    missing = []
    for name in names:
        for together in _TOGETHER:
            left = [r for r in together if r in roles and (name, r) not in done]
            missing += [(name, left)] if left else []
    stamp = {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    os.environ.update(ONE_THREAD)
    # every process begins with what was imported, and nothing else
    context = get_context("forkserver")
    context.set_forkserver_preload(["real_runs", "nutpie"])
    # threads only wait for the processes, and write one at a time
    one_at_a_time = Lock()
    with ThreadPoolExecutor(n_jobs) as pool, record.open("a") as file:

        def write(row):
            with one_at_a_time:
                file.write(json.dumps(row | stamp) + "\n")
                file.flush()
                print(row["name"], row["role"], short(row), flush=True)

        runs = [pool.submit(in_own_process, context, *what, limit, write) for what in missing]
        for run in as_completed(runs):
            run.result()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", help="models, separated by commas; default: all")
    parser.add_argument("--roles", default=",".join((MAP, EXACT, OURS, NUTPIE)),
                        help=f"of {', '.join(ROLES)}; default: all but {LONG}")  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds of a process")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--table-only", action="store_true", help="make no runs")
    args = parser.parse_args()
    names = args.only.split(",") if args.only else list(REAL)
    if unknown := sorted(set(names) - set(REAL)):
        parser.error(f"unknown models {unknown}; there are {sorted(REAL)}")
    if not args.table_only:
        study(names, args.roles.split(","), args.limit, args.jobs, args.record)
    from real_tables import report

    report([row for row in read(args.record) if row["name"] in names])


if __name__ == "__main__":
    main()
