"""Evidence of one model for many data sets: how fast, at what cost over gradients, and how right.

    python benchmarks/many.py --n 1000

Logistic regression, and a decoder of images whose encoder is the reference; data sets are drawn
from the models. CPU seconds of one process. The cost is that of the whole call over that of its
gradients alone, evaluated in a compiled loop. For ``--sample`` of the data sets log Z is estimated
by `estimate_logz` too; for ``--exact`` of them by long importance sampling in NumPy, which says
what the stated errors cover; and ``--batch`` of them by tempered SMC of BlackJAX under `jax.vmap`,
where it is installed.
"""

import argparse
import logging
import os
import resource
import time
import warnings

import numpy as np
from figures import QUIET, console, table
from many_cases import CASES, long_run

import pymc_tempering as pm_temper
from pymc_tempering.engine.path.path import density_at
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.open_data import OpenDensity

SMC = ((64, 1), (256, 2), (1024, 4))
"""Particles and HMC moves of each level, of 10 leapfrog steps."""


def seconds_of_gradient(density, rng, n=5_000):
    """CPU seconds of one gradient in a compiled loop, the median of nine times."""
    z = 0.5 * rng.normal(size=(n, density.dim))
    times = []
    for _ in range(9):
        began = time.process_time()
        density_at(density.address, z)
        times.append((time.process_time() - began) / n)
    return float(np.median(times))


def densities(case, observed):
    """Of one data set: with data as constants, as elsewhere, and as memory that is read."""
    model = case.build(observed)
    return compile_density(model), OpenDensity(model).refillable().density


def one_by_one(case, data, seed):
    """Estimates of each data set by a call of its own, and CPU seconds of each."""
    rows = []
    for i, observed in enumerate(data):
        single = case.build(observed)
        began = time.process_time()
        found = pm_temper.estimate_logz(single, random_seed=seed + i, **QUIET)
        rows.append((found.log_z, found.se, time.process_time() - began))
    return np.array(rows).T


def timed(function, *arguments, **options):
    """Result, CPU seconds and wall seconds."""
    wall, began = time.perf_counter(), time.process_time()
    result = function(*arguments, **options)
    return result, time.process_time() - began, time.perf_counter() - wall


def at_once(case, model, data, options, rng):
    """Table of all data sets at once; returns the result and CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    many, seconds, wall = timed(pm_temper.estimate_many, model, {"y": data}, **options)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found, n = many.dataset, len(data)
    constant, read = (seconds_of_gradient(d, rng) for d in densities(case, data[0]))
    gradients = int(found["gradients"].sum())
    quick = (found["how"] == "importance").to_numpy()
    own = found["gradients"].to_numpy()[quick]
    table(
        f"{case.title}: {n} posteriors (load of the machine {os.getloadavg()[0]:.1f})",
        ["", "value"],
        [
            ["the quick way", f"{quick.sum()} of {n}"],
            ["posteriors a CPU second", f"{n / seconds:.1f}"],
            ["posteriors a second", f"{n / wall:.1f}"],
            ["gradients each, of the quick way", f"{own.mean():.0f}" if len(own) else "-"],
            ["share of gradients, of the quick way", f"{own.sum() / gradients:.2f}"],
            ["microseconds of a gradient, data constant", f"{constant * 1e6:.1f}"],
            ["microseconds of a gradient, data read", f"{read * 1e6:.1f}"],
            ["CPU over gradients, data constant", f"{seconds / gradients / constant:.2f}"],
            ["CPU over gradients, data read", f"{seconds / gradients / read:.2f}"],
            ["MB of memory at the peak", f"{peak / 1024:.0f}"],
            ["MB above what there was before", f"{(peak - before) / 1024:.0f}"],
            ["median V", f"{float(found['V'].median()):.3f}"],
            ["largest se", f"{float(found['se'].max()):.4f}"],
            ["failed", len(many.failed)],
        ],
    )
    console.print(many)
    return many, seconds


def on_threads(case, model, data, options, repeats):
    """Table of one and two threads, in turn, so that other work of the machine is shared."""
    times = {1: [], 2: []}
    for _ in range(repeats):
        for n, of in times.items():
            found = timed(pm_temper.estimate_many, model, {"y": data}, threads=n, **options)
            of.append([*found[1:], float(found[0].dataset["log_marginal_likelihood"].sum())])
    rows = [[n, *(f"{len(data) / t:.1f}" for t in np.median(of, axis=0)[:2])]
            for n, of in times.items()]  # fmt: skip
    same = len({total for of in times.values() for *_, total in of}) == 1
    table(
        f"{case.title}: {len(data)} posteriors, medians of {repeats}"
        f" (load {os.getloadavg()[0]:.1f}); {'the same' if same else 'OTHER'} log Z",
        ["threads", "a CPU second", "a second"],
        rows,
    )  # fmt: skip


def errors_row(name, difference, se, each):
    z = difference / se
    covered = [f"{np.mean(np.abs(z) < bound):.3f}" for bound in (0.674, 1.645, 1.960)]
    return [
        name, len(z), f"{difference.mean():+.4f}", f"{np.sqrt(np.mean(difference**2)):.4f}",
        f"{np.sqrt(np.mean(z**2)):.2f}", *covered, each,
    ]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--n", type=int, default=1000, help="data sets")
    parser.add_argument("--sample", type=int, default=10, help="of them, by estimate_logz too")
    parser.add_argument("--exact", type=int, default=200, help="of them, by long runs too")
    parser.add_argument("--batch", type=int, default=64, help="of them, by BlackJAX too")
    parser.add_argument("--threads", type=int, default=0, help="of them, by one thread and two")
    parser.add_argument("--starts", type=int, default=16, help="ascents for each data set")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    for name in args.cases.split(","):
        study(name, args)


def study(name, args):
    rng = np.random.default_rng(args.seed)
    case = CASES[name](rng)
    data = case.simulate(args.n, rng)
    model = case.build(data[0])
    options = {"random_seed": args.seed, "starts": args.starts, "progressbar": False}
    if case.reference is not None:
        options["reference"] = case.reference
    # kernels of the package are compiled and kept at the first use on a machine
    pm_temper.estimate_many(model, {"y": data[:2]}, **options)
    many, seconds = at_once(case, model, data, options, rng)
    if args.threads:
        on_threads(case, model, data[: args.threads], options, 5)
    log_z = many.dataset["log_marginal_likelihood"].to_numpy()
    se, rows = many.dataset["se"].to_numpy(), []
    each = f"{1e3 * seconds / args.n:.1f}"
    if args.exact:
        chosen = np.linspace(0, args.n - 1, min(args.exact, args.n)).astype(int)
        exact = np.array([long_run(case, data[i], rng) for i in chosen]).T
        both = np.hypot(se[chosen], exact[1])
        rows.append(errors_row("many - long run", log_z[chosen] - exact[0], both, each))
    if args.sample:
        chosen = np.linspace(0, args.n - 1, min(args.sample, args.n)).astype(int)
        alone, own, times = one_by_one(case, data[chosen], args.seed)
        ms = f"{1e3 * np.median(times):.1f}"
        both = np.hypot(se[chosen], own)
        rows.append(errors_row("estimate_logz - many", alone - log_z[chosen], both, ms))
        console.print(f"many at once is {np.median(times) * args.n / seconds:.0f} times as fast")
    if args.batch:
        rows += by_blackjax(case, data[: args.batch], log_z, se, args.seed)
    table(
        f"{case.title}: differences of log Z",
        ["", "data sets", "mean", "RMS", "in their errors", "50 %", "90 %", "95 %", "CPU ms each"],
        rows,
    )


def by_blackjax(case, data, log_z, se, seed):
    try:
        from many_jax import annealing
    except ImportError:
        console.print("BlackJAX is not installed.")
        return []
    rows = []
    for n_particles, moves in SMC:
        run = annealing(case, n_particles, moves)
        run(seed, data)
        found, seconds, _ = timed(run, seed + 1, data)
        difference = found - log_z[: len(data)]
        # it states no error: theirs is what ours leaves
        name = f"BlackJAX, {n_particles} particles, {moves} moves - many"
        row = errors_row(name, difference, se[: len(data)], f"{1e3 * seconds / len(data):.1f}")
        rows.append([*row[:4], "", "", "", "", row[-1]])
    return rows


if __name__ == "__main__":
    main()
