"""Ctrl-C ends compiled code of any length, once for all, and leaves the process as it was.

What is interrupted here would run for hours, so that a press which is not noticed makes the test
time out; the limits are far above what a loaded machine needs.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pymc as pm
import pytest

from pymc_tempering.base.advi import run_advi
from pymc_tempering.interrupts import Watch
from pymc_tempering.path.compile import compile_density
from pymc_tempering.path.guard import density_guard
from tests.slow_density import slow_normal

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 900


@pytest.fixture(scope="module")
def density():
    with pm.Model() as model:
        pm.Normal("x", 0.3, 1.7, shape=2)
    return compile_density(model)


def press_soon():
    thread = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    thread.start()
    return thread


def fit(address, n_iterations, seed=1):
    rng = np.random.default_rng(seed)
    return run_advi(address, 2, np.zeros(2), rng, n_iterations=n_iterations, max_rounds=1)


def endless_fit():
    return fit(slow_normal.address, 100_000)


def test_an_endless_fit_ends_and_the_next_one_is_what_it_was(density):
    before = fit(density.address, 200).base
    press_soon()
    with pytest.raises(KeyboardInterrupt):
        endless_fit()
    after = fit(density.address, 200).base
    np.testing.assert_array_equal(after.mean, before.mean)
    assert after.log_zeta == before.log_zeta


def test_a_handler_that_does_not_raise_cannot_keep_what_was_drained():
    received = []
    previous = signal.signal(signal.SIGINT, lambda *_: received.append(1))
    try:
        press_soon()
        with pytest.raises(KeyboardInterrupt):
            endless_fit()
        assert received == [1]
    finally:
        signal.signal(signal.SIGINT, previous)


def test_threads_end_with_the_main_thread():
    outcome = []

    def work():
        try:
            endless_fit()
        except KeyboardInterrupt:
            outcome.append("interrupted")

    thread = threading.Thread(target=work, daemon=True)
    with pytest.raises(KeyboardInterrupt), density_guard():  # noqa: PT012
        thread.start()
        press_soon()
        try:
            time.sleep(LIMIT)
        finally:
            # as the pool of annealed particles does: while the guard is there
            thread.join(LIMIT)
    assert outcome == ["interrupted"]


def test_other_signals_stop_nothing(density):
    previous = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        with density_guard():
            os.kill(os.getpid(), signal.SIGTERM)
            value, _ = density.value_and_grad(np.zeros(2))
        assert np.isfinite(value)
    finally:
        signal.signal(signal.SIGTERM, previous)


def test_an_event_loop_still_gets_its_bytes():
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    reader.settimeout(LIMIT)
    original = signal.set_wakeup_fd(writer.fileno())
    try:
        with pytest.raises(KeyboardInterrupt), Watch(), Watch():
            os.kill(os.getpid(), signal.SIGINT)
        assert reader.recv(1) == bytes([signal.SIGINT])
        assert signal.set_wakeup_fd(original) == writer.fileno()
    finally:
        signal.set_wakeup_fd(original)
        reader.close()
        writer.close()


def test_nothing_stays_installed():
    before = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(before)
    with Watch():
        pass
    after = signal.set_wakeup_fd(before)
    assert after == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_forked_process_does_not_write_to_its_parent():
    with Watch():
        child = os.fork()
        if child == 0:
            os._exit(int(signal.set_wakeup_fd(-1) != -1))
        _, status = os.waitpid(child, 0)
    assert status == 0


# Draws are short until `where`, and would then take hours.
SCRIPT = """
import sys, warnings
import pymc as pm
import pymc_tempering as pm_temper
import pymc_tempering.step_methods.parallel as parallel
import pymc_tempering.step_methods.common as common
from tests.slow_density import slow_normal
warnings.simplefilter("ignore")

cores, where, call = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
with pm.Model() as model:
    x = pm.Normal("x", 0.0, 1.0, shape=2)
    pm.Normal("y", x.sum(), 0.5, observed=1.0)

n = 0
advance = parallel.ParallelTempering._advance
def counted(self, point):
    global n
    n += 1
    if n == where:
        replicas = self._run.replicas
        replicas._target = replicas._target._replace(address=slow_normal.address)
        print("READY", flush=True)
    return advance(self, point)
parallel.ParallelTempering._advance = counted
if where == 0:
    find = common.find_modes
    def endless(address, dim, start, rng, **_):
        from pymc_tempering.base.advi import run_advi
        print("READY", flush=True)
        run_advi(slow_normal.address, dim, start, rng, n_iterations=100_000)
    common.find_modes = endless

run = dict(draws=12, tune=10, chains=3 if cores == 1 else 2, cores=cores, random_seed=1,
           progressbar=False, quiet=True, compute_convergence_checks=False)
try:
    if call == "sample":
        idata = pm_temper.sample(model, **run)
    else:
        idata = pm_temper.estimate_logz(model, target_se=1e-9, **run).idata
    sizes = idata.posterior.sizes
    print("SIZES", sizes["chain"], sizes["draw"], flush=True)
    print("NOTE", "interrupted:" in idata.tempering.attrs["warnings"], flush=True)
except KeyboardInterrupt as error:
    print("NOTHING", "before any chain" in str(error), flush=True)
"""


def pressed_once(cores, where, call="sample"):
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(cores), str(where), call],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    for _ in range(cores):
        assert process.stdout.readline() == "READY\n"
    # into compiled code, most likely; earlier the press has the same outcome
    time.sleep(2.0)
    os.killpg(process.pid, signal.SIGINT)
    try:
        out, _ = process.communicate(timeout=LIMIT)
    finally:
        process.kill()
    return out.splitlines()


@pytest.mark.parametrize("cores", [1, 2])
def test_one_press_during_fits(cores):
    assert pressed_once(cores, 0) == ["NOTHING True"]


def test_one_press_ends_all_chains_of_a_sequential_run():
    # the second chain of three, at its seventh draw
    assert pressed_once(1, 22 + 17) == ["SIZES 1 12", "NOTE True"]


def test_one_press_ends_chains_on_two_cores():
    assert pressed_once(2, 17) == ["SIZES 2 6", "NOTE True"]


def test_one_press_ends_the_rounds_of_target_se():
    # the first round has three chains, the second very many; there the third is interrupted
    lines = pressed_once(1, 22 * 5 + 15, "target_se")
    assert lines == ["SIZES 5 12", "NOTE True"]
