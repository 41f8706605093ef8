"""Which explorer for necks: default runs with each, beside how deep short runs find the necks.

    python benchmarks/necks.py --targets eight_schools_centred,funnel_30 --seeds 20
    python benchmarks/necks.py --watch

For targets whose log Z is exact: RMSE of log Z, mean reported error, root mean square of error over
reported error (1 where errors are right), runs more than four errors off and how many of those
carry no warning, thousands of gradients. *Depth* is that of ``references/necks.py``, least and
largest over the seeds; beyond its ``DEEP`` the default explorer has steps of local sizes. The
second prints default runs whose short runs met no necks, where tuning rounds look for them and
where they do not.
"""

import argparse
import logging
import warnings
from unittest.mock import patch

import numpy as np
from figures import QUIET, table

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.references.necks import DEEP
from pymc_tempering.steps.necks import NeckWatch
from pymc_tempering.testing.hard import HARD

TARGETS = ("eight_schools_centred", "collapsed_hierarchy", "funnel_30", "banana", "skewed_gamma",
           "heavy_tail", "cauchy_10")  # fmt: skip
WATCHED = TARGETS[:3]
EXPLORERS = ("hamiltonian", "gist")


def exact(name):
    """Model and log Z of a target."""
    if name in HARD:
        target = HARD[name]()
        return target.model, target.log_z
    target = testing.TARGETS[name]()
    return target.model(), target.log_z


def figures_of(runs, log_z):
    """RMSE, mean error, rms and largest error over error, wrong and silent runs, kgradients."""
    error = np.array([run.log_z - log_z for run in runs])
    se = np.array([run.se for run in runs])
    wrong = np.abs(error) > 4.0 * se
    silent = sum(bool(bad) and not run.warnings for bad, run in zip(wrong, runs, strict=True))
    return [
        f"{np.sqrt(np.mean(error**2)):.3f}",
        f"{se.mean():.3f}",
        f"{np.sqrt(np.mean((error / se) ** 2)):.2f}",
        f"{np.abs(error / se).max():.1f}",
        int(wrong.sum()),
        silent,
        f"{np.mean([sum(run.gradients.values()) for run in runs]) / 1e3:.0f}",
    ]


FIGURES = ["RMSE", "mean se", "rms error / se", "largest", "wrong", "silent", "kgradients"]


def study(name, explorer, n_seeds):
    """Cells of one row."""
    model, log_z = exact(name)
    runs = [
        pm_temper.estimate_logz(model, random_seed=seed, explorer=explorer, **QUIET)
        for seed in range(1, n_seeds + 1)
    ]
    depths = [float(run.idata["tempering"]["search_necks"].max()) for run in runs]
    depth = f"{min(depths):.2f} to {max(depths):.2f}"
    return [name, depth, explorer, *figures_of(runs, log_z)]


class NothingToFindError(Exception):
    """Short runs left nothing to find."""


def start_or_stop(watch, found):
    """As the watch's own, but for the chains of a run that it has nothing to do in."""
    START(watch, found)
    if found is not None and not (watch._may_look and watch.depth < DEEP):
        raise NothingToFindError


START = NeckWatch.start


def watched(name, n_seeds):
    """Two rows: default runs whose short runs met no necks, with and without looking for them."""
    model, log_z = exact(name)
    runs = {"yes": [], "no": []}
    for seed in range(n_seeds):
        try:
            with patch.object(NeckWatch, "start", start_or_stop):
                runs["yes"].append(pm_temper.estimate_logz(model, random_seed=seed, **QUIET))
        except NothingToFindError:
            continue
        with patch.object(NeckWatch, "look", lambda *args: None):
            runs["no"].append(pm_temper.estimate_logz(model, random_seed=seed, **QUIET))
    n = len(runs["yes"])
    return [
        [name, f"{n} of {n_seeds}", looks, *figures_of(each, log_z)]
        for looks, each in runs.items()
        if n
    ] or [[name, f"0 of {n_seeds}", "", *[""] * len(FIGURES)]]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--targets", help="separated by commas")
    parser.add_argument("--seeds", type=int, help="20, or 60 with --watch")
    parser.add_argument("--watch", action="store_true", help="where short runs met no necks")
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    if args.watch:
        names = args.targets or ",".join(WATCHED)
        rows = [row for name in names.split(",") for row in watched(name, args.seeds or 60)]
        header = ["target", "no necks met", "watch", *FIGURES]
        table("Default runs whose short runs met no necks", header, rows)
        return
    names = args.targets or ",".join(TARGETS)
    rows = [
        study(name, explorer, args.seeds or 20)
        for name in names.split(",")
        for explorer in EXPLORERS
    ]
    table("Default runs by explorer", ["target", "depth", "explorer", *FIGURES], rows)


if __name__ == "__main__":
    main()
