"""Whether the reported error covers the truth, and whether the draws are those of the posterior.

For every target with a known log Z: share of runs whose 95 % interval holds it, median reported
error over RMSE, and the largest error in units of the reported one. Then the claims about posterior
draws: weight of the light mode of ``bimodal_gmm_30``, moments of ``bmr_0``. By default runs are
short, 2 chains of 60 draws; ``--full`` takes the package's own defaults.

    python benchmarks/calibration.py --methods pt,gibbs_ct --seeds 20
"""

import argparse
import json
import time

import arviz as az
import numpy as np
from figures import QUIET, ROOT, cases_or_none, console, rmse, table
from scipy import stats

import pymc_tempering as pm_temper
from pymc_tempering import testing

CASES = ("bimodal_gmm", "linear_gaussian", "conjugate_regression", "label_switching", "hard_edge",
         "bmr_0")  # fmt: skip
TARGETS = ("asymmetric_bimodal", "skewed_gamma", "heavy_tail", "banana")
SE_RANGE = (0.7, 1.5)
# half as many runs by default: a run takes as long as those of all other targets together
SLOW = ("bmr_0",)


def problem(cases, name):
    """Model and exact log Z."""
    if name in TARGETS:
        target = getattr(testing, name)()
        return target.model(), target.log_z
    case = cases[name]()
    return case.model, case.log_z


def estimate(model, method, seed, options):
    options = dict(options)
    if method == "joint_ct":
        # a draw of NUTS is one transition, not a block of scans
        options = options | {"draws": 20 * options["draws"]} if "draws" in options else options
    if method == "hais" and "draws" in options:
        options["draws"] *= 2
    return pm_temper.estimate_logz(model, method=method, random_seed=seed, **QUIET, **options)


def calibrate(cases, names, method, seeds, options):
    rows = []
    for name in names:
        n_seeds = seeds // 2 if options and name in SLOW else seeds
        model, exact = problem(cases, name)
        started = time.process_time()
        runs = [estimate(model, method, seed, options) for seed in range(n_seeds)]
        error = np.array([run.log_z for run in runs]) - exact
        se = np.array([run.se for run in runs])
        df = np.array([run.df for run in runs])
        p = 2.0 * stats.t.sf(np.abs(error) / se, df)
        low, high = np.array([run.interval() for run in runs]).T
        n_covered = int(np.sum((low <= exact) & (exact <= high)))
        rows.append(
            {
                "target": name,
                "method": method,
                "rmse": float(rmse(error)),
                "bias": float(error.mean()),
                "median se": float(np.median(se)),
                "se/rmse": float(np.median(se) / rmse(error)),
                "covered": n_covered,
                "runs": n_seeds,
                "max |t|": float(np.max(np.abs(error) / se)),
                # chance of a worst run like this one if the errors are right
                "p of worst": float(1.0 - (1.0 - p.min()) ** n_seeds),
                "warned": sum(bool(run.warnings) for run in runs),
                "seconds": time.process_time() - started,
            }
        )
        console.print(f"{method} {name}: {n_covered} of {n_seeds} covered")
    return rows


def se_range(n):
    """Where the ratio of a perfect error to the RMSE of n runs lies, 99 % of the time."""
    low, high = stats.chi2.ppf([0.005, 0.995], n) / n
    return 1 / np.sqrt(high), 1 / np.sqrt(low)


def report(rows):
    n = max(row["runs"] for row in rows)
    table(
        f"log Z over {n} seeds", list(rows[0]),
        [[f"{v:.3f}" if isinstance(v, float) else v for v in row.values()] for row in rows],
    )  # fmt: skip
    covered, total = sum(r["covered"] for r in rows), sum(r["runs"] for r in rows)
    p = float(stats.binomtest(covered, total, 0.95).pvalue)
    console.print(
        f"95 % intervals hold the truth in {covered} of {total} runs ({100 * covered / total:.1f} "
        f"%; p = {p:.2g} for 95 %): {'came out' if p > 1e-3 else 'DID NOT come out'}"
    )
    low, high = se_range(n)
    bad = [f"{r['method']} {r['target']} {r['se/rmse']:.2f}" for r in rows
           if not SE_RANGE[0] <= r["se/rmse"] <= SE_RANGE[1]]  # fmt: skip
    console.print(
        f"median se / RMSE within {SE_RANGE[0]} to {SE_RANGE[1]}: "
        f"{'came out' if not bad else 'not for ' + ', '.join(bad)} (a perfect error gives "
        f"{low:.2f} to {high:.2f} in 99 % of studies with {n} seeds)"
    )


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
    parser.add_argument("--full", action="store_true", help="the package's own run lengths")
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--methods", default="pt")
    parser.add_argument("--targets", default=",".join([*CASES, *TARGETS]))
    parser.add_argument("--part", choices=["log_z", "draws", "all"], default="all")
    arguments = parser.parse_args()
    cases = cases_or_none()
    if cases is None:
        return
    options = {} if arguments.full else {"draws": 60, "chains": 2}
    stored = {}
    if arguments.part != "draws":
        rows = []
        for method in arguments.methods.split(","):
            names = arguments.targets.split(",")
            rows += calibrate(cases, names, method, arguments.seeds, options)
        report(rows)
        stored["log_z"] = rows
    if arguments.part != "log_z":
        stored |= light_mode(cases, 10 if arguments.full else 3)
        stored |= relaxation(cases, 3 if arguments.full else 1)
    path = ROOT / "out" / "calibration.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(stored, indent=1))
    console.print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
