"""The log normaliser along the path."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_tempering.errors import DataError
from pymc_tempering.evidence.reading import with_estimate
from pymc_tempering.plots.common import (
    draw_chains,
    get_axes,
    label_betas,
    legend_below,
    tidy,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_logz_curve"]


def plot_logz_curve(
    idata: Any,
    *,
    ax: "Axes | None" = None,
    figsize: tuple[float, float] | None = None,
) -> "Axes":
    """Log z(beta) at the levels of each chain.

    All curves start at 0 and end at log Z. In between they differ where chains adapted different
    bases; only a difference at the end is a disagreement.

    Parameters
    ----------
    idata : xarray.DataTree
        A tempered run with levels.
    ax : Axes, optional
    figsize : tuple of float, optional
        In inches.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    DataError
        If the method estimates log Z at the target only.
    """
    dataset = with_estimate(idata)["tempering"].dataset
    places = "betas" if "betas" in dataset else "knots"
    if "log_z_levels" not in dataset or places not in dataset:
        raise DataError(
            f"The method {dataset.attrs.get('method', '')!r} estimates log Z at the target only, "
            "so there is no curve. Parallel, simulated and continuous tempering have one."
        )
    ax = get_axes(ax, figsize, (7.0, 4.0))
    log_z = dataset["log_z_levels"].values
    betas = np.broadcast_to(dataset[places].values, log_z.shape)
    used = np.isfinite(betas)
    draw_chains(
        ax, dataset["chain"].values, [row[u] for row, u in zip(betas, used, strict=True)],
        [row[u] for row, u in zip(log_z, used, strict=True)],
    )  # fmt: skip
    label_betas(ax, betas[used])
    ax.set_ylabel("log z(β) (nats)")
    tidy(ax)
    legend_below(ax, n_columns=4)
    return ax
