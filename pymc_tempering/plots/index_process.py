"""The journeys of replicas between base and target."""

from typing import Any

import numpy as np

from pymc_tempering.diagnostics.runs import (
    RoundTrip,
    levels_of_replicas,
    read_statistic,
    visible_round_trips,
)
from pymc_tempering.errors import OptionError
from pymc_tempering.plots.common import (
    GREY,
    INK,
    Axes,
    colour_of_chain,
    finish,
    get_axes,
    whole_numbers,
)
from pymc_tempering.results.datatree import read_statistics


def plot_index_process(
    idata: Any,
    *,
    chain: int | None = None,
    draws: int | None = 100,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Axes:
    """Level of each replica over the recorded draws of one chain, with its round trips.

    Round trips from base to target and back are what carries new modes to the target. Where lines
    of all replicas stay in their half of the ladder, it has a gap.

    Parameters
    ----------
    idata : xarray.DataTree
        A run of parallel tempering.
    chain : int, optional
        Its coordinate in the run; by default that with fewest round trips, where diagnostics
        are answered.
    draws : int or None, default 100
        Shows the first so many draws, since lines of more overlap; None for all.
    ax : Axes, optional
    figsize : tuple of float, optional
        In inches.

    Returns
    -------
    matplotlib.axes.Axes
        Up to eight trips that do not overlap in time are drawn strongly, the way up in the colour
        of the chain and the way down in black. The scans between two draws are not recorded, so
        the trips counted while sampling, stated below the axes, are more.

    Raises
    ------
    DataError
        If the run is not of parallel tempering.
    OptionError
        If there is no such chain.
    """
    replica = read_statistic(idata, "replica", recorded_by="parallel tempering")
    names = idata["sample_stats"].dataset["chain"].values
    chains = names.tolist()
    counts = read_statistics(idata)["n_round_trips"]
    given = chain
    if chain is None:
        chain = chains[int(np.argmin(counts.sum(axis=1)))]
    if chain not in chains:
        raise OptionError(f"`chain` is {chain!r}; the run has the chains {chains}.")
    if draws is not None and (not isinstance(draws, int | np.integer) or draws < 2):
        raise OptionError(f"`draws` is {draws!r}; expected None or a whole number above 1.")
    row = chains.index(chain)
    levels = levels_of_replicas(replica[row])[:draws]
    counted = int(counts[row][:draws].sum())
    ax = get_axes(ax, figsize, (9.0, 3.6))
    n_draws, n_levels = levels.shape
    at = np.arange(n_draws)
    ax.plot(at, levels, color=GREY, linewidth=0.6, alpha=0.6)
    ax.plot([], [], color=GREY, linewidth=0.8, label="each replica")
    trips = visible_round_trips(levels)
    chosen = _spread_out(trips)
    for i, trip in enumerate(chosen):
        for first, end, colour, label in (
            (trip.start, trip.target, colour_of_chain(names, row), "base to target"),
            (trip.target, trip.end, INK, "target to base"),
        ):
            part = slice(first, end + 1)
            ax.plot(
                at[part], levels[part, trip.replica], color=colour, linewidth=2.2,
                solid_capstyle="round", label=label if i == 0 else None,
            )  # fmt: skip
    ax.set_ylim(-0.25, n_levels - 0.75)
    ax.set_xlim(0, n_draws - 1)
    whole_numbers(ax.yaxis)
    fewest = ", with fewest round trips" if given is None and len(chains) > 1 else ""
    ax.set_xlabel(f"recorded draw of chain {chain}{fewest}")
    ax.set_ylabel(f"level (0: base, {n_levels - 1}: target)")
    title = (
        f"{counted} round trips counted, {len(trips)} of them visible in recorded draws, "
        f"{len(chosen)} drawn strongly"
    )
    finish(ax, title=title, title_fontsize="small", alignment="left")
    return ax


def _spread_out(trips: list[RoundTrip]) -> list[RoundTrip]:
    """Eight trips at most, none of which begins before the one before it has ended."""
    apart: list[RoundTrip] = []
    for trip in trips:
        if not apart or trip.start >= apart[-1].end:
            apart.append(trip)
    if len(apart) <= 8:
        return apart
    return [apart[i] for i in np.linspace(0, len(apart) - 1, 8).round().astype(int)]
