"""How often the search for modes finds a narrow mode beside a wide one: where its boundary is.

Two modes of equal mass, the search started in the wide one, whose standard deviation is 1; there is
no prior. They are apart in one coordinate or in a random direction, and the wide one is a Gaussian
or, so that nothing can be divided out, a product of logistic densities.

    python benchmarks/mode_search.py --against out/mode_search_before.json
    python benchmarks/mode_search.py --efforts equal,default,thorough --searches 50
    python benchmarks/mode_search.py --efforts default --dimensions 2,3,4,6 --ratios 0.2,0.1
    python benchmarks/mode_search.py --beside     # a narrow mode beside one that is not the first

Shares of searches that find both modes go to ``--record``; one of another version, made by this
script on that version's package, is printed and drawn beside it.
"""

import argparse
import functools
import json
import math
import time
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import numba
import numpy as np
from figures import SHORT_FOLDER, console, pyplot, save, table

from pymc_tempering.references import sources
from pymc_tempering.references.search import SEARCHES, Effort, find_modes
from pymc_tempering.testing import compiled

DIMENSIONS, RATIOS, DISTANCES = (4, 8, 16, 32), (0.6, 0.4, 0.2), (6.0,)
KINDS = ("one coordinate", "random direction", "random direction, logistic")
BESIDE = ((2, 4.0, 0.02), (4, 4.5, 0.25), (4, 4.0, 0.15), (4, 3.5, 0.12), (6, 4.5, 0.3),
          (8, 5.0, 0.4))  # fmt: skip
"""Dimensions, and distance and width of the narrow mode."""
EQUAL = Effort(1_000_000, 20_000)
"""Gradients with which versions are compared."""


@functools.cache
def problem(kind, dim, ratio, distance):
    """Density, and the centres of both modes."""
    centre = np.zeros(dim)
    centre[0] = 1.0
    if kind != "one coordinate":
        centre = np.random.default_rng(dim).normal(size=dim)
    centre *= distance / np.linalg.norm(centre)
    logistic = kind.endswith("logistic")
    # of a logistic density of standard deviation 1
    scale = math.sqrt(3.0) / math.pi
    constant = dim * (0.5 * math.log(2.0 * math.pi) - math.log(scale)) if logistic else 0.0
    higher = -dim * math.log(ratio)

    @numba.cfunc("float64(CPointer(float64), CPointer(float64))")
    def density(z_pointer, grad_pointer):
        z, grad = numba.carray(z_pointer, dim), numba.carray(grad_pointer, dim)
        wide, narrow = constant, higher
        for i in range(dim):
            if logistic:
                away = abs(z[i]) / scale
                wide -= away + 2.0 * math.log1p(math.exp(-away))
            else:
                wide -= 0.5 * z[i] ** 2
            narrow -= 0.5 * ((z[i] - centre[i]) / ratio) ** 2
        top = max(wide, narrow)
        total = top + math.log(math.exp(wide - top) + math.exp(narrow - top))
        a, b = math.exp(wide - total), math.exp(narrow - total)
        for i in range(dim):
            slope = math.tanh(0.5 * z[i] / scale) / scale if logistic else z[i]
            grad[i] = -a * slope - b * (z[i] - centre[i]) / ratio**2
        return total

    target = SimpleNamespace(address=density.address, dim=dim, kept_alive=density)
    return target, np.stack([np.zeros(dim), centre])


def searched(target, centres, effort, n_searches):
    """Shares of searches that end with both modes, and with others; gradients of one."""
    found = false = n_gradients = 0
    for seed in range(n_searches):
        result = find_modes(
            target, np.zeros(target.dim), np.random.default_rng(seed), effort=effort
        )
        distances = np.linalg.norm(result.modes[:, None] - centres, axis=2)
        found += bool((distances.min(axis=0) < 0.5).all())
        false += bool((distances.min(axis=1) > 0.5).any())
        n_gradients += result.search.n_gradients
    return found / n_searches, false / n_searches, n_gradients // n_searches


def efforts(n_searches):
    """Efforts by name, with the number of searches: fewer where each takes seconds."""
    return {
        "equal": (EQUAL, n_searches),
        "default": (SEARCHES["default"], n_searches),
        "thorough": (SEARCHES["thorough"], max(n_searches // 10, 1)),
    }


def measure(setting, effort, n_searches):
    """Row of the record for one density, without a row's name of the effort."""
    density = problem(**setting)
    started = time.process_time()
    shares = searched(*density, effort, n_searches)
    seconds = (time.process_time() - started) / n_searches
    results = dict(zip(("found", "false", "gradients"), shares, strict=True))
    return setting | results | {"searches": n_searches, "seconds": seconds}


def study(names, kinds, n_searches, record, axes):
    """Measure what the record lacks; it can be interrupted."""
    rows = json.loads(record.read_text()) if record.exists() else []
    done = {(r["effort"], r["kind"], r["distance"], r["ratio"], r["dim"]) for r in rows}
    for key in product(names, kinds, DISTANCES, *axes):
        if key in done:
            continue
        name, *values = key
        setting = dict(zip(("kind", "distance", "ratio", "dim"), values, strict=True))
        rows.append(measure(setting, *efforts(n_searches)[name]) | {"effort": name})
        record.write_text(json.dumps(rows))
    return rows


def grid(rows, effort, kind, distance, axes):
    """Shares found, shape (ratios, dimensions), in percent; nan where not measured."""
    shares = {
        (row["ratio"], row["dim"]): 100.0 * row["found"]
        for row in rows
        if (row["effort"], row["kind"], row["distance"]) == (effort, kind, distance)
    }
    ratios, dimensions = axes
    return np.array([[shares.get((r, d), np.nan) for d in dimensions] for r in ratios])


def report(columns, axes):
    """One table of all grids, which ``columns`` names: (title, rows, effort)."""
    lines = []
    for kind in KINDS:
        for distance in DISTANCES:
            grids = [grid(rows, effort, kind, distance, axes) for _, rows, effort in columns]
            for i, ratio in enumerate(axes[0]):
                for j, dim in enumerate(axes[1]):
                    shares = ["" if np.isnan(g[i, j]) else f"{g[i, j]:.0f}" for g in grids]
                    lines.append([kind, f"{distance:g}", ratio, dim, *shares])
    names = ["apart in", "distance", "ratio", "dimensions", *(title for title, _, _ in columns)]
    table("percent of searches that find both modes", names, lines)


def draw(columns, full):
    figure, axes = pyplot().subplots(
        len(KINDS), len(columns), figsize=(2.6 * len(columns) + 0.8, 2.2 * len(KINDS)),
        sharex=True, sharey=True, squeeze=False, layout="constrained",
    )  # fmt: skip
    for kind, line in zip(KINDS, axes, strict=True):
        for axis, (title, rows, effort) in zip(line, columns, strict=True):
            shares = grid(rows, effort, kind, DISTANCES[0], (RATIOS, DIMENSIONS))
            axis.imshow(shares, vmin=0.0, vmax=100.0, cmap="cividis", aspect="auto")
            for (i, j), share in np.ndenumerate(shares):
                colour = "black" if share > 50.0 else "white"
                axis.text(j, i, f"{share:.0f}", ha="center", va="center", color=colour)
            axis.set_xticks(range(len(DIMENSIONS)), DIMENSIONS)
            axis.set_yticks(range(len(RATIOS)), RATIOS)
            if axis in axes[0]:
                axis.set_title(title, fontsize=9)
            if axis in axes[-1]:
                axis.set_xlabel("dimensions")
        line[0].set_ylabel(f"{kind}\nratio of widths", fontsize=8)
    figure.suptitle(f"% of searches that find a narrow mode {DISTANCES[0]:g} away", fontsize=10)
    save(figure, "mode_search", full)


def beside(dim, distance, width):
    """Three Gaussians: a broad one, one 14 away, and a narrow one beside that; and their places."""
    places = np.zeros((3, dim))
    places[1:, 0], places[2, 1] = 14.0, distance
    sds, weights = np.array([2.5, 1.0, width]), np.array([0.4, 0.35, 0.25])
    log_constants = np.log(weights) - dim * np.log(sds) - 0.5 * dim * math.log(2.0 * math.pi)
    density = compiled.mixture(
        tuple(log_constants.tolist()), tuple(map(tuple, places)),
        tuple(tuple(map(tuple, np.eye(dim) / sd**2)) for sd in sds),
    )  # fmt: skip
    return SimpleNamespace(address=density.address, dim=dim), places


def report_beside(n_searches):
    """Print how many default searches find all of three modes, with and without starts there."""
    rows = []
    for dim, distance, width in BESIDE:
        target, places = beside(dim, distance, width)
        found = []
        for one_in in (10**9, sources.ONE_IN_NEAR):
            with patch.object(sources, "ONE_IN_NEAR", one_in):
                share, *_ = searched(target, places, SEARCHES["default"], n_searches)
            found.append(f"{100 * share:.0f}")
        rows.append([dim, distance, width, *found])
    names = ["dimensions", "distance", "width", "around the first alone", "around known modes too"]
    table("percent of default searches that find all of three modes", names, rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=20)
    parser.add_argument("--efforts", default="equal")
    parser.add_argument("--kinds", default=",".join(map(str, range(len(KINDS)))))
    parser.add_argument("--record", type=Path, default=SHORT_FOLDER / "mode_search.json")
    parser.add_argument("--against", type=Path, help="record of another version")
    parser.add_argument("--ratios", default=",".join(map(str, RATIOS)))
    parser.add_argument("--dimensions", default=",".join(map(str, DIMENSIONS)))
    parser.add_argument("--beside", action="store_true")
    args = parser.parse_args()
    if args.beside:
        report_beside(args.searches)
        return
    axes = [float(r) for r in args.ratios.split(",")], [int(d) for d in args.dimensions.split(",")]
    args.record.parent.mkdir(parents=True, exist_ok=True)
    kinds = [KINDS[int(i)] for i in args.kinds.split(",")]
    rows = study(args.efforts.split(","), kinds, args.searches, args.record, axes)
    thousands = {name: effort.n_gradients // 1000 for name, (effort, _) in efforts(1).items()}
    columns = [
        (f"{thousands['equal']}k", rows, "equal"),
        (f"default, {thousands['default']}k", rows, "default"),
        (f"thorough, {thousands['thorough']}k", rows, "thorough"),
    ]
    if args.against is not None:
        before = json.loads(args.against.read_text())
        columns = [(f"before, {columns[0][0]}", before, "equal"), *columns]
    columns = [column for column in columns if any(row["effort"] == column[2] for row in column[1])]
    report(columns, axes)
    console.print(f"searches with a false mode: {max(row['false'] for row in rows):.0%} at most")
    if axes == ([*RATIOS], [*DIMENSIONS]):
        draw(columns, full=args.searches >= 20 and args.against is not None)


if __name__ == "__main__":
    main()
