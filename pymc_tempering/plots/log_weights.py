"""Log weights of annealing runs, forward and reverse."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_tempering.diagnostics import annealing_weights
from pymc_tempering.errors import DataError
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.plots.common import BLUE, INK, ORANGE, get_axes, legend_below, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_log_weights"]

_N_BINS = 50


def plot_log_weights(
    idata: Any,
    *,
    ax: "Axes | None" = None,
    figsize: tuple[float, float] | None = None,
) -> "Axes":
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
        Weights of zero have no place on the axis; the legend gives their share.

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
    edges = np.histogram_bin_edges(together, bins=_N_BINS)
    for name, colour in (("forward", BLUE), ("reverse", ORANGE)):
        if name not in finite or finite[name].size == 0:
            continue
        zero = 1.0 - finite[name].size / weights[name].size
        ax.hist(
            finite[name], bins=edges.tolist(), density=True, histtype="stepfilled", color=colour,
            alpha=0.45, edgecolor=colour, linewidth=1.2,
            label=name if zero == 0.0 else f"{name} ({100 * zero:.2g} % are zero)",
        )  # fmt: skip
    ax.axvline(stored_estimate(idata).log_z, color=INK, linewidth=1.4, label="log Z")
    ax.set_xlabel("log weight (nats)")
    ax.set_ylabel("density (1 / nat)")
    tidy(ax)
    legend_below(ax)
    return ax
