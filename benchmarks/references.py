"""What a run of parallel tempering starts from: one wide Gaussian, a mixture, or what tuning finds.

For every case and base: error of log Z over seeds and the error that the runs report, the largest
error of a mode's mass, the gradients of tuning and of draws, levels, chains that started from a
mixture, how dependent draws are, and runs with a warning.

    python benchmarks/references.py --cases bimodal_gmm,phase_transition --seeds 5
"""

import argparse
import logging
import warnings
from collections import Counter

import bench
import numpy as np
import pymc as pm
import pytensor.tensor as pt
from figures import rmse
from rich.console import Console
from rich.table import Table
from scipy import special

import pymc_tempering as pm_temper
from pymc_tempering.references.quality import variance_of_barrier
from pymc_tempering.results.datatree import read_statistics

CASES = ("bimodal_gmm", "bimodal_gmm_30", "label_switching", "bmr_0", "poe_student",
         "linear_gaussian", "conjugate_regression", "phase_transition")  # fmt: skip
COLUMNS = (
    "base",
    "RMSE",
    "se",
    "bias",
    "mass",
    "tuning",
    "draws",
    "levels",
    "mixtures",
    "dependence",
    "warned",
)


def phase_transition(dim=10):
    """Two concentric Gaussians in a box, the narrow one with 0.9 of the mass."""
    log_ratio = np.log(9.0) + dim * np.log(10.0)
    with pm.Model() as model:
        x = pm.Uniform("x", -5, 5, shape=dim)
        r2, constant = (x**2).sum(), -0.5 * dim * np.log(2 * np.pi)
        wide, narrow = -0.5 * r2 + constant, log_ratio - 50.0 * r2 + constant
        pm.Potential("likelihood", pt.logaddexp(wide, narrow))
    inside = dim * np.log(special.erf(np.array([5.0, 50.0]) / np.sqrt(2.0)))
    return model, float(np.logaddexp(inside[0], inside[1] + np.log(9.0)) - dim * np.log(10.0))


def mass_error(name, posterior):
    """Largest error of a mode's share of the draws; nan where modes are not known."""
    if name.startswith("bimodal_gmm"):
        exact = 0.3 if name.endswith("30") else 0.5
        return abs(float((posterior["x"].values[..., 0] < 0.0).mean()) - exact)
    if name == "label_switching":
        order = np.argsort(posterior["mu"].values.reshape(-1, 3), axis=1)
        shares = np.bincount(order @ [9, 3, 1])
        return float(np.abs(shares[shares > 0] / len(order) - 1 / 6).max()) if (
            (shares > 0).sum() == 6
        ) else 1 / 6  # fmt: skip
    if name == "phase_transition":
        x = posterior["x"].values
        return abs(float(((x**2).sum(axis=-1) < 0.09 * x.shape[-1]).mean()) - 0.9)
    return np.nan


def dependence(tuner):
    """Variance of log Z for each scan of the last round, over that of independent draws.

    The prediction of `pymc_tempering.steps.round.predicted_moves` takes it to be the same for
    all references of a target.
    """
    n = tuner.ladder.n_levels - 1
    return tuner.scan_variance / (variance_of_barrier(tuner.barrier) * (n - 0.5) / n**2)


def one_run(model, name, log_z, seed, given):
    step = pm_temper.ParallelTempering(model=model, **given)
    idata = pm.sample(
        160, step=step, model=model, chains=4, cores=1, random_seed=seed, progressbar=False,
        quiet=True, discard_tuned_samples=False, compute_convergence_checks=False,
    )  # fmt: skip
    estimate = pm_temper.estimate_logz(idata)
    statistics = idata["sample_stats"]
    levels = np.isfinite(statistics["betas"].values[:, -1]).sum(axis=-1)
    mixtures = read_statistics(estimate.idata)["n_components"]
    return {
        "error": estimate.log_z - log_z,
        "se": estimate.se,
        "mass": mass_error(name, idata["posterior"]),
        "tuning": float(idata["warmup_sample_stats"]["n_gradients"].sum()),
        "draws": float(statistics["n_gradients"].sum()),
        "levels": levels.mean(),
        "mixtures": int((mixtures[:, -1] > 0).sum()),
        "dependence": dependence(step._run.tuner),
        "warned": len(estimate.warnings) > 0,
        "codes": [warning.code for warning in estimate.warnings],
    }


def row(base, runs):
    numbers = [name for name in runs[0] if name != "codes"]
    column = {name: np.array([run[name] for run in runs], dtype=float) for name in numbers}
    thousands = [f"{np.median(column[name]) / 1e3:.0f}" for name in ("tuning", "draws")]
    return (
        base, f"{rmse(column['error']):.3f}", f"{np.median(column['se']):.3f}",
        f"{column['error'].mean():+.3f}", f"{np.max(column['mass']):.3f}", *thousands,
        f"{column['levels'].mean():.1f}", f"{column['mixtures'].mean():.1f}",
        f"{np.median(column['dependence']):.2g}",
        f"{int(column['warned'].sum())} of {len(runs)}",
    )  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--bases", default="default,gaussian,mixture")
    parser.add_argument("--seeds", type=int, default=5)
    arguments = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    console = Console(width=110)
    cases = bench.load_cases()
    for name in arguments.cases.split(","):
        if name == "phase_transition":
            model, log_z = phase_transition()
        else:
            model, log_z = bench.model_and_log_z(name, cases)
        title = f"{name}, {arguments.seeds} seeds; gradients of four chains in thousands"
        table, codes = Table(*COLUMNS, title=title), Counter()
        for base in arguments.bases.split(","):
            given = {} if base == "default" else {"base": base}
            runs = [one_run(model, name, log_z, seed, given)
                    for seed in range(1, arguments.seeds + 1)]  # fmt: skip
            table.add_row(*row(base, runs))
            codes.update(code for run in runs for code in run["codes"])
        console.print(table)
        if codes:
            console.print("warnings: " + ", ".join(f"{n} x {code}" for code, n in codes.items()))


if __name__ == "__main__":
    main()
