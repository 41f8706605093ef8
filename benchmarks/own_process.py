"""Models one by one in processes of their own, each result a line of a file.

What hangs or is killed is a line too, and no end of the study.
"""

import json
import logging
import os
import resource
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from importlib import import_module
from multiprocessing import get_context
from threading import Lock
from typing import NamedTuple

from bench import commit
from peers import ONE_THREAD, read


class Limit(NamedTuple):
    """Seconds that a process may take, by the clock or of its CPU."""

    seconds: float
    of_cpu: bool


def study(module, tasks, limit, n_jobs, record, preload):
    """Make the runs that a record lacks: ``tasks`` are names of models and roles in one process.

    ``module`` has ``run(name, role)``, which gives a row.
    """
    record.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["name"], row["role"]) for row in read(record)}
    left = [(name, [r for r in roles if (name, r) not in done]) for name, roles in tasks]
    stamp = {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    os.environ.update(ONE_THREAD)
    # every process begins with what was imported, and nothing else
    context = get_context("forkserver")
    context.set_forkserver_preload(preload)
    # threads only wait for the processes, and write one at a time
    one_at_a_time = Lock()
    with ThreadPoolExecutor(n_jobs) as pool, record.open("a") as file:

        def write(row):
            with one_at_a_time:
                file.write(json.dumps(row | stamp) + "\n")
                file.flush()
                print(row["name"], row["role"], short(row), flush=True)

        runs = [
            pool.submit(_in_own_process, context, module, name, roles, limit, write)
            for name, roles in left if roles
        ]  # fmt: skip
        for run in as_completed(runs):
            run.result()


def _in_own_process(context, module, name, roles, limit, write):
    """Write the rows of some roles, and of what did not end by itself how it did."""
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(module, name, roles, limit, theirs))
    process.start()
    theirs.close()
    n_rows, until = 0, time.monotonic() + limit.seconds
    try:
        while n_rows < len(roles) and mine.poll(
            None if limit.of_cpu else max(until - time.monotonic(), 0.0)
        ):
            write(mine.recv())
            n_rows += 1
    except EOFError:
        process.join()
    if n_rows < len(roles):
        write({"name": name, "role": roles[n_rows]} | ending(process, limit))
    process.kill()
    process.join()


def _work(module, name, roles, limit, to):
    """Runs of one model in this process, each sent as a row."""
    if limit.of_cpu:
        resource.setrlimit(resource.RLIMIT_CPU, (int(limit.seconds), int(limit.seconds) + 5))
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    for role in roles:
        to.send(import_module(module).run(name, role))


def ending(process, limit):
    """Why a process has no more rows."""
    if process.is_alive():
        return {"timeout": limit.seconds}
    if process.exitcode >= 0:
        return {"crashed": f"exit code {process.exitcode}"}
    killed = signal.Signals(-process.exitcode).name
    if limit.of_cpu and killed in ("SIGXCPU", "SIGKILL"):
        return {"timeout": limit.seconds}
    return {"killed": killed}


def short(row):
    """What came out, in a few words."""
    for end in ("refused", "crashed", "killed", "timeout"):
        if end in row:
            return f"{end}: {row[end]}"
    log_z = f"{row['log_z']:.3f} +- {row['se']:.3f}" if "log_z" in row else ""
    return f"{log_z} {row.get('gradients', '')} {row.get('warnings', '')}".strip()
