"""How many scans a draw takes: as many as the error of log Z asks for, and no more."""

import numpy as np

__all__ = [
    "CHAIN_ERROR",
    "LEAST_SCANS",
    "MOST_CHAIN_ERROR",
    "MOST_SCANS",
    "affordable_scans",
    "block_within",
    "error_for_its_price",
    "scans_for_error",
]

CHAIN_ERROR = 0.04
"""Error of log Z in nats that the scans of a chain aim at: 0.02 for four chains."""

MOST_CHAIN_ERROR = 0.05
"""The same where :data:`CHEAP` gradients do not reach it: 0.025 for four chains."""

CHEAP = 10_000
"""Gradients of a chain's draws: with four chains about what NUTS takes."""

MOST_SCANS = 50
LEAST_SCANS = 4

# few scans have an error that is itself uncertain, however small it is
_LEAST_OF_CHAIN = 400

# room for the error to turn out larger than tuning said
_SAFETY = 1.3

_DEARER = 1.15
"""Room for scans that turn out dearer than those of tuning."""

LEAST_BLOCKS = 8
"""Blocks of tuning, in four rounds that double, that gradients are to be enough for."""

_GRADIENTS_OF_MOVE = 8
"""Guess of what moves take that are not tuned; from 1 to 8 on the models of benchmarks/spent.py."""


def error_for_its_price(scan_variance: float, scan_cost: float) -> float:
    """Error that a chain aims at by itself, in nats: the smaller one where it is cheap.

    Parameters
    ----------
    scan_variance : float
        As for :func:`scans_for_error`.
    scan_cost : float
        Gradients of a scan; nan where they are not known.

    Examples
    --------
    >>> [round(error_for_its_price(1.0, cost), 3) for cost in (2.0, 16.0, 1000.0)]
    [0.04, 0.046, 0.05]
    """
    if not np.isfinite(scan_variance * scan_cost):
        return CHAIN_ERROR
    reached = np.sqrt(_SAFETY * scan_variance * scan_cost / CHEAP)
    return float(np.clip(reached, CHAIN_ERROR, MOST_CHAIN_ERROR))


def scans_for_error(scan_variance: float, n_draws: int, error: float = CHAIN_ERROR) -> int:
    """Scans for each draw of a chain, with which its log Z reaches an error.

    Parameters
    ----------
    scan_variance : float
        Variance of log Z times the number of scans, in nats squared; nan where it is not known,
        infinite where there will be no estimate, which takes the fewest scans.
    n_draws : int
        Of the chain.
    error : float
        In nats.

    Examples
    --------
    >>> scans_for_error(1.0, 160), scans_for_error(0.01, 160), scans_for_error(np.nan, 160)
    (6, 4, 50)
    >>> scans_for_error(0.01, 20), scans_for_error(np.inf, 160)
    (20, 4)
    """
    if np.isinf(scan_variance):
        return LEAST_SCANS
    if np.isnan(scan_variance):
        return MOST_SCANS
    needed = max(_SAFETY * scan_variance / error**2, _LEAST_OF_CHAIN) / max(n_draws, 1)
    return int(np.clip(np.ceil(needed), LEAST_SCANS, MOST_SCANS))


def affordable_scans(
    n_scans: int, n_draws: int, *, left: float, expected: float, most: int
) -> float:
    """Scans for each draw that gradients are enough for, on average, and one at least.

    Parameters
    ----------
    n_scans : int
        Wanted.
    n_draws : int
    left : float
        Gradients.
    expected : float
        Gradients of a scan; nan where they are not known.
    most : int
        The most that a scan may take, which the last draw keeps back for each of its own.

    Examples
    --------
    >>> round(affordable_scans(50, 100, left=1e5, expected=40.0, most=500), 1)
    19.8
    >>> affordable_scans(50, 100, left=1e3, expected=40.0, most=500)
    1.0
    >>> affordable_scans(50, 100, left=np.inf, expected=40.0, most=500)
    50
    """
    if not np.isfinite(left):
        return n_scans
    each = min(_DEARER * expected, most) if np.isfinite(expected) else most
    return float(np.clip(left / ((n_draws - 1) * each + most), 1, n_scans))


def block_within(n_scans: int, n_levels: int, gradients: float) -> int:
    """Scans for each block of tuning, so that there can be rounds of them; one at least.

    Parameters
    ----------
    n_scans : int
        Wanted.
    n_levels : int
        That the ladder has at first.
    gradients : float
        For all of tuning.

    Examples
    --------
    >>> block_within(50, 12, 1e5), block_within(50, 12, 1e4), block_within(50, 12, np.inf)
    (50, 13, 50)
    """
    if not np.isfinite(gradients):
        return n_scans
    each = LEAST_BLOCKS * _GRADIENTS_OF_MOVE * n_levels
    return int(np.clip(gradients // each, 1, n_scans))
