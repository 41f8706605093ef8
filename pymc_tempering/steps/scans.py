"""How many scans a draw takes: as many as the error of log Z asks for, and no more."""

import numpy as np

__all__ = ["CHAIN_ERROR", "LEAST_SCANS", "MOST_SCANS", "scans_for_error"]

CHAIN_ERROR = 0.04
"""Error of log Z in nats that the scans of a chain aim at: 0.02 for four chains."""

MOST_SCANS = 50
LEAST_SCANS = 4

# few scans have an error that is itself uncertain, however small it is
_LEAST_OF_CHAIN = 400

# room for the error to turn out larger than tuning said
_SAFETY = 1.3


def scans_for_error(scan_variance: float, n_draws: int, error: float = CHAIN_ERROR) -> int:
    """Scans for each draw of a chain, with which its log Z reaches an error.

    Parameters
    ----------
    scan_variance : float
        Variance of log Z times the number of scans, in nats squared; nan where it is not known.
    n_draws : int
        Of the chain.
    error : float
        In nats.

    Examples
    --------
    >>> scans_for_error(1.0, 160), scans_for_error(0.01, 160), scans_for_error(np.nan, 160)
    (6, 4, 50)
    >>> scans_for_error(0.01, 20)
    20
    """
    if not np.isfinite(scan_variance):
        return MOST_SCANS
    needed = max(_SAFETY * scan_variance / error**2, _LEAST_OF_CHAIN) / max(n_draws, 1)
    return int(np.clip(np.ceil(needed), LEAST_SCANS, MOST_SCANS))
