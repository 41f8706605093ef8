"""How long a newcomer waits: from a cold process to the first log Z, beside nutpie's first draws.

    make startup
    python benchmarks/startup.py --cases radon --methods pymc_tempering
    python benchmarks/startup.py --cases radon --functions 20

CPU seconds of a fresh process with empty caches, by what they go to, and the sum of a second
process that finds the caches of the first. This package: a default run of
:func:`~pymc_tempering.estimate_logz`. nutpie: 1000 draws of one chain after its default tuning.
With ``--functions``, the functions that took numba longest in a default run of this package, each
without those that it calls.
"""

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

CASES = ("phase_transition_10", "conjugate_regression", "bimodal_gmm", "label_switching", "bmr_0",
         "radon")  # fmt: skip
METHODS = ("pymc_tempering", "nutpie")
PHASES = ("imports", "graph", "density", "kernels", "search", "the rest")
RECORD = Path(__file__).resolve().parents[1] / "out" / "startup.jsonl"


class PhaseClock:
    """CPU seconds by phase; numba's compiling is told apart wherever it happens."""

    def __init__(self):
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.functions, self.stack = Counter(), []
        self.phase, self.last, self.depth = "imports", time.process_time(), 0

    def listen(self):
        """Hear of numba's compiling, which also means to import it."""
        from numba.core import event

        clock = self

        class Listener(event.Listener):
            def on_start(self, event):
                clock.compile_begins()
                function = event.data["dispatcher"].py_func
                clock.turn_to_function(f"{function.__module__}.{function.__qualname__}")

            def on_end(self, event):
                clock.turn_to_function(None)
                clock.compile_ends()

        event.register("numba:compile", Listener())

    def turn_to(self, phase):
        """Credit the phase so far, and go on with another; returns the former."""
        now = time.process_time()
        self.seconds[self.phase] += now - self.last
        self.last, former, self.phase = now, self.phase, phase
        return former

    def turn_to_function(self, name):
        """Credit the function so far, and go on with another or, for None, with its caller."""
        now = time.process_time()
        if self.stack:
            self.functions[self.stack[-1]] += now - self.since
        self.since = now
        if name is None:
            self.stack.pop()
        else:
            self.stack.append(name)

    def compile_begins(self):
        """Of one function, maybe within another's."""
        if self.depth == 0:
            self.outside = self.turn_to("density" if self.phase == "graph" else "kernels")
        self.depth += 1

    def compile_ends(self):
        """Go on with what it was for."""
        self.depth -= 1
        if self.depth == 0:
            self.turn_to(self.outside)

    @contextmanager
    def within(self, module, name, phase):
        """Credit calls of a function, as a module knows it, to a phase."""
        original = getattr(module, name)

        def timed(*args, **kwargs):
            former = self.turn_to(phase)
            try:
                return original(*args, **kwargs)
            finally:
                self.turn_to(former)

        setattr(module, name, timed)
        yield
        setattr(module, name, original)


def first_log_z(model, clock):
    from figures import QUIET

    import pymc_tempering as pm_temper
    from pymc_tempering.references import prepare
    from pymc_tempering.steps import arguments

    clock.turn_to("the rest")
    compiling = clock.within(arguments, "compile_density", "graph")
    searching = clock.within(prepare, "find_modes", "search")
    with compiling, searching:
        pm_temper.estimate_logz(model, random_seed=1, **QUIET)


def first_draws(model, clock):
    import nutpie

    clock.turn_to("graph")
    compiled = nutpie.compile_pymc_model(model)
    clock.turn_to("the rest")
    nutpie.sample(compiled, draws=1000, chains=1, cores=1, seed=1, progress_bar=False)


def measure(case, method):
    """Print the phases of this process as JSON."""
    clock = PhaseClock()
    clock.listen()
    import pymc  # noqa: F401  what follows imports it in any case

    run = {"pymc_tempering": first_log_z, "nutpie": first_draws}[method]
    imported = clock.turn_to("the rest")
    from peer_models import problem  # the problem is the user's, whatever it costs

    logging.getLogger("pymc").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")
    model = problem(case).model
    clock.seconds["the rest"], clock.last = 0.0, time.process_time()
    clock.phase = imported
    run(model, clock)
    clock.turn_to("the rest")
    print(json.dumps(clock.seconds | {"functions": clock.functions}))


def in_own_process(case, method, cache):
    from peers import ONE_THREAD

    flags = {"PYTENSOR_FLAGS": f"base_compiledir={cache}/pytensor", "NUMBA_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, __file__, "--worker", "--cases", case, "--methods", method],
        env=os.environ | ONE_THREAD | flags, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        raise SystemExit(f"{case}, {method}: {done.stderr.strip().splitlines()[-1]}")
    seconds = json.loads(done.stdout.splitlines()[-1])
    return seconds, Counter(seconds.pop("functions"))


def print_functions(case, n):
    """Print a table of the `n` functions that took longest to compile, and the sum of all."""
    from figures import table

    with tempfile.TemporaryDirectory() as cache:
        seconds, functions = in_own_process(case, METHODS[0], cache)
    package = sum(s for name, s in functions.items() if name.startswith("pymc_tempering."))
    lines = [[name, f"{s:.2f}"] for name, s in functions.most_common(n)]
    lines += [["this package's, together", f"{package:.2f}"],
              ["all functions", f"{functions.total():.2f}"],
              ["the whole process", f"{sum(seconds.values()):.2f}"]]  # fmt: skip
    table(f"CPU seconds by compiled function, {case}", ["function", "seconds"], lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", help="separated by commas; default: all that are here")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--functions", type=int, metavar="N", help="the N slowest, case by case")
    parser.add_argument("--record", type=Path, default=RECORD)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    methods = args.methods.split(",")
    if args.worker:
        measure(args.cases, *methods)
        return
    from figures import table
    from peer_methods import installed
    from peer_models import available

    if "nutpie" in methods and not args.functions:
        installed("nutpie")
    cases = args.cases.split(",") if args.cases else [c for c in CASES if c in available()[0]]
    if args.functions:
        for case in cases:
            print_functions(case, args.functions)
        return
    args.record.parent.mkdir(parents=True, exist_ok=True)
    lines = []
    for case in cases:
        for method in methods:
            with tempfile.TemporaryDirectory() as cache:
                cold, warm = (in_own_process(case, method, cache)[0] for _ in range(2))
            row = {"case": case, "method": method, "cold": cold, "second": warm}
            with args.record.open("a") as file:
                file.write(json.dumps(row) + "\n")
            seconds = [*cold.values(), sum(cold.values()), sum(warm.values())]
            lines.append([f"{case}, {method}", *(f"{s:.1f}" for s in seconds)])
            print(lines[-1], flush=True)
    columns = ["", *PHASES, "cold, together", "second process"]
    table("CPU seconds from a cold process to the first log Z or 1000 draws", columns, lines)


if __name__ == "__main__":
    main()
