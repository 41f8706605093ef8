"""Schedules of inverse temperatures and their constructors."""

import numpy as np

from pymc_tempering.errors import ScheduleError
from pymc_tempering.options import check_betas, check_choice
from pymc_tempering.types import FloatArray

__all__ = ["SCHEDULES", "check_n_levels", "make_schedule"]


def check_n_levels(n_levels: object) -> int:
    """Validate a number of levels.

    Raises
    ------
    ScheduleError
        If it is not an integer of at least 2.
    """
    if (
        isinstance(n_levels, bool)
        or not isinstance(n_levels, int | np.integer)
        or int(n_levels) < 2
    ):
        raise ScheduleError(
            f"`n_levels` must be an integer of at least 2 (base and target), not {n_levels!r}."
        )
    return int(n_levels)


def _linear(x: FloatArray) -> FloatArray:
    return x


def _geometric(x: FloatArray) -> FloatArray:
    # ratio chosen so that the first positive beta of 16 levels is near 1e-4
    smallest = 1e-4
    result = smallest ** (1.0 - x)
    result[0] = 0.0
    return result


def _sigmoidal(x: FloatArray, width: float = 4.0) -> FloatArray:
    s = 1.0 / (1.0 + np.exp(-width * (2.0 * x - 1.0)))
    scaled: FloatArray = (s - s[0]) / (s[-1] - s[0])
    return scaled


SCHEDULES = {"geometric": _geometric, "linear": _linear, "sigmoidal": _sigmoidal}


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
