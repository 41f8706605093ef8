"""From rejection rates to the communication barrier, and from it to the next schedule.

Syed, Bouchard-Côté, Deligiannidis & Doucet (2021), section 5: the rejection rates between
neighbours add up to the cumulative barrier Lambda(beta); a schedule with equal rejection rates,
that is equal barrier between neighbours, maximises the rate of round trips of the deterministic
even-odd scheme.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.interpolate import PchipInterpolator

from pymc_tempering.errors import ScheduleError
from pymc_tempering.options import as_numbers, check_betas, check_whole
from pymc_tempering.schedule.grid import check_n_levels
from pymc_tempering.types import FloatArray


def cumulative_barrier(rejection_rates: FloatArray) -> FloatArray:
    """Cumulative communication barrier at the levels of a schedule.

    Parameters
    ----------
    rejection_rates : ndarray of shape (n_levels - 1,)
        Mean swap rejection probability of each pair of neighbours.

    Returns
    -------
    ndarray of shape (n_levels,)
        ``Lambda(beta_k)``; the last entry is the global barrier (Syed et al. 2021, eq. 18).

    Examples
    --------
    >>> cumulative_barrier(np.array([0.25, 0.5]))
    array([0.  , 0.25, 0.75])
    """
    return np.concatenate([[0.0], np.cumsum(_checked(rejection_rates))])


def equal_barrier_schedule(
    betas: FloatArray, rejection_rates: FloatArray, n_levels: int
) -> FloatArray:
    """Schedule with equal barrier between neighbours.

    The barrier is interpolated by a monotone cubic (PCHIP) as in Syed et al. (2021), algorithm 3;
    the inverse is interpolated, so no root has to be searched.

    Parameters
    ----------
    betas : ndarray of shape (n_old,)
    rejection_rates : ndarray of shape (n_old - 1,)
    n_levels : int
        Of the new schedule.

    Returns
    -------
    ndarray of shape (n_levels,)

    Examples
    --------
    >>> equal_barrier_schedule(np.array([0, 0.5, 1]), np.array([0.2, 0.2]), 5)
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    betas, n_levels = check_betas(betas), check_n_levels(n_levels)
    rates = _checked(rejection_rates)
    if rates.size != betas.size - 1:
        raise ScheduleError(
            f"{rates.size} rejection rates were given for {betas.size} levels; expected one for "
            "each pair of neighbours."
        )
    # a pair that never rejected still needs room, or neighbouring levels would coincide
    barrier = cumulative_barrier(np.maximum(rates, 1e-3))
    inverse = PchipInterpolator(barrier, betas)
    new: FloatArray = inverse(np.linspace(0.0, barrier[-1], n_levels))
    new[0], new[-1] = 0.0, 1.0
    # levels must stay apart even where rounding makes the interpolant flat
    for k in range(1, n_levels - 1):
        new[k] = max(new[k], np.nextafter(new[k - 1], 1.0) * (1 + 1e-12))
    return new


def n_levels_for(barrier: float, most: int, least: int = 3) -> int:
    """Number of levels for a global barrier.

    About ``2 Lambda`` intervals give most round trips per evaluation when replicas move one after
    another (Syed et al. 2021, section 5.3: a rejection rate of one half per pair).

    Parameters
    ----------
    barrier : float
        Global barrier Lambda.
    most, least : int

    Examples
    --------
    >>> n_levels_for(4.3, most=32)
    10
    """
    number = as_numbers("barrier", barrier, ScheduleError)
    if number.ndim or not np.isfinite(number):
        raise ScheduleError(f"`barrier` is {barrier!r:.80}; expected a finite number.")
    least, most = check_whole("least", least, 2), check_whole("most", most, 2)
    return int(np.clip(np.ceil(2.0 * number) + 1, least, most))


def round_trip_rate(rejection_rates: FloatArray) -> float:
    """Round trips per scan of deterministic even-odd swaps, for independent draws at every level.

    ``1 / (2 + 2 sum r / (1 - r))`` (Syed et al. 2021, theorem 1).

    Parameters
    ----------
    rejection_rates : ndarray of shape (n_levels - 1,)

    Examples
    --------
    >>> float(round_trip_rate(np.array([0.5, 0.5])))
    0.16666666666666666
    """
    rates = _checked(rejection_rates)
    with np.errstate(divide="ignore"):
        return float(1.0 / (2.0 + 2.0 * np.sum(rates / (1.0 - rates))))


def _checked(rejection_rates: ArrayLike) -> FloatArray:
    rates = as_numbers("rejection_rates", rejection_rates, ScheduleError)
    # estimates of probabilities, which may lie a little below 0
    if rates.ndim != 1 or not np.isfinite(rates).all():
        raise ScheduleError(
            f"`rejection_rates` is {rejection_rates!r:.80}; expected a vector of probabilities, "
            "one for each pair of neighbours."
        )
    return rates
