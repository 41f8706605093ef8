"""Default runs on targets chosen to hurt: how many are wrong, and how many of those say nothing.

    python benchmarks/hard.py --seeds 4 --jobs 2
    python benchmarks/hard.py --names funnel_30,needles --against out/hard_before.jsonl
    python benchmarks/hard.py --names needles --without scales,residual --record out/w.jsonl

A run is wrong where its log Z is more than 4 of its errors off, or the probability of a part of the
space more than 0.05 beyond 4 Monte Carlo errors (``hard_targets.judge``); it is
silent where it is wrong and carries no warning. Runs are written to ``--record`` one by one, and a
run that is there already is not made again, so that a study can be interrupted.
"""

import argparse
import json
import logging
import statistics
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path

from figures import QUIET, SHORT_FOLDER, console, table
from hard_targets import HARD


def one_run(name, seed, method, options, without=()):
    """Verdict of one default run as a dictionary for one line of the record."""
    from hard_targets import judge

    import pymc_tempering as pm_temper
    from pymc_tempering.errors import TemperingError
    from pymc_tempering.references import prepare

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    # sources of starts and fits, in this process alone
    prepare.SOURCES = [source for source in prepare.SOURCES if source not in without]
    target = HARD[name]()
    row = {"name": name, "kind": target.kind, "seed": seed, "method": method} | options
    started = time.process_time()
    try:
        estimate = pm_temper.estimate_logz(
            target.model, method=method, random_seed=seed, **QUIET, **options
        )
    except TemperingError as error:
        # a refusal by name is an answer, and no silent one
        return row | {"refused": f"{type(error).__name__}: {error}"}
    verdict = judge(target, estimate, estimate.idata)
    groups = [g for g in ("sample_stats", "warmup_sample_stats") if g in estimate.idata.children]
    gradients = sum(int(estimate.idata[group]["n_gradients"].sum()) for group in groups)
    return row | {
        "log_z": float(estimate.log_z),
        "error": verdict.error,
        "se": verdict.se,
        "masses": verdict.masses,
        "wrong": verdict.wrong,
        "silent": verdict.silent,
        "warnings": [diagnostic.code for diagnostic in estimate.warnings],
        "gradients": gradients,
        "seconds": time.process_time() - started,
    }


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def study(names, seeds, method, options, record, n_jobs, without=()):
    """Make the runs that the record lacks, each target in a fresh process."""
    wanted = method, options.get("explorer")
    rows = [row for row in read(record) if (row["method"], row.get("explorer")) == wanted]
    done = {(row["name"], row["seed"]) for row in rows}
    missing = [(name, seed) for seed in range(seeds) for name in names if (name, seed) not in done]
    record.parent.mkdir(parents=True, exist_ok=True)
    # a fresh process for each: no run profits from what another compiled
    pool = ProcessPoolExecutor(n_jobs, mp_context=get_context("spawn"), max_tasks_per_child=1)
    with pool, record.open("a") as file:
        runs = {
            pool.submit(one_run, name, seed, method, options, without): (name, seed)
            for name, seed in missing
        }
        for run in as_completed(runs):
            name, seed = runs[run]
            try:
                row = run.result()
            except BrokenProcessPool:
                # killed from outside: nothing was found out
                raise
            except Exception as error:  # noqa: BLE001  a run that crashes is a finding
                kind = HARD[name]().kind
                row = {"name": name, "kind": kind, "seed": seed, "method": method,
                       "crashed": repr(error)} | options  # fmt: skip
            file.write(json.dumps(row) + "\n")
            file.flush()
            console.print(f"{name} {seed}: {verdict_of(row)}")


def verdict_of(row):
    """One word, or what was wrong."""
    for special in ("refused", "crashed"):
        if special in row:
            return special
    if not row["wrong"]:
        return "right, warned" if row["warnings"] else "right"
    return ("SILENT: " if row["silent"] else "warned: ") + ", ".join(row["wrong"])


def summary(rows):
    """Cells of a line: runs, wrong, silent, warned though right, refused, gradients, seconds."""
    runs = [row for row in rows if "wrong" in row]
    wrong = [row for row in runs if row["wrong"]]
    silent = sum(row["silent"] for row in wrong)
    share = f"{silent} ({silent / len(wrong):.0%})" if wrong else "0"
    return [
        len(rows),
        len(wrong),
        share,
        sum(bool(row["warnings"]) for row in runs if not row["wrong"]),
        sum("refused" in row for row in rows),
        sum("crashed" in row for row in rows),
        f"{statistics.median(row['gradients'] for row in runs) / 1e6:.3f}" if runs else "",
        f"{statistics.median(row['seconds'] for row in runs):.0f}" if runs else "",
    ]


COLUMNS = ["", "runs", "wrong", "silent", "right, warned", "refused", "crashed",
           "10^6 gradients", "CPU s"]  # fmt: skip


def report(title, rows, key):
    groups = {}
    for row in rows:
        groups.setdefault(row[key], []).append(row)
    lines = [[name, *summary(group)] for name, group in groups.items()]
    table(title, COLUMNS, [*lines, ["all", *summary(rows)]])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", default=",".join(HARD), help="targets, separated by commas")
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--method", default="pt")
    parser.add_argument("--explorer", help="how replicas move, default that of the method")
    parser.add_argument("--without", help="sources of the search that are left out, by commas")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--record", type=Path, default=SHORT_FOLDER / "hard.jsonl")
    parser.add_argument("--against", type=Path, help="record of another version, to print beside")
    args = parser.parse_args()
    names = args.names.split(",")
    unknown = sorted(set(names) - set(HARD))
    if unknown:
        parser.error(f"unknown targets {unknown}; there are {sorted(HARD)}")
    options = {"explorer": args.explorer} if args.explorer else {}
    without = args.without.split(",") if args.without else []
    if without and args.record == parser.get_default("record"):
        parser.error("give a --record of its own for a study without some sources")
    study(names, args.seeds, args.method, options, args.record, args.jobs, without)
    for title, path in (("before", args.against), ("this version", args.record)):
        if path is not None:
            rows = [row for row in read(path)
                    if row["name"] in names and row["seed"] < args.seeds]  # fmt: skip
            report(f"{title}, by target", rows, "name")
            report(f"{title}, by kind", rows, "kind")


if __name__ == "__main__":
    main()
