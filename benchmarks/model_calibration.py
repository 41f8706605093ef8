"""Are posterior model probabilities calibrated? Two nested conjugate models, simulated data.

    python benchmarks/model_calibration.py --datasets 500 --draws 60 --chains 2

The models are a regression line and its intercept alone, with exact log Z: what the probabilities
say with exact and with estimated log Z for the same data sets, and the error of the latter. Blocks
of data sets are kept in ``--record``, so that a study can go on.
"""

import argparse
import json
import logging
import time
import warnings
from pathlib import Path

import numpy as np
import pymc as pm
from figures import QUIET, SHORT_FOLDER, console, pyplot, rmse, save
from scipy import stats

import pymc_tempering as pm_temper
from pymc_tempering.comparison.calibration import ModelCalibration

N, NOISE, SLOPE_SD = 20, 0.8, 0.5
X = np.linspace(-1.0, 1.5, N)
BLOCK = 10


def nested_models():
    """Two models of the same data, and their exact log Z as functions of the data."""
    models, exact = {}, {}
    for name, slope_sd in (("level", 0.0), ("slope", SLOPE_SD)):
        with pm.Model() as models[name]:
            mean = pm.Normal("level", 0.3, 1.0)
            if slope_sd:
                mean = mean + pm.Normal("slope", 0.0, slope_sd) * X
            pm.Normal("y", mean, NOISE, observed=np.zeros(N), shape=N)
        cov = NOISE**2 * np.eye(N) + 1.0 + slope_sd**2 * np.outer(X, X)
        law = stats.multivariate_normal(np.full(N, 0.3), cov)
        exact[name] = lambda data, law=law: law.logpdf(data["y"])
    return models, exact


def rows_of(check, known, block, seconds):
    return [
        {
            "block": block,
            "true": int(check.true[i]),
            "log_z": check.log_z[i].tolist(),
            "se": check.se[i].tolist(),
            "exact": known.log_z[i].tolist(),
            "warned": bool(check.warned[i]),
            "seconds": seconds / len(check.true),
        }
        for i in range(len(check.true))
    ]


def study(n_datasets, method, options, record):
    """Make the blocks that the record lacks, and give all of its rows."""
    models, exact = nested_models()
    record.parent.mkdir(parents=True, exist_ok=True)
    rows = [json.loads(line) for line in record.read_text().splitlines()] if record.exists() else []
    done = {row["block"] for row in rows}
    for block in range(-(-n_datasets // BLOCK)):
        if block in done:
            continue
        same = {"n_datasets": BLOCK, "random_seed": block, "progressbar": False}
        started = time.process_time()
        check = pm_temper.check_calibration(models, method=method, **same, **QUIET_RUN, **options)
        seconds = time.process_time() - started
        known = pm_temper.check_calibration(models, method=exact, **same)
        rows += (new := rows_of(check, known, block, seconds))
        with record.open("a") as file:
            file.writelines(json.dumps(row) + "\n" for row in new)
        console.print(f"{len(rows)} data sets")
    return rows


QUIET_RUN = {name: value for name, value in QUIET.items() if name != "progressbar"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", type=int, default=500)
    parser.add_argument("--method", default="pt")
    parser.add_argument("--draws", type=int)
    parser.add_argument("--chains", type=int, default=2)
    parser.add_argument("--record", type=Path, default=SHORT_FOLDER / "model_calibration.jsonl")
    arguments = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    options = {"chains": arguments.chains}
    if arguments.draws:
        options["draws"] = arguments.draws
    rows = study(arguments.datasets, arguments.method, options, arguments.record)
    true, warned = (np.array([row[name] for row in rows]) for name in ("true", "warned"))
    log_z, se, exact = (np.array([row[name] for row in rows]) for name in ("log_z", "se", "exact"))
    names, prior = ("level", "slope"), np.full(2, 0.5)
    estimated = ModelCalibration(names, prior, true, log_z, se, warned)
    known = ModelCalibration(names, prior, true, exact, 0 * se, np.zeros(len(true), dtype=bool))
    for title, check in (("estimated log Z", estimated), ("exact log Z", known)):
        console.print(f"\n{title}\n{check}")
    error = log_z - exact
    covered = int((np.abs(error) < 1.96 * se).sum())
    console.print(
        f"\nRMSE of log Z {rmse(error.ravel()):.4f}, median se {np.median(se):.4f}, within 1.96 se "
        f"{covered} of {error.size}; largest change of a probability "
        f"{np.abs(estimated.probabilities - known.probabilities).max():.4f}; "
        f"{np.mean([row['seconds'] for row in rows]):.2f} CPU s for each data set"
    )
    axes = pm_temper.plot_calibration(estimated)
    pyplot()
    save(axes.figure, "model_calibration", full=len(rows) >= 500)


if __name__ == "__main__":
    main()
