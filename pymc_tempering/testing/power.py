"""How many draws an invariance test needs to find a wrong kernel."""

import numpy as np
from scipy import stats

__all__ = ["detectable_shift", "draws_needed"]


def detectable_shift(
    n: int,
    n_tests: int,
    *,
    alpha: float = 1e-3,
    power: float = 0.99,
    correlation: float = 0.0,
) -> float:
    """Smallest shift of a mean that an invariance test finds with the given probability.

    Parameters
    ----------
    n : int
        Number of draws.
    n_tests : int
        Number of rows of the table.
    alpha : float
        Total rate of false alarms, default 1e-3.
    power : float
        Probability of finding it, default 0.99.
    correlation : float
        Between the statistic before and after the kernel, default 0 (an independent draw).

    Returns
    -------
    float
        In standard deviations of the statistic.

    Examples
    --------
    >>> round(detectable_shift(1_000_000, 20), 3)
    0.009
    """
    z = stats.norm.isf(0.5 * alpha / n_tests) + stats.norm.ppf(power)
    return float(z * np.sqrt(2.0 * (1.0 - correlation) / n))


def draws_needed(
    shift: float,
    n_tests: int,
    *,
    alpha: float = 1e-3,
    power: float = 0.99,
    correlation: float = 0.0,
) -> int:
    """Return the number of draws with which an invariance test finds a shift of a mean.

    Parameters
    ----------
    shift : float
        In standard deviations of the statistic.
    n_tests, alpha, power, correlation
        As in :func:`detectable_shift`.

    Returns
    -------
    int

    Examples
    --------
    >>> draws_needed(0.05, 20)
    32584
    """
    one = detectable_shift(1, n_tests, alpha=alpha, power=power, correlation=correlation)
    return int(np.ceil((one / shift) ** 2))
