"""Why bases are widened on purpose: error of log Z against the width of the base.

A Boltzmann machine relaxation with its exact mean and covariance as base, and the same with all
scales widened. With the exact moments, modes many base standard deviations out in one narrow
direction are reached too rarely to weigh them.

    python benchmarks/bases.py --case bmr_2 --seeds 8
"""

import argparse
import logging
import warnings

import numpy as np
from bench import load_cases
from rich.console import Console
from rich.table import Table

import pymc_tempering as pm_temper
from pymc_tempering.estimators.mbar import mbar

WIDTHS = (1.0, 1.1, 1.2, 1.35)
N_SCANS = 9600


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--case", default="bmr_2")
    parser.add_argument("--seeds", type=int, default=8)
    arguments = parser.parse_args()
    console = Console(width=110)
    cases = load_cases()
    if cases is None:
        console.print("The reference problems (shared/cases) are not here: nothing to measure.")
        return
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    case = cases[arguments.case]()
    table = Table(title=f"{arguments.case}, one chain of {N_SCANS} scans, {arguments.seeds} seeds")
    for column in ("scales x", "RMSE of log Z", "largest error", "barrier", "fewest round trips"):
        table.add_column(column, justify="right")
    for width in WIDTHS:
        base = pm_temper.GaussianBase.from_moments(case.mean, case.cov * width**2)
        step = pm_temper.ParallelTempering(model=case.model, base=base, adapt_base=False)
        errors, barriers, trips = [], [], []
        for seed in range(arguments.seeds):
            step.setup_chain(np.random.default_rng(seed), 64, 1)
            point = case.model.initial_point()
            for _ in range(64):
                point, _ = step.step(point)
            step.stop_tuning()
            record = step._run.ladder.run(N_SCANS, step.rng)
            errors.append(mbar(record.delta, step._run.ladder.betas).log_z[-1] - case.log_z)
            barriers.append(float((1.0 - record.swap_acceptance_rate).sum()))
            trips.append(record.counts["n_round_trips"])
        errors = np.array(errors)
        table.add_row(
            f"{width:.2f}", f"{np.sqrt(np.mean(errors**2)):.3f}", f"{np.abs(errors).max():.2f}",
            f"{np.median(barriers):.2f}", str(min(trips)),
        )  # fmt: skip
    console.print(table)


if __name__ == "__main__":
    main()
