"""How far the modes of a run were searched for."""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.references.planted import MASSES, WIDTHS
from pymc_tempering.types import FloatArray

__all__ = ["search_arrays", "search_line"]

_NAMES = (
    "starts", "modes", "left_out", "images", "mass_once", "start_counts", "found_by", "planted",
    "funnel_depth", "rise_along", "rise", "rise_beyond", "log_mass", "log_mass_se",
)  # fmt: skip


def search_arrays(statistics: Mapping[str, FloatArray]) -> dict[str, FloatArray]:
    """Variables ``search_...`` of the group ``tempering``, by chain, where they were recorded."""
    names = (f"search_{name}" for name in _NAMES)
    return {name: statistics[name][:, 0] for name in names if name in statistics}


def search_line(arrays: Mapping[str, FloatArray]) -> str | None:
    r"""Say in one line what was searched; None where that is not known, or nothing was.

    The whole is in the group ``tempering``, as ``search_start_counts`` and ``search_planted``.

    Examples
    --------
    >>> planted = np.array([[1.0, 1.0, 1.0, 0.5, 0.6, 0.7, 0.0, 0.0, 0.0]])
    >>> found = {"search_starts": 41_615, "search_modes": 3, "search_left_out": 1}
    >>> found = {name: np.array([value]) for name, value in found.items()}
    >>> line = search_line(found | {"search_planted": planted})
    >>> print(line.replace("; ", ";\n").replace(" would", "\nwould"))
    2 modes from 41,615 starts;
    a further mode with 5 % of the mass and half their width
    would have been found with probability 0.6
    """
    if "search_starts" not in arrays or not arrays["search_starts"].any():
        return None
    # where chains of several runs were put together, the search that went furthest
    chain = int(np.argmax(arrays["search_starts"]))
    get = {name.removeprefix("search_"): values[chain] for name, values in arrays.items()}
    n_modes = int(get["modes"] + get.get("images", 0) - get["left_out"])
    n_starts = int(get["starts"])
    line = f"{n_modes} mode{'s' * (n_modes != 1)} from {n_starts:,} start{'s' * (n_starts != 1)}"
    planted = get.get("planted")
    if planted is None or not np.isfinite(planted).all():
        return line
    half = planted.reshape(len(WIDTHS), len(MASSES))[WIDTHS.index(0.5), MASSES.index(0.05)]
    return (
        f"{line}; a further mode with 5 % of the mass and half their width would have been found "
        f"with probability {half:.1f}"
    )
