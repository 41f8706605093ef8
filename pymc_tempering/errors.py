"""What the package raises and warns with.

Every error is raised before any sampling and says what was given, what was expected and what to
do. Only what cannot be known before comes after it: that a file could not be written, with what was
computed kept elsewhere (:class:`OutputError`), that Python code of the model raised
(:class:`DensityError`), and that a process was lost (:class:`WorkerError`). Numerical failure
inside a kernel is a recorded statistic, never an exception.
"""

from pathlib import Path
from typing import Any


class TemperingError(ValueError):
    """Base class of all errors that the package raises."""


class ModelError(TemperingError):
    """The model cannot be tempered: discrete variables, no free variables, non-finite density."""


class BaseError(TemperingError):
    """The base density does not fit the model or is not a proper density."""


class ScheduleError(TemperingError):
    """A schedule of inverse temperatures is not increasing from 0 to 1, or has too many levels."""


class OptionError(TemperingError):
    """An argument has a value that the function does not know."""


class DataError(TemperingError):
    """A DataTree lacks the recorded statistics, or models were fitted to different data."""


class DensityError(TemperingError):
    """Python code that the model calls raised an exception, which is the cause of this one.

    Attributes
    ----------
    point : dict of ndarray
        Value variables by name, such as ``sigma_log__``, where it happened.
    """

    def __init__(self, message: str, point: dict[str, Any] | None = None) -> None:
        super().__init__(message, point)
        self.point = point or {}

    def __str__(self) -> str:
        return str(self.args[0])


class OutputError(TemperingError):
    """A result could not be written where it should be.

    Parameters
    ----------
    message : str
    kept : Path, optional
        Where the result is instead; None if it could not be kept anywhere.
    """

    def __init__(self, message: str, kept: Path | None = None) -> None:
        super().__init__(message)
        self.kept = kept


class WorkerError(TemperingError):
    """A process that sampled a chain ended without an answer."""


class TemperingWarning(UserWarning):
    """A run finished but does not support what would be concluded from it.

    Parameters
    ----------
    diagnostic : pymc_tempering.estimators.diagnostic.Diagnostic
        What was found, with its code, figures and remedy; the message is its ``str``.
    """

    def __init__(self, diagnostic: Any) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic
