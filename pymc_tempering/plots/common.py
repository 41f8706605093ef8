"""What all pictures share: colours, axes, lines of chains, and places of legends."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_tempering.errors import OptionError
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    from matplotlib import axes

type Axes = axes.Axes
"""Of matplotlib, which is not imported before the first picture."""

# Okabe & Ito (2008), Color Universal Design: told apart with every common colour vision
BLUE, ORANGE, GREEN = "#0072B2", "#E69F00", "#009E73"
VERMILLION, PURPLE, SKY = "#D55E00", "#CC79A7", "#56B4E9"
CYCLE = (BLUE, ORANGE, GREEN, VERMILLION, PURPLE, SKY)
GREY, INK = "#A6A6A6", "#333333"


def get_axes(ax: Any, figsize: tuple[float, float] | None, default: tuple[float, float]) -> Axes:
    """Return the axes to draw on, new ones of `figsize` or the `default` size where none are given.

    Anything but Axes, or axes and a `figsize`, is an OptionError.
    """
    return get_axes_row(ax, figsize, default, 1)[0]


def get_axes_row(
    ax: Any,
    figsize: tuple[float, float] | None,
    default: tuple[float, float],
    n: int,
    *,
    per_row: int | None = None,
) -> np.ndarray:
    """Return `n` axes side by side, as `get_axes` does one; wrapped after `per_row`."""
    import matplotlib.pyplot as plt

    if ax is None:
        figure = plt.figure(figsize=figsize or default, layout="constrained")
        columns = n if per_row is None else min(n, per_row)
        cells = figure.add_gridspec(-(-n // columns), columns)
        return np.array([figure.add_subplot(cells[divmod(i, columns)]) for i in range(n)])
    if figsize is not None:
        raise OptionError("Both `ax` and `figsize` were given; a given axes has its size already.")
    given = np.ravel(np.asarray(ax, dtype=object))
    if given.size != n or not all(hasattr(one, "plot") for one in given):
        raise OptionError(
            f"`ax` is {ax!r}; expected {'a matplotlib Axes' if n == 1 else f'{n} matplotlib Axes'}."
        )
    return given


def colour_of_chain(names: np.ndarray, chain: int) -> str:
    """Colour of the chain at a position, the same in all pictures of a run and of its parts.

    It is chosen by the coordinate of the chain, or by its position where there are others than 0 to
    5; grey for all where there are more than colours.
    """
    if len(names) > len(CYCLE):
        return GREY
    by_name = all(name in range(len(CYCLE)) for name in names)
    return CYCLE[int(names[chain]) if by_name else chain]


def look_of_chain(names: np.ndarray, chain: int) -> dict[str, Any]:
    """Colour and legend entry of a chain; a single entry for all where they share a colour."""
    label = f"chain {names[chain]}" if len(names) <= len(CYCLE) else "each chain"
    named = len(names) <= len(CYCLE) or chain == 0
    return {"color": colour_of_chain(names, chain), "label": label if named else None}


def draw_chains(ax: "Axes", names: np.ndarray, x: Sequence[Any], y: Sequence[Any]) -> None:
    """Draw a line with a mark at every level for each chain; x and y may differ in length."""
    for chain, (across, up) in enumerate(zip(x, y, strict=True)):
        look = look_of_chain(names, chain)
        ax.plot(across, up, marker="o", markersize=4.5, linewidth=1.2, **look)


def finish(ax: "Axes", *, n_columns: int = 3, **kwargs: Any) -> None:
    """Take away the frame where it carries no information, and put the legend below.

    It is under the label of the horizontal axis, never over data; `kwargs` are those of a legend.
    """
    from matplotlib.transforms import ScaledTranslation

    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(color=GREY)
    # tick labels and axis label take about 36 points whatever the size of the axes
    shift = ScaledTranslation(0, -36 / 72, ax.figure.dpi_scale_trans)
    ax.legend(
        loc="upper left", bbox_to_anchor=(0.0, 0.0), bbox_transform=ax.transAxes + shift,
        ncols=n_columns, frameon=False, fontsize="small", borderaxespad=0.0, handlelength=1.6,
        columnspacing=1.4, **kwargs,
    )  # fmt: skip


def label_betas(ax: "Axes", betas: FloatArray) -> None:
    """Label the horizontal axis as inverse temperature, with room for a crowded base.

    The scale is linear unless the second level lies below 0.01, where a linear one would hide it;
    then it is logarithmic above that level and linear below. `betas` are all that are shown.
    """
    positive = np.min(betas[betas > 0.0], initial=1.0)
    if positive < 0.01:
        ax.set_xscale("symlog", linthresh=positive, linscale=0.5)
        ax.set_xlim(-0.1 * positive, 1.15)
        # matplotlib's own ticks below the second level would lie on top of the one at 0
        lowest = int(np.ceil(np.log10(positive) - 1e-9))
        decades = np.arange(0, lowest - 1, -max(1, -lowest // 5 + 1))[::-1]
        ax.set_xticks([0.0, *10.0**decades], ["0", *(f"{10.0**d:g}" for d in decades)])
        ax.set_xticks([], minor=True)
    else:
        ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("inverse temperature β (0: base, 1: target)")


def whole_numbers(axis: Any) -> None:
    """Put ticks of an axis at whole numbers only."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))
