"""How soon a process that has seen a model before makes its first draw.

CPU seconds after imports, in a fresh process: building the step (the model's graph is compiled,
its machine code comes from the cache), and the first call of ``step()``, base fit included.

    python benchmarks/startup.py
"""

import subprocess
import sys

from bench import load_cases
from rich.console import Console
from rich.table import Table

CASES = ("bimodal_gmm", "label_switching", "bmr_0", "radon")
CODE = """
import sys, time
sys.path.insert(0, {folder!r})
from bench import load_cases
import numpy as np
import pymc_tempering as pm_temper
import pymc_tempering.steps.parallel
case = load_cases()[{name!r}]()
started = time.process_time()
step = pm_temper.ParallelTempering(model=case.model)
built = time.process_time()
step.setup_chain(np.random.default_rng(1), 10, 10)
step.step(case.model.initial_point())
print(built - started, time.process_time() - built)
"""


def main():
    console = Console(width=100)
    if load_cases() is None:
        console.print("The reference problems (shared/cases) are not here: nothing to measure.")
        return
    folder = str(__import__("pathlib").Path(__file__).parent)
    table = Table(title="CPU seconds after imports, second process with the same model")
    for column in ("case", "building the step", "first step, base fit included", "together"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for name in CASES:
        code = CODE.format(folder=folder, name=name)
        for _ in range(2):  # the first process fills the caches
            done = subprocess.run(
                [sys.executable, "-c", code], capture_output=True, text=True, check=True
            )
        build, first = map(float, done.stdout.split()[-2:])
        table.add_row(name, f"{build:.2f}", f"{first:.2f}", f"{build + first:.2f}")
    console.print(table)


if __name__ == "__main__":
    main()
