"""Round trips of parallel tempering under four ways to exchange neighbours (Syed et al. 2021).

With independent draws at every level the rates of DEO and SEO swaps are 1 / (2 + 2 E) and
1 / (2 N + 2 E), E = sum r / (1 - r) over the rejection rates r of N pairs, and the limit of many
levels is 1 / (2 + 2 Lambda) for DEO and 0 for SEO. Here on the path of a scaled normal, whose
draws, rejection rates and barrier are exact, and with Hamiltonian moves as they are in practice,
for which the rates are upper references.
"""

import argparse

import exact_barrier
import numba
import numpy as np
from figures import COLOURS, console, finding, plain_log, pyplot, save, table

from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.ensembles.swap import SWAP_SCHEMES, swap_sweep, track_trips
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.tally import ROUND_TRIPS, new_counts
from pymc_tempering.schedule.adapt import equal_barrier_schedule, round_trip_rate
from pymc_tempering.testing import correlated_gaussian, scaled_normal

SOURCE = "Syed et al. 2021, theorem 1 and figure 2"
# the first trip of each replica has no beginning: with it rates are too low by n / scans
N_BURN_IN = 5000
SIZES = (3, 5, 9, 17, 33)
LOOK = {
    "deo": ("DEO", COLOURS["PT"], "o"),
    "seo": ("SEO", COLOURS["Gibbs CT"], "s"),
    "sweep": ("full sweep", COLOURS["ST"], "^"),
    "alternating_sweep": ("alternating sweeps", COLOURS["joint CT"], "D"),
}


@numba.njit
def independent_draws(n_scans, scheme, betas, sds, sd_ends, dim, counts, rng):
    """Round trips with exact draws at every level before each sweep."""
    n = betas.size
    delta = np.empty(n)
    replica_at = np.arange(n)
    last_end = np.zeros(n, dtype=np.int64)
    base_sd, target_sd = sd_ends
    slope = 0.5 / base_sd**2 - 0.5 / target_sd**2
    for scan in range(-N_BURN_IN, n_scans):
        if scan == 0:
            counts[:] = 0
        for level in range(n):
            delta[replica_at[level]] = slope * sds[level] ** 2 * rng.chisquare(dim)
        swap_sweep(scheme, scan, betas, delta, replica_at, rng)
        track_trips(replica_at, last_end, counts)
    return counts[ROUND_TRIPS]


def schedule(target, base, n_levels):
    """Equal exact barrier between neighbours."""
    fine = np.linspace(0.0, 1.0, 2001)
    barrier = exact_barrier.cumulative_barrier(target, fine, base)
    return np.interp(np.linspace(0.0, barrier[-1], n_levels), barrier, fine)


def with_independent_draws(n_scans, seed):
    target, base = scaled_normal(dim=12, sd=0.2), GaussianBase(np.zeros(12), np.full(12, 2.0))
    barrier = exact_barrier.global_barrier(target, base)
    rows = []
    for n_levels in SIZES:
        betas = schedule(target, base, n_levels)
        betas[-1] = 1.0
        sds = 1.0 / np.sqrt((1.0 - betas) / 2.0**2 + betas / 0.2**2)
        rejection = 1.0 - exact_barrier.swap_acceptance_rates(target, betas, base)
        odds = float(np.sum(rejection / (1.0 - rejection)))
        row = {
            "n": n_levels,
            "deo theory": float(round_trip_rate(rejection)),
            "seo theory": 1.0 / (2.0 * (n_levels - 1) + 2.0 * odds),
            "limit": 1.0 / (2.0 + 2.0 * barrier),
        }
        for scheme, name in enumerate(SWAP_SCHEMES):
            trips = [
                independent_draws(n_scans, scheme, betas, sds, (2.0, 0.2), 12, new_counts(), rng)
                for rng in np.random.default_rng([seed, n_levels, scheme]).spawn(8)
            ]
            row[name] = np.mean(trips) / n_scans
            row[name + " se"] = np.std(trips, ddof=1) / np.sqrt(len(trips)) / n_scans
        rows.append(row)
    return barrier, rows


def with_hmc(n_scans, seed):
    """The same with Hamiltonian moves, on a correlated Gaussian from a wide base."""
    target = correlated_gaussian()
    base = GaussianBase(target.mean + 1.0, 6.0 * np.sqrt(np.diag(target.cov)))
    rows = []
    for n_levels in SIZES:
        row = {"n": n_levels}
        for scheme, name in enumerate(SWAP_SCHEMES):
            rng = np.random.default_rng(seed + scheme)
            ladder = Ladder(
                TemperedPath.from_base(target, base), np.linspace(0.0, 1.0, n_levels) ** 3,
                target.start, rng, settings=Hamiltonian(), swap_scheme=scheme,
            )  # fmt: skip
            for _ in range(3):
                record = ladder.run(500, rng, adapt=True)
                ladder.change_schedule(
                    equal_barrier_schedule(
                        ladder.betas, 1.0 - record.swap_acceptance_rate, n_levels
                    )
                )
            ladder.run(300, rng, adapt=True)
            ladder.stop_adaptation()
            record = ladder.run(n_scans, rng)
            row[name] = record.counts["n_round_trips"] / n_scans
            if name == "deo":
                rejection = 1.0 - record.swap_acceptance_rate
                odds = float(np.sum(rejection / (1.0 - rejection)))
                row["deo theory"] = float(round_trip_rate(rejection))
                row["seo theory"] = 1.0 / (2.0 * (n_levels - 1) + 2.0 * odds)
                row["limit"] = 1.0 / (2.0 + 2.0 * rejection.sum())
        rows.append(row)
    return rows


def show(title, rows):
    names = ["deo", "deo theory", "seo", "seo theory", "sweep", "alternating_sweep", "limit"]
    heads = ["levels", "DEO", "1/(2+2E)", "SEO", "1/(2N+2E)", "full sweep", "alternating",
             "1/(2+2 Lambda)"]  # fmt: skip
    cells = [
        [row["n"]]
        + [
            f"{row[n]:.3g}" + (f" +- {row[n + ' se']:.1g}" if n + " se" in row else "")
            for n in names
        ]
        for row in rows
    ]
    table(title, heads, cells)


def draw(barrier, exact, hmc, full):
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
    titles = (
        f"independent draws at every level, barrier {barrier:.2f}",
        "Hamiltonian moves, correlated Gaussian",
    )
    for axis, rows, title in zip(axes, (exact, hmc), titles, strict=True):
        n = np.array([row["n"] for row in rows])
        for name, (label, colour, marker) in LOOK.items():
            values = np.array([row[name] for row in rows])
            shown = values > 0
            hollow = {"mfc": "none", "ms": 11} if name == "sweep" else {"ms": 6}
            axis.plot(n[shown], values[shown], marker, color=colour, label=label, **hollow)
            if name + " theory" in rows[0]:
                axis.plot(n, [row[name + " theory"] for row in rows], "-", color=colour, lw=1)
        axis.plot(n, [row["limit"] for row in rows], ":", color=COLOURS["exact"],
                  label=r"$1/(2+2\Lambda)$, many levels")  # fmt: skip
        plain_log(axis)
        axis.set(title=title, xlabel="levels N + 1", ylabel="round trips per scan",
                 xticks=n, xticklabels=n)  # fmt: skip
        axis.grid(alpha=0.3)
    axes[0].plot([], [], "-", color="black", lw=1, label="1/(2+2E), 1/(2N+2E)")
    axes[0].legend(fontsize=8)
    save(figure, "papers_swaps", full)


def run(full=False, seed=1):
    barrier, exact = with_independent_draws(400_000 if full else 60_000, seed)
    show(f"round trips per scan, independent draws at every level (barrier {barrier:.3f})", exact)
    hmc = with_hmc(60_000 if full else 10_000, seed)
    show("round trips per scan, Hamiltonian moves (theory from the rejection rates of DEO)", hmc)
    draw(barrier, exact, hmc, full)
    z = [(row[k] - row[f"{k} theory"]) / row[f"{k} se"] for row in exact for k in ("deo", "seo")]
    finding(
        SOURCE, "DEO and SEO rates with independent draws are 1/(2+2E) and 1/(2N+2E)",
        bool(np.max(np.abs(z)) < 5.4), f"largest |z| of {len(z)}: {np.max(np.abs(z)):.1f}, t with "
        "7 degrees of freedom, bound 5.4",
    )  # fmt: skip
    last = exact[-1]
    finding(
        SOURCE, "with many levels DEO approaches 1/(2+2 Lambda) from below, SEO falls to 0",
        bool(0.8 * last["limit"] < last["deo"] < last["limit"] and last["deo"] > 3 * last["seo"]),
        f"{last['n']} levels: DEO {last['deo']:.3f}, SEO {last['seo']:.3f}, limit "
        f"{last['limit']:.3f}",
    )  # fmt: skip
    more = [row["deo"] / row["seo"] for rows in (exact, hmc) for row in rows if row["n"] > 3]
    finding(
        SOURCE, "DEO makes more round trips per scan than SEO, its reversible counterpart",
        bool(min(more) > 1.0), "DEO over SEO " + ", ".join(f"{m:.2f}" for m in more) + " with "
        "5 to 33 levels, first with independent draws, then with Hamiltonian moves",
    )  # fmt: skip
    gain = [
        [row[name] / row["deo"] for row in rows if row["n"] > 3]
        for rows in (exact, hmc)
        for name in ("sweep", "alternating_sweep")
    ]
    finding(
        SOURCE, "DEO makes more round trips per scan than sweeps over all pairs",
        bool(max(map(max, gain)) < 1.0), "it proposes half as many exchanges as a sweep: over DEO, "
        f"full sweeps {min(gain[0]):.2f} to {max(gain[0]):.2f} and alternating ones "
        f"{min(gain[1]):.2f} to {max(gain[1]):.2f} with independent draws, {min(gain[2]):.2f} to "
        f"{max(gain[2]):.2f} and {min(gain[3]):.2f} to {max(gain[3]):.2f} with Hamiltonian moves; "
        "DEO is the one that needs no order among exchanges",
    )  # fmt: skip
    share = {k: [row[k] / row[f"{k} theory"] for row in hmc] for k in ("deo", "seo")}
    finding(
        SOURCE, "with Hamiltonian moves the rates of independent draws are upper references",
        bool(max(map(max, share.values())) < 1.05), "; ".join(
            f"{k.upper()} over theory " + ", ".join(f"{s:.2f}" for s in shares)
            for k, shares in share.items()),
    )  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run(options.full, options.seed)
    console.print()
