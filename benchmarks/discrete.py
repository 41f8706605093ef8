"""Models with discrete variables and exact answers, by compiled Gibbs sweeps and by PyMC's moves.

    python benchmarks/discrete.py --seeds 2

Three tables. Log Z by `estimate_logz` as it is (`DiscreteTempering`, and the last target without
discrete variables), with the largest error of the probability of a mode or an indicator; CPU
seconds contain compiling. What a scan of the same levels costs by compiled moves and by PyMC's step
methods (`CompoundTempering`), compiling and tuning excluded. And what `pm.sample` says of the same
probabilities by itself, by default.
"""

import argparse
import logging
import time
import warnings

import numpy as np
import pymc as pm
from figures import QUIET, console, table
from hard_targets import judge
from hard_targets.discrete import DISCRETE

import pymc_tempering as pm_temper

N_COMPILED, N_PYMC = 2000, 100


def log_z(target, seed):
    """One default run: a row of the first table, and the levels that it came to."""
    started = time.process_time()
    estimate = pm_temper.estimate_logz(target.model, chains=4, random_seed=seed, **QUIET)
    seconds = time.process_time() - started
    verdict = judge(target, estimate, estimate.idata)
    betas = estimate.idata["sample_stats"]["betas"].values[0, -1]
    row = [target.name, seed, f"{target.log_z:.3f}", f"{estimate.log_z:.3f}", f"{verdict.se:.3f}",
           f"{verdict.error / verdict.se:+.1f}", worst(verdict.masses), f"{seconds:.1f}",
           ", ".join(verdict.wrong) or "-"]  # fmt: skip
    return row, betas[np.isfinite(betas)]


def worst(masses):
    """Largest error of a probability, as text."""
    return f"{max(masses.values(), key=abs):+.3f}"


def seconds_of_scan(step_class, model, betas, n_scans):
    """CPU seconds of a scan at these levels, tuning and compiling excluded."""
    step = step_class(model=model, betas=betas, scans_per_draw=10)
    step.setup_chain(np.random.default_rng(1), 10, 1)
    point = model.initial_point()
    for _ in range(10):
        point, _ = step.step(point)
    step.stop_tuning()
    ladder, rng = step._run.ladder, np.random.default_rng(2)
    ladder.run(10, rng)
    started = time.process_time()
    ladder.run(n_scans, rng)
    return (time.process_time() - started) / n_scans


def alone(target, seed):
    """Errors of the same probabilities in each chain of ``pm.sample``."""
    started = time.process_time()
    idata = pm.sample(model=target.model, chains=4, random_seed=seed, **QUIET)
    seconds = time.process_time() - started
    posterior = idata["posterior"].to_dataset()
    by_chain = {
        name: np.asarray(part.contains(posterior), dtype=float).mean(axis=1)
        for name, part in target.parts.items()
    }
    name = max(by_chain, key=lambda n: abs(by_chain[n].mean() - target.parts[n].probability))
    shares = ", ".join(f"{share:.2f}" for share in by_chain[name])
    exact = target.parts[name].probability
    return [target.name, name, f"{exact:.3f}", shares, f"{by_chain[name].mean() - exact:+.3f}",
            f"{seconds:.1f}"]  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--names", help="targets, separated by commas; default: all")
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    names = arguments.names.split(",") if arguments.names else list(DISCRETE)
    targets = [DISCRETE[name]() for name in names]
    first, second, third = [], [], []
    for target in targets:
        for seed in range(arguments.seeds):
            row, betas = log_z(target, seed)
            first.append(row)
            console.print("log Z", *row)
        third.append(alone(target, 0))
        if target.model.discrete_value_vars:
            compiled = seconds_of_scan(pm_temper.DiscreteTempering, target.model, betas, N_COMPILED)
            python = seconds_of_scan(pm_temper.CompoundTempering, target.model, betas, N_PYMC)
            second.append([target.name, betas.size, f"{1e6 * compiled:.0f}", f"{1e6 * python:.0f}",
                           f"{python / compiled:.0f}"])  # fmt: skip
    table("estimate_logz, 4 chains, as it is",
          ["", "seed", "exact log Z", "log Z", "its error", "off by", "worst probability off by",
           "CPU s", "wrong"], first)  # fmt: skip
    table("a scan, microseconds of CPU",
          ["", "levels", "compiled", "PyMC's moves", "ratio"], second)  # fmt: skip
    table("pm.sample alone, 4 chains of 1000 + 1000 draws: the probability furthest off",
          ["", "of what", "exact", "in each chain", "off by", "CPU s"], third)  # fmt: skip


if __name__ == "__main__":
    main()
