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
from pathlib import Path

from corpus_models import CORPUS
from corpus_runs import NUTPIE, OURS, ROLES, SECOND
from own_process import Limit, study
from peers import read

RECORD = Path(__file__).resolve().parents[1] / "out" / "corpus.jsonl"
_TOGETHER = ((OURS, SECOND), (NUTPIE,))
"""Roles that share a process: a second log Z by other means needs hardly more than the model."""


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
        tasks = [
            (name, [role for role in together if role in roles])
            for together in _TOGETHER for name in names
        ]  # fmt: skip
        preload = ["corpus_runs", "corpus_second", "nutpie"]
        limit = Limit(args.limit, of_cpu=False)
        study("corpus_runs", tasks, limit, args.jobs, args.record, preload)
    from corpus_tables import report

    rows = [row for row in read(args.record) if row["name"] in names]
    report(rows, args.publish)


if __name__ == "__main__":
    main()
