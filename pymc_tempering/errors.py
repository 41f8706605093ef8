"""What the package raises and warns with.

Every error but :class:`DensityError` is raised before any sampling and says what was given, what
was expected and what to do. Numerical failure inside a kernel is a recorded statistic, never an
exception.
"""

from typing import Any

__all__ = [
    "BaseError",
    "DataError",
    "DensityError",
    "ModelError",
    "OptionError",
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


class TemperingWarning(UserWarning):
    """A run finished but does not support what would be concluded from it."""
