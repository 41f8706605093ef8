"""Spikes at random places over a slab, of which no search finds all, and whether runs say so.

    python benchmarks/spikes.py --seeds 2

The posterior is a mixture of a Gaussian slab and of equal narrow spikes, and log Z is 0: a run that
finds some of the spikes is low by the mass of the others. Printed are the runs that are more than
four errors off, those of them without a warning, the share of the fits' mass that was found
once, and what replicas started from.
"""

import argparse
import json
import logging
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from figures import QUIET, SHORT_FOLDER, console, table

SLAB_SD = 5.0
DIMS, SPIKES, WIDTHS = (2, 4, 6, 8), (10, 30, 100), (0.2, 0.4)
IN_SLAB = 0.3  # of the mass


def spikes(dim, n_spikes, width):
    """Model of which the likelihood lifts the spikes out of the slab, its prior."""
    at = SLAB_SD * np.random.default_rng(0).normal(size=(n_spikes, dim))
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, SLAB_SD, shape=dim)
        slab = -0.5 * (x**2).sum() / SLAB_SD**2 - dim * np.log(SLAB_SD)
        spike = -0.5 * ((x[None, :] - at) ** 2).sum(1) / width**2 - dim * np.log(width)
        shares = np.log(IN_SLAB), np.log((1.0 - IN_SLAB) / n_spikes)
        pm.Potential("spikes", pt.logaddexp(shares[0], shares[1] + pt.logsumexp(spike) - slab))
    return model


def one_run(target, seed):
    """What a default run says, as a dictionary for one line of the record."""
    import pymc_tempering as pm_temper

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    estimate = pm_temper.estimate_logz(spikes(*target), random_seed=seed, **QUIET)
    searched = estimate.idata["tempering"].dataset
    stats = estimate.idata["sample_stats"].dataset
    return {
        "target": target,
        "seed": seed,
        "log_z": float(estimate.log_z),
        "se": float(estimate.se),
        "warnings": [diagnostic.code for diagnostic in estimate.warnings],
        "once": float(searched["search_mass_once"].values.max()),
        "fits": int(stats["tuned"].sel(tuned_entry="n_components").values[:, -1].min()),
        "arrivals": int(stats["n_tempered_restarts"].values.sum()),
    }


def row(target, runs):
    """Cells of one target."""
    errors = np.array([abs(run["log_z"]) for run in runs])
    wrong = errors > 4.0 * np.array([run["se"] for run in runs])
    said = np.array([bool(run["warnings"]) for run in runs])
    return [
        f"{target[1]} spikes of {target[2]} in {target[0]}-d",
        len(runs),
        int(wrong.sum()),
        int((wrong & ~said).sum()),
        int((~wrong & said).sum()),
        ", ".join(f"{run['log_z']:.2f}" for run in runs),
        ", ".join(f"{run['once']:.2g}" for run in runs),
        ", ".join(str(run["fits"]) if run["fits"] else "Gaussian" for run in runs),
    ]


def main():
    """Print one row per target."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--record", type=Path, default=SHORT_FOLDER / "spikes.jsonl")
    args = parser.parse_args()
    targets = list(product(DIMS, SPIKES, WIDTHS))
    context = get_context("spawn")
    with ProcessPoolExecutor(args.jobs, mp_context=context, max_tasks_per_child=1) as pool:
        requested = list(product(targets, range(args.seeds)))
        runs = []
        args.record.parent.mkdir(parents=True, exist_ok=True)
        for run in pool.map(one_run, *zip(*requested, strict=True)):
            runs.append(run)
            console.print(run)
            args.record.write_text("".join(json.dumps(each) + "\n" for each in runs))
    rows = [row(t, [run for run in runs if run["target"] == t]) for t in targets]
    rows.append(["all", *(sum(cells[i] for cells in rows) for i in range(1, 5)), "", "", ""])
    header = ["target", "runs", "wrong", "silent", "right, warned", "log Z", "found once", "fits"]
    table("Spikes over a slab", header, rows)


if __name__ == "__main__":
    main()
