"""Swap rates and the communication barrier along the schedule."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_tempering.diagnostics.runs import read_statistic
from pymc_tempering.evidence.checks.overlap import MIN_SWAP_RATE
from pymc_tempering.evidence.reading import with_estimate
from pymc_tempering.plots.common import (
    GREY,
    draw_chains,
    get_axes_row,
    label_betas,
    legend_below,
    tidy,
    whole_numbers,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes

__all__ = ["plot_barrier"]


def plot_barrier(
    idata: Any,
    *,
    ax: "Sequence[Axes] | None" = None,
    figsize: tuple[float, float] | None = None,
) -> np.ndarray:
    """Swap acceptance of each pair of neighbours, and the cumulative barrier with the schedule.

    A good schedule has equal swap rates, so the marks on the barrier are equally far apart
    vertically. A pair with a rate near zero is where replicas stop.

    Parameters
    ----------
    idata : xarray.DataTree
        A run of parallel tempering.
    ax : sequence of two Axes, optional
        For the rates and for the barrier.
    figsize : tuple of float, optional
        In inches.

    Returns
    -------
    ndarray of two Axes

    Raises
    ------
    DataError
        If the run is not of parallel tempering.
    """
    read_statistic(idata, "swap_acceptance_rate", recorded_by="parallel tempering")
    dataset = with_estimate(idata)["tempering"].dataset
    rates_ax, barrier_ax = axes = get_axes_row(ax, figsize, (10.0, 3.8), 2)
    betas = [row[np.isfinite(row)] for row in dataset["betas"].values]
    barrier, rates = (
        [row[: len(b) - less] for row, b in zip(dataset[name].values, betas, strict=True)]
        for name, less in (("cumulative_barrier", 0), ("swap_acceptance_rate", 1))
    )
    chains = dataset["chain"].values
    draw_chains(rates_ax, chains, [np.arange(1, len(row) + 1) for row in rates], rates)
    draw_chains(barrier_ax, chains, betas, barrier)
    rates_ax.axhspan(
        0.0, MIN_SWAP_RATE, color=GREY, alpha=0.3, linewidth=0,
        label=f"below {MIN_SWAP_RATE:g}: replicas hardly pass",
    )  # fmt: skip
    rates_ax.set_ylim(0.0, 1.02)
    rates_ax.set_xlabel("pair of levels (1: next to the base)")
    rates_ax.set_ylabel("swap acceptance rate")
    whole_numbers(rates_ax.xaxis)
    label_betas(barrier_ax, np.concatenate(betas))
    barrier_ax.set_ylim(bottom=0.0)
    barrier_ax.set_ylabel("cumulative barrier Λ(β)")
    for one in axes:
        tidy(one)
    # chains are named once, under the barrier
    legend_below(rates_ax, handles=rates_ax.patches)
    legend_below(barrier_ax, n_columns=4)
    return axes
