"""Figure 2 of Carlson et al. (2016), computed again, with their figure 4 for this target.

Two ten-dimensional Gaussians (their appendix E.1: covariance 0.5 I, 5 apart, base N(0, 30 I)):
error of log Z by Rao-Blackwellised tempered sampling against thermodynamic integration (right
Riemann sum, trapezium rule, corrected), its Rao-Blackwellised form, and MBAR, all from the same
draws of simulated tempering. On the right the same against the number of levels.
"""

import argparse

import numpy as np
import pymc as pm
from figures import COLOURS, QUIET, cases_or_none, console, finding, pyplot, rmse, save, table

import pymc_tempering as pm_temper
from pymc_tempering.estimators.mbar import mbar_samples
from pymc_tempering.estimators.rts import rts
from pymc_tempering.estimators.thermodynamic import thermodynamic_integration_rb
from pymc_tempering.schedule.adapt import equal_barrier_schedule

SOURCE = "Carlson et al. 2016, figures 2 and 4"
LOOK = {
    "RTS": (COLOURS["ST"], "^"),
    "MBAR": (COLOURS["PT"], "o"),
    "TI-RB": (COLOURS["joint CT"], "D"),
    "TI, corrected": (COLOURS["AIS"], "v"),
    "TI, trapezium": (COLOURS["Gibbs CT"], "s"),
    "TI, Riemann": (COLOURS["bound"], "P"),
}


def integrate(delta, level, betas, rule):
    """TI from draws that visit one level at a time; empty levels by linear interpolation."""
    n = betas.size
    counts = np.bincount(level, minlength=n)
    seen = counts > 0
    mean, square = (
        np.interp(betas, betas[seen], (np.bincount(level, x, n)[seen] / counts[seen]))
        for x in (delta, delta**2)
    )
    variance = np.maximum(square - mean**2, 0.0)
    step = np.diff(betas)
    if rule == "riemann":
        return float(step @ mean[1:])
    trapezium = float(0.5 * step @ (mean[1:] + mean[:-1]))
    return trapezium if rule == "trapezium" else trapezium - step**2 @ np.diff(variance) / 12.0


def estimates(delta, level, betas, weights):
    both_ends = level.min() == 0 and level.max() == betas.size - 1
    return {
        "RTS": rts(delta, betas, weights).log_z[-1],
        "MBAR": mbar_samples(delta, level, betas).log_z[-1] if both_ends else np.nan,
        "TI-RB": thermodynamic_integration_rb(delta, betas, weights).log_z[-1],
        "TI, corrected": integrate(delta, level, betas, "corrected"),
        "TI, trapezium": integrate(delta, level, betas, "trapezium"),
        "TI, Riemann": integrate(delta, level, betas, "riemann"),
    }


def schedule(case, base):
    """Equal barrier, from a run of parallel tempering, as a function of the number of levels."""
    with case.model:
        step = pm_temper.ParallelTempering(base=base, adapt_base=False)
        stats = pm.sample(40, step=step, chains=1, random_seed=1, **QUIET).sample_stats
    betas = stats["betas"].values[0, -1]
    betas = betas[np.isfinite(betas)]
    rejection = 1.0 - stats["swap_acceptance_rate"].values[0, :, : betas.size - 1].mean(axis=0)
    return lambda n: equal_barrier_schedule(betas, rejection, n)


def simulate(case, base, betas, n_scans, seed):
    """One chain of simulated tempering: deltas and levels in the order in which they arose."""
    with case.model:
        step = pm_temper.SimulatedTempering(
            base=base, adapt_base=False, betas=betas, scans_per_draw=50
        )
        stats = pm.sample(
            n_scans // 50, tune=100, step=step, chains=1, random_seed=seed, **QUIET
        ).sample_stats
    delta, level = (stats[name].values.reshape(-1) for name in ("delta", "level"))
    # delta is recorded where the level was drawn, so that (position, level) pairs are draws of the
    # joint density
    return delta, level.astype(int), stats["log_level_weights"].values[0, -1]


def measure(case, base, betas, lengths, n_repeats, seed):
    errors = {name: np.empty((n_repeats, len(lengths))) for name in LOOK}
    for repeat in range(n_repeats):
        delta, level, weights = simulate(case, base, betas, max(lengths), seed + repeat)
        for i, n in enumerate(lengths):
            for name, value in estimates(delta[:n], level[:n], betas, weights).items():
                errors[name][repeat, i] = value - case.log_z
    return errors


def show(title, head, xs, errors):
    rows = [
        [name] + [f"{rmse(e[:, i]):.3f} ({e[:, i].mean():+.3f})" for i in range(len(xs))]
        for name, e in errors.items()
    ]
    table(title, [head, *(f"{x:,}" for x in xs)], rows)


def draw(lengths, by_length, sizes, by_size, n_draws, n_levels):
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained", sharey=True)
    for axis, xs, errors in ((axes[0], lengths, by_length), (axes[1], sizes, by_size)):
        for name, (colour, marker) in LOOK.items():
            axis.plot(xs, rmse(errors[name], axis=0), marker + "-", color=colour, label=name)
        axis.set(xscale="log", yscale="log", xticks=xs, xticklabels=[f"{x:,}" for x in xs])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set(xlabel=f"draws ({n_levels} levels)", ylabel="RMSE of log Z (nats)")
    axes[1].set(xlabel=f"levels ({n_draws:,} draws)")
    axes[0].legend(fontsize=8)
    save(figure, "papers_rts")


def run(full=False, seed=1):
    cases = cases_or_none()
    if cases is None:
        return
    case = cases["bimodal_gmm"]()
    dim = case.mean.size
    base = pm_temper.GaussianBase(np.zeros(dim), np.full(dim, np.sqrt(30.0)))
    betas_for = schedule(case, base)
    lengths = (200, 1000, 5000, 20_000) if full else (200, 1000, 4000)
    n_repeats = 30 if full else 10
    n_levels = 20
    by_length = measure(case, base, betas_for(n_levels), lengths, n_repeats, seed)
    title = f"RMSE (bias) of log Z in nats, {n_repeats} repeats"
    show(f"{title}, {n_levels} levels", "draws", lengths, by_length)
    sizes = (10, 20, 40, 100, 200) if full else (10, 20, 40, 100)
    by_size = {name: np.empty((n_repeats, len(sizes))) for name in LOOK}
    for i, n in enumerate(sizes):
        if n == n_levels:
            errors = {name: e[:, [lengths.index(1000)]] for name, e in by_length.items()}
        else:
            errors = measure(case, base, betas_for(n), (1000,), n_repeats, seed + 1000 * n)
        for name in LOOK:
            by_size[name][:, i] = errors[name][:, 0]
    show(f"{title}, 1,000 draws", "levels", sizes, by_size)
    draw(lengths, by_length, sizes, by_size, 1000, n_levels)
    long = {name: rmse(e[:, -1]) for name, e in by_length.items()}
    exact = ("RTS", "MBAR")
    finding(
        SOURCE, "RTS is as accurate as MBAR and better than TI from the same draws",
        bool(long["RTS"] < 1.3 * long["MBAR"] and long["RTS"] <= 1.05 * min(
            long[n] for n in LOOK if n.startswith("TI, "))),
        f"{lengths[-1]:,} draws: " + ", ".join(f"{n} {v:.3f}" for n, v in long.items()),
    )  # fmt: skip
    close = max(long[n] for n in (*exact, "TI-RB", "TI, corrected")) / min(
        long[n] for n in (*exact, "TI-RB", "TI, corrected")
    )
    finding(
        SOURCE, "RTS, MBAR, TI-RB and corrected TI are nearly identical",
        bool(close < 1.3), f"largest over smallest RMSE {close:.2f}",
    )  # fmt: skip
    gap = np.abs(by_size["TI-RB"] - by_size["RTS"]).mean(axis=0)
    finding(
        SOURCE, "RTS does not mind many levels, and TI-RB becomes RTS",
        bool(gap[-1] < 0.2 * gap[0]), "mean |TI-RB - RTS| " + ", ".join(
            f"{n} levels {g:.3f}" for n, g in zip(sizes, gap, strict=True)),
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run(options.full, options.seed)
    console.print()
