"""How compiled loops are left: Ctrl-C, and exceptions of Python code.

A kernel cannot be left by an exception. Python runs the handler of a signal only between two of its
own instructions: a press would wait for the end of a draw, or of all local fits. The interpreter
writes a byte to the wakeup file descriptor as soon as a signal arrives. A thread reads it and sets
a flag that :func:`pymc_tempering.engine.path.path.call_density` looks at: from then on every
evaluation returns ``-inf`` at once, and the kernel comes to its end within milliseconds. Where the
density runs Python code, its first exception is kept, and evaluations in this thread end the same
way. Then Python raises; what was computed meanwhile means nothing.
"""

import contextlib
import ctypes
import os
import signal
import socket
import threading
from collections.abc import Iterator, Mapping

import numpy as np
from llvmlite.binding import add_symbol

from pymc_tempering.errors import DensityError

STOP_SYMBOL = "pymc_tempering_stop"
"""Name under which compiled code finds the flag, an int64; its address differs by process."""

_stop = ctypes.c_int64(0)
# before any kernel is loaded, since code from the cache is linked when it is
add_symbol(STOP_SYMBOL, ctypes.addressof(_stop))

# a byte that is no signal: asks the thread to say how far it has read
_SYNC = b"\0"


class _Watcher:
    """Thread that reads the signals of this process, one for all runs.

    The interpreter writes to `fd`; `forward_to` is the descriptor of an event loop that was set
    before, which receives all bytes too, or -1. `n_presses` counts interrupts and is never reset.
    """

    def __init__(self) -> None:
        # a pair of sockets, as asyncio has: a pipe cannot be a wakeup descriptor on Windows
        self._reader, self._writer = socket.socketpair()
        self._writer.setblocking(False)
        self.fd = self._writer.fileno()
        self.forward_to = -1
        self.n_presses = 0
        self._synchronised = threading.Event()
        threading.Thread(target=self._read, name="pymc_tempering interrupts", daemon=True).start()

    def _read(self) -> None:
        while received := self._reader.recv(4096):
            if signal.SIGINT in received:
                # in this order, see Watch
                _stop.value = 1
                self.n_presses += 1
            signals = received.replace(_SYNC, b"")
            if signals and self.forward_to != -1:
                with contextlib.suppress(OSError):
                    _write(self.forward_to, signals)
            if _SYNC in received:
                self._synchronised.set()

    def synchronise(self) -> None:
        """Wait until every signal so far has been read."""
        self._synchronised.clear()
        with contextlib.suppress(OSError):
            self._writer.send(_SYNC)
            # seconds; the thread answers within milliseconds
            self._synchronised.wait(1.0)


def _write(descriptor: int, data: bytes) -> None:
    if os.name == "nt":
        # event loops wait for a socket there, which has no file descriptor
        other = socket.socket(fileno=descriptor)
        try:
            other.send(data)
        finally:
            other.detach()
    else:
        os.write(descriptor, data)


_watcher: _Watcher | None = None


def _forget_watcher() -> None:
    """In a forked process: the thread is gone, and the sockets are the parent's."""
    global _watcher
    _stop.value = 0
    if _watcher is not None:
        current = signal.set_wakeup_fd(-1)
        signal.set_wakeup_fd(_watcher.forward_to if current == _watcher.fd else current)
        _watcher = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_watcher)


class Watch:
    """Context in which Ctrl-C ends compiled code within milliseconds. May be nested.

    Only the main thread of a process receives signals, so only there anything is installed, and
    taken back at the end. Kernels of other threads end too, as long as the context of the main
    thread is open, and theirs raise: who starts threads waits for them inside.

    At the end of a context in which there was an interrupt KeyboardInterrupt is raised, also where
    the program's own handler does not raise, since what the kernel returned means nothing.
    """

    _previous: int | None = None

    def __enter__(self) -> None:
        global _watcher
        if threading.current_thread() is threading.main_thread():
            if _watcher is None:
                _watcher = _Watcher()
            # subinterpreters have a main thread, but no signals
            with contextlib.suppress(ValueError):
                previous = signal.set_wakeup_fd(_watcher.fd)
                if previous != _watcher.fd:
                    _watcher.forward_to = self._previous = previous
                    _stop.value = 0
        # The thread sets flag, then count; here they are read the other way round, so that a press
        # between the two is seen by one or by the other.
        self._n_before = _n_presses()
        self._stopped_before = bool(_stop.value)

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        stopped = self._stopped_before or bool(_stop.value) or _n_presses() != self._n_before
        if self._previous is not None and _watcher is not None:
            signal.set_wakeup_fd(self._previous)
            if stopped or isinstance(error, KeyboardInterrupt):
                # a byte read later would stop the next run
                _watcher.synchronise()
                _stop.value = 0
        if stopped and not isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt


def _n_presses() -> int:
    return 0 if _watcher is None else _watcher.n_presses


class _Failures(threading.local):
    """The first exception of this thread that has not been raised yet, and where it happened."""

    pending: tuple[BaseException, Mapping[str, np.ndarray]] | None = None


_failures = _Failures()


def keep_failure(error: BaseException, point: Mapping[str, np.ndarray]) -> None:
    """Keep an exception, and the value variables by name, for the guard; of several, the first."""
    if _failures.pending is None:
        _failures.pending = error, point


def has_failed() -> bool:
    """Whether an exception waits to be raised in this thread."""
    return _failures.pending is not None


def raise_failure() -> None:
    """Raise the exception that was kept, if any.

    A DensityError is raised from it; KeyboardInterrupt and SystemExit are raised themselves.
    """
    if _failures.pending is None:
        return
    error, point = _failures.pending
    _failures.pending = None
    if not isinstance(error, Exception):
        raise error
    what = f"{type(error).__name__}: {error}".rstrip(": ")
    values = ", ".join(f"{name}={_short(value)}" for name, value in point.items())
    raise DensityError(
        f"The log density raised {what} at the unconstrained values {values}. Python code that "
        "the model calls has to return a value wherever a sampler may go, -inf where there is no "
        "density.",
        dict(point),
    ) from error


@contextlib.contextmanager
def density_guard() -> Iterator[None]:
    """Surround compiled code that evaluates densities; also as a decorator. May be nested.

    Ctrl-C ends the code within milliseconds (:class:`Watch`), and what Python code of the model
    raised is raised here, as a DensityError from it.
    """
    with Watch():
        try:
            yield
        finally:
            raise_failure()


def _short(value: np.ndarray) -> str:
    return np.array2string(np.asarray(value), precision=6, separator=", ", threshold=8, edgeitems=3)
