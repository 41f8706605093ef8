"""The tests as other processors and other seeds would run them, and a table of what failed.

    python .ci/processors.py                       # every setting, one after the other (hours)
    python .ci/processors.py --settings Prescott,seed-101 -- tests/engine

Libraries choose kernels by processor, whose last bits differ, and draws follow from last bits. Each
setting is a run of the whole suite. One that this processor cannot take is left out by name: a
library that is told to use instructions which are not there ends in the first product, and kernels
of another processor than the one that buffers were measured for may end in a large one.
"""

import argparse
import os
import re
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

SETTINGS: dict[str, dict[str, str]] = {
    "as-it-is": {},
    "SkylakeX": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "Haswell": {"OPENBLAS_CORETYPE": "Haswell"},
    "Zen": {"OPENBLAS_CORETYPE": "Zen"},
    "Prescott": {"OPENBLAS_CORETYPE": "Prescott"},
    "numba-generic": {"NUMBA_CPU_NAME": "generic"},
    "numpy-baseline": {},  # filled in below: names depend on NumPy's version
    "last-bits-1": {"PYMC_TEMPERING_TEST_LAST_BITS": "1"},
    "last-bits-2": {"PYMC_TEMPERING_TEST_LAST_BITS": "2"},
    "seed-101": {"PYMC_TEMPERING_TEST_SEED": "101"},
    "seed-202": {"PYMC_TEMPERING_TEST_SEED": "202"},
    "seed-303": {"PYMC_TEMPERING_TEST_SEED": "303"},
}

_FEATURES = """
from numpy._core._multiarray_umath import __cpu_dispatch__, __cpu_features__
print(" ".join(name for name in __cpu_dispatch__ if __cpu_features__.get(name)))
"""
# as large as any of the tests: kernels for small matrices are others
_PRODUCT = """
import numpy, scipy.linalg
a = numpy.random.default_rng(0).normal(size=(1000, 1000))
numpy.linalg.solve(a @ a.T + numpy.eye(1000), a[0])
scipy.linalg.inv(a[:64, :64] @ a[:64, :64].T + numpy.eye(64))
"""


def main() -> None:
    """Run the suite under each setting; the exit status is 1 where a test failed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--workers", default="2")
    parser.add_argument("--logs", type=Path, default=ROOT / "out" / "processors")
    parser.add_argument("pytest", nargs="*", default=["tests", "pymc_tempering"])
    given = parser.parse_args()
    names = given.settings.split(",")
    if unknown := sorted(set(names) - set(SETTINGS)):
        parser.error(f"unknown settings {unknown}; there are {', '.join(SETTINGS)}")
    found = subprocess.run(
        [sys.executable, "-c", _FEATURES], capture_output=True, text=True, check=True
    )
    SETTINGS["numpy-baseline"] = {"NPY_DISABLE_CPU_FEATURES": found.stdout.strip()}
    given.logs.mkdir(parents=True, exist_ok=True)
    rows, failed = [], []
    for name in names:
        environment = os.environ | SETTINGS[name]
        if subprocess.run(
            [sys.executable, "-c", _PRODUCT], env=environment, capture_output=True, check=False
        ).returncode:
            rows.append((name, "left out: NumPy alone ends there on this processor"))
            continue
        rows.append((name, _run(given, name, environment, failed)))
        print(f"{name}: {rows[-1][1]}", flush=True)
    width = max(map(len, names))
    print("\n" + "\n".join(f"{name:<{width}}  {result}" for name, result in rows))
    print("\n".join(sorted(set(failed))))
    sys.exit(1 if failed else 0)


def _run(
    given: argparse.Namespace, name: str, environment: dict[str, str], failed: list[str]
) -> str:
    started = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--quiet", "--doctest-modules", "-m", "not slow",
         "--numprocesses", given.workers, "--dist", "worksteal", *given.pytest],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    (given.logs / f"{name}.log").write_text(done.stdout + done.stderr)
    lost = re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    failed += [f"{name}: {test}" for test in lost]
    if done.returncode and not lost:
        failed.append(f"{name}: the run itself, see {given.logs / name}.log")
    closing = done.stdout.strip().splitlines()[-1:] or ["no output"]
    return f"{closing[0].strip('= ')}; {time.monotonic() - started:.0f} s"


if __name__ == "__main__":
    main()
