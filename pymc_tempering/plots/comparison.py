"""Pictures of several models: evidence, sensitivity to priors, calibration of probabilities."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import norm

from pymc_tempering.comparison.calibration import ModelCalibration
from pymc_tempering.errors import DataError
from pymc_tempering.estimators.result import with_error
from pymc_tempering.evidence.reading import evidence_intervals
from pymc_tempering.options import check_probability, check_whole
from pymc_tempering.plots.common import BLUE, GREY, ORANGE, Axes, finish, get_axes, get_axes_row


def plot_evidence(
    models: pd.DataFrame | Mapping[str, Any],
    *,
    prob: float = 0.95,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Axes:
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
    ax.margins(x=0.06)
    finish(ax)
    return ax


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
    per_row = 3  # a page is as wide
    n_columns, n_rows = min(len(names), per_row), -(-len(names) // per_row)
    size = (max(6.0, 3.6 * n_columns), 3.8 * n_rows)
    axes = get_axes_row(ax, figsize, size, len(names), per_row=per_row)
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


def _draw(ax: Axes, part: pd.DataFrame, label: str, prob: float, n_columns: int) -> None:
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
    finish(ax, n_columns=n_columns)


def plot_calibration(
    check: ModelCalibration,
    *,
    n_bins: int = 10,
    ax: Any = None,
    figsize: tuple[float, float] | None = None,
) -> Axes:
    """Share of the data sets of which a statement was true, against its probability.

    Parameters
    ----------
    check : ModelCalibration
        Of :func:`pymc_tempering.check_calibration`.
    n_bins : int, default 10
        Of equal width in the probability.
    ax : Axes, optional
    figsize : tuple of float, optional
        In inches.

    Returns
    -------
    Axes
        One point for each bin, with its exact 95 % interval; calibrated probabilities lie on the
        diagonal. Bars show the share of the statements in each bin.

    Raises
    ------
    DataError
        If `check` is something else.
    OptionError
        If `n_bins` is not a positive integer.
    """
    if not isinstance(check, ModelCalibration):
        raise DataError(
            f"Given was a {type(check).__name__}; expected the result of `check_calibration`."
        )
    check_whole("n_bins", n_bins, 1)
    one = get_axes(ax, figsize, (5.0, 4.6))
    curve = check.curve(n_bins)
    said, true = curve["said"].to_numpy(), curve["true"].to_numpy()
    share = curve["n"] / curve["n"].sum()
    place = np.minimum((said * n_bins).astype(int), n_bins - 1)
    one.bar((place + 0.5) / n_bins, share, 0.9 / n_bins, color=GREY, alpha=0.35, linewidth=0,
            label="share of the statements")  # fmt: skip
    one.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, label="calibrated")
    errors = [true - curve["low"], curve["high"] - true]
    one.errorbar(said, true, yerr=errors, fmt="o", color=BLUE, markersize=5, linewidth=1.2,
                 label="true, with 95 % interval")  # fmt: skip
    one.set_xlim(0, 1)
    one.set_ylim(0, 1)
    one.set_xlabel("stated posterior probability")
    one.set_ylabel("share that was true")
    finish(one, n_columns=2)
    return one
