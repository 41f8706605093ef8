"""Mixtures made at random, of ill-conditioned, of bent, and of heavy-tailed components.

    python benchmarks/random_mixtures.py --method st --kinds gaussian --seeds 12

Two to six components in 2 to 20 dimensions, with weights, scales, directions and distances by the
seed; log Z is 0. A run is wrong where log Z is more than four errors and 0.05 nats off, or the
share of the draws that belongs to a component by more than 0.12.
"""

import argparse
import json
import logging
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from figures import QUIET, SHORT_FOLDER, console, table
from scipy.special import gammaln, softmax

KINDS = ("gaussian", "bent", "t")
DOF = 4.0
DIMS, MOST_COMPONENTS, LEAST_WEIGHT = (2, 3, 5, 8, 12, 20), 6, 0.03
DISTANCES = (3.0, 12.0)
MOST_ERRORS, LEAST_NATS, MOST_SHARE = 4.0, 0.05, 0.12


class Mixture(NamedTuple):
    """Weights (K,), means (K, D), roots of covariances and their inverses (K, D, D), bends (K,)."""

    weights: np.ndarray
    means: np.ndarray
    roots: np.ndarray
    bends: np.ndarray
    is_heavy: bool

    def log_parts(self, x, ops):
        """Log density of each component, of NumPy's arrays or of PyTensor's."""
        dim = self.means.shape[1]
        for weight, mean, root, bend in zip(*self[:4], strict=True):
            u = ops.dot(x - mean, np.linalg.inv(root).T)
            squares = (u**2).sum(-1)
            if bend:
                mapped = u[..., 1] - bend * (u[..., 0] ** 2 - 1.0)
                squares = squares - u[..., 1] ** 2 + mapped**2
            volume = np.log(weight) - np.linalg.slogdet(root)[1]
            if self.is_heavy:
                constant = gammaln(0.5 * (DOF + dim)) - gammaln(0.5 * DOF)
                constant -= 0.5 * dim * np.log(DOF * np.pi)
                yield volume + constant - 0.5 * (DOF + dim) * ops.log1p(squares / DOF)
            else:
                yield volume - 0.5 * squares - 0.5 * dim * np.log(2.0 * np.pi)


def mixture(kind, seed):
    """The same for every method."""
    rng = np.random.default_rng([KINDS.index(kind), seed])
    n, dim = int(rng.integers(2, MOST_COMPONENTS + 1)), int(rng.choice(DIMS))
    weights = np.maximum(rng.dirichlet(np.full(n, 1.5)), LEAST_WEIGHT)
    distance = np.exp(rng.uniform(*np.log(DISTANCES)))
    means = rng.normal(size=(n, dim)) * distance * np.sqrt(min(dim, 4) / (2.0 * dim))
    spread = 1.6 if kind == "gaussian" else 0.7
    roots = [
        np.linalg.qr(rng.normal(size=(dim, dim)))[0]
        * np.exp(rng.uniform(-spread, spread, dim) + rng.uniform(-0.4, 0.4))
        for _ in range(n)
    ]
    bends = rng.uniform(0.3, 1.2, n) if kind == "bent" else np.zeros(n)
    return Mixture(weights / weights.sum(), means, np.stack(roots), bends, kind == "t")


def one_run(method, kind, seed):
    """What a default run says, as a dictionary for one line of the record."""
    import pymc_tempering as pm_temper

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    target = mixture(kind, seed)
    with pm.Model() as model:
        x = pm.Flat("x", shape=target.means.shape[1])
        pm.Potential("mixture", pt.logsumexp(pt.stack(list(target.log_parts(x, pt)))))
    started = time.process_time()
    estimate = pm_temper.estimate_logz(model, method=method, random_seed=seed, **QUIET)
    draws = estimate.idata["posterior"]["x"].values
    shares = softmax(list(target.log_parts(draws, np)), axis=0).mean(axis=(1, 2))
    return {
        "method": method,
        "kind": kind,
        "seed": seed,
        "shape": target.means.shape,
        "log_z": float(estimate.log_z),
        "se": float(estimate.se),
        "share": float(np.abs(shares - target.weights).max()),
        "warnings": [diagnostic.code for diagnostic in estimate.warnings],
        "seconds": time.process_time() - started,
    }


def is_wrong(run):
    of_log_z = abs(run["log_z"]) > max(MOST_ERRORS * run["se"], LEAST_NATS)
    return of_log_z or run["share"] > MOST_SHARE


def cells(method, kind, runs):
    wrong = [run for run in runs if is_wrong(run)]
    right = [run for run in runs if not is_wrong(run)]
    return [
        f"{method}, {kind}",
        len(runs),
        len(wrong),
        sum(not run["warnings"] for run in wrong),
        sum(bool(run["warnings"]) for run in right),
        f"{np.sqrt(np.mean([run['log_z'] ** 2 for run in runs])):.3f}",
        f"{np.median([run['seconds'] for run in runs]):.0f}",
    ]


def main():
    """Print one row per method and kind."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--method", default="pt", help="several separated by commas")
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--record", type=Path, default=SHORT_FOLDER / "random_mixtures.jsonl")
    args = parser.parse_args()
    studied = list(product(args.method.split(","), args.kinds.split(",")))
    requested = [(*which, seed) for which in studied for seed in range(args.seeds)]
    context = get_context("spawn")
    args.record.parent.mkdir(parents=True, exist_ok=True)
    runs = []
    with ProcessPoolExecutor(args.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        for run in pool.map(one_run, *zip(*requested, strict=True)):
            runs.append(run)
            console.print(run | {"wrong": bool(is_wrong(run))})
            args.record.write_text("".join(json.dumps(each) + "\n" for each in runs))
    rows = [
        cells(*which, [run for run in runs if (run["method"], run["kind"]) == which])
        for which in studied
    ]
    header = ["", "runs", "wrong", "silent", "right, warned", "RMSE of log Z", "CPU s"]
    table("Random mixtures, log Z = 0", header, rows)


if __name__ == "__main__":
    main()
