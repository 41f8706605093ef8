"""Figure 2 of Carlson et al. (2016), computed again, with their figure 4 for this target.

Two ten-dimensional Gaussians (their appendix E.1: covariance 0.5 I, 5 apart, base N(0, 30 I)):
error of log Z by Rao-Blackwellised tempered sampling against thermodynamic integration (right
Riemann sum, trapezium rule, corrected), its Rao-Blackwellised form, and MBAR, all from the same
draws of simulated tempering. On the right the same against the number of levels. Levels at equal
barrier and weights near the truth come from a pilot run, so that no chain stays at one end.
"""

import argparse

import numpy as np
import pymc as pm
from figures import (
    COLOURS,
    QUIET,
    cases_or_none,
    console,
    finding,
    plain_log,
    pyplot,
    rmse,
    save,
    table,
)
from scipy.interpolate import CubicHermiteSpline

import pymc_tempering as pm_temper
from pymc_tempering.estimators.mbar import mbar, mbar_samples
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


def without_bias(delta, level, betas, weights):
    """Log Z by the three estimators that need no rule of integration."""
    both_ends = level.min() == 0 and level.max() == betas.size - 1
    return {
        "RTS": rts(delta, betas, weights).log_z[-1],
        "MBAR": mbar_samples(delta, level, betas).log_z[-1] if both_ends else np.nan,
        "TI-RB": thermodynamic_integration_rb(delta, betas, weights).log_z[-1],
    }


def estimates(delta, level, betas, weights):
    return without_bias(delta, level, betas, weights) | {
        "TI, corrected": integrate(delta, level, betas, "corrected"),
        "TI, trapezium": integrate(delta, level, betas, "trapezium"),
        "TI, Riemann": integrate(delta, level, betas, "riemann"),
    }


class Ladder:
    """Levels at equal barrier and their normalisers for any number of levels, from a pilot run."""

    def __init__(self, case, base):
        with case.model:
            step = pm_temper.ParallelTempering(base=base, adapt_base=False, n_levels=32)
            idata = pm.sample(100, step=step, chains=1, random_seed=1, **QUIET)
        stats = {name: values.values[0] for name, values in idata.sample_stats.items()}
        betas = stats["betas"][-1]
        betas = betas[np.isfinite(betas)]
        rejection = 1.0 - stats["swap_acceptance_rate"][:, : betas.size - 1].mean(axis=0)
        delta = stats["delta"][..., : betas.size].reshape(-1, betas.size)
        self.betas, self.rejection = betas, rejection
        # log z and its slope, the mean of delta, at every level
        self.log_z = CubicHermiteSpline(betas, mbar(delta, betas).log_z, delta.mean(axis=0))

    def __call__(self, n_levels):  # noqa: D102
        betas = equal_barrier_schedule(self.betas, self.rejection, n_levels)
        return betas, -self.log_z(betas)


def simulate(case, base, ladder, n_scans, seed):
    """One chain of simulated tempering: deltas and levels in the order in which they arose."""
    with case.model:
        step = pm_temper.SimulatedTempering(
            base=base, adapt_base=False, betas=ladder[0], log_level_weights=ladder[1],
            scans_per_draw=50,
        )  # fmt: skip
        stats = pm.sample(
            n_scans // 50, tune=100, step=step, chains=1, random_seed=seed, **QUIET
        ).sample_stats
    delta, beta = (stats[name].values.reshape(-1) for name in ("delta", "beta"))
    level = np.searchsorted(ladder[0], beta)
    # delta is recorded where the level was drawn, so that (position, level) pairs are draws of the
    # joint density
    return delta, level.astype(int)


def measure(case, base, ladder, lengths, n_repeats, seed):
    errors = {name: np.empty((n_repeats, len(lengths))) for name in LOOK}
    for repeat in range(n_repeats):
        delta, level = simulate(case, base, ladder, max(lengths), seed + repeat)
        for i, n in enumerate(lengths):
            for name, value in estimates(delta[:n], level[:n], *ladder).items():
                errors[name][repeat, i] = value - case.log_z
    return errors


def cell(errors):
    """RMSE and bias; none for MBAR where a chain has not been at both ends."""
    return f"{rmse(errors):.3f} ({errors.mean():+.3f})" if np.isfinite(errors).all() else "-"


def show(title, head, xs, errors):
    rows = [[name, *map(cell, e.T)] for name, e in errors.items()]
    table(title, [head, *(f"{x:,}" for x in xs)], rows)


def draw(lengths, by_length, sizes, by_size, n_draws, n_levels, full):
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained", sharey=True)
    for axis, xs, errors in ((axes[0], lengths, by_length), (axes[1], sizes, by_size)):
        for name, (colour, marker) in LOOK.items():
            hollow = {"mfc": "none", "ms": 11} if name == "RTS" else {"ms": 5}
            axis.plot(
                xs, rmse(errors[name], axis=0), marker + "-", color=colour, label=name, **hollow
            )
        plain_log(axis)
        axis.set(xticks=xs, xticklabels=[f"{x:,}" for x in xs])
        axis.grid(alpha=0.3)
    axes[0].set(xlabel=f"draws ({n_levels} levels)", ylabel="RMSE of log Z (nats)")
    axes[1].set(xlabel=f"levels ({n_draws:,} draws)")
    axes[0].legend(fontsize=8)
    save(figure, "papers_rts", full)


def run(full=False, seed=1):
    cases = cases_or_none()
    if cases is None:
        return
    case = cases["bimodal_gmm"]()
    dim = case.mean.size
    base = pm_temper.GaussianBase(np.zeros(dim), np.full(dim, np.sqrt(30.0)))
    ladder = Ladder(case, base)
    lengths = (200, 1000, 5000, 20_000) if full else (200, 1000, 5000)
    n_repeats = 30 if full else 10
    n_levels = 20
    by_length = measure(case, base, ladder(n_levels), lengths, n_repeats, seed)
    title = f"RMSE (bias) of log Z in nats, {n_repeats} repeats"
    show(f"{title}, {n_levels} levels", "draws", lengths, by_length)
    sizes = (10, 20, 40, 100, 200) if full else (10, 20, 40, 100)
    by_size = {name: np.empty((n_repeats, len(sizes))) for name in LOOK}
    for i, n in enumerate(sizes):
        if n == n_levels:
            errors = {name: e[:, [lengths.index(1000)]] for name, e in by_length.items()}
        else:
            errors = measure(case, base, ladder(n), (1000,), n_repeats, seed + 1000 * n)
        for name in LOOK:
            by_size[name][:, i] = errors[name][:, 0]
    show(f"{title}, 1,000 draws", "levels", sizes, by_size)
    draw(lengths, by_length, sizes, by_size, 1000, n_levels, full)
    long = {name: float(rmse(e[:, -1])) for name, e in by_length.items()}
    same = [long[name] for name in ("RTS", "MBAR", "TI-RB", "TI, corrected")]
    values = ", ".join(f"{name} {value:.3f}" for name, value in long.items())
    finding(
        SOURCE, "RTS, MBAR, TI-RB and corrected TI are nearly identical (within 1.35 here)",
        bool(max(same) < 1.35 * min(same)), f"{lengths[-1]:,} draws: {values}",
    )  # fmt: skip
    bias = {name: e[:, -1].mean() for name, e in by_length.items()}
    finding(
        SOURCE, "TI by Riemann sum is far worse, the trapezium rule keeps a discretisation error",
        bool(long["TI, Riemann"] > 3 * long["RTS"] and abs(bias["TI, trapezium"]) > 0.05),
        f"bias Riemann {bias['TI, Riemann']:+.2f}, trapezium {bias['TI, trapezium']:+.2f}, "
        f"corrected {bias['TI, corrected']:+.2f}, RTS {bias['RTS']:+.2f}",
    )  # fmt: skip
    gap = np.abs(by_size["TI-RB"] - by_size["RTS"]).mean(axis=0)
    finding(
        SOURCE, "RTS does not mind many levels, and TI-RB becomes RTS",
        bool(gap[-1] < 0.2 * gap[0]), "mean |TI-RB - RTS| " + ", ".join(
            f"{n} levels {g:.3f}" for n, g in zip(sizes, gap, strict=True)),
    )  # fmt: skip


def main(described, run):
    parser = argparse.ArgumentParser(description=described.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run(options.full, options.seed)
    console.print()


if __name__ == "__main__":
    main(__doc__, run)
