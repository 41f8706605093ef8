"""Up to which V and which Pareto k log Z of a data set may come from importance sampling.

    python benchmarks/many_weights.py --seeds 2 3 4 5 --n 20 --repeats 3 --runs 1

Posteriors of seventeen shapes (`many_shapes.py`), some hundred in all. From the Laplace
approximation and from the variational fit of each, log Z is estimated again and again, as
`estimate_many` does it but for its bounds: as many draws are added as the target takes, whatever V
and k are. Errors over stated errors, and what intervals cover, by V of the first draws and by k of
all. `--share`, `--wider` and `--more` are the numbers that the module has for the wide part of the
draws and for how many there are. Log Z is exact, or from 40,000 draws, which `--runs` of each shape
are compared with.
"""

import argparse
import json
import logging
import warnings
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from figures import SHORT_FOLDER, console, table
from many_shapes import shapes

import pymc_tempering as pm_temper
from pymc_tempering.model.compile import prior_points
from pymc_tempering.model.open_data import OpenDensity
from pymc_tempering.references import importance
from pymc_tempering.references.full_rank import fit_gaussian

TARGET, MOST_DRAWS = 0.02, 60_000
V_BOUNDS = (0.0, 0.05, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0)
K_BOUNDS = (-np.inf, 0.3, 0.5, 0.6, 0.7, np.inf)
LAPLACE, FIT = "Laplace", "fit"


class Weighed(NamedTuple):
    """One estimate: from which fit of which posterior, and how far it is off."""

    of: str
    posterior: int
    shape: str
    dim: int
    variance: float
    k: float
    n_draws: int
    n_fit: int
    off: float
    se: float
    off_se: float


def long_runs(shape, seed, args):
    """Log Z by runs and its errors, of the first data sets; nan where a run has warned."""
    many = pm_temper.estimate_many(
        shape.model, {"y": shape.data[: args.runs]}, quick=False, random_seed=seed,
        progressbar=False,
    )  # fmt: skip
    found = many.dataset
    log_z = np.where(found["warnings"] == "", found["log_marginal_likelihood"], np.nan)
    return log_z, found["se"].to_numpy()


def long_weights(density, base, rng):
    """Log Z and its error from 40,000 draws."""
    parts = [importance.defensive_weights(density, base, rng, 10_000)[1] for _ in range(4)]
    return importance.log_mean_weight(np.concatenate(parts))


def weighed(shape, number, seed, args):
    """Estimates of all data sets of a shape, and what runs say of log Z that is not exact."""
    density_of = OpenDensity(shape.model).refillable()
    density, rows, checked = density_of.density, [], []
    points = prior_points(density, np.random.default_rng(seed), 128)
    if shape.log_z is None and args.runs:
        checked = list(zip(*long_runs(shape, seed, args), strict=True))
    for i, y in enumerate(shape.data):
        density_of.fill({"y": y})
        mode = importance.one_mode(
            density, density.start, points, np.random.default_rng(i), 16, np.inf
        )
        if mode.base is None:
            console.print(f"{shape.name}, data set {i}: {mode.doubt}")
            continue
        exact, exact_se = (np.nan, 0.0) if shape.log_z is None else (shape.log_z[i], 0.0)
        for repeat in range(args.repeats):
            rng = np.random.default_rng([seed, number, i, repeat])
            fit, n_fit = fit_gaussian(density, mode.base, rng)
            if np.isnan(exact):
                exact, exact_se = long_weights(density, fit, rng)
            for of, base, n in ((LAPLACE, mode.base, 0), (FIT, fit, n_fit)):
                found = importance.evidence_from(
                    density, base, rng, target_se=TARGET, most_draws=MOST_DRAWS
                )
                rows.append(Weighed(
                    of, (100 * seed + number) * 1000 + i, shape.name, density.dim, found.variance,
                    found.pareto_k, found.n_gradients, n, found.log_z - exact, found.se, exact_se,
                ))  # fmt: skip
        if i < len(checked):
            checked[i] = (checked[i][0] - exact) / np.hypot(checked[i][1], exact_se)
    return rows, checked[: len(shape.data)]


def figures(rows):
    """Posteriors, estimates, draws; errors over stated ones, what intervals cover, and bias."""
    z = np.array([r.off / np.hypot(r.se, r.off_se) for r in rows])
    return [
        len({r.posterior for r in rows}), len(rows), f"{np.median([r.n_draws for r in rows]):.0f}",
        f"{np.mean([r.off for r in rows]):+.4f}", f"{np.sqrt(np.mean(z**2)):.2f}",
        f"{np.mean(np.abs(z) < 1.645):.3f}", f"{np.mean(np.abs(z) < 1.960):.3f}",
        f"{np.mean(np.abs(z) < 3.0):.3f}", f"{np.abs(z).max():.1f}",
    ]  # fmt: skip


HEAD = ["posteriors", "estimates", "draws", "mean error", "RMS z", "90 %", "95 %", "3 se",
        "largest z"]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=12, help="of each shape")
    parser.add_argument("--repeats", type=int, default=4)
    parser.add_argument("--runs", type=int, default=0, help="of them, by a run too")
    parser.add_argument("--only", default="", help="shapes anew whose names begin so")
    parser.add_argument("--table", action="store_true", help="of the last run, without another")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1], help="of shapes and data sets")
    parser.add_argument("--share", type=float, default=importance.WIDE_SHARE)
    parser.add_argument("--wider", type=float, default=importance.WIDER)
    parser.add_argument("--more", type=float, default=importance.MORE_DRAWS)
    args = parser.parse_args()
    importance.WIDE_SHARE, importance.WIDER = args.share, args.wider
    importance.MORE_DRAWS = args.more
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    importance.MOST_VARIANCE, importance.MOST_K = V_BOUNDS[-1], np.inf
    rows, checked, kept = [], [], SHORT_FOLDER / "many_weights.json"
    if args.table or (args.only and kept.exists()):
        rows = [Weighed(*row) for row in json.loads(kept.read_text())]
        rows = [r for r in rows if args.table or not r.shape.startswith(args.only)]
    chosen = [] if args.table else [
        (seed, *of) for seed in args.seeds for of in enumerate(shapes(seed, args.n))
    ]  # fmt: skip
    for seed, number, shape in chosen:
        if not shape.name.startswith(args.only):
            continue
        found, by_runs = weighed(shape, number, seed, args)
        rows += found
        checked += by_runs
        of = {k: [r for r in found if r.of == k] for k in (LAPLACE, FIT)}
        console.print(
            f"{shape.name}:",
            *(f"{k} V {np.median([r.variance for r in v]):.2f}, k"
              f" {np.median([r.k for r in v]):.2f};" for k, v in of.items() if v),
        )  # fmt: skip
        SHORT_FOLDER.mkdir(exist_ok=True)
        kept.write_text(json.dumps(rows))
    if checked:
        z = np.array(checked)[np.isfinite(checked)]
        console.print(f"{len(z)} runs less long weights: RMS {np.sqrt(np.mean(z**2)):.2f} errors")
    tables(rows)


def is_kept(row, most_k):
    """Whether `estimate_many` keeps an estimate whose k is at most so large."""
    n = importance.MOST_DRAWS
    if row.of == LAPLACE:
        n = 2 * importance.N_DRAWS + 60 * row.dim
    return row.n_draws <= n and row.k <= most_k


def by_rule(rows):
    """What `estimate_many` would keep, if its bounds were these."""
    lines = []
    for low, high in pairwise(V_BOUNDS[1:]):
        for most_k in K_BOUNDS[2:-1]:
            of_v = [r for r in rows if low <= r.variance < high]
            chosen = [r for r in of_v if r.se <= TARGET * 1.0001 and is_kept(r, most_k)]
            if chosen:
                share = f"{len(chosen) / len(of_v):.2f}"
                lines.append([f"{low:g} to {high:g}", f"{most_k:g}", share, *figures(chosen)])
    table("Kept, by V and the largest k", ["V", "k", "share", *HEAD], lines)


def tables(rows):
    within = [r for r in rows if r.se <= TARGET * 1.0001]
    lines = []
    for low, high in pairwise(V_BOUNDS):
        for of in (LAPLACE, FIT):
            chosen = [r for r in within if low <= r.variance < high and r.of == of]
            if chosen:
                lines.append([f"{low:g} to {high:g}", of, *figures(chosen)])
    table("By V of 400 draws", ["V", "of", *HEAD], lines)
    by_rule(rows)
    lines = []
    for bound in V_BOUNDS[2:]:
        for low, high in pairwise(K_BOUNDS):
            chosen = [r for r in within if low < r.k <= high and r.variance <= bound]
            if chosen:
                lines.append([f"{bound:g}", f"{low:g} to {high:g}", *figures(chosen)])
    table("By Pareto k of all draws, where V is at most", ["V", "k", *HEAD], lines)
    lines = []
    for name in dict.fromkeys(r.shape for r in rows):
        for of in (LAPLACE, FIT):
            chosen = [r for r in within if r.shape == name and r.of == of]
            if chosen:
                v, k = (np.median([getattr(r, w) for r in chosen]) for w in ("variance", "k"))
                lines.append([name, of, f"{v:.2f}", f"{k:.2f}",
                              f"{np.median([r.n_fit for r in chosen]):.0f}",
                              *figures(chosen)])  # fmt: skip
    table("By shape", ["shape", "of", "V", "k", "gradients of the fit", *HEAD], lines)


if __name__ == "__main__":
    main()
