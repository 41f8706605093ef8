"""Figures 2 and 3 of Sohl-Dickstein & Culpepper (2012), computed again.

Products of Student's t and of Laplace experts in 36 dimensions, whose log Z is known: annealed
importance sampling with momentum that survives between transitions (HAIS), with momentum drawn
afresh, and with Gaussian proposals, over 10 to 100,000 intermediate distributions. As in the
report: one leapfrog step per transition, step size 0.2; Gaussian proposals of standard deviation
0.1; equally spaced inverse temperatures. Its q is not in the report; the code that its authors
released starts from N(0, I), and so does this. Beside it other step sizes; 0.1 is the default of
that code. Estimates of log Z are from 40 particles, where the report has 200.

How many times fewer distributions HAIS needs is read off at equal error, for every error that both
reach: the root mean square error of log Z, and the gap between log Z and the mean of log w, which
is the same for any number of particles. The prediction of the gap is that of `harmonic`: Gaussians
with the scales of the experts and the rejection rates measured here.
"""

import argparse

import numpy as np
from equal_error import gains, log_z_errors, mean_error, measured_gains, rmse_error
from figures import (
    COLOURS,
    cases_or_none,
    console,
    finding,
    pyplot,
    save,
    table,
)
from harmonic import friction, mean_gap, relaxation_gain
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from scipy import stats

from pymc_tempering.annealing.particles import anneal
from pymc_tempering.engine.path.gaussian import GaussianBase

SOURCE = "Sohl-Dickstein & Culpepper 2012, figures 2 and 3"
SIZES = (10, 32, 100, 316, 1000, 3162, 10_000, 31_623, 100_000)
N_PARTICLES = 40
HAIS, FRESH, WALK = "HAIS", "fresh momentum", "random walk"
METHODS = {
    HAIS: ("hamiltonian", COLOURS["HAIS"], "P"),
    FRESH: ("fresh_momentum", COLOURS["ST"], "s"),
    WALK: ("random_walk", COLOURS["Gibbs CT"], "^"),
}
OF_REPORT = ((HAIS, 0.2), (FRESH, 0.2), (WALK, 0.1))
OTHERS = (
    *((method, step) for step in (0.05, 0.1, 0.4) for method in (HAIS, FRESH)),
    (WALK, 0.2),
    (WALK, 0.4),
)
# step sizes of HAIS, and of what it is compared with
COMPARISONS = (
    (0.2, (FRESH, 0.2)), (0.2, (WALK, 0.1)), (0.1, (FRESH, 0.1)), (0.05, (FRESH, 0.05)),
)  # fmt: skip
TITLES = {
    "poe_student": "product of Student's t experts",
    "poe_laplace": "product of Laplace experts",
}


def scales(case):
    """Standard deviations of the principal directions of x, shape (36,).

    Student's t experts, some of which have no variance, count as normals with their quartiles.
    """
    constants = [
        node.data for node in ancestors([case.model.potentials[0]]) if isinstance(node, Constant)
    ]
    dim = case.model.initial_point()["x"].size
    filters = next(value for value in constants if value.shape == (dim, dim))
    shapes = [value for value in constants if value.shape == (dim,)]
    if shapes:
        degrees = 2.0 * shapes[0] - 1.0
        sd = stats.t.ppf(0.75, degrees) / np.sqrt(degrees) / stats.norm.ppf(0.75)
    else:
        sd = np.full(dim, np.sqrt(2.0))
    return np.linalg.svd(np.linalg.solve(filters, np.diag(sd)), compute_uv=False)


def measure(case, transitions, step_size, n, n_runs, seed):
    """Log weights relative to log Z, shape (n_runs, N_PARTICLES), and the rejection rate."""
    dim = case.model.initial_point()["x"].size
    result = anneal(
        case.model, n_particles=n_runs * N_PARTICLES, betas=np.linspace(0.0, 1.0, n + 1),
        base=GaussianBase(np.zeros(dim), np.ones(dim)), step_size=step_size,
        transitions=transitions, short_steps=False, tune=0, random_seed=seed, progressbar=False,
    )  # fmt: skip
    log_weights = result.log_weights_forward.reshape(n_runs, N_PARTICLES) - case.log_z
    return log_weights, 1.0 - result.acceptance_rate[1:].mean()


def measure_case(case, full, seed):
    """Log weights and rejection rate, by (method, step size) and number of distributions."""
    runs = {}
    for key in OF_REPORT + OTHERS:
        is_report = key in OF_REPORT
        largest = (100_000 if is_report else 10_000) if full else 3162
        # transitions of all particles together
        budget = (6_000_000 if is_report else 3_000_000) if full else 1_000_000
        runs[key] = {
            n: measure(
                case, METHODS[key[0]][0], key[1], n,
                int(np.clip(budget // (n * N_PARTICLES), 3, 20)), seed,
            )
            for n in SIZES if n <= largest
        }  # fmt: skip
    return runs


def predict(runs, sds):
    return {
        (method, step): np.array([
            mean_gap(n, sds, step, METHODS[method][0], rate) for n, (_, rate) in by_size.items()
        ])
        for (method, step), by_size in runs.items()
    }  # fmt: skip


def show_errors(name, case, runs, theory):
    sizes = list(runs[OF_REPORT[0]])
    heads = ["method, step size", *(f"{n:,}" for n in sizes)]
    for title, cell in (
        (
            f"error of log Z from {N_PARTICLES} particles, mean +- sd of runs, nats",
            lambda w, _: f"{(e := log_z_errors(w)).mean():.2f}+-{e.std(ddof=1):.2f}",
        ),
        ("log Z - mean log w, nats / predicted", lambda w, g: f"{mean_error(w):.2f} / {g:.2f}"),
    ):
        rows = []
        for (method, step), by_size in runs.items():
            cells = [
                cell(w, g) for (w, _), g in zip(by_size.values(), theory[method, step], strict=True)
            ]
            rows.append([f"{method}, {step:g}", *cells, *[""] * (len(sizes) - len(cells))])
        table(f"{TITLES[name]}, exact log Z = {case.log_z:.3f}: {title}", heads, rows)


def show_gains(name, runs, theory, seed):
    """Print gains at equal error; ranges by comparison: error of log Z, mean log w, predicted."""
    rng = np.random.default_rng(seed)
    ranges = {}
    for step, key in COMPARISONS:
        own, other = runs[HAIS, step], runs[key]
        log_z, log_z_spread = measured_gains(own, other, rmse_error, rng)
        mean, mean_spread = measured_gains(own, other, mean_error, rng)
        predicted = gains(list(own), theory[HAIS, step], list(other), theory[key])
        table(
            f"{TITLES[name]}: times fewer distributions that HAIS, step size {step:g}, needs than "
            f"{key[0]}, {key[1]:g} (x/ one sd)",
            ["its distributions", "RMSE of log Z", "times fewer", "log Z - mean log w",
             "times fewer", "predicted"],
            [
                [
                    f"{n:,}", f"{rmse_error(w):.2f}", factor(log_z[i], log_z_spread[i]),
                    f"{mean_error(w):.2f}", factor(mean[i], mean_spread[i]), factor(predicted[i]),
                ]
                for i, (n, (w, _)) in enumerate(other.items())
            ],
        )  # fmt: skip
        ranges[step, key] = [x[np.isfinite(x)] for x in (log_z, mean, predicted)]
    return ranges


def factor(value, spread=None):
    if not np.isfinite(value):
        return "-"
    return f"{value:.1f}" if spread is None else f"{value:.1f} x/ {spread:.2f}"


def between(values):
    return f"{values.min():.1f} to {values.max():.1f} times" if values.size else "not reached"


def verdict(values):
    """Whether all gains are at least 10, None for some.

    Those at equal mean of log w decide: with few runs those at equal error of log Z are uncertain
    by half and more, and exceed 10 or do not by luck.
    """
    return bool(values.min() >= 10.0) or (None if values.max() >= 10.0 else False)


def cause(step, rejection):
    return (
        f"; HAIS rejects {rejection:.1%} of moves, each reverses the momentum: friction "
        f"{friction(step, rejection):.2f} instead of {friction(step):.2f}, and at most "
        f"{relaxation_gain(np.inf, step, rejection):.1f} times fewer, for wide targets, instead of "
        f"{relaxation_gain(np.inf, step):.1f}"
    )


def show_verdicts(name, runs, ranges):
    for (step, (method, other_step)), (log_z, mean, predicted) in ranges.items():
        is_report = (HAIS, step) in OF_REPORT
        rejection = list(runs[HAIS, step].values())[-1][1]
        steps = f"{step:g}" if step == other_step else f"{step:g} and {other_step:g}"
        finding(
            SOURCE,
            f"{TITLES[name]}, step size {steps}{' as there' if is_report else ''}: HAIS needs at "
            f"least 10 times fewer than {method}",
            verdict(mean),
            f"{between(mean)} at equal mean log w, {between(log_z)} at equal error of log Z, "
            f"predicted {between(predicted)}{cause(step, rejection) if method == FRESH else ''}",
        )
    best = {}
    for (method, _), by_size in runs.items():
        errors = {n: mean_error(w) for n, (w, _) in by_size.items()}
        best.setdefault(method, []).append(errors)
    best = {
        method: {n: min(e[n] for e in curves if n in e) for n in curves[0]}
        for method, curves in best.items()
    }
    for method in (WALK, FRESH):
        # beyond the sizes that all step sizes were run at, the best is not known
        largest = min(max(by_size) for key, by_size in runs.items() if key[0] == method)
        other = {n: e for n, e in best[method].items() if n <= largest}
        ratio = gains(
            list(best[HAIS]), list(best[HAIS].values()), list(other), list(other.values())
        )
        ratio = ratio[np.isfinite(ratio)]
        tried = {m: ", ".join(f"{s:g}" for k, s in sorted(runs) if k == m) for m in (HAIS, method)}
        finding(
            SOURCE,
            f"{TITLES[name]}, each with its best step size: HAIS needs at least 10 times fewer "
            f"than {method}",
            verdict(ratio),
            f"{between(ratio)} at equal mean log w up to {largest:,}; tried HAIS {tried[HAIS]}, "
            f"{method} {tried[method]}",
        )


def show_theory(rejections):
    """What kept momentum gains for one scale, by autocorrelation times and by exact annealing."""
    sds = (0.5, 0.9, 1.5, 2.0, 3.0, 5.0)
    rows = []
    for step, rejection in rejections.items():
        for r in (0.0, rejection):
            exact = [
                mean_gap(10**6, [sd], step, "fresh_momentum", r)
                / mean_gap(10**6, [sd], step, "hamiltonian", r)
                for sd in sds
            ]
            rows += [
                [f"step size {step:g}, {r:.1%} rejected, autocorrelation times"]
                + [f"{relaxation_gain(sd, step, r):.1f}" for sd in sds],
                [f"step size {step:g}, {r:.1%} rejected, annealed from sd 1"]
                + [f"{ratio:.1f}" for ratio in exact],
            ]
    table(
        "one Gaussian direction by its sd: autocorrelation time of x^2 with fresh over that with "
        "kept momentum, and exact log Z - mean log w likewise, 1,000,000 distributions",
        ["", *(f"{sd:g}" for sd in sds)], rows,
    )  # fmt: skip


def draw(results, full):
    plt = pyplot()
    figure, axes = plt.subplots(
        2, len(results), figsize=(11, 7.5), sharex=True, layout="constrained"
    )
    for column, (name, (runs, theory)) in enumerate(results.items()):
        top, bottom = axes[:, column]
        for key in (*OF_REPORT, (HAIS, 0.05), (FRESH, 0.05)):
            method, step = key
            _, colour, marker = METHODS[method]
            is_report = key in OF_REPORT
            sizes = list(runs[key])
            look = {
                "color": colour, "marker": marker, "ms": 6, "ls": "none",
                "mfc": colour if is_report else "none", "label": f"{method}, step size {step:g}",
            }  # fmt: skip
            errors = [log_z_errors(w) for w, _ in runs[key].values()]
            if is_report:
                top.errorbar(
                    sizes, [e.mean() for e in errors], [e.std(ddof=1) for e in errors], capsize=2,
                    **look | {"ls": "-"},
                )  # fmt: skip
            bottom.plot(sizes, [mean_error(w) for w, _ in runs[key].values()], **look)
            bottom.plot(sizes, theory[key], color=colour, ls="-" if is_report else ":", lw=1)
        top.axhline(0.0, color=COLOURS["exact"], ls="--", lw=1, label="exact")
        top.set(title=TITLES[name], xscale="log")
        ticks = (2, 3, 5, 10, 20, 50)
        bottom.set(xlabel="intermediate distributions", yscale="log")
        bottom.set_yticks(ticks, [str(t) for t in ticks])
        bottom.minorticks_off()
        for axis in (top, bottom):
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel(f"error of log Z, {N_PARTICLES} particles (nats)")
    axes[1, 0].set_ylabel("log Z - mean log w (nats), lines: predicted")
    axes[0, 0].legend(fontsize=8, loc="lower right")
    axes[1, 0].legend(fontsize=8, loc="upper right")
    save(figure, "papers_hais", full)


def run(full=False, seed=1):
    cases = cases_or_none()
    if cases is None:
        return
    results = {}
    for name in TITLES:
        case = cases[name]()
        sds = scales(case)
        shown = ", ".join(f"{sd:.2f}" for sd in np.sort(sds)[[0, 9, 18, 27, 32, 33, 34, 35]])
        console.print(
            f"{TITLES[name]}: sds of the principal directions of x, smallest, 10th, 19th, 28th, "
            f"and the four largest: {shown}", soft_wrap=True,
        )  # fmt: skip
        runs = measure_case(case, full, seed)
        theory = predict(runs, sds)
        results[name] = (runs, theory)
        show_errors(name, case, runs, theory)
        show_verdicts(name, runs, show_gains(name, runs, theory, seed))
    runs = results["poe_laplace"][0]
    show_theory({step: list(runs[HAIS, step].values())[-1][1] for step in (0.2, 0.1, 0.05)})
    draw(results, full)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    run(options.full, options.seed)
    console.print()
