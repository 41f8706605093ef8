"""What chains start from where a bent fit swaps too seldom with its target: it, or a Gaussian.

    python benchmarks/rough.py
    python benchmarks/rough.py --models radon --seeds 11

Default runs with bent fits that need levels (the default) and with the wide Gaussian in their
place: RMSE of log Z, its bias with standard error, the mean reported error, the root mean square
of errors over reported errors, the barrier, gradients of search, tuning and draws, median CPU
seconds, seconds to an error of 0.1 nats, and runs with a warning. The first run of a model, which
compiles, does not count.
"""

import argparse
import logging
import warnings
from unittest.mock import patch

import numpy as np
from figures import QUIET, rmse, table
from hard_targets import HARD
from peers import cpu_seconds
from straight import problem

import pymc_tempering as pm_temper
from pymc_tempering.references import local_runs

MODELS = ("radon", "eight_schools_centred", "collapsed_hierarchy", "funnel_30")
SHARES = {"with levels": local_runs.ROUGH, "Gaussian": -1.0}


def model_and_exact(name):
    """A hard target, or a problem of the other studies."""
    if name in HARD:
        target = HARD[name]()
        return target.model, target.log_z
    return problem(name)


def one_run(model, seed):
    """Estimate and CPU seconds of a default run."""
    started = cpu_seconds()
    estimate = pm_temper.estimate_logz(model, random_seed=seed, **QUIET)
    return estimate, cpu_seconds() - started


def study(name, n_seeds):
    """Rows of one model."""
    model, exact = model_and_exact(name)
    one_run(model, n_seeds)
    rows = []
    for label, share in SHARES.items():
        with patch.object(local_runs, "ROUGH", share):
            runs, seconds = zip(*(one_run(model, seed) for seed in range(n_seeds)), strict=True)
        errors = np.array([float(run.log_z) - exact for run in runs])
        se = np.array([float(run.se) for run in runs])
        gradients = np.mean([[run.gradients[part] for part in ("search", "tuning", "draws")]
                             for run in runs], axis=0) / 1e3  # fmt: skip
        barrier = np.mean([float(run.idata["tempering"]["global_barrier"].mean()) for run in runs])
        cpu = float(np.median(seconds))
        rows.append([
            name, label, f"{rmse(errors):.4f}",
            f"{errors.mean():+.4f} ± {errors.std(ddof=1) / np.sqrt(n_seeds):.4f}",
            f"{se.mean():.4f}", f"{rmse(errors / se):.2f}", f"{barrier:.2f}",
            " + ".join(f"{part:.0f}" for part in gradients), f"{cpu:.1f}",
            f"{cpu * (rmse(errors) / 0.1) ** 2:.2f}", sum(bool(run.warnings) for run in runs),
        ])  # fmt: skip
    return rows


def main():
    """Print two rows for each model."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=6)
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    rows = [row for name in args.models.split(",") for row in study(name, args.seeds)]
    header = ["model", "start", "RMSE", "bias", "se", "error / se", "barrier",
              "10^3 gradients", "CPU s", "s to 0.1", "warned"]  # fmt: skip
    table("Where a bent fit needs levels", header, rows)


if __name__ == "__main__":
    main()
