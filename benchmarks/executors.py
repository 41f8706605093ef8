"""CPU seconds of chains on executors, over those of the same chains without one.

    python benchmarks/executors.py
    python benchmarks/executors.py --chains 16 64 --draws 15000    # chains of ten seconds
    python benchmarks/executors.py --models 4                      # models as tasks of `compare`

Each run is a process of its own, and what is counted is CPU seconds of it and of all processes that
it started, from the first import on. Runs of two numbers of chains tell what a worker costs (it
imports and compiles once) from what a chain costs. The last column puts both together for 64 chains
of ten seconds. Kernels of the package are in its cache; log Z is to be the same everywhere.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import time
import warnings
from contextlib import contextmanager, nullcontext
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pymc as pm

import pymc_tempering as pm_temper

N_ROWS, N_COEFFICIENTS = 500, 10
PLACES = {
    "no executor": 1, "pool, forked, 1": 1, "pool, forked, 2": 2, "pool, spawned, 2": 2,
    "dask, 2": 2, "MPI, 2": 2,
}  # fmt: skip
"""Where chains are sampled, and by how many processes."""

CHAINS, SECONDS = 64, 10.0
"""Of the run that the last column is about."""


def build(scale=1.0):
    rng = np.random.default_rng(1)
    covariates = rng.normal(size=(N_ROWS, N_COEFFICIENTS))
    with pm.Model() as model:
        slopes = pm.Normal("slopes", 0.0, scale, shape=N_COEFFICIENTS)
        observed = rng.integers(0, 2, size=N_ROWS)
        pm.Bernoulli("y", logit_p=covariates @ slopes, observed=observed)
    return model


@contextmanager
def executor_of(place):
    """Executor of a place; None for the local one."""
    kind, n = place.split(",")[0], PLACES[place]
    if kind == "pool":
        from concurrent.futures import ProcessPoolExecutor

        start = "fork" if "forked" in place else "spawn"
        with ProcessPoolExecutor(n, get_context(start)) as pool:
            yield pool
    elif kind == "dask":
        from distributed import Client, LocalCluster

        workers = {"n_workers": n, "threads_per_worker": 1, "dashboard_address": None}
        with LocalCluster(**workers) as cluster, Client(cluster) as client:
            yield client.get_executor()
    elif kind == "MPI":
        from mpi4py.futures import MPIPoolExecutor

        with MPIPoolExecutor() as pool:
            yield pool
    else:
        with nullcontext() as nothing:
            yield nothing


def run(place, chains, draws, n_models):
    """Sample, and print log Z; of several models their mean."""
    logging.getLogger("pymc").setLevel(logging.ERROR)
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    warnings.simplefilter("ignore")
    options = {
        "chains": chains, "draws": draws, "tune": 100, "n_levels": 4, "scans_per_draw": 4,
        "cores": 1, "random_seed": 1, "progressbar": False, "quiet": True,
    }  # fmt: skip
    with executor_of(place) as executor:
        if n_models:
            models = {f"sd {k + 1}": build(k + 1.0) for k in range(n_models)}
            table = pm_temper.compare(models, executor=executor, **options)
            log_z = float(table["log_marginal_likelihood"].mean())
        else:
            log_z = pm_temper.estimate_logz(build(), executor=executor, **options).log_z
    print(json.dumps(log_z), flush=True)


def measured(place, chains, draws, n_models=0):
    """CPU seconds of a run, and its log Z."""
    call = [sys.executable, __file__, "--run", place, "--chains", str(chains), "--draws",
            str(draws), "--models", str(n_models)]  # fmt: skip
    if place.startswith("MPI"):
        mpiexec = Path(sys.executable).with_name("mpiexec")
        start = [str(mpiexec) if mpiexec.exists() else "mpiexec", "-n", str(PLACES[place] + 1)]
        call = [*start, sys.executable, "-m", "mpi4py.futures", *call[1:]]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    out = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{call} ended with {status}")
    return usage.ru_utime + usage.ru_stime, json.loads(out.split()[-1])


def of_models(places, n_models, chains, draws):
    """Seconds of a comparison, with models as tasks."""
    from figures import table

    measured("no executor", 1, 2)
    rows, expected = [], None
    for place in ["no executor", *places]:
        began = time.perf_counter()
        cpu, log_z = measured(place, chains, draws, n_models)
        wall = time.perf_counter() - began
        expected = log_z if expected is None else expected
        rows.append([
            place, PLACES[place], f"{cpu:.0f}", f"{wall:.0f}", "yes" if log_z == expected else "NO",
        ])  # fmt: skip
    table(
        f"compare of {n_models} models, {chains} chains each",
        ["", "workers", "CPU s", "s", "same log Z"],
        rows,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", choices=PLACES, help=argparse.SUPPRESS)
    parser.add_argument("--chains", type=int, nargs="+", default=[4, 16], help="two numbers")
    parser.add_argument("--draws", type=int, default=3000, help="of each chain")
    parser.add_argument("--places", nargs="+", choices=PLACES, default=list(PLACES)[1:])
    parser.add_argument("--models", type=int, default=0, help="compare so many, as tasks")
    args = parser.parse_args()
    if args.run:
        run(args.run, args.chains[0], args.draws, args.models)
        return
    if args.models:
        of_models(args.places, args.models, args.chains[0], args.draws)
        return
    # not for the workers, who would import it too
    from figures import table

    few, many = args.chains
    measured("no executor", 1, 2)
    local, rows = None, []
    for place in ["no executor", *args.places]:
        (short, _), (long, log_z) = (measured(place, n, args.draws) for n in (few, many))
        chain = (long - short) / (many - few)
        fixed = short - few * chain
        local = local or (long, chain, fixed, log_z)
        over = (fixed - local[2] + CHAINS * (chain - local[1])) / (CHAINS * SECONDS)
        print(place, short, long, file=sys.stderr, flush=True)
        rows.append([
            place, PLACES[place], f"{long:.0f}", f"{long / local[0] - 1.0:+.1%}", f"{chain:.2f}",
            f"{fixed:.0f}", f"{over:+.1%}", "yes" if log_z == local[3] else "NO",
        ])  # fmt: skip
    table(
        f"{many} chains of {local[1]:.1f} s",
        ["", "workers", "CPU s", "over none", "a chain", "before chains",
         f"{CHAINS} chains of {SECONDS:.0f} s", "same log Z"],
        rows,
    )  # fmt: skip


if __name__ == "__main__":
    main()
