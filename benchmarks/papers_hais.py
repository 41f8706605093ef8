"""Figures 2 and 3 of Sohl-Dickstein & Culpepper (2012), computed again.

Products of Student's t and of Laplace experts in 36 dimensions, whose log Z is known: annealed
importance sampling with momentum that survives between transitions (HAIS), with momentum drawn
afresh, and with Gaussian proposals, over 10 to 100,000 intermediate distributions. As in the
report: one leapfrog step per transition, step size 0.2; Gaussian proposals of standard deviation
0.1; equally spaced inverse temperatures. There 200 particles were used, here 20 of 8 runs, the
same at every number of distributions. The report does not say what its q is; here it is the
standard normal, N(0, I), in the coordinates of the experts' input, where these two numbers apply.

Run with ``make papers`` or ``python benchmarks/papers_hais.py``.
"""

import argparse
import importlib.util
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from pymc_tempering.annealing import anneal
from pymc_tempering.base.gaussian import GaussianBase

ROOT = Path(__file__).resolve().parents[1]
CASES = ROOT.parent / "shared" / "cases" / "cases.py"
FIGURE = ROOT / "docs" / "figures" / "papers_hais.png"

SIZES = (10, 32, 100, 316, 1000, 3162, 10_000, 31_623, 100_000)
METHODS = {
    "HAIS": ("hamiltonian", 0.2, "tab:blue", "o"),
    "AIS, fresh momentum": ("fresh_momentum", 0.2, "tab:green", "s"),
    "AIS, random walk": ("random_walk", 0.1, "tab:red", "^"),
}
TITLES = {
    "poe_student": "product of Student's t experts",
    "poe_laplace": "product of Laplace experts",
}


def load_cases() -> dict[str, Any] | None:
    if not CASES.exists():
        return None
    spec = importlib.util.spec_from_file_location("shared_cases", CASES)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.CASES


def measure(
    case: Any,
    transitions: str,
    step_size: float,
    n: int,
    n_runs: int,
    n_particles: int,
    seed: int,
    base_sd: float,
) -> np.ndarray:
    """Errors of log Z of independent runs, shape (n_runs,)."""
    dim = case.model.initial_point()["x"].size
    with ThreadPoolExecutor() as pool:
        result = anneal(
            case.model,
            n_particles=n_runs * n_particles,
            betas=np.linspace(0.0, 1.0, n + 1),
            base=GaussianBase(np.zeros(dim), np.full(dim, base_sd)),
            # step sizes count in the base's standard deviations
            step_size=step_size / base_sd,
            transitions=transitions,
            short_steps=False,
            tune=0,
            executor=pool,
            random_seed=seed,
        )
    runs = result.log_weights_forward.reshape(n_runs, n_particles)
    top = runs.max(axis=1)
    log_z = top + np.log(np.exp(runs - top[:, None]).mean(axis=1))
    return log_z - case.log_z


def crossing(sizes: np.ndarray, errors: np.ndarray, level: float) -> float:
    """Number of distributions at which the error falls to a level, log-log interpolated."""
    below = np.flatnonzero(errors <= level)
    if below.size == 0:
        return np.inf
    k = below[0]
    if k == 0:
        return float(sizes[0])
    x, y = np.log(sizes[k - 1 : k + 1]), np.log(np.maximum(errors[k - 1 : k + 1], 1e-12))
    return float(np.exp(x[0] + (np.log(level) - y[0]) * (x[1] - x[0]) / (y[1] - y[0])))


def draw(results: dict[str, dict[str, dict[int, np.ndarray]]]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, 2, figsize=(10, 7), sharex=True, layout="constrained")
    for column, (name, of_case) in enumerate(results.items()):
        for label, by_size in of_case.items():
            _, _, colour, marker = METHODS[label]
            sizes = np.array(list(by_size))
            mean = np.array([e.mean() for e in by_size.values()])
            spread = np.array([e.std(ddof=1) for e in by_size.values()])
            rmse = np.array([np.sqrt(np.mean(e**2)) for e in by_size.values()])
            style = {"color": colour, "marker": marker, "markersize": 5}
            axes[0, column].errorbar(sizes, mean, spread, capsize=2, label=label, **style)
            axes[1, column].plot(sizes, rmse, **style)
        axes[0, column].axhline(0.0, color="black", linestyle="--", linewidth=1, label="exact")
        axes[0, column].set(title=TITLES[name], xscale="log", yscale="symlog")
        axes[1, column].set(xlabel="intermediate distributions", yscale="log")
        for axis in axes[:, column]:
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("error of log Z (nats)")
    axes[1, 0].set_ylabel("RMSE of log Z (nats)")
    axes[0, 0].legend(loc="lower right", fontsize=9)
    FIGURE.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(FIGURE, dpi=130)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=8, help="independent runs for each point")
    parser.add_argument("--particles", type=int, default=20, help="particles of a run")
    parser.add_argument("--largest", type=int, default=100_000)
    parser.add_argument("--base-sd", type=float, default=1.0, help="standard deviation of q")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    cases = load_cases()
    if cases is None:
        print("papers_hais: skipped, no ../shared/cases/cases.py beside the checkout")
        return
    results: dict[str, dict[str, dict[int, np.ndarray]]] = {}
    sizes = np.array([n for n in SIZES if n <= arguments.largest])
    for name in TITLES:
        case = cases[name]()
        results[name] = {}
        print(f"\n{TITLES[name]}, 36 dimensions, exact log Z = {case.log_z:.3f}")
        print(f"{'method':22s}" + "".join(f"{n:>14d}" for n in sizes))
        for label, (transitions, step_size, *_) in METHODS.items():
            by_size = {}
            cells = []
            for n in sizes:
                errors = measure(
                    case, transitions, step_size, int(n), arguments.runs, arguments.particles,
                    arguments.seed,
                    arguments.base_sd,
                )  # fmt: skip
                by_size[int(n)] = errors
                cells.append(f"{errors.mean():>+8.2f}±{errors.std(ddof=1):<5.2f}")
            results[name][label] = by_size
            print(f"{label:22s}" + "".join(cells), flush=True)
        rmse = {
            label: np.array([np.sqrt(np.mean(e**2)) for e in by_size.values()])
            for label, by_size in results[name].items()
        }
        for n, level in zip(sizes, rmse["HAIS"], strict=True):
            others = []
            for label, errors in rmse.items():
                needed = crossing(sizes, errors, level)
                if label != "HAIS":
                    is_reached = np.isfinite(needed)
                    ratio = (needed if is_reached else sizes[-1]) / n
                    others.append(f"{label} {'' if is_reached else 'more than '}{ratio:.1f} times")
            print(f"RMSE {level:5.2f} nats: HAIS {n} distributions; {'; '.join(others)} as many")
    draw(results)
    print(f"\nfigure: {FIGURE.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
