"""Accuracy and cost of log Z on problems with exact answers.

For every case: error of log Z over seeds, the median reported error, seconds for base, tuning and
sampling, gradient evaluations, and the measure of the design, seconds x (RMSE / 0.1)^2: the time
to reach an error of 0.1 nats. CPU seconds of one process, after compilation.
Prints the README's table and writes out/bench/COMMIT.json, which `compare_runs.py` compares with
that of another commit. By default the targets of `pymc_tempering.testing`, which every checkout
has; larger reference problems by name, where they lie beside it.

    python benchmarks/bench.py
    python benchmarks/bench.py --cases bimodal_gmm,radon --seeds 10 --method pt
"""

import argparse
import importlib.util
import json
import logging
import platform
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from tailed import TAILED

import pymc_tempering as pm_temper
from pymc_tempering.testing import TARGETS

CASES_FILE = Path(__file__).resolve().parents[2] / "shared" / "cases" / "cases.py"
ACCURACY = {
    "bimodal_gmm": 0.05,
    "linear_gaussian": 0.05,
    "conjugate_regression": 0.05,
    "label_switching": 0.05,
    **{f"bmr_{i}": 0.15 for i in range(5)},
    "radon": 0.25,
}
ROOT = Path(__file__).resolve().parents[1]


def load_cases():
    if not CASES_FILE.exists():
        return None
    spec = importlib.util.spec_from_file_location("cases", CASES_FILE)
    module = importlib.util.module_from_spec(spec)
    sys.modules["cases"] = module
    spec.loader.exec_module(module)
    return module.CASES


def model_and_log_z(name, cases):
    """Model and exact log Z of a target of the package, or of a reference problem."""
    if name in TARGETS:
        target = TARGETS[name]()
        return target.model(), target.log_z
    if name in TAILED:
        return TAILED[name]()
    if cases is None or name not in cases:
        raise SystemExit(f"{name!r} is no target of this checkout: {sorted(TARGETS)}.")
    case = cases[name]()
    return case.model, case.log_z


def commit():
    """Short name of the checked-out commit, with "-changed" where files differ from it."""
    git = ("git", "-C", str(ROOT))
    try:
        name = subprocess.check_output([*git, "rev-parse", "--short=12", "HEAD"], text=True).strip()
        changes = subprocess.check_output([*git, "status", "--porcelain", "-uno"], text=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{name}-changed" if changes else name


def run_case(model, log_z, method, seeds, options):
    """Errors, reported errors, seconds and gradients of repeated runs of one case."""
    warm = dict(options, draws=2, tune=2, chains=1)
    pm_temper.estimate_logz(model, method=method, random_seed=0, **warm)
    rows = []
    for seed in range(seeds):
        started = time.process_time()
        estimate = pm_temper.estimate_logz(model, method=method, random_seed=seed, **options)
        seconds = time.process_time() - started
        stats = estimate.idata["sample_stats"].dataset
        rows.append(
            {
                "seed": seed,
                "error": estimate.log_z - log_z,
                "se": estimate.se,
                "df": estimate.df,
                "seconds": seconds,
                "sampling_seconds": float(estimate.idata["posterior"].attrs["sampling_time"]),
                "n_gradients": int(stats["n_gradients"].sum()),
                "covered": bool(estimate.interval()[0] <= log_z <= estimate.interval()[1]),
                "warnings": [warning.code for warning in estimate.warnings],
            }
        )
    return rows


def dimensions(model):
    return sum(int(np.size(v)) for v in model.initial_point().values())


def markdown_row(s):
    return (
        f"| `{s['case']}` | {s['dimensions']} | {s['rmse']:.4f} | {s['se_ratio']:.2f} | "
        f"{s['seconds']:.1f} |"
    )


def markdown(results):
    """Table of the README."""
    lines = [
        "| problem | dimensions | RMSE of log Z (nats) | median reported error / RMSE | CPU s |",
        "|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *map(markdown_row, results)])


def summarise(name, rows):
    error = np.array([row["error"] for row in rows])
    rmse = float(np.sqrt(np.mean(error**2)))
    seconds = float(np.median([row["seconds"] for row in rows]))
    se = float(np.median([row["se"] for row in rows]))
    return {
        "case": name,
        "rmse": rmse,
        "bias": float(error.mean()),
        "median_se": se,
        "se_ratio": se / rmse,
        "coverage": float(np.mean([row["covered"] for row in rows])),
        "seconds": seconds,
        "gradients": int(np.median([row["n_gradients"] for row in rows])),
        "measure": seconds * (rmse / 0.1) ** 2,
        "target_rmse": ACCURACY.get(name),
        "n_warned": sum(bool(row["warnings"]) for row in rows),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=",".join(TARGETS))
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--method", default="pt")
    parser.add_argument("--draws", type=int, default=None)
    parser.add_argument("--tune", type=int, default=None)
    parser.add_argument("--chains", type=int, default=None)
    parser.add_argument("--output", help="default: out/bench/COMMIT.json")
    arguments = parser.parse_args()
    console = Console(width=150)
    cases = load_cases()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    options = {"cores": 1, "progressbar": False, "quiet": True, "compute_convergence_checks": False}
    for name in ("draws", "tune", "chains"):
        if getattr(arguments, name) is not None:
            options[name] = getattr(arguments, name)
    table = Table(title=f"log Z by {arguments.method}, {arguments.seeds} seeds, one core")
    columns = ["case", "RMSE", "target", "bias", "median se", "se/RMSE", "coverage", "seconds",
               "gradients", "s x (RMSE/0.1)^2", "warned"]  # fmt: skip
    for column in columns:
        table.add_column(column, justify="left" if column == "case" else "right")
    results = []
    for name in arguments.cases.split(","):
        model, log_z = model_and_log_z(name, cases)
        rows = run_case(model, log_z, arguments.method, arguments.seeds, options)
        s = summarise(name, rows) | {"dimensions": dimensions(model)}
        results.append(s | {"runs": rows})
        target = "" if s["target_rmse"] is None else f"{s['target_rmse']:.2f}"
        table.add_row(
            name, f"{s['rmse']:.4f}", target, f"{s['bias']:+.4f}", f"{s['median_se']:.4f}",
            f"{s['se_ratio']:.2f}", f"{s['coverage']:.2f}", f"{s['seconds']:.2f}",
            f"{s['gradients']:,}", f"{s['measure']:.3f}", str(s["n_warned"]),
        )  # fmt: skip
        console.print(markdown_row(s), highlight=False, markup=False, soft_wrap=True)
    console.print(table)
    console.print(markdown(results), highlight=False, markup=False, soft_wrap=True)
    path = Path(arguments.output or ROOT / "out" / "bench" / f"{commit()}.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {
        "commit": commit(), "method": arguments.method, "machine": platform.machine(),
        "python": platform.python_version(), "cases": results,
    }  # fmt: skip
    path.write_text(json.dumps(record, indent=1))
    console.print(f"written to {path}", highlight=False)


if __name__ == "__main__":
    main()
