"""Checks of the options that step methods and functions share; each refusal names the remedy."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from pymc_tempering.errors import OptionError

__all__ = [
    "check_choice",
    "check_positive",
    "check_target_accept",
    "check_unknown",
    "hamiltonian_options",
]


def check_choice(name: str, value: str, valid: Mapping[str, Any] | tuple[str, ...]) -> str:
    """Refuse an unknown option, with the known ones.

    Raises
    ------
    OptionError
    """
    if value not in valid:
        raise OptionError(f"Unknown {name} {value!r}; the known ones are {sorted(valid)}.")
    return value


def check_positive(name: str, value: Any, *, integer: bool = False) -> Any:
    """Refuse a value that is not a positive (whole) number.

    Raises
    ------
    OptionError
    """
    kind = int | np.integer if integer else int | float | np.integer | np.floating
    if isinstance(value, bool) or not isinstance(value, kind) or not value > 0:
        expected = "a positive whole number" if integer else "a positive number"
        raise OptionError(f"`{name}` is {value!r}; expected {expected}.")
    return value


def check_unknown(caller: str, kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that neither the step nor PyMC knows.

    Raises
    ------
    OptionError
    """
    unknown = sorted(set(kwargs) - {"blocked", "initial_point", "compile_kwargs"})
    if unknown:
        raise OptionError(f"{caller} does not know the arguments {unknown}.")


def check_target_accept(value: float) -> float:
    """Refuse an acceptance rate outside (0, 1).

    Raises
    ------
    OptionError
    """
    if not 0.0 < value < 1.0:
        raise OptionError(f"`target_accept` is {value!r}; expected a number in (0, 1).")
    return float(value)


def hamiltonian_options(
    *, target_accept: float, trajectory_length: float, max_steps: int
) -> dict[str, Any]:
    """Check the options of Hamiltonian moves.

    Raises
    ------
    OptionError
    """
    return {
        "trajectory_length": float(check_positive("trajectory_length", trajectory_length)),
        "max_steps": check_positive("max_steps", max_steps, integer=True),
        "target_accept": check_target_accept(target_accept),
    }
