"""Modes of the posterior: their shares by chain, and where they are."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import t as student_t

from pymc_tempering.diagnostics.modes import modes
from pymc_tempering.errors import OptionError
from pymc_tempering.plots.common import (
    INK,
    Axes,
    colour_of_chain,
    finish,
    get_axes_row,
    look_of_chain,
    whole_numbers,
)
from pymc_tempering.results.modes import Modes


def plot_modes(
    found: Any,
    *,
    var_names: Sequence[str] | None = None,
    ax: Sequence[Axes] | None = None,
    figsize: tuple[float, float] | None = None,
) -> np.ndarray:
    """Share of each mode by chain, and draws in the variables that tell modes apart.

    Chains that pass from mode to mode agree on the shares. A chain at 0 or 1 has stayed where it
    was.

    Parameters
    ----------
    found : Modes, DataTree or LogZEstimate
        Of :func:`pymc_tempering.modes`, which is called for a run.
    var_names : sequence of str, optional
        One or two scalars to show, as in ``["phone[east]", "phone[north]"]``; by default the two
        that tell modes apart best.
    ax : sequence of two Axes, optional
        For the shares and for the draws.
    figsize : tuple of float, optional
        In inches.

    Returns
    -------
    ndarray of two Axes

    Raises
    ------
    DataError
        If a run has no posterior draws.
    OptionError
        If `var_names` are not one or two scalars of the posterior.
    """
    result = found if isinstance(found, Modes) else modes(found)
    names = _names(result, var_names)
    axes = get_axes_row(ax, figsize, (10.0, 4.2), 2)
    _draw_shares(axes[0], result)
    if len(names) == 1:
        _draw_line(axes[1], result, names[0])
    else:
        _draw_plane(axes[1], result, names)
    finish(axes[0])
    # chains are named once, under the shares
    finish(axes[1], handles=axes[1].get_legend_handles_labels()[0][-1:])
    return axes


def _names(result: Modes, var_names: Any) -> list[str]:
    known = result.telling(n=10**6)
    if var_names is None:
        return known[:2]
    chosen = [var_names] if isinstance(var_names, str) else list(var_names)
    if len(chosen) not in (1, 2) or not set(chosen) <= set(known):
        raise OptionError(
            f"`var_names` is {var_names!r}; expected one or two of the scalars {known[:20]}."
        )
    return chosen


def _draw_shares(ax: Axes, result: Modes) -> None:
    data = result.dataset
    chains = data["chain"].values
    at = data["mode"].values
    by_chain = data["share_chain"].values.T
    offsets = np.linspace(-0.25, 0.25, len(chains)) if len(chains) > 1 else np.zeros(1)
    for chain, (shares, offset) in enumerate(zip(by_chain, offsets, strict=True)):
        look = look_of_chain(chains, chain)
        ax.plot(at + offset, shares, "o", markersize=5, clip_on=False, zorder=3, **look)
    df = np.maximum(np.maximum(len(chains) - 1, data["share_ess"].values / 4), 1.0)
    half = data["share_se"].values * student_t.ppf(0.975, df)
    share = data["share"].values
    low, high = np.maximum(share - half, 0.0), np.minimum(share + half, 1.0)
    ax.vlines(at, low, high, color=INK, linewidth=1.4)
    ax.hlines(share, at - 0.38, at + 0.38, color=INK, linewidth=1.4, label="all, 95 %")
    ax.set_xlim(0.5, at[-1] + 0.5)
    ax.set_ylim(0.0, 1.03 if by_chain.max() > 0.6 else 1.25 * max(by_chain.max(), high.max()))
    if len(at) <= 12:
        ax.set_xticks(at)
    else:
        whole_numbers(ax.xaxis)
    ax.set_xlabel("mode (1: largest share)")
    ax.set_ylabel("share of the draws")


def _draw_line(ax: Axes, result: Modes, name: str) -> None:
    mean, sd, values = result.location(name)
    chains = result.dataset["chain"].values
    edges = np.linspace(values.min(), values.max(), 61)
    for chain, drawn in enumerate(values):
        counts = np.histogram(drawn, edges)[0]
        ax.stairs(counts / drawn.size, edges, color=colour_of_chain(chains, chain), linewidth=1.2)
    top = ax.get_ylim()[1]
    ax.set_ylim(0.0, 1.2 * top)
    ax.errorbar(
        mean, np.full(len(mean), 1.03 * top), xerr=sd, fmt="none", ecolor=INK, elinewidth=1.4,
        label="mean and standard deviation",
    )  # fmt: skip
    for k, x in enumerate(mean, start=1):
        _number(ax, k, (x, 1.03 * top))
    ax.set_xlabel(f"{name} of the draws")
    ax.set_ylabel("share of the draws")


def _draw_plane(ax: Axes, result: Modes, names: list[str]) -> None:
    (x, x_sd, xs), (y, y_sd, ys) = (result.location(name) for name in names)
    chains = result.dataset["chain"].values
    step = -(-xs.size // 3000)  # more points than that hide one another
    for chain, (across, up) in enumerate(zip(xs[:, ::step], ys[:, ::step], strict=True)):
        ax.plot(
            across, up, ".", markersize=4, alpha=0.6, color=colour_of_chain(chains, chain),
            markeredgewidth=0,
        )  # fmt: skip
    ax.errorbar(
        x, y, xerr=x_sd, yerr=y_sd, fmt="none", ecolor=INK, elinewidth=1.4, zorder=3,
        label="mean and standard deviation",
    )  # fmt: skip
    for k, place in enumerate(zip(x, y, strict=True), start=1):
        _number(ax, k, place)
    ax.set_xlabel(f"{names[0]} of the draws")
    ax.set_ylabel(f"{names[1]} of the draws")


def _number(ax: Axes, k: int, place: tuple[float, float]) -> None:
    ax.annotate(
        str(k), place, xytext=(9, 9), textcoords="offset points", ha="center", va="center",
        fontsize="small", color=INK, zorder=4, annotation_clip=False,
        bbox={"boxstyle": "circle,pad=0.25", "facecolor": "white", "edgecolor": INK},
    )  # fmt: skip
