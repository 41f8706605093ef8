"""Which problems became slower or less accurate between two files of `bench.py`.

Gradients of a seed are the same in every run of the same code, so any growth is real; CPU seconds
vary with the machine's load; the RMSE of n seeds varies by chance, and what F with n and n degrees
of freedom gives less than once in a thousand is marked. Exits with status 1 if anything is marked.

    python benchmarks/compare_runs.py out/bench/OLD.json out/bench/NEW.json
"""

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from scipy import stats

MORE_GRADIENTS = 1.02
MORE_SECONDS = 1.25
CHANCE = 1e-3


def growth(new, old):
    return new / old if old > 0 else float("inf") if new > 0 else 1.0


def worse(old, new):
    """What of a case grew beyond its limit, as names of columns."""
    limits = {
        "gradients": MORE_GRADIENTS,
        "seconds": MORE_SECONDS,
        "rmse": float(stats.f.isf(CHANCE, len(new["runs"]), len(old["runs"]))) ** 0.5,
    }
    return [name for name, limit in limits.items() if growth(new[name], old[name]) > limit]


def pairs(old, new):
    """Cases that both runs have, by name; SystemExit if there are none or methods differ."""
    if old["method"] != new["method"]:
        raise SystemExit(f"Methods differ: {old['method']} and {new['method']}.")
    before = {case["case"]: case for case in old["cases"]}
    both = {c["case"]: (before[c["case"]], c) for c in new["cases"] if c["case"] in before}
    if not both:
        raise SystemExit("The two runs have no case in common.")
    return both


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    given = parser.parse_args(arguments)
    old, new = (json.loads(path.read_text()) for path in (given.old, given.new))
    table = Table(title=f"{new['commit']} relative to {old['commit']}")
    for column in ("case", "gradients", "CPU seconds", "RMSE", "se/RMSE", "worse"):
        table.add_column(column, justify="left" if column == "case" else "right")
    any_worse = False
    for name, (before, after) in pairs(old, new).items():
        marked = worse(before, after)
        any_worse = any_worse or bool(marked)
        ratios = [f"{growth(after[k], before[k]):.2f}" for k in ("gradients", "seconds", "rmse")]
        errors = f"{before['se_ratio']:.2f} to {after['se_ratio']:.2f}"
        table.add_row(name, *ratios, errors, ", ".join(marked))
    Console().print(table)
    return int(any_worse)


if __name__ == "__main__":
    sys.exit(main())
