"""Where the sampler spent its time between base and target."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_tempering.diagnostics import beta_density, level_occupancy
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
    whole_numbers,
)
from pymc_tempering.results.datatree import read_statistics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pymc_tempering.types import FloatArray

__all__ = ["plot_beta_occupancy"]


def plot_beta_occupancy(
    idata: Any,
    *,
    n_bins: int = 40,
    ax: "Axes | None" = None,
    figsize: tuple[float, float] | None = None,
) -> "Axes":
    """Share of time that each chain spent at each inverse temperature.

    Near the dashed line all temperatures are visited alike. A chain that leaves a part out, or
    stays at one end, has weights (or a bias) that have not adapted, and sees few modes.

    Parameters
    ----------
    idata : xarray.DataTree
        A run of continuous tempering (a histogram of beta) or of simulated tempering (the share
        of each level).
    n_bins : int, default 40
        Bins of the histogram of beta.
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
    if "level" not in statistics and "beta" not in statistics:
        raise DataError(
            f"`sample_stats` has {sorted(statistics)}, neither `beta` (continuous tempering) nor "
            "`level` (simulated tempering). Pass a run of one of these."
        )
    chains = idata["sample_stats"].dataset["chain"].values
    ax = get_axes(ax, figsize, (7.0, 3.8))
    if "level" in statistics:
        _draw_levels(ax, statistics["level"], chains, _n_levels(statistics))
    else:
        _draw_betas(ax, statistics["beta"], chains, n_bins)
    ax.set_ylim(bottom=0.0)
    tidy(ax)
    legend_below(ax, n_columns=4)
    return ax


def _n_levels(statistics: "dict[str, FloatArray]") -> int:
    most = int(np.nanmax(statistics["level"])) + 1
    if "betas" not in statistics:
        return most
    return max(most, int(np.isfinite(statistics["betas"]).sum(axis=-1).max()))


def _draw_levels(ax: "Axes", level: "FloatArray", chains: np.ndarray, n_levels: int) -> None:
    at = np.arange(n_levels)
    for chain, shares in enumerate(level_occupancy(level, n_levels)):
        ax.plot(
            at, shares, marker="o", markersize=4.5, linewidth=1.2,
            color=colour_of_chain(len(chains), chain), label=name_of_chain(chains, chain),
        )  # fmt: skip
    ax.axhline(1.0 / n_levels, color=INK, linestyle="--", linewidth=1, label="all alike")
    whole_numbers(ax.xaxis)
    ax.set_xlabel(f"level (0: base, {n_levels - 1}: target)")
    ax.set_ylabel("share of scans")


def _draw_betas(ax: "Axes", beta: "FloatArray", chains: np.ndarray, n_bins: int) -> None:
    density, edges = beta_density(beta, n_bins)
    for chain, heights in enumerate(density):
        ax.stairs(
            heights, edges, linewidth=1.4, baseline=None,
            color=colour_of_chain(len(chains), chain), label=name_of_chain(chains, chain),
        )  # fmt: skip
    ax.axhline(1.0, color=INK, linestyle="--", linewidth=1, label="all alike")
    ax.set_xlim(0.0, 1.0)
    label_betas(ax, np.array([1.0]))
    ax.set_ylabel("density of β")
