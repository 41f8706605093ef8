"""Which variables of a model depend on which, and bend with which: a table of all pairs."""

from typing import Any

import numpy as np

from pymc_tempering.diagnostics.structure import ModelStructure, structure
from pymc_tempering.plots.common import GREY, ORANGE, SKY, Axes, finish, get_axes


def plot_structure(
    found: Any = None, *, ax: Axes | None = None, figsize: tuple[float, float] | None = None
) -> Axes:
    """Which variable depends on which, and bends with which.

    A row is the law of one variable, given all others; a number, how many values of another a value
    depends on at most, on the diagonal with the sum of all where that counts, too. Blue: its mean
    alone moves, in proportion, as within a Gaussian. Orange: scale or shape change, or the mean is
    curved.

    Parameters
    ----------
    found : ModelStructure or pymc.Model, optional
        Of :func:`pymc_tempering.structure`, which is called for a model; by default that of the
        context.
    ax : Axes, optional
    figsize : tuple of float, optional
        In inches; by default it grows with the number of variables.

    Returns
    -------
    Axes

    Raises
    ------
    ModelError
        If a model has no density that can be compiled, or discrete variables.
    OptionError
        If `found` is neither.
    """
    from matplotlib.patches import Patch, Rectangle

    result = found if isinstance(found, ModelStructure) else structure(found)
    n = len(result.names)
    ax = get_axes(ax, figsize, (3.0 + 0.5 * n, 2.4 + 0.45 * n))
    for i, j in np.ndindex(n, n):
        count, bends = result.n_neighbours[i, j], result.bends[i, j]
        colour = ORANGE if bends else SKY if count else "white"
        ax.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, facecolor=colour, edgecolor=GREY))
        with_sum = "\n+ sum" * (i == j and result.names[i] == result.summed)
        if count:
            ax.text(j, i, f"{count}{with_sum}", ha="center", va="center", fontsize="small")
    labels = [
        f"{name} ({size}{', global' if n_globals else ''})"
        for name, size, n_globals in zip(
            result.names, result.sizes, result.n_globals, strict=True
        )
    ]  # fmt: skip
    ax.set_xticks(range(n), labels, rotation=90, fontsize="small")
    ax.set_yticks(range(n), labels, fontsize="small")
    ax.set(xlim=(-0.5, n - 0.5), ylim=(n - 0.5, -0.5), aspect="equal",
           ylabel="a variable (values) ...")  # fmt: skip
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel("... depends on this variable", loc="left")
    ax.xaxis.set_label_position("top")
    entries = [Patch(facecolor=SKY, edgecolor=GREY, label="mean moves in proportion"),
               Patch(facecolor=ORANGE, edgecolor=GREY, label="bends")]  # fmt: skip
    finish(ax, n_columns=2, handles=entries)
    return ax
