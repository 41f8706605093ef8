"""How log Z settled as draws came in."""

from typing import Any

import numpy as np
from scipy.stats import t as student_t

from pymc_tempering.errors import DataError
from pymc_tempering.evidence.reading import check_tree
from pymc_tempering.evidence.trace import LogZTrace, log_z_trace
from pymc_tempering.options import check_choice
from pymc_tempering.plots.common import GREY, INK, Axes, finish, get_axes, look_of_chain
from pymc_tempering.types import FloatArray

_LABELS = {
    "draws": "draws per chain (log scale)",
    "time": "sampling time of a chain after tuning (s, log scale)",
}


def plot_logz_trace(
    idata: Any,
    *,
    x: str = "draws",
    reference: float | None = None,
    bounds: tuple[float, float] | None = None,
    n_points: int = 24,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Axes:
    """Log Z estimated from the first draws, against their number or the time they took.

    A trace that has settled, with chains inside the band, is what a finished run looks like;
    chains that settle apart have not found the same modes.

    Parameters
    ----------
    idata : xarray.DataTree
        A tempered run.
    x : {"draws", "time"}
        What log Z is drawn against, default "draws". "time": wall time of each chain after tuning,
        in seconds; the mean of the chains for what is drawn of all of them.
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
        If the run is not tempered, or did not record its time and `x` is "time".
    OptionError
        If `x` is neither.
    """
    check_choice("x", x, ("draws", "time"))
    trace = log_z_trace(check_tree(idata), n_points)
    places = _places(trace, x)
    middle = places.mean(axis=1)
    ax = get_axes(ax, figsize, (7.0, 4.0))
    half = trace.se * student_t.ppf(0.975, np.where(np.isfinite(trace.df), trace.df, 1e9))
    chains = idata["sample_stats"].dataset["chain"].values
    ax.fill_between(
        middle, trace.log_z - half, trace.log_z + half, color=GREY, alpha=0.3, linewidth=0,
        label="95 % interval",
    )  # fmt: skip
    for chain, values in enumerate(trace.per_chain.T):
        ax.plot(places[:, chain], values, linewidth=1, **look_of_chain(chains, chain))
    ax.plot(middle, trace.log_z, color=INK, linewidth=2, label="all chains")
    for values, marker, label in (
        (trace.lower, "^", "stochastic lower bound"),
        (trace.upper, "v", "upper bound"),
    ):
        if np.isfinite(values).any():
            ax.plot(middle, values, marker, color=INK, markersize=4, label=label)
    if bounds is not None:
        low, high = bounds
        ax.axhline(low, color=INK, linestyle="--", linewidth=1.2, label="bounds")
        ax.axhline(high, color=INK, linestyle="--", linewidth=1.2)
    if reference is not None:
        ax.axhline(reference, color=INK, linestyle=":", linewidth=1.5, label="reference")
    _log_axis(ax, places)
    ax.set_xlabel(_LABELS[x])
    ax.set_ylabel("log Z (nats)")
    ax.ticklabel_format(axis="y", useOffset=False)
    finish(ax)
    return ax


def _places(trace: LogZTrace, x: str) -> FloatArray:
    """Where each estimate is drawn, shape (n_points, n_chains)."""
    if x == "draws":
        return np.broadcast_to(trace.draws[:, None], trace.per_chain.shape)
    if not np.isfinite(trace.seconds).all():
        raise DataError(
            'x="time" needs the time of every draw, `perf_counter_diff` in `sample_stats`, which '
            'this run did not record. Draw it against x="draws", or sample again.'
        )
    return trace.seconds


def _log_axis(ax: Axes, places: FloatArray) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    ax.set_xlim(places[0].min(), places[-1].max())
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())
