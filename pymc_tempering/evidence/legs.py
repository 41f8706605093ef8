"""A second opinion from the same run: log Z from the base that tuning started with.

Where the mixture of the local fits took over from one wide Gaussian, both have given a log Z. The
first is rough, from a few hundred scans, but of another path: a mode without a fit, which few
levels from the mixture hardly ever reach, is missing in one of them only.
"""

from collections.abc import Mapping

import numpy as np

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.types import FloatArray

__all__ = ["chain_values", "legs_diagnostics"]

MAX_DISTANCE = 5.0
"""Standard errors beyond which the two disagree; those of so few scans are rough themselves."""

_SLACK = 0.1
"""Nats by which step sizes that still adapt, and errors from few effective scans, may be off."""


def legs_diagnostics(
    log_z: FloatArray, se: FloatArray, log_z_before: FloatArray, se_before: FloatArray
) -> list[Diagnostic]:
    """Warning about a log Z that is not the one that tuning began with.

    Parameters
    ----------
    log_z, se : ndarray of shape (n_chains,)
        Of the draws of each chain, in nats.
    log_z_before, se_before : ndarray of shape (n_chains,)
        Of the last round of tuning from the wide Gaussian; nan where there was none.

    Returns
    -------
    list of Diagnostic
        One at most.

    Examples
    --------
    >>> now, before = np.array([-3.0, -3.1]), np.array([-2.2, -2.3])
    >>> [diagnostic] = legs_diagnostics(now, np.full(2, 0.01), before, np.full(2, 0.1))
    >>> diagnostic.code
    'legs_disagree'
    >>> legs_diagnostics(now, np.full(2, 0.01), np.full(2, np.nan), np.full(2, np.nan))
    []
    """
    known = np.isfinite(log_z) & np.isfinite(se) & np.isfinite(log_z_before) & (se_before > 0.0)
    n = int(known.sum())
    if n == 0:
        return []
    own, other = float(log_z[known].mean()), float(log_z_before[known].mean())
    before = float(np.sum(se_before[known] ** 2)) / n**2
    if n > 1:
        before = max(before, float(np.var(log_z_before[known], ddof=1)) / n)
    error = float(np.sqrt(before + np.sum(se[known] ** 2) / n**2))
    if abs(own - other) <= MAX_DISTANCE * error + _SLACK:
        return []
    return [
        Diagnostic(
            "legs_disagree",
            f"from the mixture of the local fits log Z is {own:.2f}, and from the wide Gaussian of "
            f"tuning it was {other:.2f}, with an error of {error:.2g}, so one of the two may lack "
            "a mode.",
            'Pass `base="gaussian"`, and compare.',
            {"log_z_chain": own, "log_z_before": other, "error": error},
        )
    ]


def chain_values(statistics: Mapping[str, FloatArray], name: str, n_chains: int) -> FloatArray:
    """Value of a statistic that is constant in each chain; nan in runs that do not have it."""
    if name not in statistics:
        return np.full(n_chains, np.nan)
    return np.asarray(statistics[name][:, 0], dtype=np.float64)
