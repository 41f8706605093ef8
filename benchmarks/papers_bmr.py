"""Figure 1 of Graham & Storkey (2017), computed again: Boltzmann machine relaxations.

Errors of log Z, mean and covariance against time, relative to those of the paper's variational
base: below 1 a sampler improves on it. Every method gets this base and leaves it as it is. Gibbs
and joint continuous tempering have the paper's bias with one slope, log zeta from the base; beside
them Gibbs continuous tempering with this package's adapted bias, and parallel tempering, which the
paper does not have. AIS is annealed importance sampling with fresh momentum. Time is CPU seconds
of one process after compilation, tuning included; moments are those of the recorded draws, one for
every 8 scans.
"""

import argparse
import time
from types import SimpleNamespace

import numpy as np
import pymc as pm
from figures import (
    COLOURS,
    MARKERS,
    QUIET,
    Clock,
    cases_or_none,
    console,
    finding,
    plain_log,
    pyplot,
    rmse,
    save,
    table,
)

import pymc_tempering as pm_temper
from pymc_tempering.annealing.particles import anneal
from pymc_tempering.evidence.stored import estimate_from_idata
from pymc_tempering.transform.analysis import collect
from pymc_tempering.transform.untempered import statistics_of_draws

SOURCE = "Graham & Storkey 2017, figure 1"
WHAT = ("log Z", "mean", "covariance")
SCANS_PER_DRAW = 8
STEPS = {
    "PT": lambda base: pm_temper.ParallelTempering(
        base=base, adapt_base=False, scans_per_draw=SCANS_PER_DRAW
    ),
    "ST": lambda base: pm_temper.SimulatedTempering(
        base=base, adapt_base=False, scans_per_draw=SCANS_PER_DRAW
    ),
    "Gibbs CT": lambda base: pm_temper.GibbsCT(
        base=base, log_zeta=base.log_zeta, adapt_base=False, scans_per_draw=SCANS_PER_DRAW
    ),
    "Gibbs CT, adapted bias": lambda base: pm_temper.GibbsCT(
        base=base, adapt_base=False, scans_per_draw=SCANS_PER_DRAW
    ),
}
LOOK = {name: (COLOURS[name], MARKERS[name], "-") for name in ("PT", "ST", "Gibbs CT", "joint CT")}
LOOK["Gibbs CT, adapted bias"] = (COLOURS["Gibbs CT"], "X", "--")
LOOK["AIS"] = (COLOURS["AIS"], MARKERS["AIS"], ":")


def variational_base(case):
    return pm_temper.GaussianBase(
        case.extra["base_mean"], case.extra["base_chol"], float(case.extra["log_zeta"])
    )


def relative_errors(case, log_z, mean, cov):
    base = variational_base(case)
    return (
        abs(log_z - case.log_z) / abs(base.log_zeta - case.log_z),
        rmse(mean - case.mean) / rmse(base.mean - case.mean),
        rmse(cov - case.cov) / rmse(base.covariance - case.cov),
    )


def prefixes(n_draws, n_points=6):
    return np.unique(np.geomspace(max(20, n_draws // 32), n_draws, n_points).astype(int))


def moments(draws):
    flat = draws.reshape(-1, draws.shape[-1])
    return flat.mean(axis=0), np.cov(flat, rowvar=False)


def run_step(case, name, settings, seed):
    """Times and relative errors with increasing numbers of draws of one run."""
    with case.model:
        step = STEPS[name](variational_base(case))
        clock = Clock()
        idata = pm.sample(
            settings.draws[name], step=step, chains=settings.chains, tune=settings.tune,
            random_seed=seed, callback=clock, **QUIET,
        )  # fmt: skip
    draws = idata.posterior[case.var].values
    elapsed = clock.elapsed(settings.tune)
    return [
        (elapsed[n - 1], *relative_errors(
            case, estimate_from_idata(idata.isel(draw=slice(0, n))).log_z, *moments(draws[:, :n])))
        for n in prefixes(settings.draws[name])
    ]  # fmt: skip


def run_joint(case, settings, seed):
    """The same for NUTS on the tempered model, by its weighted draws."""
    base = variational_base(case)
    tempered = pm_temper.temper(case.model, base=base, log_zeta=base.log_zeta, random_seed=seed)
    with tempered:
        clock = Clock()
        idata = pm.sample(
            settings.joint_draws, tune=settings.joint_tune, chains=settings.chains,
            random_seed=seed, callback=clock, **QUIET,
        )  # fmt: skip
    positions = idata.posterior[case.var].values
    elapsed = clock.elapsed(settings.joint_tune)
    points = []
    for n in prefixes(settings.joint_draws):
        run = collect(statistics_of_draws(idata.isel(draw=slice(0, n))))
        log_weights = run.arrays["log_weights"]
        weights = np.exp(log_weights - log_weights.max()).ravel()
        flat = positions[:, :n].reshape(weights.size, -1)
        points.append(
            (elapsed[n - 1], *relative_errors(
                case, float(run.log_z.mean()), *weighted_moments(flat, weights)))
        )  # fmt: skip
    return points


def weighted_moments(draws, weights):
    return np.average(draws, axis=0, weights=weights), np.cov(
        draws, rowvar=False, aweights=weights / weights.sum()
    )


def run_annealing(case, settings, seed):
    points = []
    for n_levels in settings.annealing:
        started = time.process_time()
        result = anneal(
            case.model, n_particles=settings.particles, n_levels=n_levels, schedule="sigmoidal",
            base=variational_base(case), adapt_base=False, transitions="fresh_momentum",
            tune=40, random_seed=seed, progressbar=False,
        )  # fmt: skip
        seconds = time.process_time() - started
        log_weights = result.log_weights_forward
        weights = np.exp(log_weights - log_weights.max())
        errors = relative_errors(case, result.log_z, *weighted_moments(result.positions, weights))
        points.append((seconds, *errors))
    return points


def average(runs):
    """Mean over runs of (points, columns), and the standard error of the mean."""
    runs = np.array(runs)
    spread = runs.std(axis=0, ddof=1) / np.sqrt(len(runs)) if len(runs) > 1 else 0 * runs[0]
    return runs.mean(axis=0), spread


def measure(cases, settings, seed):
    runs = {name: [] for name in LOOK}
    for index in range(settings.n_sets):
        case = cases[f"bmr_{index}"]()
        base = variational_base(case)
        with case.model:
            for name in STEPS:
                pm.sample(2, tune=2, chains=1, step=STEPS[name](base), random_seed=0, **QUIET)
        for s in range(seed, seed + settings.n_seeds):
            for name in STEPS:
                runs[name].append(run_step(case, name, settings, s))
            runs["AIS"].append(run_annealing(case, settings, s))
            if index < settings.joint_sets:
                runs["joint CT"].append(run_joint(case, settings, s))
        console.print(f"bmr_{index} done")
    return {name: average(rows) for name, rows in runs.items() if rows}


def draw(results, settings, full):
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.4), layout="constrained", sharex=True)
    for column, (axis, what) in enumerate(zip(axes, WHAT, strict=True), start=1):
        for name, (mean, spread) in results.items():
            colour, marker, line = LOOK[name]
            axis.plot(mean[:, 0], mean[:, column], marker + line, color=colour, label=name, ms=5)
            if name != "AIS":
                low = np.maximum(mean[:, column] - spread[:, column], 1e-3)
                axis.fill_between(
                    mean[:, 0], low, mean[:, column] + spread[:, column], color=colour, alpha=0.12
                )
            else:
                axis.errorbar(mean[:, 0], mean[:, column], spread[:, column], color=colour, ls="")
        axis.axhline(1.0, color=COLOURS["exact"], ls="--", lw=1)
        axis.set(
            title=what, xlabel="CPU time of all chains (s)",
            ylabel=f"error of {what} / that of the base (no unit)",
        )  # fmt: skip
        plain_log(axis)
        axis.grid(alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.suptitle(
        f"Boltzmann machine relaxations, {settings.n_sets} parameter sets, "
        f"{settings.n_seeds} runs of each"
    )
    save(figure, "papers_bmr", full)


def at_time(result, seconds, column):
    mean = result[0]
    return float(np.exp(np.interp(np.log(seconds), np.log(mean[:, 0]), np.log(mean[:, column]))))


def report(results):
    rows = [
        (name, f"{point[0]:.2f}", *(f"{p:.3f} +- {e:.3f}" for p, e in
                                    zip(point[1:], error[1:], strict=True)))
        for name, (mean, spread) in results.items()
        for point, error in zip(mean, spread, strict=True)
    ]  # fmt: skip
    table("error / error of the base", ["method", "CPU seconds", *WHAT], rows)
    last = {name: mean[-1] for name, (mean, _) in results.items()}
    ours = [name for name in last if name != "AIS"]
    for column, what in enumerate(WHAT, start=1):
        values = {name: last[name][column] for name in ours}
        better = sum(value < 1 for value in values.values())
        finding(
            SOURCE, f"tempering improves on the variational base in {what}",
            better == len(ours) or (None if better else False),
            ", ".join(f"{name} {value:.2f}" for name, value in values.items()),
        )  # fmt: skip
    compare(results, ("Gibbs CT", "joint CT"), "AIS")
    compare(results, ("PT", "ST", "Gibbs CT, adapted bias"), "AIS")
    compare(results, ("Gibbs CT",), "ST")


def compare(results, names, other):
    """Errors at the longest time that both have reached."""
    shown, ratios = [], []
    for name in names:
        t = min(results[name][0][-1, 0], results[other][0][-1, 0])
        own = [
            at_time(results[other], t, c) / at_time(results[name], t, c)
            for c in range(1, len(WHAT) + 1)
        ]
        ratios += own
        shown.append(f"{name} at {t:.1f} s " + ", ".join(f"{ratio:.1f}" for ratio in own))
    finding(
        SOURCE, f"{' and '.join(names)} beat {other} at equal time",
        bool(min(ratios) > 1) or (None if max(ratios) > 1 else False),
        f"error of {other} over theirs in log Z, mean, covariance: " + "; ".join(shown),
    )  # fmt: skip


def run(full=False, seed=1, n_sets=None, n_seeds=None):
    cases = cases_or_none()
    if cases is None:
        return
    settings = SimpleNamespace(
        n_sets=n_sets or (5 if full else 2), n_seeds=n_seeds or (10 if full else 2),
        joint_sets=5 if full else 1,
        chains=2, tune=200,
        draws={"PT": 6000 if full else 1600} | {
            name: 30_000 if full else 5000 for name in STEPS if name != "PT"
        },
        joint_draws=10_000 if full else 2500, joint_tune=500 if full else 300,
        annealing=(1000, 5000, 10_000), particles=100,
    )  # fmt: skip
    results = measure(cases, settings, seed)
    draw(results, settings, full)
    report(results)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--sets", type=int, default=None, help="parameter sets, 2 or 5")
    parser.add_argument("--seeds", type=int, default=None, help="runs of each set, 2 or 10")
    options = parser.parse_args()
    run(options.full, options.seed, options.sets, options.seeds)
    console.print()
