"""From which rejection rate of a straight fit on chains start from a wide Gaussian instead.

    python benchmarks/straight.py --seeds 24

Where one mode is known and its fit is poor, a short run of two levels measures how often swaps
with the fit as it is fail. For each model: in how many of the searches there was such a run
that kept the straight fit, and these rates (least, quartiles, most); then default runs of these
seeds with three bounds below which the fit is good as it is (none, the default, and all of those
for which no bend is looked for): RMSE of log Z, root mean square of errors over reported errors,
runs more than two and four of these off, gradients, and warnings.
"""

import argparse
import logging
import warnings
from collections import Counter
from unittest.mock import patch

import numpy as np
from bench import load_cases, model_and_log_z
from corpus_models import CORPUS
from corpus_models.entries import QUADRATURE
from corpus_second import quadrature
from figures import QUIET, rmse, table

import pymc_tempering as pm_temper
from pymc_tempering.references import bending, local_runs

MODELS = ("sites_centred", "conjugate_regression", "skewed_gamma", "heavy_tail", "banana",
          "ordered_means", "detection_limit", "stick_breaking", "weibull_survival")  # fmt: skip
BOUNDS = (0.0, local_runs.GOOD_AS_IT_IS, local_runs.GAUSSIAN_ENOUGH)


class Rates(local_runs.Ladder):
    """The ladder of a short run; remembers how often swaps with the straight fit failed."""

    last = np.nan

    def run(self, *args, **kwargs):
        """Run as it does."""
        record = super().run(*args, **kwargs)
        if self.mixture is None:
            Rates.last = 1.0 - float(record.swap_acceptance_rate[0])
        return record


def one_run(model, seed, bound):
    """Estimate with a bound, and the rate of the last short run that kept its straight fit."""
    Rates.last, kept, by_run = np.nan, [], bending.map_by_run

    def noted(*args):
        run = by_run(*args)
        if run.kind in (local_runs.GAUSSIAN_FITS, local_runs.NEARLY_GAUSSIAN):
            kept.append(Rates.last)
        return run

    with (
        patch.object(local_runs, "Ladder", Rates),
        patch.object(bending, "map_by_run", noted),
        patch.object(local_runs, "GOOD_AS_IT_IS", bound),
    ):
        estimate = pm_temper.estimate_logz(model, random_seed=seed, **QUIET)
    return estimate, kept[-1] if kept else np.nan


def problem(name):
    """Model and its log Z: exact, or from a grid."""
    if name not in CORPUS:
        return model_and_log_z(name, load_cases())
    model, second = CORPUS[name].build()
    return model, quadrature(model)[0] if second == QUADRATURE else float(np.ravel(second)[0])


def study(name, n_seeds):
    """Rows of one model, one for each bound."""
    model, exact = problem(name)
    first = [one_run(model, seed, BOUNDS[0]) for seed in range(1, n_seeds + 1)]
    rates = np.array([rate for _, rate in first])
    seeds = np.flatnonzero(np.isfinite(rates)) + 1
    if not seeds.size:
        return [[name, f"0 of {n_seeds}", *[""] * 8]]
    shown = ", ".join(f"{q:.2f}" for q in np.quantile(rates[seeds - 1], np.linspace(0, 1, 5)))
    rows = []
    for bound in BOUNDS:
        runs = [
            first[s - 1][0] if bound == BOUNDS[0] else one_run(model, int(s), bound)[0]
            for s in seeds
        ]
        errors = np.array([float(run.log_z) - exact for run in runs])
        z = np.abs(errors / [run.se for run in runs])
        codes = Counter(code for run in runs for code in {w.code for w in run.warnings})
        rows.append([
            name, f"{seeds.size} of {n_seeds}", shown, f"{bound:g}", f"{rmse(errors):.4f}",
            f"{rmse(z):.2f}", int((z > 2.0).sum()), int((z > 4.0).sum()),
            f"{np.median([sum(run.gradients.values()) for run in runs]) / 1e3:.0f}",
            ", ".join(f"{code} {n}" for code, n in codes.items()),
        ])  # fmt: skip
    return rows


def main():
    """Print one row for each model and bound."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", type=int, default=24)
    args = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    rows = [row for name in args.models.split(",") for row in study(name, args.seeds)]
    header = ["model", "kept", "rejection rates", "bound", "RMSE", "error / se", "> 2 se", "> 4",
              "10^3 gradients", "warned"]  # fmt: skip
    table("Straight fits of one mode", header, rows)


if __name__ == "__main__":
    main()
