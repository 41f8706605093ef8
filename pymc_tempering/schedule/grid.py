"""Schedules of inverse temperatures and their constructors."""

from collections.abc import Callable
from typing import Any

import numpy as np

from pymc_tempering.errors import ScheduleError
from pymc_tempering.options import check_betas, check_choice, is_number
from pymc_tempering.types import FloatArray


def check_n_levels(n_levels: Any) -> int:
    """Return a number of levels if it is an integer of at least 2, else raise ScheduleError."""
    if not is_number(n_levels, whole=True) or n_levels < 2:
        raise ScheduleError(
            f"`n_levels` must be an integer of at least 2 (base and target), not {n_levels!r}."
        )
    return int(n_levels)


def check_levels(n_levels: object, betas: object, default: int) -> tuple[int, FloatArray | None]:
    """Largest number of levels, and the schedule that is kept, where one was given."""
    fixed = None if betas is None else check_betas(betas)
    if n_levels is None:
        return (default if fixed is None else fixed.size), fixed
    most = check_n_levels(n_levels)
    if fixed is not None and fixed.size > most:
        raise ScheduleError(
            f"`betas` has {fixed.size} levels, more than n_levels={n_levels}; "
            "leave `n_levels` away."
        )
    return most, fixed


def _geometric(x: FloatArray) -> FloatArray:
    # from a wide base most of the barrier is below 1e-2
    result = 1e-4 ** (1.0 - x)
    result[0] = 0.0
    return result


def _sigmoidal(x: FloatArray) -> FloatArray:
    s = 1.0 / (1.0 + np.exp(-4.0 * (2.0 * x - 1.0)))
    return np.asarray((s - s[0]) / (s[-1] - s[0]))


SCHEDULES: dict[str, Callable[[FloatArray], FloatArray]] = {
    "geometric": _geometric, "linear": lambda x: x, "sigmoidal": _sigmoidal,
}  # fmt: skip


def make_schedule(kind: str, n_levels: int) -> FloatArray:
    """Schedule of a named shape.

    Parameters
    ----------
    kind : {"geometric", "linear", "sigmoidal"}
        "linear" has equal steps; "geometric" has equal ratios above 1e-4, for bases much wider
        than the target; "sigmoidal" is fine at both ends (Grosse et al. 2015, section 6).
    n_levels : int
        At least 2.

    Returns
    -------
    ndarray of shape (n_levels,)

    Raises
    ------
    OptionError
        For an unknown kind; the message lists the known ones.

    Examples
    --------
    >>> make_schedule("linear", 3)
    array([0. , 0.5, 1. ])
    """
    check_choice("schedule", kind, SCHEDULES)
    betas = SCHEDULES[kind](np.linspace(0.0, 1.0, check_n_levels(n_levels)))
    betas[0], betas[-1] = 0.0, 1.0
    return check_betas(betas)
