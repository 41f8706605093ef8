"""Mixtures as people write them, with free weights, means and scales: what log Z takes.

    python benchmarks/mixtures.py
    python benchmarks/mixtures.py --models galaxies_3,simulated_3 --seeds 3 --modes

For each model: log Z, its error, gradients of search, tuning and draws, CPU seconds with
compilation, components of the reference (0 for a wide Gaussian) and warnings. ``--modes`` tells
modes apart by the means in their order, so that orders of the labels are no modes of their own.
"""

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt

import pymc_tempering as pm_temper

sys.path.insert(0, str(Path(__file__).parents[1] / "notebooks"))
from galaxies import galaxy_mixture

HEADS = ("log Z", "se", "search", "tuning", "draws", "CPU s", "components")


def clusters(n):
    """Three clusters of n values each."""
    rng = np.random.default_rng(3)
    laws = ((-3.0, 0.7), (0.0, 1.0), (4.0, 1.2))
    return np.concatenate([rng.normal(mean, sd, n) for mean, sd in laws])


def simulated(k, n=10):
    """Mixture of k Gaussians with the priors that most would write."""
    with pm.Model() as model:
        weight = pm.Dirichlet("weight", np.ones(k))
        mean = pm.Normal("mean", 0.0, 5.0, shape=k)
        sd = pm.HalfNormal("sd", 2.0, shape=k)
        pm.NormalMixture("y", weight, mean, sigma=sd, observed=clusters(n))
    return model


def sticks(k, n=20):
    """Dirichlet process, its stick broken k - 1 times: labels are not alike."""
    with pm.Model() as model:
        alpha = pm.Gamma("alpha", 1.0, 1.0)
        broken = pm.Beta("broken", 1.0, alpha, shape=k - 1)
        left = pt.concatenate([[1.0], pt.cumprod(1.0 - broken)])
        weight = left * pt.concatenate([broken, [1.0]])
        mean = pm.Normal("mean", 0.0, 5.0, shape=k)
        sd = pm.HalfNormal("sd", 2.0, shape=k)
        pm.NormalMixture("y", weight, mean, sigma=sd, observed=clusters(n))
    return model


MODELS = {
    **{f"galaxies_{k}": partial(galaxy_mixture, k) for k in (2, 3, 4, 5)},
    "simulated_3": partial(simulated, 3),
    "stick_10": partial(sticks, 10),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--draws", type=int, default=160)
    parser.add_argument("--max-gradients", type=int)
    parser.add_argument("--modes", action="store_true")
    given = parser.parse_args()
    print(f"{'':14s}" + "".join(f"{head:>12s}" for head in HEADS), flush=True)
    for name in given.models.split(","):
        for seed in range(1, given.seeds + 1):
            started = time.process_time()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                estimate = pm_temper.estimate_logz(
                    MODELS[name](), draws=given.draws, cores=1, random_seed=seed,
                    progressbar=False, quiet=True, max_gradients=given.max_gradients,
                )  # fmt: skip
            seconds = time.process_time() - started
            kinds = estimate.idata["tempering"]["n_components"].values
            print(
                f"{name:14s}{estimate.log_z:12.3f}{estimate.se:12.3f}"
                + "".join(f"{n:12,d}" for n in estimate.gradients.values())
                + f"{seconds:12.0f}{np.array2string(kinds.astype(int)):>12s}",
                flush=True,
            )
            for warning in estimate.warnings:
                print("   ", str(warning)[:150])
            if given.modes:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    by = lambda posterior: np.sort(posterior["mean"].values, axis=-1)  # noqa: E731
                    print(pm_temper.modes(estimate, by=by))


if __name__ == "__main__":
    main()
