"""Whether the draws of a run fit into the memory of the machine, said before it starts."""

import os
from typing import Any

import numpy as np

from pymc_tempering.errors import OptionError

__all__ = ["check_memory"]

_GIB = 2.0**30


def check_memory(step: Any, *, draws: int, tune: int | None, chains: int) -> None:
    """Refuse a run whose draws need more memory than there is.

    Counted are the unconstrained values and the statistics of one number for a draw, which is the
    least; nothing is refused where the system does not say how much there is.

    Parameters
    ----------
    step : TemperedStep
    draws, tune, chains : int

    Raises
    ------
    OptionError
    """
    there = _memory()
    scalars = [np.dtype(d).itemsize for d, shape in step.stats_dtypes_shapes.values() if not shape]
    of_draw = 8 * step.dim + sum(scalars)
    kept = draws + (step.default_tune_steps if tune is None else tune)
    needed = float(chains) * kept * of_draw
    if needed > there:
        most = int(there / (chains * of_draw))
        raise OptionError(
            f"{chains} chains of {kept:,} draws, tuning included, take {needed / _GIB:,.0f} GiB at "
            f"{of_draw} bytes a draw or more, and this machine has {there / _GIB:,.0f} GiB. Ask "
            f"for fewer draws, far below {most:,} in a chain, each of more scans "
            "(`scans_per_draw=`): scans serve log Z without being stored as draws."
        )


def _memory() -> float:
    try:
        return float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return np.inf
