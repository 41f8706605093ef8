"""Checks of the options that step methods and functions share; each refusal names the remedy."""

import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from pymc_tempering.engine.explorers.explore import EXPLORERS
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.move import ExplorerSettings
from pymc_tempering.errors import OptionError

__all__ = [
    "check_choice",
    "check_positive",
    "check_target_accept",
    "check_unknown",
    "did_you_mean",
    "explorer_settings",
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


def check_unknown(step: type, kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that neither the step nor PyMC knows; the message lists the known ones.

    Raises
    ------
    OptionError
    """
    unknown = sorted(set(kwargs) - {"blocked", "initial_point", "compile_kwargs"})
    if unknown:
        known = set(inspect.signature(step).parameters) - {"kwargs", "rng"}
        raise OptionError(
            f"{step.__name__} does not know the arguments {unknown}{did_you_mean(unknown, known)}; "
            f"it takes {sorted(known)}. Draws, chains and the seed are arguments of `pm.sample`."
        )


def did_you_mean(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Suggest the known names that resemble unknown ones most; empty where none does.

    Examples
    --------
    >>> did_you_mean(["seed"], ["draws", "random_seed"])
    ' (did you mean random_seed?)'
    >>> did_you_mean(["n_temps"], ["n_levels", "max_steps"])
    ''
    """
    options = sorted(known)
    close = []
    for name in unknown:
        longer = [option for option in options if option.endswith(f"_{name}")]
        close += longer[:1] or get_close_matches(name, options, n=1, cutoff=0.7)
    names = ", ".join(close)
    return f" (did you mean {names}?)" if names else ""


def check_target_accept(value: float) -> float:
    """Refuse an acceptance rate outside (0, 1).

    Raises
    ------
    OptionError
    """
    if not 0.0 < value < 1.0:
        raise OptionError(f"`target_accept` is {value!r}; expected a number in (0, 1).")
    return float(value)


def explorer_settings(
    explorer: str | ExplorerSettings,
    *,
    target_accept: float,
    trajectory_length: float,
    max_steps: int,
) -> ExplorerSettings:
    """Check which explorer moves the replicas, and its options.

    Parameters
    ----------
    explorer : str or ExplorerSettings
        A name of :data:`pymc_tempering.engine.explorers.explore.EXPLORERS`, with default settings
        unless it is "hamiltonian", or settings.
    target_accept, trajectory_length, max_steps
        Of Hamiltonian moves.

    Raises
    ------
    OptionError
    """
    hamiltonian = Hamiltonian(
        aim=check_target_accept(target_accept),
        trajectory_length=float(check_positive("trajectory_length", trajectory_length)),
        max_steps=check_positive("max_steps", max_steps, integer=True),
    )
    if isinstance(explorer, str) and explorer == "hamiltonian":
        return hamiltonian
    if hamiltonian != Hamiltonian():
        raise OptionError(
            "`target_accept`, `trajectory_length` and `max_steps` are options of Hamiltonian moves "
            f"and explorer={explorer!r} was given. Pass settings of that explorer instead."
        )
    if isinstance(explorer, ExplorerSettings):
        return explorer
    return EXPLORERS[check_choice("explorer", explorer, EXPLORERS)]()
