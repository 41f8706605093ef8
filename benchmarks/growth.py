"""How the cost of log Z grows with dimension: gradients and CPU seconds to an error of 0.1 nats.

    make growth
    python benchmarks/growth.py --targets unequal --dims 10,30,100 --seeds 10

Normalised targets without a prior: a Gaussian whose neighbours are correlated by 0.9; two modes of
equal weight, six apart, of standard deviation 1; the same with 1 and 0.8. Default runs. Gradients
are those of tuning and draws, and of the search where it counts them. Exponents are slopes of
straight lines through the logarithms, without the targets that were missed: an RMSE above 0.3 nats.
Runs are written to ``--record`` one by one, and not made again.

Hierarchies by their number of groups have a table of their own (:mod:`growth_groups`): what search
and tuning take is fixed, and draws alone are scaled from the reported error to another; seconds are
also given over those of one gradient.
"""

import argparse
import json
import logging
import resource
import time
import warnings
from pathlib import Path

import growth_groups
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from figures import QUIET, SHORT_FOLDER, console, plain_log, pyplot, rmse, save, table

import pymc_tempering as pm_temper
from pymc_tempering.engine.path.path import density_at
from pymc_tempering.model.compile import compile_density
from pymc_tempering.numerics import LOG_2PI
from pymc_tempering.plots.common import BLUE, GREEN, VERMILLION
from pymc_tempering.references.hierarchy import Hierarchy

DIMS = (10, 30, 100, 300, 1000)
CORRELATION, HALF_DISTANCE = 0.9, 3.0
WIDTHS = {"equal": (1.0, 1.0), "unequal": (1.0, 0.8)}
GROUPED = ("normal groups", "Poisson groups")
STYLES = {"correlated": (BLUE, "o"), "equal": (GREEN, "s"), "unequal": (VERMILLION, "^")}
MISSED = 0.3


def target(name, dim):
    """Model of which log Z is 0."""
    with pm.Model() as model:
        x = pm.Flat("x", shape=dim)
        pm.Potential("target", _log_density(name, x, dim))
    return model


def correlated(x, dim, correlation):
    """Normalised log density of a Gaussian whose neighbours are correlated."""
    left = 1.0 - correlation**2
    steps = ((x[1:] - correlation * x[:-1]) ** 2).sum() / left
    return -0.5 * (x[0] ** 2 + steps + (dim - 1) * np.log(left) + dim * LOG_2PI)


def _log_density(name, x, dim):
    if name == "correlated":
        return correlated(x, dim, CORRELATION)
    rest = (x[1:] ** 2).sum()
    modes = [
        -0.5 * (((x[0] - centre) ** 2 + rest) / sd**2 + dim * (LOG_2PI + 2.0 * np.log(sd)))
        for centre, sd in zip((-HALF_DISTANCE, HALF_DISTANCE), WIDTHS[name], strict=True)
    ]
    return pt.logaddexp(*modes) - np.log(2.0)


def run(name, dim, seeds):
    """Rows of default runs; a short run before the first compiles."""
    grouped = name in GROUPED
    model = growth_groups.model_of(name, dim) if grouped else target(name, dim)
    exact = growth_groups.log_z(name, dim) if grouped else 0.0
    cost = {"seconds of a gradient": seconds_of_gradient(model)} if grouped else {}
    cost |= of_map(model) if grouped else {}
    warm = {"draws": 2, "tune": 2, "chains": 1}
    pm_temper.estimate_logz(model, random_seed=0, **warm, **QUIET)
    for seed in seeds:
        started = time.process_time()
        estimate = pm_temper.estimate_logz(model, random_seed=seed, **QUIET)
        groups = [
            g for g in ("sample_stats", "warmup_sample_stats") if g in estimate.idata.children
        ]
        yield {
            "target": name, "dim": dim, "seed": seed, "error": float(estimate.log_z) - exact,
            "se": float(estimate.se), "warnings": [w.code for w in estimate.warnings],
            "seconds": time.process_time() - started,
            "gradients": sum(int(estimate.idata[g]["n_gradients"].sum()) for g in groups),
            "parts": dict(estimate.gradients),
            "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0,
        } | cost  # fmt: skip


def seconds_of_gradient(model):
    """CPU seconds of one gradient of the density as it is compiled, the least of five times 200."""
    density, took = compile_density(model), []
    z = np.repeat(density.start[None], 200, axis=0)
    for _ in range(6):
        started = time.process_time()
        density_at(density.address, z)
        took.append((time.process_time() - started) / len(z))
    # the first call may compile
    return min(took[1:])


def of_map(model):
    """V of a hierarchy's map, and its gradients; nothing where no map is used."""
    found, n_gradients = Hierarchy.of(compile_density(model))
    return {"map": n_gradients} | ({} if found is None else {"variance": float(found.variance)})


def study(targets, dims, n_seeds, record):
    """Make the runs that the record lacks, small ones first."""
    record.parent.mkdir(parents=True, exist_ok=True)
    done = {(row["target"], row["dim"], row["seed"]) for row in read(record)}
    for dim in dims:
        for name in targets:
            seeds = [seed for seed in range(n_seeds) if (name, dim, seed) not in done]
            if not seeds:
                continue
            for row in run(name, dim, seeds):
                with record.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                console.print(f"{name}, {dim}, seed {row['seed']}: {row['error']:+.3f}")


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def summarise(rows):
    """Figures of one target in one dimension."""
    error = float(rmse([row["error"] for row in rows]))
    middle = {
        key: float(np.median([row[key] for row in rows])) for key in ("gradients", "seconds", "se")
    }
    factor = (error / 0.1) ** 2
    return middle | {
        "runs": len(rows),
        "rmse": error,
        "gradients to 0.1": middle["gradients"] * factor,
        "seconds to 0.1": middle["seconds"] * factor,
        "megabytes": max(row["megabytes"] for row in rows),
        "warned": sum(bool(row["warnings"]) for row in rows),
    }


def exponent(dims, costs):
    """Slope of the straight line through logarithms, with its standard error; nan below three."""
    if len(dims) < 3:
        return np.nan, np.nan
    (slope, _), covariance = np.polyfit(np.log(dims), np.log(costs), 1, cov="unscaled")
    residual = np.log(costs) - np.polyval(np.polyfit(np.log(dims), np.log(costs), 1), np.log(dims))
    variance = (residual**2).sum() / (len(dims) - 2)
    return float(slope), float(np.sqrt(variance * covariance[0, 0]))


def _with_error(slope):
    return f"{slope[0]:.2f} +- {slope[1]:.2f}" if np.isfinite(slope[0]) else ""


def report_groups(rows):
    """Print what hierarchies take, and how that grows with the number of groups."""
    lines, costs = [], {}
    for name, n in sorted({(row["target"], row["dim"]) for row in rows}):
        own = [row for row in rows if (row["target"], row["dim"]) == (name, n)]
        error, se = (float(rmse([row[key] for row in own])) for key in ("error", "se"))
        search, tuning, draws = (
            np.median([row["parts"].get(part, 0) for row in own])
            for part in ("search", "tuning", "draws")
        )
        seconds = np.median([row["seconds"] for row in own])
        unit = np.median([row["seconds of a gradient"] for row in own])
        to = [search + tuning + draws * (se / wanted) ** 2 for wanted in (0.1, 0.01)]
        costs.setdefault(name, {})[n] = (*to, search, seconds, seconds / unit)
        lines.append([
            name, n, len(own),
            f"{own[0]['variance']:.4f}" if "variance" in own[0] else "no map", f"{error:.4f}",
            f"{se:.4f}", f"{own[0]['map'] / 1e3:.1f}",
            *(f"{part / 1e3:.1f}" for part in (search, tuning, draws, *to)), f"{seconds:.1f}",
            f"{1e6 * unit:.1f}", f"{seconds / unit / 1e3:.0f}",
            sum(bool(row["warnings"]) for row in own),
        ])  # fmt: skip
    columns = ["target", "groups", "runs", "V", "RMSE", "se", "map", "search", "tuning", "draws"]
    columns += ["to 0.1", "to 0.01", "CPU s", "us each", "10^3 of these", "warned"]
    table("hierarchies, gradients in thousands", columns, lines)
    rows = [
        [name, *(_with_error(exponent(list(by), of)) for of in zip(*by.values(), strict=True))]
        for name, by in costs.items()
    ]
    columns = ["target", "gradients to 0.1", "to 0.01", "search", "seconds", "over a gradient's"]
    table("exponents of the number of groups", columns, rows)


COLUMNS = ["target", "D", "runs", "RMSE", "se", "10^3 gradients", "10^3 gradients to 0.1",
           "CPU s", "CPU s to 0.1", "MB so far", "warned"]  # fmt: skip
COSTS = ("gradients", "gradients to 0.1", "seconds", "seconds to 0.1")


def report(rows, full):
    """Print table and exponents, and draw the costs."""
    groups = {}
    for row in rows:
        groups.setdefault(row["target"], {}).setdefault(row["dim"], []).append(row)
    found = {name: {dim: summarise(own) for dim, own in sorted(by.items())}
             for name, by in groups.items()}  # fmt: skip
    lines = [
        [name, dim, s["runs"], f"{s['rmse']:.4f}", f"{s['se']:.4f}", f"{s['gradients'] / 1e3:.1f}",
         f"{s['gradients to 0.1'] / 1e3:.3g}", f"{s['seconds']:.1f}", f"{s['seconds to 0.1']:.2g}",
         f"{s['megabytes']:.0f}", s["warned"]]
        for name, by in found.items() for dim, s in by.items()
    ]  # fmt: skip
    table("default runs by dimension", COLUMNS, lines)
    exponents = []
    for name, by in found.items():
        count_starts = {dim: s for dim, s in by.items() if s["rmse"] <= MISSED}
        slopes = [
            exponent(list(count_starts), [s[cost] for s in count_starts.values()]) for cost in COSTS
        ]
        span = f"{min(count_starts)} to {max(count_starts)}" if count_starts else ""
        exponents.append([name, span, *map(_with_error, slopes)])
    table("exponents of D", ["target", "D", *COSTS], exponents)
    draw(found, full)


def draw(found, full):
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    labels = {"correlated": "correlated Gaussian", "equal": "two modes, equal",
              "unequal": "two modes, widths 1 and 0.8"}  # fmt: skip
    for axis, cost in zip(axes, ("gradients to 0.1", "seconds to 0.1"), strict=True):
        for name, by in found.items():
            colour, marker = STYLES[name]
            costs = [s[cost] for s in by.values()]
            axis.plot(list(by), costs, color=colour, marker=marker, label=labels[name])
            missed = [(dim, s[cost]) for dim, s in by.items() if s["rmse"] > MISSED]
            if missed:
                axis.plot(*zip(*missed, strict=True), "x", color=colour, ms=12)
        plain_log(axis, subs=(1.0, 3.0) if cost.startswith("s") else (1.0,))
        axis.set(xlabel="dimensions", ylabel=cost.replace("to 0.1", "to an RMSE of 0.1 nats"))
    axes[0].plot([], [], "x", color="0.3", ms=12, label="RMSE above 0.3 nats")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside upper center", ncols=4,
                  frameon=False)  # fmt: skip
    save(figure, "growth", full)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--targets", default=",".join((*STYLES, *GROUPED)))
    parser.add_argument("--dims", default=",".join(map(str, DIMS)))
    parser.add_argument("--groups", default=",".join(map(str, growth_groups.GROUPS)))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--record", type=Path, default=SHORT_FOLDER / "growth.jsonl")
    parser.add_argument("--publish", action="store_true", help="draw into the documentation")
    args = parser.parse_args()
    names, dims = args.targets.split(","), [int(dim) for dim in args.dims.split(",")]
    if unknown := sorted(set(names) - {*STYLES, *GROUPED}):
        parser.error(f"unknown targets {unknown}; there are {[*STYLES, *GROUPED]}")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    for of, sizes, show in (
        (STYLES, dims, lambda rows: report(rows, args.publish)),
        (GROUPED, [int(n) for n in args.groups.split(",")], report_groups),
    ):
        asked = [name for name in names if name in of]
        study(asked, sizes, args.seeds, args.record)
        rows = [row for row in read(args.record) if row["target"] in asked and row["dim"] in sizes]
        if rows:
            show(rows)


if __name__ == "__main__":
    main()
