"""Evidence against the scale of a prior, and where the weights cannot be trusted."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from pymc_tempering.errors import DataError
from pymc_tempering.options import check_probability
from pymc_tempering.plots.common import BLUE, GREY, ORANGE, get_axes_row, legend_below, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_prior_sensitivity"]

_PER_ROW = 3

_NEEDED = ("change", "name", "value", "log_bayes_factor", "log_bayes_factor_se", "warning")


def plot_prior_sensitivity(
    table: pd.DataFrame,
    *,
    name: str | None = None,
    prob: float = 0.95,
    ax: Any = None,
    figsize: tuple[float, float] | None = None,
) -> np.ndarray:
    """Log Bayes factor against the original model, by prior scale or likelihood power.

    Parameters
    ----------
    table : DataFrame
        Of :func:`pymc_tempering.prior_sensitivity`. Alternatives have no place on an axis and are
        left out.
    name : str, optional
        Of the column ``name``; by default each has axes of its own, with one vertical scale for all
        priors.
    prob : float, default 0.95
        Coverage of the band.
    ax : Axes or sequence of Axes, optional
        One for each name.
    figsize : tuple of float, optional
        In inches.

    Returns
    -------
    ndarray of Axes
        One for each name, in rows of three, in nats; the factor 1 is the model itself. Where the
        weights have warnings, points are hollow and the ground is shaded.

    Raises
    ------
    DataError
        If the table is another one, has nothing to draw, or not the name.
    OptionError
        If `prob` is not between 0 and 1, or there are not as many axes as names.
    """
    check_probability("prob", prob)
    names = _names(table, name)
    columns = min(len(names), _PER_ROW)
    size = (max(6.0, 3.6 * columns), 3.8 * -(-len(names) // _PER_ROW))
    axes = get_axes_row(ax, figsize, size, len(names), per_row=_PER_ROW)
    for one, label in zip(axes, names, strict=True):
        _draw(one, table[table["name"] == label], label, prob, 2 if len(names) == 1 else 1)
    # one scale for all priors, so that what matters more looks steeper; powers move log Z by far
    # more, which says nothing of the priors
    scales = [one for one, label in zip(axes, names, strict=True) if label != "likelihood"]
    if scales:
        limits = np.array([one.get_ylim() for one in scales])
        for one in scales:
            one.set_ylim(limits[:, 0].min(), limits[:, 1].max())
    return axes


def _names(table: Any, name: str | None) -> list[str]:
    if not isinstance(table, pd.DataFrame) or not set(_NEEDED) <= set(table.columns):
        found = list(table.columns) if isinstance(table, pd.DataFrame) else type(table).__name__
        raise DataError(f"Given was {found}; expected the table of `prior_sensitivity`.")
    shown = table[table["change"].isin(["prior scale", "likelihood power"])]
    names = list(dict.fromkeys(shown["name"]))
    if name is not None and name not in names:
        raise DataError(f"The table has the names {names}, but not {name!r}.")
    if not names:
        raise DataError(
            "The table has no prior scales and no likelihood powers. Ask for them with "
            "`prior_scale=` or `likelihood_power=`."
        )
    return names if name is None else [name]


def _draw(ax: "Axes", part: pd.DataFrame, label: str, prob: float, n_columns: int) -> None:
    is_power = part["change"].iloc[0] == "likelihood power"
    rows = [
        (float(x), float(y), float(se), bool(warning))
        for x, y, se, warning in zip(
            part["value"], part["log_bayes_factor"], part["log_bayes_factor_se"], part["warning"],
            strict=True,
        )
        if x != 1.0
    ]  # fmt: skip
    rows = sorted([*rows, (1.0, 0.0, 0.0, False)])
    x, y, se, doubtful = (np.array(column) for column in zip(*rows, strict=True))
    half = norm.ppf(0.5 + 0.5 * prob) * se
    shade_label: str | None = "weights not to be trusted"
    # edges halfway between points, and at the ends as far beyond as the neighbour is near
    places = x if is_power else np.log(x)
    if x.size == 1:
        places = np.concatenate([places - 0.5, places, places + 0.5])
    first, last = 1.5 * places[0] - 0.5 * places[1], 1.5 * places[-1] - 0.5 * places[-2]
    edges = np.concatenate([[first], 0.5 * (places[1:] + places[:-1]), [last]])
    edges = edges if is_power else np.exp(edges)
    for i in np.flatnonzero(doubtful):
        ax.axvspan(edges[i], edges[i + 1], color=ORANGE, alpha=0.16, linewidth=0, label=shade_label)
        shade_label = None
    ax.axhline(0.0, color=GREY, linewidth=0.8, zorder=0)
    ax.axvline(1.0, color=GREY, linewidth=0.8, zorder=0)
    ax.fill_between(x, y - half, y + half, color=BLUE, alpha=0.25, linewidth=0,
                    label=f"{100 * prob:g} % interval")  # fmt: skip
    ax.plot(x, y, color=BLUE, linewidth=1.2)
    ax.plot(x[~doubtful], y[~doubtful], "o", color=BLUE, markersize=5, label="reweighted")
    if doubtful.any():
        ax.plot(x[doubtful], y[doubtful], "o", color=ORANGE, markerfacecolor="white",
                markeredgewidth=1.6, markersize=6, label="the same, with warnings")  # fmt: skip
    ax.set_xlim(edges[0], edges[-1])
    if is_power:
        ax.set_xlabel("likelihood power")
        ax.set_ylabel("change of log Z (nats)")
    else:
        ax.set_xscale("log")
        ax.set_xticks(x, [f"{value:g}" for value in x])
        ax.set_xticks([], minor=True)
        ax.set_xlabel(f"factor on the prior scale of {label}")
        ax.set_ylabel("log Bayes factor against\nthe original model (nats)")
    tidy(ax)
    legend_below(ax, n_columns=n_columns)
