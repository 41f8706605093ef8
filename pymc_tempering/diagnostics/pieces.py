"""Modes that are none: of several pieces, or fewer than exchangeable entries have orders."""

from collections.abc import Iterator, Mapping
from math import factorial

import numpy as np

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.types import FloatArray

__all__ = ["exchangeable_diagnostics", "piece_diagnostics"]

_LEAST = 8
"""Draws on each side of a gap."""

_WIDE = 4.0
"""Width of a gap over the standard deviations of its sides together. Of normal, exponential and
Cauchy draws none in ten thousand sets has such a gap (tests/diagnostics/test_pieces.py)."""

_MOST_ENTRIES = 4
_MAX_ERRORS = 5.0
_NEGATIVE = 0.5
"""Of the correlation -1 / (K - 1) between K entries that exchange fixed values."""


def piece_diagnostics(
    entries: Mapping[str, FloatArray], labels: np.ndarray
) -> Iterator[Diagnostic]:
    """Diagnostic of each mode whose draws leave a gap that is wide beside both of its sides.

    With few draws on a side it is no evidence of two modes that chance could not explain; but no
    draw is where the mean of such a mode is.

    Parameters
    ----------
    entries : mapping of str to ndarray of shape (n_chains, n_draws)
        Real scalars by name.
    labels : ndarray of int of the same shape
        Modes, from 0.
    """
    for mode in range(int(labels.max()) + 1):
        gaps = {name: _widest_gap(np.sort(x[labels == mode])) for name, x in entries.items()}
        found = {name: gap for name, gap in gaps.items() if gap is not None and gap[0] > _WIDE}
        if not found:
            continue
        name = max(found, key=lambda name: found[name][0])
        ratio, low, high, n_low, n_high = found[name]
        yield Diagnostic(
            "mode_in_pieces",
            f"the draws of mode {mode + 1} are not of one piece: {n_low} have {name} up to "
            f"{low:.4g}, {n_high} from {high:.4g} on, and none lies between, so that its mean and "
            "sd describe nothing. One side has too few draws to count as a mode.",
            "Sample more draws, or part them with `by=`.",
            {"mode": float(mode + 1), "variable": name, "gap over sd of its sides": float(ratio)},
        )


def _widest_gap(x: FloatArray) -> tuple[float, float, float, int, int] | None:
    """Width over spread of the widest gap of sorted values, its ends, and draws on its sides."""
    if x.size < 2 * _LEAST:
        return None
    i = _LEAST + int(np.argmax(np.diff(x)[_LEAST - 1 : x.size - _LEAST]))
    spread = x[:i].std() + x[i:].std()
    # equal values are those of a discrete variable
    if min(x[:i].std(), x[i:].std()) <= 1e-12 * np.ptp(x):
        return None
    return float((x[i] - x[i - 1]) / spread), float(x[i - 1]), float(x[i]), i, x.size - i


def exchangeable_diagnostics(draws: Mapping[str, FloatArray], n_modes: int) -> Iterator[Diagnostic]:
    """Diagnostic where entries of a vector exchange their values and modes are fewer than orders.

    Components without an order have :math:`K!` modes of equal mass. Their entries have one mean,
    and correlations near :math:`-1/(K-1)`, since what one has the others have not.

    Parameters
    ----------
    draws : mapping of str to ndarray of shape (n_chains, n_draws, ...)
    n_modes : int
        That were found.
    """
    if n_modes < 2:
        return
    for name, values in draws.items():
        if values.ndim != 3 or not 2 <= values.shape[2] <= _MOST_ENTRIES:
            continue
        k = values.shape[2]
        x = values.reshape(-1, k)
        if n_modes % factorial(k) == 0 or not (x.std(axis=0) > 0.0).all():
            continue
        # of chain means: chains that never exchange labels do not look exchangeable
        error = values.mean(axis=1).std(axis=0) / np.sqrt(max(len(values) - 1, 1))
        error = np.maximum(error, x.std(axis=0) / np.sqrt(len(x)))
        alike = np.ptp(x.mean(axis=0)) <= _MAX_ERRORS * error.max()
        correlation = np.asarray(np.corrcoef(x.T))[~np.tri(k, dtype=bool)]
        if alike and (correlation < -_NEGATIVE / (k - 1)).all():
            yield Diagnostic(
                "exchangeable_entries",
                f"the {k} entries of {name} look exchangeable, which makes {factorial(k)} modes of "
                f"equal mass, and {n_modes} were told apart: some of these are several orders of "
                "the labels, which overlap.",
                f"Look at a function of {name} that does not depend on the order, or give it one, "
                "as by `np.sort`; label the draws by `by=`.",
                {"variable": name, "orders": float(factorial(k)), "modes": float(n_modes)},
            )
            return
