"""Where the sampler spent its time between base and target."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_tempering.diagnostics import share_of_levels, share_of_pieces
from pymc_tempering.errors import DataError
from pymc_tempering.evidence.reading import check_tree
from pymc_tempering.plots.common import (
    INK,
    colour_of_chain,
    get_axes,
    label_betas,
    legend_below,
    name_of_chain,
    tidy,
)
from pymc_tempering.results.datatree import read_statistics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pymc_tempering.types import FloatArray

__all__ = ["plot_beta_occupancy"]

# the published method has a bias of one piece, which says nothing of where beta was
_MIN_KNOTS = 2


def plot_beta_occupancy(
    idata: Any,
    *,
    n_bins: int = 20,
    ax: "Axes | None" = None,
    figsize: tuple[float, float] | None = None,
) -> "Axes":
    """Share of time that each chain spent at each inverse temperature.

    Near the dashed line all parts of the path have their share. A chain that leaves a part out, or
    stays at one end, has weights (or a bias) that have not adapted, and sees few modes.

    Parameters
    ----------
    idata : xarray.DataTree
        A run of simulated tempering, drawn by level, or of continuous tempering, drawn by piece
        between the knots of its bias; with no knots inside, by `n_bins` pieces of equal width.
    n_bins : int, default 20
    ax : Axes, optional
    figsize : tuple of float, optional
        In inches.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    DataError
        If the run has no inverse temperature that moves: that of parallel tempering has a replica
        at every level at all times.
    """
    statistics = read_statistics(check_tree(idata))
    if "replica" in statistics:
        raise DataError(
            "In parallel tempering every level holds one replica at all times, so there is no "
            "occupancy to draw. Use `plot_index_process`, which shows how replicas move."
        )
    if "beta" not in statistics:
        raise DataError(
            f"`sample_stats` has {sorted(statistics)} but not `beta`, which continuous and "
            "simulated tempering record. Pass a run of one of these."
        )
    chains = idata["sample_stats"].dataset["chain"].values
    ax = get_axes(ax, figsize, (7.0, 3.8))
    beta = statistics["beta"].reshape(len(chains), -1)
    if "betas" in statistics:
        shown = _draw_levels(ax, beta, statistics["betas"][:, 0], chains)
    else:
        shown = _draw_pieces(ax, beta, statistics.get("knots"), chains, n_bins)
    ax.axhline(1.0, color=INK, linestyle="--", linewidth=1, label="equal shares")
    ax.set_ylim(bottom=0.0)
    label_betas(ax, shown)
    tidy(ax)
    legend_below(ax, n_columns=4)
    return ax


def _draw_levels(
    ax: "Axes", beta: "FloatArray", betas: "FloatArray", chains: np.ndarray
) -> "FloatArray":
    for chain, schedule in enumerate(betas):
        levels = schedule[np.isfinite(schedule)]
        ax.plot(
            levels, share_of_levels(beta[chain], levels), marker="o", markersize=4.5,
            linewidth=1.2, color=colour_of_chain(len(chains), chain),
            label=name_of_chain(chains, chain),
        )  # fmt: skip
    ax.set_ylabel("scans at the level / equal share")
    return betas[np.isfinite(betas)]


def _draw_pieces(
    ax: "Axes",
    beta: "FloatArray",
    knots: "FloatArray | None",
    chains: np.ndarray,
    n_bins: int,
) -> "FloatArray":
    edges = [np.linspace(0.0, 1.0, n_bins + 1)] * len(chains)
    if knots is not None and np.isfinite(knots[:, 0]).sum(axis=-1).min() > _MIN_KNOTS:
        edges = [row[np.isfinite(row)] for row in knots[:, 0]]
    for chain, own in enumerate(edges):
        ax.stairs(
            share_of_pieces(beta[chain], own), own, linewidth=1.4, baseline=None,
            color=colour_of_chain(len(chains), chain), label=name_of_chain(chains, chain),
        )  # fmt: skip
    ax.set_ylabel("scans in the piece / equal share")
    return np.concatenate(edges)
