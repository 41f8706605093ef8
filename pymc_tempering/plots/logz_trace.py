"""How log Z settled as draws came in."""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import t as student_t

from pymc_tempering.evidence.reading import check_tree
from pymc_tempering.evidence.trace import LogZTrace, log_z_trace
from pymc_tempering.plots.common import BLUE, GREY, INK, VERMILLION, get_axes, legend_below, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_logz_trace"]

_MAX_NAMED = 8


def plot_logz_trace(
    idata: Any,
    *,
    reference: float | None = None,
    bounds: tuple[float, float] | None = None,
    n_points: int = 24,
    ax: "Axes | None" = None,
    figsize: tuple[float, float] | None = None,
) -> "Axes":
    """Log Z estimated from the first draws, against their number.

    A trace that has settled, with chains inside the band, is what a finished run looks like;
    chains that settle apart have not found the same modes.

    Parameters
    ----------
    idata : xarray.DataTree
        A tempered run.
    reference : float, optional
        A known log Z in nats, drawn as a line.
    bounds : tuple of float, optional
        Lower and upper bound in nats, of another run for instance. Bounds of the run itself are
        drawn as traces where the method has them.
    n_points : int, default 24
        Numbers of draws at which log Z is estimated anew.
    ax : Axes, optional
    figsize : tuple of float, optional
        In inches.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    DataError
        If the run is not tempered.

    Examples
    --------
    >>> idata = pymc_tempering.sample(model)  # doctest: +SKIP
    >>> ax = plot_logz_trace(idata, reference=-1081.2)  # doctest: +SKIP
    """
    trace = log_z_trace(check_tree(idata), n_points)
    ax = get_axes(ax, figsize, (7.0, 4.0))
    half = trace.se * student_t.ppf(0.975, np.where(np.isfinite(trace.df), trace.df, 1e9))
    ax.plot(trace.draws, trace.per_chain[:, 0], color=GREY, linewidth=1, label="each chain")
    ax.plot(trace.draws, trace.per_chain[:, 1:], color=GREY, linewidth=1)
    ax.fill_between(
        trace.draws, trace.log_z - half, trace.log_z + half, color=BLUE, alpha=0.2, linewidth=0,
        label="95 % interval",
    )  # fmt: skip
    ax.plot(trace.draws, trace.log_z, color=BLUE, linewidth=2, label="all chains")
    for values, marker, label in (
        (trace.lower, "^", "stochastic lower bound"),
        (trace.upper, "v", "upper bound"),
    ):
        if np.isfinite(values).any():
            ax.plot(trace.draws, values, marker, color=VERMILLION, markersize=4, label=label)
    if bounds is not None:
        low, high = bounds
        ax.axhline(low, color=VERMILLION, linestyle="--", linewidth=1.2, label="bounds")
        ax.axhline(high, color=VERMILLION, linestyle="--", linewidth=1.2)
    if reference is not None:
        ax.axhline(reference, color=INK, linestyle=":", linewidth=1.5, label="reference")
    _draws_axis(ax, trace.draws)
    if trace.per_chain.shape[1] <= _MAX_NAMED:
        _name_chains(ax, trace, idata["sample_stats"].dataset["chain"].values.tolist())
    ax.set_ylabel("log Z (nats)")
    ax.ticklabel_format(axis="y", useOffset=False)
    tidy(ax)
    legend_below(ax, n_columns=6)
    return ax


def _name_chains(ax: "Axes", trace: LogZTrace, names: list[int]) -> None:
    """Write the number of each chain at its end, moved apart where they would overlap."""
    last = trace.per_chain[-1]
    ax.autoscale_view()
    low, high = ax.get_ylim()
    gap, previous = 0.05 * (high - low), -np.inf
    for i in np.argsort(last):
        if not np.isfinite(last[i]):
            continue
        previous = max(float(last[i]), previous + gap)
        ax.annotate(
            f"chain {names[i]}", (trace.draws[-1], previous), xytext=(4, 0), color=INK,
            textcoords="offset points", va="center", fontsize="x-small", annotation_clip=False,
        )  # fmt: skip


def _draws_axis(ax: "Axes", draws: np.ndarray) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.set_xlim(draws[0], draws[-1])
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("draws per chain (log scale)")
