"""Figure 2 of Graham & Storkey (2017), computed again: log Z of the radon model against time.

Joint continuous tempering by NUTS, and parallel tempering, against the lower bound of mean-field
ADVI and the exact value, -1081.0217. Time is CPU seconds of one process after compilation, with
fits, pilot run and tuning. As in the paper the base is the ADVI fit and log zeta its bound; beside
it joint continuous tempering with base and bias from the package's own pilot run.
"""

import argparse
import time
from types import SimpleNamespace

import numpy as np
import pymc as pm
from figures import (
    COLOURS,
    QUIET,
    Clock,
    cases_or_none,
    console,
    finding,
    plain_log,
    pyplot,
    save,
    table,
)

import pymc_tempering as pm_temper
from pymc_tempering.evidence.stored import estimate_from_idata
from pymc_tempering.transform.analysis import collect_bridge
from pymc_tempering.transform.untempered import statistics_of_draws

SOURCE = "Graham & Storkey 2017, figure 2"
LOOK = {
    "joint CT, ADVI base and slope": (COLOURS["Gibbs CT"], "s"),
    "joint CT, piloted base and bias": (COLOURS["joint CT"], "D"),
    "PT": (COLOURS["PT"], "o"),
}


def prefixes(n_draws, n_points=8):
    return np.unique(np.geomspace(max(20, n_draws // 40), n_draws, n_points).astype(int))


def run_joint(case, base, settings, seed):
    """Times and estimates with increasing numbers of draws of NUTS on the tempered model."""
    options = {} if base is None else {"base": base, "log_zeta": base.log_zeta}
    started = time.process_time()
    tempered = pm_temper.temper(case.model, random_seed=seed, **options)
    fixed = time.process_time() - started
    with tempered:
        # compiles, so that the clock does not
        pm.sample(2, tune=2, chains=1, random_seed=0, **QUIET)
        clock = Clock()
        idata = pm.sample(
            settings.joint_draws, tune=settings.joint_tune, chains=settings.chains,
            random_seed=seed, callback=clock, **QUIET,
        )  # fmt: skip
    elapsed = fixed + clock.elapsed(settings.joint_tune)
    ends = prefixes(settings.joint_draws)
    parts = [statistics_of_draws(idata.isel(draw=slice(0, n))) for n in ends]
    log_z = [float(collect_bridge(part).log_z.mean()) for part in parts]
    return elapsed[ends - 1], np.array(log_z)


def run_parallel(case, settings, seed):
    with case.model:
        step = pm_temper.ParallelTempering()
        clock = Clock()
        idata = pm.sample(
            settings.draws, step=step, chains=settings.chains, tune=settings.tune,
            random_seed=seed, callback=clock, **QUIET,
        )  # fmt: skip
    elapsed = clock.elapsed(settings.tune)
    ends = prefixes(settings.draws)
    estimates = [estimate_from_idata(idata.isel(draw=slice(0, n))) for n in ends]
    return elapsed[ends - 1], np.array([e.log_z for e in estimates])


def advi(case, seed):
    """The bound of mean-field ADVI and the CPU seconds of the fit, and the fit itself."""
    pm_temper.fit_base(case.model, random_seed=seed)
    started = time.process_time()
    base = pm_temper.fit_base(case.model, random_seed=seed)
    return base, time.process_time() - started


def draw(curves, exact, base, seconds, full):
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    for name, runs in curves.items():
        colour, marker = LOOK[name]
        for i, (elapsed, log_z) in enumerate(runs):
            for axis in axes:
                axis.plot(
                    elapsed, log_z, marker + "-", color=colour, lw=1, markersize=4,
                    label=None if i else name,
                )  # fmt: skip
    for axis in axes:
        axis.axhline(exact, color=COLOURS["exact"], ls="--", lw=1.2, label="exact")
        plain_log(axis, "x")
        axis.set(xlabel="CPU time of all chains (s)", ylabel="log Z (nats)")
        axis.grid(alpha=0.3)
    axes[0].plot([seconds], [base.log_zeta], "v", color=COLOURS["AIS"])
    axes[0].axhline(base.log_zeta, color=COLOURS["AIS"], ls="-.", lw=1.2, label="ADVI bound")
    axes[0].legend(fontsize=8, loc="center right")
    axes[0].set_title("radon, with the bound")
    # less than a decade: ticks at 1, 2 and 5 would be one or two
    plain_log(axes[1], "x", subs=(1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0))
    axes[1].set(ylim=(exact - 1.2, exact + 1.2), title="the same, near the exact value")
    save(figure, "papers_radon", full)


def run(full=False, seed=1):
    cases = cases_or_none()
    if cases is None:
        return
    case = cases["radon"]()
    settings = SimpleNamespace(
        chains=4 if full else 2, joint_draws=2500 if full else 1500,
        joint_tune=1000 if full else 400, draws=160 if full else 60, tune=130 if full else 80,
    )  # fmt: skip
    n_seeds = 3 if full else 2
    base, seconds = advi(case, seed)
    with case.model:
        pm.sample(2, tune=2, chains=1, step=pm_temper.ParallelTempering(), **QUIET)
    seeds = range(seed, seed + n_seeds)
    names = list(LOOK)
    curves = {
        names[0]: [
            (seconds + elapsed, log_z)
            for elapsed, log_z in (run_joint(case, base, settings, s) for s in seeds)
        ],
        names[1]: [run_joint(case, None, settings, s) for s in seeds],
        names[2]: [run_parallel(case, settings, s) for s in seeds],
    }
    rows = [("ADVI bound", f"{seconds:.2f}", f"{base.log_zeta:.2f}",
             f"{base.log_zeta - case.log_z:+.2f}")]  # fmt: skip
    for name, runs in curves.items():
        for elapsed, log_z in runs:
            for k in (0, len(elapsed) // 2, -1):
                rows.append(  # noqa: PERF401
                    (name, f"{elapsed[k]:.1f}", f"{log_z[k]:.2f}", f"{log_z[k] - case.log_z:+.2f}")
                )
    table(
        f"radon, exact log Z {case.log_z:.4f}, {settings.chains} chains",
        ["method", "CPU seconds", "log Z", "error"], rows,
    )  # fmt: skip
    draw(curves, case.log_z, base, seconds, full)
    last = {name: np.mean([log_z[-1] for _, log_z in runs]) - case.log_z
            for name, runs in curves.items()}  # fmt: skip
    gap = base.log_zeta - case.log_z
    shown = ", ".join(f"{name} {value:+.2f}" for name, value in last.items())
    for name in names[:2]:
        finding(
            SOURCE, f"{name}: close to log Z, and far above the ADVI bound",
            bool(gap < 0 and abs(last[name]) < 0.1 * abs(gap)),
            f"errors: bound {gap:+.2f}, {shown}",
        )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run(options.full, options.seed)
    console.print()
