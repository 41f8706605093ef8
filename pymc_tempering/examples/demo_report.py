"""What the galaxies demo shows: the table, the same as CSV, and the picture."""

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from rich.table import Table

from pymc_tempering.comparison.probabilities import model_probabilities
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.examples.galaxies import velocities
from pymc_tempering.types import FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "GRID",
    "MixtureFit",
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
SMALL = 0.01
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
    warnings : tuple of Diagnostic
        What the estimate itself warns of.
    """

    n_components: int
    log_z: float
    se: float
    low: float
    high: float
    predictive: FloatArray
    seconds: float
    warnings: tuple[Diagnostic, ...]


def results_table(fits: list[MixtureFit]) -> Table:
    """Return the table for the terminal, the most probable K in bold.

    Parameters
    ----------
    fits : list of MixtureFit
        By number of components.

    Examples
    --------
    >>> from pymc_tempering.examples.demo_report import results_table
    >>> results_table([]).title
    'How many clusters do the galaxies form?'
    """
    probabilities = model_probabilities(np.array([fit.log_z for fit in fits]))
    table = Table(title="How many clusters do the galaxies form?", title_justify="left")
    for heading in HEADINGS:
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
    >>> from pymc_tempering.examples.demo_report import write_csv
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
    >>> from pymc_tempering.examples.demo_report import write_figure
    >>> write_figure(fits, Path("galaxies.png"))  # doctest: +SKIP
    """
    from matplotlib.figure import Figure

    # Not through pyplot, whose backend and open figures belong to the caller.
    figure = Figure(figsize=(11, 4.8), layout="constrained")
    axes: dict[str, Axes] = figure.subplot_mosaic(
        [["density", "evidence"], ["density", "probability"]],
        width_ratios=(1.7, 1),
        height_ratios=(1.5, 1),
    )
    _draw_density(axes["density"], fits)
    _draw_evidence(axes["evidence"], fits)
    _draw_probabilities(axes["probability"], fits)
    figure.savefig(path, dpi=150)


def _draw_density(axes: "Axes", fits: list[MixtureFit]) -> None:
    galaxies = velocities()
    axes.hist(
        galaxies,
        bins=range(8, 37),
        density=True,
        color="0.87",
        edgecolor="0.6",
        linewidth=0.5,
        label="82 galaxies",
    )
    axes.plot(galaxies, np.full(galaxies.size, -0.006), "|", color="0.35", markersize=6)
    for i, fit in enumerate(fits):
        style, label = STYLES[i % len(STYLES)], f"K = {fit.n_components}"
        axes.plot(GRID, fit.predictive, style, color=_colour(i), linewidth=2, label=label)
    axes.set(
        xlabel="velocity (1000 km/s)",
        ylabel="density (per 1000 km/s)",
        title="Predictive density",
        xlim=(GRID[0], GRID[-1]),
    )
    axes.legend(frameon=False)


def _draw_evidence(axes: "Axes", fits: list[MixtureFit]) -> None:
    for i, fit in enumerate(fits):
        bars = [[fit.log_z - fit.low], [fit.high - fit.log_z]]
        error = f"± {fit.se:.2g}" if np.isfinite(fit.se) else "error unknown"
        axes.errorbar(fit.n_components, fit.log_z, bars, fmt="o", capsize=4, color=_colour(i))
        _label(axes, fit.n_components, fit.log_z, f"{fit.log_z:.2f}\n{error}", below=True)
    axes.margins(y=0.4)
    axes.set(
        xlim=(0.4, len(fits) + 0.6),
        ylabel="log marginal\nlikelihood (nats)",
        title="Evidence, bars: 95 % interval",
        xticks=[fit.n_components for fit in fits],
    )


def _draw_probabilities(axes: "Axes", fits: list[MixtureFit]) -> None:
    probabilities = model_probabilities(np.array([fit.log_z for fit in fits]))
    for i, (fit, probability) in enumerate(zip(fits, probabilities, strict=True)):
        axes.bar(fit.n_components, probability, 0.6, color=_colour(i))
        text = f"{probability:.2f}" if probability >= SMALL else f"< {SMALL}"
        _label(axes, fit.n_components, probability, text, below=False)
    axes.set(
        xlim=(0.4, len(fits) + 0.6),
        xlabel="number of components K",
        ylabel="P(K | data)",
        ylim=(0.0, 1.15),
        xticks=[fit.n_components for fit in fits],
    )


def _colour(i: int) -> str:
    return COLOURS[i % len(COLOURS)]


def _label(axes: "Axes", x: float, y: float, text: str, *, below: bool) -> None:
    if not np.isfinite(y):
        return
    axes.annotate(
        text.replace("-", "\N{MINUS SIGN}"),
        (x, y),
        xytext=(0, -7 if below else 3),
        textcoords="offset points",
        ha="center",
        va="top" if below else "bottom",
        fontsize=9,
    )
