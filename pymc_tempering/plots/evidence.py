"""Evidence of several models, with intervals."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pymc_tempering.estimators.result import with_error
from pymc_tempering.evidence.reading import evidence_intervals
from pymc_tempering.plots.common import BLUE, GREY, ORANGE, get_axes, legend_below, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_evidence"]


def plot_evidence(
    models: pd.DataFrame | Mapping[str, Any],
    *,
    prob: float = 0.95,
    ax: "Axes | None" = None,
    figsize: tuple[float, float] | None = None,
) -> "Axes":
    """Log marginal likelihood of each model with its interval, best on top.

    Parameters
    ----------
    models : DataFrame or mapping
        Table of :func:`pymc_tempering.compare`, or names to estimates or runs. A table gives
        normal intervals, since it has no degrees of freedom.
    prob : float, default 0.95
        Coverage of the intervals.
    ax : Axes, optional
    figsize : tuple of float, optional
        In inches; by default as high as the number of models needs.

    Returns
    -------
    matplotlib.axes.Axes
        In nats. Models with warnings are drawn hollow, in orange.

    Raises
    ------
    DataError
        If `models` is neither.
    OptionError
        If `prob` is not between 0 and 1.
    """
    table = evidence_intervals(models, prob)
    ax = get_axes(ax, figsize, (7.0, 1.3 + 0.42 * len(table)))
    rows = np.arange(len(table))
    for doubtful, colour, label in (
        (False, BLUE, f"estimate, {100 * prob:g} % interval"),
        (True, ORANGE, "the same, with warnings"),
    ):
        chosen = table["warning"].to_numpy(dtype=bool) == doubtful
        if not chosen.any():
            continue
        part, y = table[chosen], rows[chosen]
        ax.hlines(y, part["low"], part["high"], color=colour, linewidth=2.5)
        ax.plot(
            part["log_z"], y, "o", color=colour, markersize=7, label=label,
            markerfacecolor="white" if doubtful else colour, markeredgewidth=1.8,
        )  # fmt: skip
    ax.axvline(table["log_z"].iloc[0], color=GREY, linewidth=0.8, zorder=0)
    ax.set_yticks(rows, [str(name) for name in table.index])
    ax.set_ylim(len(table) - 0.5, -0.5)
    # values of seven characters need room
    ax.locator_params(axis="x", nbins=6)
    ax.set_xlabel("log marginal likelihood (nats)")
    ax.set_ylabel("model")
    values = ax.secondary_yaxis("right")
    values.set_yticks(
        rows,
        [v.replace("-", "\N{MINUS SIGN}") for v in map(with_error, table["log_z"], table["se"])],
    )
    values.tick_params(length=0, labelsize="small")
    values.spines["right"].set_visible(False)
    tidy(ax)
    ax.margins(x=0.06)
    legend_below(ax)
    return ax
