"""Ctrl-C ends compiled code of any length, once for all, and leaves the process as it was.

What is interrupted here would run for hours, so that a press which is not noticed makes the test
time out; the limits are far above what a loaded machine needs.
"""

import os
import signal
import socket
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytest

from pymc_tempering.engine.guard import Watch, density_guard
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references.search import Effort, find_modes
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


def fit(density, n_starts, seed=1):
    effort = Effort(n_starts, 100 * n_starts)
    return find_modes(density, np.zeros(2), np.random.default_rng(seed), effort=effort).pooled


def endless_fit():
    return fit(SimpleNamespace(address=slow_normal.address, dim=2), 100_000)


def test_an_endless_fit_ends_and_the_next_one_is_what_it_was(density):
    before = fit(density, 200)
    press_soon()
    with pytest.raises(KeyboardInterrupt):
        endless_fit()
    after = fit(density, 200)
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
        # the signal of another test may come late, and be passed on before it
        while reader.recv(1) != bytes([signal.SIGINT]):
            pass
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
