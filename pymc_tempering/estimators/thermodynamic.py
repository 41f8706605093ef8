"""Thermodynamic integration: log Z as the integral of the mean of delta over beta."""

import numpy as np
from numpy.typing import ArrayLike

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.ladder import LadderEstimate, check_ladder
from pymc_tempering.estimators.rts import level_log_probability
from pymc_tempering.options import as_numbers
from pymc_tempering.types import FloatArray


def thermodynamic_integration(
    delta: ArrayLike, betas: ArrayLike, corrected: bool = True
) -> LadderEstimate:
    r"""Integrate the mean of delta over the ladder, eq. 20 of Carlson et al. 2016.

    .. math:: \log \hat Z = \sum_k \frac{\beta_{k+1} - \beta_k}{2} (m_k + m_{k+1})
              - \sum_k \frac{(\beta_{k+1} - \beta_k)^2}{12} (v_{k+1} - v_k)

    with mean and variance of delta at each level. The second sum corrects the trapezium rule by
    the second derivative of the integrand's integral (Friel et al. 2014, eq. 10), as
    :math:`dm/d\beta = v`. Discretisation remains: the error reported is that of sampling alone,
    and `pymc_tempering.estimators.mbar` has none of it.

    Parameters
    ----------
    delta : array_like of shape (n_scans, n_levels)
        ``log_target - log_base`` in nats, finite.
    betas : array_like of shape (n_levels,)
        Increasing from 0 to 1.
    corrected : bool, default True
        Whether to correct the trapezium rule; more variance, much less discretisation error.

    Returns
    -------
    LadderEstimate

    Raises
    ------
    DataError
        If a delta is ``-inf``: its mean at the base does not exist, whatever its share.
    ScheduleError
        If `betas` is not a schedule.

    Examples
    --------
    >>> thermodynamic_integration(np.full((4, 3), -2.0), [0, 0.25, 1]).log_z.tolist()
    [0.0, -0.5, -2.0]
    """
    delta, betas = check_ladder(delta, betas)
    _refuse_infinite(delta)
    mean = delta.mean(axis=0)
    centred = delta - mean
    variance = (centred**2).mean(axis=0)
    return _integrate(betas, mean, variance, centred, centred**2 - variance, corrected)


# from heavy tails delta has neither mean nor variance: not finite
@np.errstate(over="ignore", invalid="ignore")
def thermodynamic_integration_rb(
    delta: ArrayLike, betas: ArrayLike, log_level_weights: ArrayLike, corrected: bool = True
) -> LadderEstimate:
    r"""Integrate Rao-Blackwellised means of delta from simulated tempering (TI-RB).

    .. math:: m_k = \sum_i q(\beta_k \mid x_i) \delta_i / \sum_i q(\beta_k \mid x_i),

    eq. 21 of Carlson et al. 2016, and the same for the variance. With many levels it approaches
    `pymc_tempering.estimators.rts.rts`, which has no discretisation error (their eq. 22).

    Parameters
    ----------
    delta : array_like of shape (n_scans,)
        Of the tempered replica after each scan, in nats, finite.
    betas, corrected
        As for `thermodynamic_integration`.
    log_level_weights : array_like of shape (n_levels,)
        With which the levels were drawn, in nats.

    Returns
    -------
    LadderEstimate

    Raises
    ------
    DataError
        If a delta is ``-inf`` or a shape is not as above.
    ScheduleError
        If `betas` is not a schedule.

    Examples
    --------
    >>> estimate = thermodynamic_integration_rb(np.full(4, -2.0), [0, 0.25, 1], [0, 0, 0])
    >>> estimate.log_z.round(9).tolist()
    [0.0, -0.5, -2.0]
    """
    x = as_numbers("delta", delta, DataError)
    q = np.exp(level_log_probability(x, betas, log_level_weights))
    _refuse_infinite(x)
    # nothing is known of a level that no draw could be at: nan
    share = q / q.mean(axis=0)
    mean = (share * x[:, None]).mean(axis=0)
    centred = x[:, None] - mean
    variance = (share * centred**2).mean(axis=0)
    return _integrate(
        np.asarray(betas, dtype=float), mean, variance, share * centred,
        share * (centred**2 - variance), corrected,
    )  # fmt: skip


def _integrate(
    betas: FloatArray, mean: FloatArray, variance: FloatArray, mean_influence: FloatArray,
    variance_influence: FloatArray, corrected: bool,
) -> LadderEstimate:  # fmt: skip
    step = np.diff(betas)
    pieces = 0.5 * step * (mean[1:] + mean[:-1])
    mean_weight = 0.5 * (np.append(step, 0.0) + np.append(0.0, step))
    influence = mean_influence @ mean_weight
    if corrected:
        square = step**2 / 12.0
        pieces = pieces - square * np.diff(variance)
        influence += variance_influence @ (np.append(square, 0.0) - np.append(0.0, square))
    return LadderEstimate(np.concatenate([[0.0], np.cumsum(pieces)]), influence)


def _refuse_infinite(delta: FloatArray) -> None:
    if not np.isfinite(delta).all():
        raise DataError(
            f"{np.isneginf(delta).sum()} deltas are -inf; expected finite values for thermodynamic "
            "integration, as their mean at the base does not exist. Use MBAR, which is right here."
        )
