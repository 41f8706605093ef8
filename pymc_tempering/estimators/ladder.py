"""What the estimators of one chain take and return: the ladder of deltas, an estimate per level."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pymc_tempering.errors import DataError
from pymc_tempering.options import as_numbers, check_betas
from pymc_tempering.types import FloatArray


class LadderEstimate(NamedTuple):
    """Estimate of one chain with the first-order contribution of every scan to its error.

    ``log_z`` (n_levels,) are log normalisers in nats, relative to the base; the last one is log Z.
    Its error is to first order the mean of ``influence`` (n_scans,), itself of mean zero, so that
    the autocorrelated standard error of that mean is the one of log Z (see
    `pymc_tempering.estimators.uncertainty.log_z_standard_error`).
    """

    log_z: FloatArray
    influence: FloatArray


def check_log_values(name: str, values: ArrayLike, remedy: str, n: str = "n_scans") -> FloatArray:
    """Return numbers on the log scale, of shape (n,); refused are none at all, nan and ``inf``."""
    array = as_numbers(name, values, DataError)
    n_nan, n_inf = np.isnan(array).sum(), np.isposinf(array).sum()
    if array.ndim != 1 or array.size == 0 or n_nan or n_inf:
        raise DataError(
            f"{name} has shape {array.shape}, {n_nan} nan and {n_inf} inf; expected ({n},) "
            f"values, at least one, finite or -inf. {remedy}"
        )
    return array


def check_ladder(delta: ArrayLike, betas: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return delta, shape (n_scans, n_levels), and betas, refusing what no ladder can produce.

    delta is ``log_target - log_base`` of the replica at each level after each scan, in nats;
    ``-inf`` is allowed at the base only. DataError for other values and shapes, ScheduleError if
    `betas` does not increase from 0 to 1.
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
    """Replace ``-inf`` by a finite number that 0 times gives 0 and no other beta brings back."""
    # any beta of a ladder but 0 takes it below every exponent that matters
    return np.maximum(delta, -1e200) if np.isneginf(delta).any() else delta
