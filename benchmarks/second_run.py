"""CPU seconds of a small model's later estimates in one process, where everything is compiled.

    python benchmarks/second_run.py

Median of several after the first. To compare two versions, run this in both in turn, more than
once: CPU seconds depend on what else the machine does.
"""

import logging
import time
import warnings

import numpy as np
from bench import load_cases

import pymc_tempering as pm_temper

CASES = ("conjugate_regression", "bimodal_gmm")
REPEATS = 7


def seconds_of_later_runs(model):
    seconds = []
    for seed in range(REPEATS + 1):
        started = time.process_time()
        pm_temper.estimate_logz(model, random_seed=seed, cores=1, progressbar=False, quiet=True)
        seconds.append(time.process_time() - started)
    return seconds[1:]


def main():
    cases = load_cases()
    if cases is None:
        print("The reference problems (shared/cases) are not here: nothing to measure.")
        return
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    for name in CASES:
        seconds = seconds_of_later_runs(cases[name]().model)
        print(f"{name}: {np.median(seconds):.3f} s, from {min(seconds):.3f} to {max(seconds):.3f}")


if __name__ == "__main__":
    main()
