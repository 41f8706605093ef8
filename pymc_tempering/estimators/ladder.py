"""What the estimators of one chain take and return: the ladder of deltas, an estimate per level."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pymc_tempering.errors import DataError
from pymc_tempering.options import as_numbers, check_betas
from pymc_tempering.types import FloatArray

__all__ = ["LadderEstimate", "check_ladder", "finite_floor"]

# Stands for -inf where a product with beta = 0 must be 0: it is finite, and any other beta of a
# ladder takes it below every exponent that matters.
_FLOOR = -1e200


class LadderEstimate(NamedTuple):
    """Estimate of one chain with the first-order contribution of every scan to its error.

    Attributes
    ----------
    log_z : ndarray of shape (n_levels,)
        Log normaliser of every level in nats, relative to the base; ``log_z[-1]`` is log Z.
    influence : ndarray of shape (n_scans,)
        Mean zero, in nats: the error of ``log_z[-1]`` is the mean of the influence to first order,
        so its autocorrelated standard error is the one of log Z
        (see `pymc_tempering.estimators.uncertainty.log_z_standard_error`).
    """

    log_z: FloatArray
    influence: FloatArray


def check_ladder(delta: ArrayLike, betas: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return delta and betas as arrays, refusing what no run of a ladder can produce.

    Parameters
    ----------
    delta : array_like of shape (n_scans, n_levels)
        ``log_target - log_base`` of the replica at each level after each scan, in nats. ``-inf``
        is allowed at the base only.
    betas : array_like of shape (n_levels,)
        Increasing from 0 to 1.

    Returns
    -------
    delta : ndarray of shape (n_scans, n_levels)
    betas : ndarray of shape (n_levels,)

    Raises
    ------
    DataError
        If the shapes disagree, there is no scan, or a delta is nan, ``inf`` or, above the base,
        ``-inf``.
    ScheduleError
        If `betas` is not a schedule.

    Examples
    --------
    >>> check_ladder([[-np.inf, 2.0]], [0, 1])[0].shape
    (1, 2)
    """
    betas = check_betas(betas)
    array = as_numbers("delta", delta, DataError)
    if array.ndim != 2 or array.shape[0] == 0 or array.shape[1] != betas.size:
        raise DataError(
            f"delta has shape {array.shape}; expected (n_scans, {betas.size}), one column per "
            "beta. Pass the recorded deltas of one chain."
        )
    if np.isnan(array).any() or np.isposinf(array).any():
        raise DataError(
            "delta contains nan or inf; expected finite values, or -inf at beta = 0. Record an "
            "invalid log density as -inf: a replica above the base cannot be at such a point."
        )
    if np.isneginf(array[:, 1:]).any():
        raise DataError(
            "delta is -inf at a level above the base; expected -inf at beta = 0 only, as other "
            "levels have no mass there. Drop the scans before the first valid state."
        )
    return array, betas


def finite_floor(delta: FloatArray) -> FloatArray:
    """Replace ``-inf`` by a finite number that 0 times gives 0 and no other beta brings back.

    Parameters
    ----------
    delta : ndarray
        In nats, free of nan.

    Returns
    -------
    ndarray
        The same array where there was nothing to replace.

    Examples
    --------
    >>> finite_floor(np.array([-np.inf, 3.0])) * 0.0 + 1.0
    array([1., 1.])
    """
    return np.maximum(delta, _FLOOR) if np.isneginf(delta).any() else delta
