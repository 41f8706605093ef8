"""The useful pictures of one run on a page."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.evidence.reading import with_estimate
from pymc_tempering.plots.barrier import plot_barrier
from pymc_tempering.plots.beta_occupancy import plot_beta_occupancy
from pymc_tempering.plots.index_process import plot_index_process
from pymc_tempering.plots.log_weights import plot_log_weights
from pymc_tempering.plots.logz_curve import plot_logz_curve
from pymc_tempering.plots.logz_trace import plot_logz_trace

__all__ = ["PANELS", "Panel", "panels_for", "plot_report"]


class Panel(NamedTuple):
    """One picture of the report.

    Attributes
    ----------
    question : str
        What the picture answers; its title.
    answer : str
        How to read it.
    draw : callable
        The plot function.
    n_axes : int
        Number of axes that it draws on.
    needs : tuple of str
        Names in ``sample_stats`` or ``tempering``, any of which the run must have.
    """

    question: str
    answer: str
    draw: Callable[..., Any]
    n_axes: int
    needs: tuple[str, ...]


PANELS: tuple[Panel, ...] = (
    Panel(
        "Has log Z settled?",
        "In a good run the thick line stops drifting and the chains end inside or near its band. "
        "Chains that settle apart have not found the same modes.",
        plot_logz_trace,
        1,
        ("base_id", "tempered_draw"),
    ),
    Panel(
        "Do replicas pass from level to level?",
        "In a good run the rates are about equal and far from zero, and all chains find the same "
        "barrier. A chain with a much lower barrier may have missed a mode.",
        plot_barrier,
        2,
        ("swap_acceptance_rate",),
    ),
    Panel(
        "Do replicas make the whole journey?",
        "Each thick line is a way from base to target and back, which can carry a new mode to the "
        "posterior draws. Without any, nothing says that every mode was found. Shown is the chain "
        "with fewest round trips.",
        plot_index_process,
        1,
        ("replica",),
    ),
    Panel(
        "Is every temperature visited?",
        "In a good run chains stay near the dashed line, within a factor of two or so.",
        plot_beta_occupancy,
        1,
        ("beta",),
    ),
    Panel(
        "Do forward and reverse annealing overlap?",
        "In a good run the histograms overlap around log Z. Apart, they need more temperatures.",
        plot_log_weights,
        1,
        ("log_weight_forward",),
    ),
    Panel(
        "How does log z(β) run from base to target?",
        "In a good run the chains end at the same value. In between they may differ, since each "
        "adapts its own base.",
        plot_logz_curve,
        1,
        ("log_z_levels",),
    ),
)
"""All pictures of the report in their order."""


def panels_for(idata: xr.DataTree) -> list[Panel]:
    """Pictures that a run has the data for.

    Raises
    ------
    DataError
        If the run is not tempered.
    """
    tree = with_estimate(idata)
    if "sample_stats" not in tree.children:
        raise DataError(
            f"The DataTree has the groups {sorted(map(str, tree.children))} but no `sample_stats`, "
            "which the pictures are made of. Pass the result of `sample`, whole."
        )
    known = {str(name) for group in ("sample_stats", "tempering") for name in tree[group].data_vars}
    return [panel for panel in PANELS if known & set(panel.needs)]


def plot_report(idata: xr.DataTree, *, figsize: tuple[float, float] | None = None) -> np.ndarray:
    """All pictures that a run has the data for, each under the question that it answers.

    Parameters
    ----------
    idata : xarray.DataTree
        A tempered run.
    figsize : tuple of float, optional
        In inches; by default 10 wide and as high as the pictures need.

    Returns
    -------
    ndarray of Axes
        In the order of the page; their figure is ``axes[0].figure``.

    Raises
    ------
    DataError
        If the run is not tempered.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_tempering as pm_temper
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    >>> idata = pm_temper.sample(model, draws=20, tune=50, chains=2, cores=1, random_seed=1,
    ...                          scans_per_draw=8, progressbar=False, quiet=True)
    >>> axes = plot_report(idata)
    >>> axes[0].get_ylabel()
    'log Z (nats)'
    """
    import matplotlib.pyplot as plt

    tree = with_estimate(idata)
    panels = panels_for(tree)
    figure = plt.figure(figsize=figsize or (10.0, 4.0 * len(panels)), layout="constrained")
    figure.get_layout_engine().set(h_pad=0.12)
    rows = figure.add_gridspec(len(panels), 1)
    axes: list[Any] = []
    for panel, place in zip(panels, rows, strict=True):
        cells = place.subgridspec(1, panel.n_axes)
        row = [figure.add_subplot(cells[0, i]) for i in range(panel.n_axes)]
        row[0].set_title(panel.question, loc="left", fontweight="bold", pad=12)
        panel.draw(tree, ax=row if panel.n_axes > 1 else row[0])
        axes.extend(row)
    return np.array(axes, dtype=object)
