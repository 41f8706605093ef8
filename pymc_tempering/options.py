"""Checks of the options that functions and step methods share; each refusal names the remedy."""

import inspect
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_tempering.errors import ModelError, OptionError, ScheduleError
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    import pymc as pm


def unwrapped(model: Any) -> Any:
    """Give the PyMC model of an object that keeps one at ``backend.model``, as bambi's.

    It is built, where it was not. Anything else is returned as it is.
    """
    import pymc as pm

    if isinstance(model, pm.Model) or not hasattr(model, "backend"):
        return model
    if model.backend is None and callable(getattr(model, "build", None)):
        model.build()
    inner = getattr(model.backend, "model", None)
    return inner if isinstance(inner, pm.Model) else model


def resolve_model(model: Any, caller: str) -> "pm.Model":
    """Return the model, or that inside of an object of another package, or of the context."""
    import pymc as pm

    model = unwrapped(model)
    if model is not None and not isinstance(model, pm.Model):
        raise OptionError(
            f"{caller} was given a {type(model).__name__} as its model; expected a pymc.Model, or "
            "nothing inside `with model:`."
        )
    try:
        return pm.modelcontext(model)
    except TypeError as error:
        raise ModelError(
            f"{caller} was called without a model outside a model context; write it inside "
            "`with model:` or pass `model=`."
        ) from error


def check_choice(name: str, value: str, valid: Mapping[str, Any] | tuple[str, ...]) -> str:
    """Refuse an unknown option, with the known ones."""
    if not isinstance(value, str) or value not in valid:
        close = did_you_mean([value], valid) if isinstance(value, str) else ""
        raise OptionError(f"Unknown {name} {value!r}{close}; the known ones are {sorted(valid)}.")
    return value


def check_flag(name: str, value: Any) -> bool:
    """Refuse what is neither True nor False: ``bool("no")`` is True."""
    if not isinstance(value, bool | np.bool_):
        raise OptionError(f"`{name}` is {value!r}; expected True or False.")
    return bool(value)


def is_number(value: Any, *, whole: bool = False) -> bool:
    """Whether a value is a (whole) number; True and False are none."""
    kind = int | np.integer if whole else int | float | np.integer | np.floating
    return isinstance(value, kind) and not isinstance(value, bool)


def check_positive(name: str, value: Any) -> Any:
    """Refuse a value that is not a finite positive number."""
    if not is_number(value) or not 0 < value < np.inf:
        raise OptionError(f"`{name}` is {value!r}; expected a positive finite number.")
    return value


def check_whole(name: str, value: Any, least: int) -> int:
    """Refuse a value that is not a whole number of at least `least`."""
    if not is_number(value, whole=True) or value < least:
        raise OptionError(f"`{name}` is {value!r}; expected a whole number of at least {least}.")
    return int(value)


def check_probability(name: str, value: Any) -> float:
    """Refuse a value that is not strictly between 0 and 1; 95 is taken for 95 %.

    Examples
    --------
    >>> check_probability("prob", 0.95)
    0.95
    """
    if not is_number(value) or not 0.0 < value < 1.0:
        percent = is_number(value) and 1.0 < value < 100.0
        hint = f" For {value:g} % write {value / 100:g}." if percent else ""
        raise OptionError(f"`{name}` is {value!r}; expected a number between 0 and 1.{hint}")
    return float(value)


def check_nats(name: str, value: Any, more: str) -> float:
    """Refuse a value that is not a finite number; `more` ends the sentence that says so."""
    if not is_number(value) or not np.isfinite(value):
        raise OptionError(f"`{name}` is {value!r}; expected a finite number of nats{more}")
    return float(value)


def check_random_seed(value: Any) -> Any:
    """Refuse what neither NumPy nor PyMC takes for a seed."""
    known = isinstance(
        value, np.random.Generator | np.random.SeedSequence | np.random.BitGenerator | None
    )
    if known:
        return value
    entries = list(value) if isinstance(value, list | tuple | np.ndarray) else [value]
    for entry in entries:
        if not is_number(entry, whole=True) or entry < 0:
            raise OptionError(
                f"`random_seed` is {value!r}; expected None, a whole number of at least 0, or a "
                "numpy.random.Generator."
            )
    return value


def as_numbers(name: str, value: Any, error: type[Exception] = OptionError) -> FloatArray:
    """Array of numbers; refuses text, objects and ragged lists by name."""
    try:
        if np.iscomplexobj(value):
            raise TypeError("complex numbers")
        return np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as reason:
        raise error(f"`{name}` is {value!r:.80}; expected an array of numbers.") from reason


def check_betas(betas: Any) -> FloatArray:
    """Validate a schedule.

    Examples
    --------
    >>> check_betas([0, 0.1, 1]).tolist()
    [0.0, 0.1, 1.0]
    """
    array = as_numbers("betas", betas, ScheduleError)
    if array.ndim != 1 or array.size < 2:
        raise ScheduleError(
            f"A schedule is a vector of at least two inverse temperatures; one of shape "
            f"{array.shape} was given, expected (n_levels,). The shortest schedule is [0, 1]."
        )
    if not (array[0] == 0.0 and array[-1] == 1.0 and (np.diff(array) > 0).all()):
        raise ScheduleError(
            "A schedule must increase strictly from 0 (the base) to 1 (the target), but "
            f"{np.array2string(array, threshold=8)} was given; expected every level in order, base "
            "first."
        )
    return array


def check_unknown(step: type, kwargs: Mapping[str, Any]) -> None:
    """Refuse arguments that neither the step nor PyMC knows; the message lists the known ones."""
    check_names(
        step.__name__,
        set(kwargs) - {"blocked", "initial_point", "compile_kwargs", "backend"},
        set(inspect.signature(step).parameters) - {"kwargs", "rng"},
        " Draws, chains and the seed are arguments of `pm.sample`.",
    )


def check_names(caller: str, given: Iterable[str], known: Iterable[str], hint: str = "") -> None:
    """Refuse names of arguments that are not among the known ones, which the message lists."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise OptionError(
            f"{caller} does not know the arguments {unknown}{did_you_mean(unknown, known)}; it "
            f"takes {sorted(known)}.{hint}"
        )


def did_you_mean(unknown: Iterable[str], known: Iterable[str]) -> str:
    """Suggest the known names that resemble unknown ones most; empty where none does.

    Examples
    --------
    >>> did_you_mean(["seed", "draw"], ["draws", "random_seed", "scans_per_draw"])
    ' (did you mean random_seed, draws?)'
    >>> did_you_mean(["n_temps"], ["n_levels", "max_steps"])
    ''
    """
    options = sorted(known)
    close = []
    for name in unknown:
        longer = [option for option in options if option.endswith(f"_{name}")]
        close += (
            get_close_matches(name, options, n=1, cutoff=0.85)
            or longer[:1]
            or get_close_matches(name, options, n=1, cutoff=0.7)
        )
    names = ", ".join(close)
    return f" (did you mean {names}?)" if names else ""
