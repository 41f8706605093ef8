"""Shared fixtures: reference cases kept beside the checkout, and the seed of the whole suite."""

import gc
import importlib.util
import os
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from last_bits import disturb

# Graphs of models are very many small objects. To note for each of them which lines made it, and to
# look for cycles among them as often as Python does, would take a seventh of the time of a run as
# short as those of most tests. Where PyMC has graphs interpreted, PyTensor has g++ compile each
# kind of Op, in two thirds of the time without optimising. (Without g++ it makes other graphs.)
# Set before PyTensor is imported, here and in what tests start.
flags = os.environ.get("PYTENSOR_FLAGS", "")
for flag, value in {"traceback__limit": "0", "gcc__cxxflags": "-O0"}.items():
    if flag not in flags:
        flags = f"{flags},{flag}={value}".lstrip(",")
os.environ["PYTENSOR_FLAGS"] = flags
gc.set_threshold(50_000, 10, 10)
# As many workers as processors are busy already, and threads that wait for one another are, too.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

if "PYTEST_XDIST_WORKER" in os.environ:
    from in_turn import compile_in_turn

    compile_in_turn()
if "PYMC_TEMPERING_TEST_LAST_BITS" in os.environ:
    disturb(int(os.environ["PYMC_TEMPERING_TEST_LAST_BITS"]))

# a shell's background jobs are started with the signal ignored, and their children after them
signal.signal(signal.SIGINT, signal.default_int_handler)

# scripts that tests run in processes of their own
collect_ignore = [
    "interrupted_run.py",
    "mpi_run.py",
    "steps/reproduce.py",
    "steps/reproduce_everywhere.py",
]

CASES = Path(__file__).resolve().parents[2] / "shared" / "cases" / "cases.py"
NO_CASES = "shared reference cases absent: no ../shared/cases/cases.py beside the checkout"


@pytest.fixture(scope="session")
def cases():
    """Functions by name that build reference problems with known log Z; skips without them."""
    if not CASES.exists():
        pytest.skip(NO_CASES)
    spec = importlib.util.spec_from_file_location("pymc_tempering_shared_cases", CASES)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module.CASES


@pytest.fixture(scope="session")
def seed():
    """Set PYMC_TEMPERING_TEST_SEED to repeat the suite over other seeds."""
    return int(os.environ.get("PYMC_TEMPERING_TEST_SEED", "20"))


@pytest.fixture
def interpreted(monkeypatch):
    """Have PyTensor interpret densities that count as compiled by numba, which takes seconds each.

    For tests of what is computed from a few hundred of their values.
    """
    from pymc_tempering.model.graph import in_python
    from pymc_tempering.model.machine_code import BACKENDS

    in_c = BACKENDS["c"]

    def interpret(graph, why):
        with in_python():
            return in_c(graph, why)._replace(calls_python="", backend="numba")

    monkeypatch.setitem(BACKENDS, "numba", interpret)


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


def pytest_terminal_summary(terminalreporter):
    skipped = [
        report
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple) and NO_CASES in report.longrepr[2]
    ]
    if skipped:
        terminalreporter.write_line(f"{len(skipped)} tests skipped: {NO_CASES}", yellow=True)
