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
from pathlib import Path

from own_process import Limit, study
from peers import read
from real_models import REAL
from real_runs import EXACT, LONG, MAP, NUTPIE, OURS, ROLES

RECORD = Path(__file__).resolve().parents[1] / "out" / "real_size.jsonl"


_TOGETHER = ((EXACT,), (MAP, OURS), (NUTPIE,), (LONG,))
"""Roles that share a process, since they compile the same."""


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
        roles = args.roles.split(",")
        tasks = [
            (name, [role for role in together if role in roles])
            for name in names for together in _TOGETHER
        ]  # fmt: skip
        limit = Limit(args.limit, of_cpu=True)
        study("real_runs", tasks, limit, args.jobs, args.record, ["real_runs", "nutpie"])
    from real_tables import report

    report([row for row in read(args.record) if row["name"] in names])


if __name__ == "__main__":
    main()
