"""Where the time of a run goes: Python's share, and the kernel against the bare gradient.

CPU seconds of one process, so that other work on the machine matters little:

- share of everything outside compiled code in ``pm.sample`` at the default ``scans_per_draw``;
- seconds for 4 x 1000 draws of ``bimodal_gmm``, tuning included;
- sampling time over (gradient evaluations x time of the bare compiled gradient), on ``radon`` and
  others, median of several repeats within this run.
"""

import logging
import time
import warnings

import numba
import numpy as np
import pymc as pm
from bench import load_cases
from rich.console import Console
from rich.table import Table

import pymc_tempering as pm_temper
from pymc_tempering.engine.ensembles import ladder
from pymc_tempering.engine.path.path import call_density
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references import ascent, full_rank, quality

CASES = ("bimodal_gmm", "label_switching", "bmr_0", "radon")


@numba.njit(nogil=True)
def _bare(address, positions, grad):
    total = 0.0
    for i in range(positions.shape[0]):
        total += call_density(address, positions[i], grad)
    return total


def bare_gradient_seconds(density, positions, repeats=5):
    """Median CPU seconds of one bare gradient at typical positions."""
    grad = np.empty(density.dim)
    _bare(density.address, positions[:2], grad)
    n_rounds = max(1, 100_000 // len(positions))
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        for _ in range(n_rounds):
            _bare(density.address, positions, grad)
        seconds.append((time.process_time() - started) / (n_rounds * len(positions)))
    return float(np.median(seconds))


def profile(case, draws, chains):
    """CPU seconds of a run, those inside compiled scans, and the gradients of the latter."""
    inside = {"seconds": 0.0}
    inside["fits"] = 0.0

    def counted(function, entry):
        def timed(*arguments):
            started = time.process_time()
            result = function(*arguments)
            inside[entry] += time.process_time() - started
            return result

        return timed

    compiled = [
        (ladder, "ladder_scans", "seconds"),
        (ascent, "_climb_each", "fits"),
        (quality, "density_at", "fits"),
        (full_rank, "density_at", "fits"),
    ]
    originals = [getattr(module, name) for module, name, _ in compiled]

    with case.model:
        step = pm_temper.ParallelTempering()
        options = {
            "chains": chains, "cores": 1, "step": step, "progressbar": False, "quiet": True,
            "compute_convergence_checks": False,
        }  # fmt: skip
        pm.sample(2, tune=2, random_seed=0, **options)
        for (module, name, entry), original in zip(compiled, originals, strict=True):
            setattr(module, name, counted(original, entry))
        started = time.process_time()
        idata = pm.sample(draws, random_seed=1, discard_tuned_samples=False, **options)
        total = time.process_time() - started
        for (module, name, _), original in zip(compiled, originals, strict=True):
            setattr(module, name, original)
    gradients = sum(
        int(idata[group].n_gradients.sum()) for group in ("sample_stats", "warmup_sample_stats")
    )
    return total, inside["seconds"], inside["fits"], gradients, step


def main():
    console = Console(width=140)
    cases = load_cases()
    if cases is None:
        console.print("The reference problems (shared/cases) are not here: nothing to measure.")
        return
    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    table = Table(title="CPU seconds of pm.sample(step=ParallelTempering()), tuning included")
    columns = ["case", "draws", "total s", "scans s", "fits s", "outside", "gradients",
               "us/gradient", "bare us", "kernel/bare"]  # fmt: skip
    for column in columns:
        table.add_column(column, justify="left" if column == "case" else "right")
    for name in CASES:
        case = cases[name]()
        draws = 1000 if name == "bimodal_gmm" else 250
        total, compiled, fits, gradients, step = profile(case, draws, 4)
        density = compile_density(case.model)
        run = step._run.ladder
        record = run.run(200, step.rng, keep_positions=True)
        bare = bare_gradient_seconds(density, np.ascontiguousarray(record.target_positions))
        each = compiled / gradients
        table.add_row(
            name, f"4 x {draws}", f"{total:.2f}", f"{compiled:.2f}", f"{fits:.2f}",
            f"{100 * (1 - (compiled + fits) / total):.1f} %", f"{gradients:,}", f"{1e6 * each:.3f}",
            f"{1e6 * bare:.3f}", f"{each / bare:.2f}",
        )  # fmt: skip
        console.print(f"{name} done", highlight=False)
    console.print(table)


if __name__ == "__main__":
    main()
