"""What is drawn along the schedule: swap rates, barrier, log z, and where beta spent its time."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from pymc_tempering.diagnostics.runs import inverse_temperatures, read_statistic, share_of_levels
from pymc_tempering.errors import DataError
from pymc_tempering.evidence.checks.overlap import MIN_SWAP_RATE
from pymc_tempering.evidence.reading import with_estimate
from pymc_tempering.plots.common import (
    GREY,
    INK,
    Axes,
    draw_chains,
    finish,
    get_axes,
    get_axes_row,
    label_betas,
    look_of_chain,
    whole_numbers,
)


def plot_barrier(
    idata: Any, *, ax: Sequence[Axes] | None = None, figsize: tuple[float, float] | None = None
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
    # chains are named once, under the barrier
    finish(rates_ax, handles=rates_ax.patches)
    finish(barrier_ax, n_columns=4)
    return axes


def plot_logz_curve(
    idata: Any, *, ax: Axes | None = None, figsize: tuple[float, float] | None = None
) -> Axes:
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
    finish(ax, n_columns=4)
    return ax


def plot_beta_occupancy(
    idata: Any,
    *,
    n_bins: int = 20,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Axes:
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
            counts = np.histogram(beta[chain], edges)[0]
            shares = counts * counts.size / beta[chain].size
            look = look_of_chain(chains, chain)
            ax.stairs(shares, edges, linewidth=1.4, baseline=None, **look)
        ax.set_ylabel("scans in the piece / equal share")
    ax.axhline(1.0, color=INK, linestyle="--", linewidth=1, label="equal shares")
    ax.set_ylim(bottom=0.0)
    label_betas(ax, np.concatenate(shown))
    finish(ax, n_columns=5)
    return ax
