"""Where the sampler spent its time between base and target."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_tempering.diagnostics.runs import inverse_temperatures, share_of_levels, share_of_pieces
from pymc_tempering.plots.common import (
    INK,
    draw_chains,
    get_axes,
    label_betas,
    legend_below,
    look_of_chain,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_beta_occupancy"]


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
    recorded = inverse_temperatures(idata)
    beta, chains = recorded.beta, recorded.chains
    ax = get_axes(ax, figsize, (7.0, 3.8))
    if recorded.levels is not None:
        shown = [row[np.isfinite(row)] for row in recorded.levels]
        shares = [share_of_levels(*pair) for pair in zip(beta, shown, strict=True)]
        draw_chains(ax, chains, shown, shares)
        ax.set_ylabel("scans at the level / equal share")
    else:
        knots = recorded.knots
        shown = [np.linspace(0.0, 1.0, n_bins + 1)] * len(chains)
        # the published method has a bias of one piece, which says nothing of where beta was
        if knots is not None and np.isfinite(knots).sum(axis=-1).min() > 2:
            shown = [row[np.isfinite(row)] for row in knots]
        for chain, edges in enumerate(shown):
            ax.stairs(
                share_of_pieces(beta[chain], edges), edges, linewidth=1.4, baseline=None,
                **look_of_chain(chains, chain),
            )  # fmt: skip
        ax.set_ylabel("scans in the piece / equal share")
    ax.axhline(1.0, color=INK, linestyle="--", linewidth=1, label="equal shares")
    ax.set_ylim(bottom=0.0)
    label_betas(ax, np.concatenate(shown))
    tidy(ax)
    legend_below(ax, n_columns=5)
    return ax
