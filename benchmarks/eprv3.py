"""Evidence for planets: ours of the EPRV3 challenge, beside what ten teams submitted.

    make eprv3
    python benchmarks/eprv3.py --only 2b1,2b2 --methods pt,st --limit 600 --max-gradients 2e6
    python benchmarks/eprv3.py --search --only 1a2,2a2 --seeds 0,1,2,3

Data sets 1 and 2, priors a (periods from 1.25 to 10,000 days) and b (narrow), 0 to 3 planets
(:mod:`eprv3_models`): "2b1" is one planet in set 2 with the narrow prior. Every run has its own
process, with a limit of CPU seconds once it has compiled. Every result is a line of ``--record``;
what is there is not made again. Without ``../shared/eprv3`` nothing is measured.

Of each: the median and the quartiles of the teams, natural logarithms, without information criteria
and cross-validation; log Z and its error for each seed; whether these agree with one another, with
the exact value for 0 planets, and with other methods.
"""

import argparse
import json
import os
import resource
import time
from datetime import UTC, datetime
from itertools import combinations
from multiprocessing import get_context
from pathlib import Path
from unittest.mock import patch

import numpy as np
from bench import commit
from corpus_runs import failure
from eprv3_models import ABSENT, FOLDER, Data, planets
from figures import QUIET, console, table
from own_process import Limit, ending
from peer_tables import markdown
from peers import ONE_THREAD, read
from scipy.special import expit

RECORD = Path(__file__).resolve().parents[1] / "out" / "eprv3.jsonl"
KEYS = [f"{number}{prior}{n}" for n in range(4) for number in (1, 2) for prior in "ba"]
PT, MAX_DISTANCE = "pt", 3.0
NO_EVIDENCE = ("CV", "/bic", "/BIC")
COLUMNS = ["problem", "teams", "median", "quartiles", "seed 0", "seed 1", "seed 2",
           "10^3 gradients", "CPU s", "warnings"]  # fmt: skip


def submitted():
    """Log Z of the teams, natural logarithms, by problem."""
    given = json.loads((FOLDER / "submitted.json").read_text())
    return {
        key: np.array([
            value[0] * np.log(10.0) for name, value in entries.items()
            if not any(other in name for other in NO_EVIDENCE) and value[0] is not None
        ])
        for key, entries in given.items()
    }  # fmt: skip


def work(run, options, limit, to):
    """One run in this process, sent as a row."""
    import logging
    import warnings

    import pymc_tempering as pm_temper
    from pymc_tempering.model.compile import compile_density

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    key = run["key"]
    model = planets(Data(int(key[0])), int(key[2]), key[1], run["phase"])
    compile_density(model)
    # kernels compile too
    pm_temper.estimate_logz(model, method=run["method"], random_seed=0, max_gradients=30_000,
                            **QUIET | {"draws": 2, "tune": 2, "chains": 1})  # fmt: skip
    started = time.process_time()
    end = int(started + limit)
    resource.setrlimit(resource.RLIMIT_CPU, (end, end + 5))
    try:
        found = pm_temper.estimate_logz(
            model, method=run["method"], random_seed=run["seed"], **QUIET, **options
        )
    except Exception as error:  # noqa: BLE001  a run that crashes is a finding
        to.send(failure(error))
        return
    to.send({
        "log_z": float(found.log_z), "se": float(found.se),
        "gradients": sum(found.gradients.values()), "seconds": time.process_time() - started,
        "warnings": [diagnostic.code for diagnostic in found.warnings],
    })  # fmt: skip


def in_own_process(context, run, options, limit):
    """The row of a run, or how it ended."""
    mine, theirs = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(run, options, limit, theirs))
    process.start()
    theirs.close()
    try:
        return mine.recv()
    except EOFError:
        process.join()
        return ending(process, Limit(limit, of_cpu=True))
    finally:
        process.kill()
        process.join()


def study(runs, options, limit, record):
    """Make the runs that the record lacks."""
    record.parent.mkdir(parents=True, exist_ok=True)
    done = [
        {name: row[name] for name in ("key", "phase", "method", "seed")} for row in read(record)
    ]
    stamp = {"commit": commit(), "date": f"{datetime.now(UTC):%Y-%m-%d}"}
    os.environ.update(ONE_THREAD)
    context = get_context("forkserver")
    context.set_forkserver_preload(["eprv3_models", "pymc_tempering"])
    with record.open("a") as file:
        for run in runs:
            if run in done:
                continue
            row = run | in_own_process(context, run, options, limit) | stamp
            file.write(json.dumps(row) + "\n")
            file.flush()
            console.print(*run.values(), said(row), soft_wrap=True)


def searches(keys, seeds):
    """Print what searches alone find: highest log density, periods there, and gradients."""
    from pymc_tempering.model.compile import compile_density
    from pymc_tempering.references import prepare, windings
    from pymc_tempering.references.survey import Survey

    class Kept(Survey):
        """Known after the search, too."""

        def begin(self, *args, **options):
            Kept.last = self
            super().begin(*args, **options)

    for key in keys:
        data, n = Data(int(key[0])), int(key[2])
        density = compile_density(planets(data, n, key[1]))
        made, _ = windings.find_windings(density)
        density = density if made is None else windings.unwound(density, made)
        low, high = data.log_periods(key[1], n)
        for seed in seeds:
            rng = prepare.shared_generator(np.random.default_rng(seed))
            with patch("pymc_tempering.references.search.Survey", Kept):
                found = prepare.prepare(density, density.start, rng)
            best = max(Kept.last.basins.modes, key=lambda mode: mode.value)
            # the first two coordinates are jitter and offset
            periods = np.exp(low + (high - low) * expit(best.end[2 : 2 + n])).round(3)
            console.print(f"{key} {seed}: {best.value:.2f} at {np.sort(periods)} days, "
                          f"{found.search.n_gradients} gradients")  # fmt: skip


def said(row):
    """Log Z and its error, or how a run ended."""
    if "timeout" in row:
        return f"over {row['timeout']:.0f} s"
    if "log_z" not in row:
        return "refused" if "refused" in row else "crashed"
    if not np.isfinite(row["log_z"]):
        return "no estimate"
    return f"{row['log_z']:.3f} ± {row['se']:.3f}"


def middle(rows, key, unit=1.0):
    values = [row[key] for row in rows if key in row]
    return f"{np.median(values) / unit:.0f}" if values else ""


def warned(rows):
    codes = [code for row in rows for code in row.get("warnings", [])]
    return ", ".join(f"{code} ({codes.count(code)})" for code in sorted(set(codes)))


def line(key, rows, teams):
    by_seed = {row["seed"]: said(row) for row in rows}
    low, median, high = np.quantile(teams[key], [0.25, 0.5, 0.75])
    return [
        key, len(teams[key]), f"{median:.2f}", f"{low:.2f} to {high:.2f}",
        *(by_seed.get(seed, "") for seed in range(3)),
        middle(rows, "gradients", 1e3), middle(rows, "seconds"), warned(rows),
    ]  # fmt: skip


def closing(rows):
    """What the tables come to, a sentence each."""
    known = [row for row in rows if np.isfinite(row.get("log_z", np.nan))]
    of_seeds, of_methods = [], []
    for a, b in combinations(known, 2):
        if a["key"] == b["key"] and a["phase"] == b["phase"]:
            apart = abs(a["log_z"] - b["log_z"]) / np.hypot(a["se"], b["se"])
            (of_seeds if a["method"] == b["method"] else of_methods).append((apart, a, b))
    for what, pairs in (("seeds", of_seeds), ("methods", of_methods)):
        far = [f"{a['key']} {a['method']} {a['seed']}, {b['method']} {b['seed']}: {apart:.1f}"
               for apart, a, b in pairs if apart > MAX_DISTANCE]  # fmt: skip
        yield (f"Pairs of {what} more than {MAX_DISTANCE:g} errors apart: {len(far)} of "
               f"{len(pairs)}. {'; '.join(far)}")  # fmt: skip
    for number in (1, 2):
        exact = Data(number).exact()
        errors = [(row["log_z"] - exact) / row["se"] for row in known
                  if row["key"][0] == str(number) and row["key"][2] == "0"]  # fmt: skip
        yield (f"Set {number} without planets: exact {exact:.3f}, largest error "
               f"{max(map(abs, errors), default=np.nan):.1f} of those reported.")  # fmt: skip
    ended = [f"{r['key']} {r['method']} {r['seed']}: {said(r)}" for r in rows if r not in known]
    yield f"Without log Z: {len(ended)} of {len(rows)}. {'; '.join(ended)}"


def report(rows):
    """Print both tables, the first once more as Markdown, and what they come to."""
    teams, main = submitted(), []
    for key in KEYS:
        own = [row for row in rows if (row["key"], row["method"]) == (key, PT)]
        for phase in dict.fromkeys(row["phase"] for row in own):
            cells = line(key, [row for row in own if row["phase"] == phase], teams)
            main.append([key if phase == "longitude" else f"{key}, {phase}", *cells[1:]])
    table("log Z of the EPRV3 challenge, nats", COLUMNS, main)
    console.print(markdown(COLUMNS, main), soft_wrap=True, markup=False)
    columns = ["problem", "method", "seed", "log Z", "10^3 gradients", "CPU s", "warnings"]
    others = [
        [r["key"], r["method"], r["seed"], said(r), middle([r], "gradients", 1e3),
         middle([r], "seconds"), warned([r])] for r in rows if r["method"] != PT
    ]  # fmt: skip
    if others:
        console.print(markdown(columns, others), soft_wrap=True, markup=False)
    for sentence in closing(rows):
        console.print(sentence, soft_wrap=True, markup=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(KEYS), help="problems, separated by commas")
    parser.add_argument("--methods", default=PT)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--phase", default="longitude", choices=("longitude", "anomaly"))
    parser.add_argument("--limit", type=float, default=120.0, help="CPU seconds of a run")
    parser.add_argument("--max-gradients", type=float, default=2e6)
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--search", action="store_true", help="searches alone, in this process")
    parser.add_argument("--table-only", action="store_true", help="make no runs")
    args = parser.parse_args()
    if not FOLDER.exists():
        console.print(ABSENT)
        return
    if unknown := sorted(set(args.only.split(",")) - set(KEYS)):
        parser.error(f"unknown problems {unknown}; there are {KEYS}")
    if args.search:
        searches(args.only.split(","), [int(seed) for seed in args.seeds.split(",")])
        return
    runs = [
        {"key": key, "phase": args.phase, "method": method, "seed": int(seed)}
        for key in args.only.split(",")
        for method in args.methods.split(",")
        for seed in args.seeds.split(",")
    ]
    if not args.table_only:
        study(runs, {"max_gradients": int(args.max_gradients)}, args.limit, args.record)
    report(read(args.record))


if __name__ == "__main__":
    main()
