"""Script of test_interrupts_whole.py: a run that would take hours from its n-th step on.

Prints SLOW from machine code that is called by address: from there on no Python runs.
"""

import ctypes
import sys
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numba
import numpy as np
import pymc as pm
from numba import carray, types

import pymc_tempering as pm_temper
from pymc_tempering.references.search import find_modes
from pymc_tempering.steps import common
from pymc_tempering.steps.parallel import ParallelTempering

warnings.simplefilter("ignore")
cores, where, call = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

pointer = types.CPointer(types.float64)
write = ctypes.CDLL(None).write
write.argtypes, write.restype = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t], ctypes.c_ssize_t
WORD = np.frombuffer(b"SLOW\n", dtype=np.uint8)


@numba.cfunc(types.float64(pointer, pointer), nopython=True)
def endless(z_pointer, grad_pointer):
    z, grad = carray(z_pointer, (2,)), carray(grad_pointer, (2,))
    write(1, WORD.ctypes.data, WORD.size)
    wasted = 1.0
    for i in range(60_000_000):
        wasted = wasted * 0.9999999 + 1e-9 * (i % 7)
    value = 1e-300 * wasted
    for i in range(2):
        value -= 0.5 * z[i] ** 2
        grad[i] = -z[i]
    return value


ENDLESS = SimpleNamespace(address=endless.address, dim=2)
advance, n = ParallelTempering._advance, 0


def counted(self, point):
    global n
    n += 1
    if n == where:
        ladder = self._run.ladder
        ladder.path = replace(ladder.path, target=ENDLESS)
    return advance(self, point)


def endless_fit(density, start, rng, **_):
    find_modes(ENDLESS, start, rng)


ParallelTempering._advance = counted
if where == 0:
    common.prepare = endless_fit

with pm.Model() as model:
    x = pm.Normal("x", 0.0, 1.0, shape=2)
    pm.Normal("y", x.sum(), 0.5, observed=1.0)

run = {"draws": 12, "tune": 10, "chains": 3 if cores == 1 else 2, "cores": cores, "random_seed": 1,
       "progressbar": False, "quiet": True, "compute_convergence_checks": False}  # fmt: skip
try:
    if call == "sample":
        idata = pm_temper.sample(model, **run)
    else:
        idata = pm_temper.estimate_logz(model, target_se=1e-9, **run).idata
except KeyboardInterrupt:
    said = "NOTHING"
else:
    sizes = idata.posterior.sizes
    interrupted = "interrupted" in idata["tempering"]["warning_code"].values
    said = f"{sizes['chain']} CHAINS OF {sizes['draw']}, INTERRUPTED: {interrupted}"
sys.stdout.write(f"{said}\n")
