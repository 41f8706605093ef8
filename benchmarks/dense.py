"""When a fit in over 200 dimensions is worth a dense map: one Gaussian, more or less correlated.

    python benchmarks/dense.py
    python benchmarks/dense.py --dim 500 --correlations 0.3,0.9

Default runs on a normalised Gaussian whose neighbours are correlated, with fits that are diagonal
whatever they lose, and dense whatever they gain. *loss* is the Kullback-Leibler divergence from the
diagonal fit to the Gaussian, in nats: above `WORTH_ALL` fits are dense.
"""

import argparse
import logging
import time
import warnings

import numpy as np
import pymc as pm
from figures import QUIET, table
from growth import correlated

import pymc_tempering as pm_temper
from pymc_tempering.references import curvature

HEADS = ("correlation", "loss", "fits", "error", "se", "10^3 gradients", "CPU s")


def model(dim, correlation):
    """Model of which log Z is 0."""
    with pm.Model() as made:
        pm.Potential("target", correlated(pm.Flat("x", shape=dim), dim, correlation))
    return made


def loss(dim, correlation):
    """Nats that a diagonal fit leaves, by the precision, whose determinant is that of a chain."""
    square = correlation**2
    diagonal = (dim - 2) * np.log1p(square) - dim * np.log1p(-square)
    return 0.5 * (diagonal + (dim - 1) * np.log1p(-square))


def row(made, seed):
    """Error, reported error, gradients in thousands with those of the search, CPU seconds."""
    started = time.process_time()
    estimate = pm_temper.estimate_logz(made, random_seed=seed, **QUIET)
    seconds = time.process_time() - started
    so_far = estimate.idata["sample_stats"]["so_far"].sel(so_far_entry="gradients_so_far")
    n = int(so_far.isel(draw=-1).sum())
    return [f"{float(estimate.log_z):+.3f}", f"{float(estimate.se):.3f}", f"{n / 1e3:.1f}",
            f"{seconds:.1f}"]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--dim", type=int, default=300)
    parser.add_argument("--correlations", default="0.05,0.1,0.2,0.4,0.6,0.9")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.getLogger("pymc").setLevel(logging.ERROR)
    worth, lines = curvature.WORTH_ALL, []
    for correlation in map(float, args.correlations.split(",")):
        made = model(args.dim, correlation)
        pm_temper.estimate_logz(made, random_seed=0, draws=2, tune=2, chains=1, **QUIET)
        for fits, bound in (("diagonal", np.inf), ("dense", 0.0)):
            curvature.WORTH_ALL = bound
            lost = loss(args.dim, correlation)
            lines.append([correlation, f"{lost:.2f}", fits, *row(made, args.seed)])
            print(lines[-1], flush=True)
    table(f"{args.dim} dimensions; fits are dense above {worth:g} nats", HEADS, lines)


if __name__ == "__main__":
    main()
