"""Which explorer for necks: default runs with each, beside how deep short runs find the necks.

    python benchmarks/necks.py --targets eight_schools_centred,funnel_30 --seeds 20

For targets whose log Z is exact: RMSE of log Z, mean reported error, root mean square of error over
reported error (1 where errors are right), runs more than four errors off and how many of those
carry no warning, thousands of gradients. *Depth* is that of ``references/local_runs.py``, least and
largest over the seeds; beyond its ``DEEP`` the default explorer has steps of local sizes.
"""

import argparse
import logging
import warnings

import numpy as np
from figures import QUIET, table
from hard_targets import HARD

import pymc_tempering as pm_temper
from pymc_tempering import testing

TARGETS = ("eight_schools_centred", "collapsed_hierarchy", "funnel_30", "banana", "skewed_gamma",
           "heavy_tail", "cauchy_10")  # fmt: skip
EXPLORERS = ("hamiltonian", "gist")


def exact(name):
    """Model and log Z of a target."""
    if name in HARD:
        target = HARD[name]()
        return target.model, target.log_z
    target = testing.TARGETS[name]()
    return target.model(), target.log_z


def study(name, explorer, n_seeds):
    """Cells of one row."""
    model, log_z = exact(name)
    runs = [
        pm_temper.estimate_logz(model, random_seed=seed, explorer=explorer, **QUIET)
        for seed in range(1, n_seeds + 1)
    ]
    error = np.array([run.log_z - log_z for run in runs])
    se = np.array([run.se for run in runs])
    wrong = np.abs(error) > 4.0 * se
    silent = sum(bool(bad) and not run.warnings for bad, run in zip(wrong, runs, strict=True))
    depths = [float(run.idata["tempering"]["search_funnel_depth"].max()) for run in runs]
    return [
        name,
        f"{min(depths):.2f} to {max(depths):.2f}",
        explorer,
        f"{np.sqrt(np.mean(error**2)):.3f}",
        f"{se.mean():.3f}",
        f"{np.sqrt(np.mean((error / se) ** 2)):.2f}",
        int(wrong.sum()),
        silent,
        f"{np.mean([sum(run.gradients.values()) for run in runs]) / 1e3:.0f}",
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--targets", default=",".join(TARGETS), help="separated by commas")
    parser.add_argument("--seeds", type=int, default=20)
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    rows = [
        study(name, explorer, args.seeds)
        for name in args.targets.split(",")
        for explorer in EXPLORERS
    ]
    header = ["target", "depth", "explorer", "RMSE", "mean se", "rms error / se", "wrong",
              "silent", "kgradients"]  # fmt: skip
    table("Default runs by explorer", header, rows)


if __name__ == "__main__":
    main()
