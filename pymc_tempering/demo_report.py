"""What the galaxies demo shows: the table, the same as CSV, and the picture."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from pymc_tempering.galaxies import velocities
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "GRID",
    "MixtureFit",
    "model_probabilities",
    "results_table",
    "write_csv",
    "write_figure",
]

GRID = np.linspace(5.0, 40.0, 701)
GRID.setflags(write=False)
# Okabe and Ito's colours, told apart with every common form of colour vision; the line styles
# differ too, for print.
COLOURS = ("#E69F00", "#56B4E9", "#009E73", "#D55E00", "#CC79A7", "#0072B2")
STYLES = ("-", "--", "-.", ":")
HEADINGS = ("K", "log marginal likelihood", "se", "95 % interval", "P(K | data)", "seconds")


@dataclass(frozen=True)
class MixtureFit:
    """What the parent needs of one mixture's run.

    Attributes
    ----------
    n_components : int
        K.
    log_z, se : float
        Log marginal likelihood and its standard error, in nats.
    low, high : float
        The 95 % interval of ``log_z``.
    predictive : ndarray, shape (701,)
        Predictive density per 1000 km/s on ``GRID``, from the posterior draws.
    seconds : float
        Wall-clock time of building, compiling and sampling.
    warnings : tuple of str
        What the estimate itself warns of.
    """

    n_components: int
    log_z: float
    se: float
    low: float
    high: float
    predictive: FloatArray
    seconds: float
    warnings: tuple[str, ...]


def model_probabilities(log_z: FloatArray) -> FloatArray:
    """Posterior probabilities of models that are equally probable beforehand.

    Parameters
    ----------
    log_z : ndarray, shape (M,)
        Log marginal likelihoods, in nats.

    Returns
    -------
    ndarray, shape (M,)
        Sums to one.

    Examples
    --------
    >>> import numpy as np
    >>> from pymc_tempering.demo_report import model_probabilities
    >>> model_probabilities(np.log([1.0, 3.0]) - 2000).round(6)
    array([0.25, 0.75])
    """
    weights = np.exp(log_z - np.max(log_z, initial=-np.inf))
    return weights / weights.sum()


def results_table(fits: list[MixtureFit]) -> Table:
    """Return the table for the terminal, the most probable K in bold.

    Parameters
    ----------
    fits : list of MixtureFit
        By number of components.

    Returns
    -------
    rich.table.Table

    Examples
    --------
    >>> from pymc_tempering.demo_report import results_table
    >>> results_table([]).title
    'How many clusters do the galaxies form?'
    """
    probabilities = model_probabilities(np.array([fit.log_z for fit in fits]))
    table = Table(title="How many clusters do the galaxies form?", title_justify="left")
    for heading in (
        "K",
        "log marginal likelihood",
        "se",
        "95 % interval",
        "P(K | data)",
        "seconds",
    ):
        table.add_column(heading, justify="right")
    for fit, probability in zip(fits, probabilities, strict=True):
        table.add_row(
            str(fit.n_components),
            f"{fit.log_z:.3f}",
            f"{fit.se:.3f}",
            f"{fit.low:.2f} to {fit.high:.2f}",
            f"{probability:.3f}",
            f"{fit.seconds:.0f}",
            style="bold" if probability == probabilities.max() else None,
        )
    table.caption = "Nats, velocities in 1000 km/s; every K equally probable beforehand."
    return table


def write_csv(fits: list[MixtureFit], path: Path) -> None:
    """Write one row per mixture: evidence, error, probability, seconds.

    Parameters
    ----------
    fits : list of MixtureFit
        By number of components.
    path : Path
        The file to write.

    Examples
    --------
    >>> from pymc_tempering.demo_report import write_csv
    >>> write_csv(fits, Path("galaxies.csv"))  # doctest: +SKIP
    """
    probabilities = model_probabilities(np.array([fit.log_z for fit in fits]))
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["n_components", "log_marginal_likelihood", "se", "probability", "seconds"])
        for fit, probability in zip(fits, probabilities, strict=True):
            writer.writerow(
                [fit.n_components, fit.log_z, fit.se, float(probability), round(fit.seconds, 2)]
            )


def write_figure(fits: list[MixtureFit], path: Path) -> None:
    """Draw the predictive densities over the histogram, and the evidence per K.

    Parameters
    ----------
    fits : list of MixtureFit
        By number of components.
    path : Path
        The PNG to write.

    Examples
    --------
    >>> from pymc_tempering.demo_report import write_figure
    >>> write_figure(fits, Path("galaxies.png"))  # doctest: +SKIP
    """
    from matplotlib.figure import Figure

    # Not through pyplot, whose backend and open figures belong to the caller.
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    density, evidence = figure.subplots(1, 2, width_ratios=(1.7, 1))
    _draw_density(density, fits)
    _draw_evidence(evidence, fits)
    figure.savefig(path, dpi=150)


def _draw_density(axes: "Axes", fits: list[MixtureFit]) -> None:
    axes.hist(
        velocities(), bins=np.arange(8, 37), density=True, color="0.85", edgecolor="0.6",
        linewidth=0.5, label="82 galaxies",
    )  # fmt: skip
    axes.plot(velocities(), np.full(82, -0.006), "|", color="0.35", markersize=6)
    for i, fit in enumerate(fits):
        axes.plot(
            GRID, fit.predictive, STYLES[i % len(STYLES)], color=COLOURS[i % len(COLOURS)],
            linewidth=2, label=f"K = {fit.n_components}",
        )  # fmt: skip
    axes.set(
        xlabel="velocity (1000 km/s)",
        ylabel="density (per 1000 km/s)",
        title="Predictive density",
        xlim=(GRID[0], GRID[-1]),
    )
    axes.legend(frameon=False)


def _draw_evidence(axes: "Axes", fits: list[MixtureFit]) -> None:
    probabilities = model_probabilities(np.array([fit.log_z for fit in fits]))
    for i, (fit, probability) in enumerate(zip(fits, probabilities, strict=True)):
        axes.errorbar(
            fit.n_components, fit.log_z, [[fit.log_z - fit.low], [fit.high - fit.log_z]],
            fmt="o", capsize=4, color=COLOURS[i % len(COLOURS)],
        )  # fmt: skip
        axes.annotate(
            f"{fit.log_z:.2f} ± {fit.se:.2f}\nP = {probability:.2f}",
            (fit.n_components, fit.log_z), xytext=(0, -10), textcoords="offset points",
            ha="center", va="top", fontsize=9,
        )  # fmt: skip
    axes.margins(x=0.2, y=0.25)
    axes.set(
        xlabel="number of components K",
        ylabel="log marginal likelihood (nats)",
        title="Evidence, with 95 % interval",
        xticks=[fit.n_components for fit in fits],
    )
