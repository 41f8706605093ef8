"""What the package raises and warns with.

Every error is raised before any sampling and says what was given, what was expected and what to
do; only what cannot be known before, that a file could not be written, comes after it, with what
was computed kept elsewhere (:class:`OutputError`).
Numerical failure inside a kernel is a recorded statistic, never an exception.
"""

from pathlib import Path

__all__ = [
    "BaseError",
    "DataError",
    "ModelError",
    "OptionError",
    "OutputError",
    "ScheduleError",
    "TemperingError",
    "TemperingWarning",
]


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


class TemperingWarning(UserWarning):
    """A run finished but does not support what would be concluded from it."""
