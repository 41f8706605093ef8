"""Where the sampler spent its time between base and target."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_tempering.diagnostics.runs import inverse_temperatures, share_of_levels, share_of_pieces
from pymc_tempering.plots.common import (
    INK,
    colour_of_chain,
    get_axes,
    label_betas,
    legend_below,
    name_of_chain,
    tidy,
)

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

    Examples
    --------
    >>> idata = pymc_tempering.sample(model, method="gibbs_ct")  # doctest: +SKIP
    >>> ax = plot_beta_occupancy(idata)  # doctest: +SKIP
    """
    recorded = inverse_temperatures(idata)
    ax = get_axes(ax, figsize, (7.0, 3.8))
    if recorded.levels is not None:
        shown = _draw_levels(ax, recorded.beta, recorded.levels, recorded.chains)
    else:
        shown = _draw_pieces(ax, recorded.beta, recorded.knots, recorded.chains, n_bins)
    ax.axhline(1.0, color=INK, linestyle="--", linewidth=1, label="equal shares")
    ax.set_ylim(bottom=0.0)
    label_betas(ax, shown)
    tidy(ax)
    legend_below(ax, n_columns=5)
    return ax


def _draw_levels(
    ax: "Axes", beta: "FloatArray", betas: "FloatArray", chains: np.ndarray
) -> "FloatArray":
    for chain, schedule in enumerate(betas):
        levels = schedule[np.isfinite(schedule)]
        ax.plot(
            levels, share_of_levels(beta[chain], levels), marker="o", markersize=4.5,
            linewidth=1.2, color=colour_of_chain(chains, chain),
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
    if knots is not None and np.isfinite(knots).sum(axis=-1).min() > _MIN_KNOTS:
        edges = [row[np.isfinite(row)] for row in knots]
    for chain, own in enumerate(edges):
        ax.stairs(
            share_of_pieces(beta[chain], own), own, linewidth=1.4, baseline=None,
            color=colour_of_chain(chains, chain), label=name_of_chain(chains, chain),
        )  # fmt: skip
    ax.set_ylabel("scans in the piece / equal share")
    return np.concatenate(edges)
