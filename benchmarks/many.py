"""Evidence of one model for many data sets: how fast, at what cost over gradients, and how right.

    python benchmarks/many.py --n 1000

Logistic regression with 200 rows and 8 coefficients; data sets are drawn from the model. One
process, CPU seconds. The cost is that of the whole call over that of its gradients alone, evaluated
in a compiled loop. For ``--sample`` of the data sets log Z is estimated by `estimate_logz` too,
which says by how many of the errors the two differ, and how much faster many at once are.
"""

import argparse
import logging
import time
import warnings

import numpy as np
import pymc as pm
from figures import QUIET, console, table

import pymc_tempering as pm_temper
from pymc_tempering.engine.path.path import call_density_at
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.open_data import OpenDensity

N_ROWS, N_COEFFICIENTS = 200, 8


def build(rng):
    """The model, with an observed value to be replaced, and its covariates."""
    covariates = rng.normal(size=(N_ROWS, N_COEFFICIENTS))
    with pm.Model() as model:
        coefficients = pm.Normal("coefficients", 0.0, 1.0, shape=N_COEFFICIENTS)
        pm.Bernoulli("y", logit_p=covariates @ coefficients, observed=np.zeros(N_ROWS, dtype=int))
    return model, covariates


def simulate(covariates, n, rng):
    slopes = covariates @ rng.normal(size=(N_COEFFICIENTS, n))
    return (rng.random((n, N_ROWS)) < 1.0 / (1.0 + np.exp(-slopes.T))).astype(np.int64)


def seconds_of_gradient(density, rng, n=10_000):
    """CPU seconds of one gradient in a compiled loop, the median of nine times."""
    z = 0.5 * rng.normal(size=(n, density.dim))
    values, grads = np.empty(n), np.empty_like(z)
    times = []
    for _ in range(9):
        began = time.process_time()
        call_density_at(density.address, z, values, grads)
        times.append((time.process_time() - began) / n)
    return float(np.median(times))


def densities(covariates, observed):
    """Of one data set: with data as constants, as elsewhere, and as memory that is read."""
    with pm.Model() as model:
        coefficients = pm.Normal("coefficients", 0.0, 1.0, shape=N_COEFFICIENTS)
        pm.Bernoulli("y", logit_p=covariates @ coefficients, observed=observed)
    return compile_density(model), OpenDensity(model).refillable().density


def one_by_one(model, covariates, data, seed):
    """Estimates of each data set by a call of its own, and CPU seconds of each."""
    rows = []
    for i, observed in enumerate(data):
        with pm.Model() as single:
            coefficients = pm.Normal("coefficients", 0.0, 1.0, shape=N_COEFFICIENTS)
            pm.Bernoulli("y", logit_p=covariates @ coefficients, observed=observed)
        began = time.process_time()
        found = pm_temper.estimate_logz(single, random_seed=seed + i, **QUIET)
        rows.append((found.log_z, found.se, time.process_time() - began))
    return np.array(rows).T


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=1000, help="data sets")
    parser.add_argument("--sample", type=int, default=20, help="of them, by estimate_logz too")
    parser.add_argument("--starts", type=int, default=16, help="ascents for each data set")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    rng = np.random.default_rng(args.seed)
    model, covariates = build(rng)
    data = simulate(covariates, args.n, rng)
    options = {"random_seed": args.seed, "starts": args.starts, "progressbar": False}
    # kernels of the package are compiled and kept at the first use on a machine
    pm_temper.estimate_many(model, {"y": data[:2]}, **options)
    wall, began = time.perf_counter(), time.process_time()
    many = pm_temper.estimate_many(model, {"y": data}, **options)
    seconds, wall = time.process_time() - began, time.perf_counter() - wall
    found = many.dataset
    constant, read = (seconds_of_gradient(d, rng) for d in densities(covariates, data[0]))
    gradients = int(found["gradients"].sum())
    quick = (found["how"] == "importance").to_numpy()
    table(
        f"{args.n} posteriors, {args.starts} starts",
        ["", "all", "quick way"],
        [
            ["data sets", args.n, quick.sum()],
            ["share", "", f"{quick.mean():.3f}"],
            ["CPU seconds", f"{seconds:.1f}", ""],
            ["posteriors a CPU second", f"{args.n / seconds:.0f}", ""],
            ["posteriors a second of wall time", f"{args.n / wall:.0f}", ""],
            ["gradients each", f"{gradients / args.n:.0f}",
             f"{found['gradients'].to_numpy()[quick].mean():.0f}"],
            ["microseconds of a gradient, data constant", f"{constant * 1e6:.1f}", ""],
            ["microseconds of a gradient, data read", f"{read * 1e6:.1f}", ""],
            ["CPU over gradients, data constant", f"{seconds / gradients / constant:.2f}", ""],
            ["CPU over gradients, data read", f"{seconds / gradients / read:.2f}", ""],
            ["median V", f"{float(found['V'].median()):.3f}", ""],
            ["largest se", f"{float(found['se'].max()):.4f}",
             f"{found['se'].to_numpy()[quick].max():.4f}"],
            ["failed", len(many.failed), ""],
        ],
    )  # fmt: skip
    console.print(many)
    if not args.sample:
        return
    chosen = np.linspace(0, args.n - 1, min(args.sample, args.n)).astype(int)
    log_z, se, each = one_by_one(model, covariates, data[chosen], args.seed)
    difference = found["log_marginal_likelihood"].to_numpy()[chosen] - log_z
    z = difference / np.hypot(se, found["se"].to_numpy()[chosen])
    table(
        f"{len(chosen)} of them by estimate_logz",
        ["", "value"],
        [
            ["CPU seconds each, median", f"{np.median(each):.2f}"],
            ["times as fast, many at once", f"{np.median(each) * args.n / seconds:.0f}"],
            ["median se", f"{np.median(se):.4f}"],
            ["mean difference", f"{difference.mean():+.4f}"],
            ["differences in their errors, RMS", f"{np.sqrt(np.mean(z**2)):.2f}"],
            ["largest", f"{np.abs(z).max():.2f}"],
        ],
    )


if __name__ == "__main__":
    main()
