"""Whether the reported error covers the truth, and whether the draws are those of the posterior.

For every case with a known log Z, by method, length of the run and number of chains: the share of
runs whose 50, 90 and 95 % interval holds it (for 95 % with the exact interval of so many runs), the
median reported error over the RMSE, the RMS of errors in units of the reported one (about 1, also
where few runs make the RMSE), the median width of the 95 % interval over that of one who
knows the RMSE, and of the failing runs, more than 4 errors off, how many carried a warning. Then
the claims about posterior draws: weight of the light mode of ``bimodal_gmm_30``, moments of
``bmr_0``.

    python benchmarks/calibration.py --part log_z --methods pt --lengths default --chains 4
    python benchmarks/calibration.py --part log_z --methods gibbs_ct,st --targets banana --seeds 50

Runs are kept in ``--record``, one line each: a study can be interrupted, and goes on with them.
"""

import argparse
import json
from pathlib import Path

import arviz as az
import numpy as np
from figures import QUIET, ROOT, SHORT_FOLDER, cases_or_none, console, rmse, table
from quiet import OWN, SHARED, is_wrong
from repeats import LENGTHS, key, read, study
from scipy import stats

import pymc_tempering as pm_temper

CASES = (*OWN, "heavy_tail", *SHARED, "bmr_0")
COVERED = (0.93, 0.97)
LEVELS = (0.5, 0.9, 0.95)


def coverage(rows):
    """Number of runs whose interval holds the truth, for each level."""
    t = np.abs([row["error"] / row["se"] for row in rows])
    df = np.array([row["df"] for row in rows])
    return [int(np.sum(t <= stats.t.ppf(0.5 + 0.5 * level, df))) for level in LEVELS]


def summary(rows):
    """Figures of the runs of one case with one setting."""
    errors, se, df = (np.array([row[name] for row in rows]) for name in ("error", "se", "df"))
    covered = coverage(rows)
    low, high = stats.binomtest(covered[-1], len(rows)).proportion_ci(0.95)
    oracle = float(rmse(errors))
    failing = [row for row in rows if is_wrong(row)]
    width = float(np.median(se * stats.t.ppf(0.975, df))) / (1.96 * oracle)
    return {
        "runs": len(rows),
        "RMSE": f"{oracle:.4f}",
        "bias": f"{errors.mean():.4f}",
        "se / RMSE": f"{np.median(se) / oracle:.2f}",
        "RMS of error / se": f"{float(rmse(errors / se)):.2f}",
        "50 %": f"{covered[0] / len(rows):.1%}",
        "90 %": f"{covered[1] / len(rows):.1%}",
        "95 %": f"{covered[2] / len(rows):.1%} ({low:.1%} to {high:.1%})",
        "width / oracle": f"{width:.2f}",
        "failing": len(failing),
        "warned of these": sum(bool(row["warnings"]) for row in failing),
        "warned": sum(bool(row["warnings"]) for row in rows),
        "CPU s": f"{np.median([row['seconds'] for row in rows]):.1f}",
    }


def report(rows):
    """A table for each setting, and what became of the aim."""
    groups = {}
    for row in rows:
        groups.setdefault(key(row)[1:], {}).setdefault(row["case"], []).append(row)
    for (method, length, chains), cases in groups.items():
        lines = {name: summary(runs) for name, runs in cases.items()}
        columns = ["", *next(iter(lines.values()))]
        table(f"{method}, {length} runs of {chains} chains", columns,
              [[name, *line.values()] for name, line in lines.items()])  # fmt: skip
        shares = {name: coverage(runs)[-1] / len(runs) for name, runs in cases.items()}
        inside = sum(COVERED[0] <= share <= COVERED[1] for share in shares.values())
        console.print(
            f"95 % intervals hold the truth in {COVERED[0]:.0%} to {COVERED[1]:.0%} of the runs: "
            f"{inside} of {len(shares)} cases\n"
        )


def markdown(rows):
    """The table of the documentation, one line for each case and setting."""
    lines = []
    for what in dict.fromkeys(map(key, rows)):
        cells = summary([row for row in rows if key(row) == what])
        if not lines:
            names = ["case", "method", "length", "chains", *cells]
            lines += [f"| {' | '.join(names)} |", "|---" * len(names) + "|"]
        name, *rest = map(str, what)
        lines.append(f"| {' | '.join([f'`{name}`', *rest, *map(str, cells.values())])} |")
    return "\n".join(lines)


def calibrate(names, arguments):
    plan = [
        (name, method, length, int(chains), arguments.seeds)
        for method in arguments.methods.split(",")
        for length in arguments.lengths.split(",")
        for chains in arguments.chains.split(",")
        for name in names
    ]
    study(plan, arguments.record, arguments.jobs)
    requested = {what[:4] for what in plan}
    rows = [row for row in read(arguments.record)
            if key(row) in requested and row["seed"] < arguments.seeds]  # fmt: skip
    for row in rows:
        if "crashed" in row:
            console.print(f"crashed: {row}")
    rows = [row for row in rows if "crashed" not in row]
    # by setting, cases in their own order
    rows.sort(key=lambda row: (key(row)[1:], names.index(row["case"])))
    report(rows)
    path = arguments.record.with_suffix(".md")
    path.write_text(markdown(rows) + "\n")
    console.print(f"table for the documentation: {path}")


def light_mode(cases, n_seeds):
    """Share of draws in the mode of weight 0.3, per chain and over all chains."""
    case = cases["bimodal_gmm_30"]()
    shares = []
    for seed in range(n_seeds):
        idata = pm_temper.sample(case.model, draws=1000, chains=4, random_seed=seed, **QUIET)
        shares.append((idata.posterior[case.var].values[..., 0] < 0).mean(axis=1))
    shares = np.array(shares)
    of_all = shares.mean(axis=1)
    chain_worst, all_worst = np.abs(shares - 0.3).max(), np.abs(of_all - 0.3).max()
    for what, worst, bound, spread in (
        ("in every chain", chain_worst, 0.08, shares.std()),
        ("of all", all_worst, 0.02, of_all.std()),
    ):
        console.print(
            f"bimodal_gmm_30, {n_seeds} seeds of 4 x 1000: light mode 30 +- {100 * bound:.0f} % "
            f"{what}: {'came out' if worst <= bound else 'DID NOT come out'} "
            f"(worst {100 * worst:.1f} %, sd {100 * spread:.1f} %)"
        )
    return {"shares": shares.tolist()}


def relaxation(cases, n_seeds):
    """Moments of the draws of bmr_0 against the exact ones."""
    case = cases["bmr_0"]()
    sd = np.sqrt(np.diag(case.cov))
    results = []
    for seed in range(n_seeds):
        idata = pm_temper.sample(case.model, draws=1000, chains=4, random_seed=seed, **QUIET)
        draws = idata.posterior[case.var].values
        centred = draws - case.mean
        rows, columns = np.triu_indices(sd.size)
        products = centred[..., rows] * centred[..., columns]
        z = []
        for values, exact in ((draws, case.mean), (products, case.cov[rows, columns])):
            error = np.array(
                [az.mcse(values[..., i], method="mean") for i in range(values.shape[-1])]
            )
            z.append((values.mean(axis=(0, 1)) - exact) / error)
        ess = [float(az.ess(draws[..., i])) for i in range(sd.size)]
        results.append(
            {
                "rmse of mean / sd": float(rmse((draws.mean(axis=(0, 1)) - case.mean) / sd)),
                "max |z|, mean": float(np.abs(z[0]).max()),
                "max |z|, covariance": float(np.abs(z[1]).max()),
                "least ess": min(ess),
            }
        )
    table("bmr_0, 4 x 1000 draws", ["seed", *results[0]],
          [[i, *(f"{v:.3f}" for v in r.values())] for i, r in enumerate(results)])  # fmt: skip
    good = all(
        r["rmse of mean / sd"] <= 0.1 and r["least ess"] >= 400
        and max(r["max |z|, mean"], r["max |z|, covariance"]) < 4.5
        for r in results
    )  # fmt: skip
    console.print(
        "bmr_0: RMSE of the mean <= 0.1 sd, |z| < 4.5 for all means and covariances, ESS >= 400: "
        f"{'came out' if good else 'DID NOT come out'}"
    )
    return {"bmr_0": results}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true", help="more and longer runs for the draws")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--methods", default="pt")
    parser.add_argument("--lengths", default=",".join(LENGTHS))
    parser.add_argument("--chains", default="4,2")
    parser.add_argument("--targets", help="cases, separated by commas; default: all of the table")
    parser.add_argument("--part", choices=["log_z", "draws", "all"], default="all")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--record", type=Path, default=SHORT_FOLDER / "calibration.jsonl")
    arguments = parser.parse_args()
    cases = cases_or_none()
    if arguments.part != "draws":
        here = [name for name in CASES if cases is not None or name in (*OWN, "heavy_tail")]
        calibrate(arguments.targets.split(",") if arguments.targets else here, arguments)
    if arguments.part != "log_z" and cases is not None:
        stored = light_mode(cases, 10 if arguments.full else 3)
        stored |= relaxation(cases, 3 if arguments.full else 1)
        path = ROOT / "out" / "calibration_draws.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(stored, indent=1))
        console.print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
