"""Whether five methods, which share little but the target, give the same log Z.

For every case and method: mean, RMSE and median reported error over seeds; then the matrix of z of
every pair of methods, the difference of their means over its standard error (Welch), to be compared
with the two-sided 0.1 % quantile of Student's t at Welch's degrees of freedom. By default short
runs of the cheap cases with 3 seeds; ``--full`` takes the package's defaults, all cases, 10 seeds.

    python benchmarks/agreement.py --cases bimodal_gmm,bmr_0 --methods pt,hais --seeds 5

The last table is what ``method="auto"`` rests on: CPU seconds that each method would need for an
error of 0.1 nats, from its own RMSE and seconds, since the error falls with the root of the time.
"""

import argparse
import json
import time
from itertools import combinations

import numpy as np
from bench import model_and_log_z
from figures import QUIET, ROOT, cases_or_none, console, rmse, table
from scipy import stats

import pymc_tempering as pm_temper

METHODS = ("pt", "gibbs_ct", "st", "hais", "joint_ct")
CHEAP = ("bimodal_gmm", "hard_edge", "conjugate_regression", "label_switching")
ALL = (*CHEAP, "bimodal_gmm_30", "linear_gaussian", *(f"bmr_{i}" for i in range(5)), "radon",
       "poe_student", "poe_laplace")  # fmt: skip
RATE = 1e-3
SE_RANGE = (0.7, 1.5)


def estimate(model, method, seed, options):
    options = dict(options)
    if method == "joint_ct" and "draws" in options:
        # a draw of NUTS is one transition, not a block of scans
        options["draws"] *= 20
    if method == "hais" and "draws" in options:
        options["draws"] *= 2
    return pm_temper.estimate_logz(model, method=method, random_seed=seed, **QUIET, **options)


def se_range(n):
    """Where the ratio of a perfect error to the RMSE of n runs lies, 99 % of the time."""
    low, high = stats.chi2.ppf([0.005, 0.995], n) / n
    return 1 / np.sqrt(high), 1 / np.sqrt(low)


def welch(a, b):
    """Difference of two means over its standard error, and the degrees of freedom."""
    parts = np.array([a.var(ddof=1) / a.size, b.var(ddof=1) / b.size])
    df = parts.sum() ** 2 / np.sum(parts**2 / np.array([a.size - 1, b.size - 1]))
    return (a.mean() - b.mean()) / np.sqrt(parts.sum()), df


def measure(cases, name, methods, n_seeds, options):
    """Estimates and reported errors of every method, each of shape (n_seeds,)."""
    model, exact = model_and_log_z(name, cases)
    runs = {}
    for method in methods:
        # what is compiled is no part of a run
        estimate(model, method, 0, {"draws": 2, "tune": 2, "chains": 1})
        started = time.process_time()
        try:
            results = [estimate(model, method, seed, options) for seed in range(n_seeds)]
        except Exception as error:  # noqa: BLE001  a method that fails must not hide the others
            console.print(f"{method} failed on {name}: {type(error).__name__}: {error}")
            continue
        runs[method] = {
            "log_z": np.array([r.log_z for r in results]),
            "se": np.array([r.se for r in results]),
            "warned": sum(bool(r.warnings) for r in results),
            "seconds": (time.process_time() - started) / n_seeds,
        }
        console.print(f"{name} {method}: {runs[method]['seconds']:.1f} s a run")
    return exact, runs


def report(name, exact, runs):
    rows = []
    for method, run in runs.items():
        error = run["log_z"] - exact
        own, df = error.mean() / (error.std(ddof=1) / np.sqrt(error.size)), error.size - 1
        far = "*" if abs(own) > stats.t.isf(RATE / 2, df) else ""
        rows.append(
            [method, f"{error.mean():+.4f}", f"{rmse(error):.4f}", f"{np.median(run['se']):.4f}",
             f"{np.median(run['se']) / rmse(error):.2f}", f"{own:+.1f}{far}", run["warned"],
             f"{run['seconds']:.1f}"]
        )  # fmt: skip
    table(
        f"{name}: exact log Z {exact:.4f}",
        ["method", "bias", "RMSE", "median se", "se/RMSE", "t against exact", "warned", "seconds"],
        rows,
    )
    pairs = {}
    for a, b in combinations(runs, 2):
        z, df = welch(runs[a]["log_z"], runs[b]["log_z"])
        pairs[a, b] = (float(z), float(stats.t.isf(RATE / 2, df)))
    names = list(runs)
    cells = []
    for a in names:
        row = [a]
        for b in names:
            z, bound = pairs.get((a, b), (np.nan, np.nan))
            mark = "*" if abs(z) > bound else ""
            row.append("" if np.isnan(z) else f"{z:+.1f} ({bound:.0f}){mark}")
        cells.append(row)
    table(f"{name}: z of pairs (0.1 % bound)", ["", *names], cells)
    return pairs


def cost(stored):
    """CPU seconds of each method for an RMSE of 0.1 nats, by case; the cheapest is marked."""
    methods = [m for m in METHODS if any(m in case for case in stored.values())]
    rows, wins = [], dict.fromkeys(methods, 0)
    for name, case in stored.items():
        seconds = {
            m: case[m]["seconds"] * (rmse(np.array(case[m]["log_z"]) - case["exact"]) / 0.1) ** 2
            for m in methods
            if m in case
        }
        best = min(seconds, key=seconds.get)
        wins[best] += 1
        rows.append([name, *(f"{seconds[m]:.2f}{'*' if m == best else ''}" if m in seconds else ""
                             for m in methods)])  # fmt: skip
    table("CPU seconds for an RMSE of 0.1 nats (* the cheapest)", ["case", *methods], rows)
    console.print(
        f"cheapest: {', '.join(f'{m} {n}' for m, n in wins.items())} of {len(stored)} cases"
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--cases", default=None)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--seeds", type=int, default=None)
    parser.add_argument("--chains", type=int, default=None, help="2, or with --full 4")
    arguments = parser.parse_args()
    cases = cases_or_none()
    if cases is None:
        return
    n_seeds = arguments.seeds or (10 if arguments.full else 3)
    options = {} if arguments.full else {"draws": 80, "chains": 2}
    if arguments.chains:
        options["chains"] = arguments.chains
    names = arguments.cases.split(",") if arguments.cases else ALL if arguments.full else CHEAP
    exceeding, n_pairs, ratios, stored = [], 0, {}, {}
    path = ROOT / "out" / "agreement.json"
    path.parent.mkdir(exist_ok=True)
    for name in names:
        exact, runs = measure(cases, name, arguments.methods.split(","), n_seeds, options)
        pairs = report(name, exact, runs)
        n_pairs += len(pairs)
        exceeding += [f"{name} {a}-{b} {z:+.1f} ({bound:.1f})" for (a, b), (z, bound)
                      in pairs.items() if abs(z) > bound]  # fmt: skip
        ratios |= {
            f"{name} {m}": float(np.median(r["se"]) / rmse(r["log_z"] - exact))
            for m, r in runs.items()
        }
        stored[name] = {"exact": exact} | {
            m: {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in r.items()}
            for m, r in runs.items()
        }
        # after every case: a study of hours may be cut off
        path.write_text(json.dumps(stored, indent=1))
    expected = RATE * n_pairs
    good = stats.poisson.sf(len(exceeding) - 1, expected) > 1e-3 if exceeding else True
    console.print(
        f"pairs beyond the 0.1 % bound: {len(exceeding)} of {n_pairs}, expected {expected:.2f}: "
        f"{'came out' if good else 'DID NOT come out'} {'; '.join(exceeding)}"
    )
    if len(arguments.methods.split(",")) > 1:
        cost(stored)
    low, high = se_range(n_seeds)
    outside = [f"{k} {v:.2f}" for k, v in ratios.items() if not SE_RANGE[0] <= v <= SE_RANGE[1]]
    console.print(
        f"median se / RMSE within {SE_RANGE[0]} to {SE_RANGE[1]}: {len(ratios) - len(outside)} of "
        f"{len(ratios)} (a perfect error gives {low:.2f} to {high:.2f} in 99 % of studies with "
        f"{n_seeds} seeds); outside: {', '.join(outside) or 'none'}"
    )
    console.print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
