"""Carrying exceptions of Python code out of compiled loops.

A kernel calls the density through a C function, which no exception can cross. Where the density
runs Python code, an exception is kept, every later evaluation in this thread returns ``-inf`` at
once, so that the kernel comes to its end without doing any work, and the guard around it raises.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import numpy as np

from pymc_tempering.engine.interrupts import Watch
from pymc_tempering.errors import DensityError

__all__ = ["density_guard", "has_failed", "keep_failure", "raise_failure"]


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


@contextmanager
def density_guard() -> Iterator[None]:
    """Surround compiled code that evaluates densities; also as a decorator. May be nested.

    Ctrl-C ends the code within milliseconds (:class:`.interrupts.Watch`), and what Python code of
    the model raised is raised here, as a DensityError from it. Results of code that was ended like
    this mean nothing, and always an exception follows.
    """
    with Watch():
        try:
            yield
        finally:
            raise_failure()


def _short(value: np.ndarray) -> str:
    return np.array2string(np.asarray(value), precision=6, separator=", ", threshold=8, edgeitems=3)
