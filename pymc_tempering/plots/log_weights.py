"""Log weights of annealing runs, forward and reverse."""

from typing import Any

import numpy as np

from pymc_tempering.diagnostics.runs import annealing_weights
from pymc_tempering.errors import DataError
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.plots.common import BLUE, INK, ORANGE, Axes, finish, get_axes


def plot_log_weights(
    idata: Any, *, ax: Axes | None = None, figsize: tuple[float, float] | None = None
) -> Axes:
    """Histograms of the log weights of annealing, with log Z.

    Forward weights lie mostly below log Z and reverse ones above; their densities cross at log Z
    (Crooks 1999). Histograms that do not overlap mean that too few temperatures were used.

    Parameters
    ----------
    idata : xarray.DataTree
        A run of HAIS.
    ax : Axes, optional
    figsize : tuple of float, optional
        In inches.

    Returns
    -------
    matplotlib.axes.Axes
        The axis holds the middle 99 % of each direction; the legend gives the share beyond, weights
        of zero included.

    Raises
    ------
    DataError
        If the run has no annealing weights, or none above zero.
    """
    weights = annealing_weights(idata)
    finite = {name: values[np.isfinite(values)] for name, values in weights.items()}
    together = np.concatenate(list(finite.values()))
    if together.size == 0:
        raise DataError(
            "All annealing weights are zero, so there is nothing to draw: no particle reached the "
            "support of the target. Use a base that overlaps it."
        )
    ax = get_axes(ax, figsize, (7.0, 3.8))
    log_z = stored_estimate(idata).log_z
    # 50 bins over the middle 99 %: a few particles far below would squeeze all others
    parts = [part for part in finite.values() if part.size]
    quantiles = np.concatenate([np.quantile(part, (0.005, 0.995)) for part in parts])
    low, high = min(quantiles.min(), log_z), max(quantiles.max(), log_z)
    margin = 0.03 * (high - low) or 0.5
    edges = np.linspace(low - margin, high + margin, 51)
    for name, colour in (("forward", BLUE), ("reverse", ORANGE)):
        if name not in finite or finite[name].size == 0:
            continue
        counts = np.histogram(weights[name], edges)[0]
        density = counts / (weights[name].size * np.diff(edges))
        beyond = float(1.0 - counts.sum() / weights[name].size)
        ax.stairs(
            density, edges, fill=True, color=colour, alpha=0.45, linewidth=0,
            label=name if beyond == 0.0 else f"{name} ({100 * beyond:.2g} % beyond the axis)",
        )  # fmt: skip
        ax.stairs(density, edges, color=colour, linewidth=1.2)
    ax.set_xlim(edges[0], edges[-1])
    ax.set_ylim(bottom=0.0)
    ax.axvline(log_z, color=INK, linewidth=1.4, label="log Z")
    ax.set_xlabel("log weight (nats)")
    ax.set_ylabel("density (1 / nat)")
    finish(ax)
    return ax
