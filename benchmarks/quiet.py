"""Whether good runs stay quiet: default runs of easy cases, and what they were warned of.

    python benchmarks/quiet.py --seeds 30 --jobs 2
    python benchmarks/quiet.py --tails --seeds 8

A run is wrong where log Z is more than 4 of its errors off. The aim: at most 3 % of 300 runs carry
any warning. Runs are kept in ``--record``, which ``calibration.py`` goes on with. With ``--tails``
of models with tails like a power or nearly (``tailed.py``): each run's error in units of its own,
and what those are, as their root mean square, of the runs with each warning. About one, and it
tells nothing; runs are good up to 3.
"""

import argparse
from collections import Counter
from pathlib import Path

import numpy as np
from figures import SHORT_FOLDER, cases_or_none, console, rmse, table
from repeats import key, read, study
from tailed import TAILED

MOST_WARNED = 0.03
MAX_DISTANCE = 4.0
GOOD = 3.0

OWN = ("asymmetric_bimodal", "banana", "correlated_gaussian", "hard_edge_gaussian",
       "scaled_normal", "skewed_gamma", "trimodal_1d")  # fmt: skip
SHARED = ("bimodal_gmm", "linear_gaussian", "conjugate_regression", "label_switching")


def is_wrong(row):
    return not abs(row["error"]) <= MAX_DISTANCE * row["se"]


def share(rows):
    """How many of these runs are wrong, as text."""
    return f"{sum(map(is_wrong, rows))} of {len(rows)}"


def report(rows):
    lines = []
    for name in dict.fromkeys(row["case"] for row in rows):
        runs = [row for row in rows if row["case"] == name]
        warned = [row for row in runs if row["warnings"]]
        codes = Counter(code for row in runs for code in set(row["warnings"]))
        listed = ", ".join(f"{code} {n}" for code, n in codes.most_common())
        unwarned = [row for row in runs if not row["warnings"]]
        lines.append([name, len(runs), len(warned), share(warned), share(unwarned), listed])
    columns = ["", "runs", "warned", "wrong of the warned", "wrong of the others", "warnings"]
    table("default runs of easy cases", columns, lines)
    n_warned = sum(bool(row["warnings"]) for row in rows)
    verdict = "came out" if n_warned <= MOST_WARNED * len(rows) else "DID NOT come out"
    console.print(
        f"at most {MOST_WARNED:.0%} of the runs warned: {verdict} ({n_warned} of {len(rows)}, "
        f"{n_warned / len(rows):.1%})"
    )


def report_tails(rows):
    """Print each run, and for each warning how many good runs have it and what it tells."""
    z = np.array([row["error"] / row["se"] for row in rows])
    good = np.abs(z) < GOOD
    for name in dict.fromkeys(row["case"] for row in rows):
        mine = [i for i, row in enumerate(rows) if row["case"] == name]
        runs = (", ".join([f"{z[i]:.1f}", *sorted(set(rows[i]["warnings"]))]) for i in mine)
        console.print(f"{name}: {'; '.join(runs)}")
    codes = sorted({code for row in rows for code in row["warnings"]})
    lines = []
    for code in ("any", *codes, "none"):
        has = np.array([
            bool(row["warnings"]) == (code == "any") if code in ("any", "none")
            else code in row["warnings"] for row in rows
        ])  # fmt: skip
        lines.append([code, has.sum(), f"{np.sum(has & good)} ({np.mean(has[good]):.1%})",
                      np.sum(has & ~good), f"{rmse(z[has]):.2f}" if has.any() else ""])  # fmt: skip
    table(
        "warnings of models with tails", ["", "runs", "good", "others", "RMS of error / se"], lines
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", help="cases, separated by commas; default: all easy ones")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--tails", action="store_true", help="models with tails like a power")
    parser.add_argument("--record", type=Path, default=SHORT_FOLDER / "calibration.jsonl")
    arguments = parser.parse_args()
    names = OWN if cases_or_none() is None else OWN + SHARED
    if arguments.tails:
        names = tuple(TAILED)
    if arguments.names:
        names = arguments.names.split(",")
    settings = [(name, "pt", "default", 4) for name in names]
    study([(*what, arguments.seeds) for what in settings], arguments.record, arguments.jobs)
    rows = [row for row in read(arguments.record)
            if key(row) in settings and row["seed"] < arguments.seeds]  # fmt: skip
    crashed = [row for row in rows if "crashed" in row]
    for row in crashed:
        console.print(f"crashed: {row}")
    (report_tails if arguments.tails else report)([row for row in rows if "crashed" not in row])


if __name__ == "__main__":
    main()
