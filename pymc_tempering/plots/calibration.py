"""How often what posterior model probabilities said was true."""

from typing import TYPE_CHECKING, Any

import numpy as np

from pymc_tempering.comparison.calibration import ModelCalibration
from pymc_tempering.errors import DataError
from pymc_tempering.options import check_positive
from pymc_tempering.plots.common import BLUE, GREY, get_axes, legend_below, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["plot_calibration"]


def plot_calibration(
    check: ModelCalibration,
    *,
    n_bins: int = 10,
    ax: Any = None,
    figsize: tuple[float, float] | None = None,
) -> "Axes":
    """Share of the data sets of which a statement was true, against its probability.

    Parameters
    ----------
    check : ModelCalibration
        Of :func:`pymc_tempering.check_calibration`.
    n_bins : int, default 10
        Of equal width in the probability.
    ax : Axes, optional
    figsize : tuple of float, optional
        In inches.

    Returns
    -------
    Axes
        One point for each bin, with its exact 95 % interval; calibrated probabilities lie on the
        diagonal. Bars show the share of the statements in each bin.

    Raises
    ------
    DataError
        If `check` is something else.
    OptionError
        If `n_bins` is not a positive integer.
    """
    if not isinstance(check, ModelCalibration):
        raise DataError(
            f"Given was a {type(check).__name__}; expected the result of `check_calibration`."
        )
    check_positive("n_bins", n_bins, integer=True)
    one = get_axes(ax, figsize, (5.0, 4.6))
    curve = check.curve(n_bins)
    said, true = curve["said"].to_numpy(), curve["true"].to_numpy()
    share = curve["n"] / curve["n"].sum()
    place = np.minimum((said * n_bins).astype(int), n_bins - 1)
    one.bar((place + 0.5) / n_bins, share, 0.9 / n_bins, color=GREY, alpha=0.35, linewidth=0,
            label="share of the statements")  # fmt: skip
    one.plot([0, 1], [0, 1], color=GREY, linewidth=0.8, label="calibrated")
    errors = [true - curve["low"], curve["high"] - true]
    one.errorbar(said, true, yerr=errors, fmt="o", color=BLUE, markersize=5, linewidth=1.2,
                 label="true, with 95 % interval")  # fmt: skip
    one.set_xlim(0, 1)
    one.set_ylim(0, 1)
    one.set_xlabel("stated posterior probability")
    one.set_ylabel("share that was true")
    tidy(one)
    legend_below(one, n_columns=2)
    return one
