"""Stepping stone estimates in both directions: importance weights between neighbouring levels.

Their tails tell where a ladder is too coarse, and their disagreement is a diagnostic; for the
estimate itself `pymc_tempering.estimators.mbar` has bounded terms.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.ladder import check_ladder
from pymc_tempering.numerics import log_mean_exp, pareto_k
from pymc_tempering.options import as_numbers
from pymc_tempering.types import FloatArray


class SteppingStoneEstimate(NamedTuple):
    """Estimate of one chain: a LadderEstimate, and the tails of its weights.

    ``pareto_k`` (n_levels - 1,) is the tail index for every pair of neighbours: above 0.5 the
    variance is infinite, above 0.7 neither estimate nor error can be trusted.
    """

    log_z: FloatArray
    influence: FloatArray
    pareto_k: FloatArray


class SupportMass(NamedTuple):
    """Share of the base on which the target is not zero.

    ``log_mass`` is its logarithm in nats: 0 where every draw is in the support, ``-inf`` where none
    is. ``se`` is its standard error for independent draws, ``influence`` (n_draws,) has mean zero.
    """

    log_mass: float
    se: float
    influence: FloatArray


def stepping_stone(delta: ArrayLike, betas: ArrayLike) -> SteppingStoneEstimate:
    r"""Estimate log z from the base upwards.

    .. math:: z_{k+1} / z_k = E_k[\exp((\beta_{k+1} - \beta_k) \delta)]

    with the mean over samples of level k (Xie et al. 2011, eq. 9). Right also where the target is
    zero on part of the base. The variance is infinite where the target's tails are heavier than
    the base's.

    Parameters
    ----------
    delta, betas
        As for `pymc_tempering.estimators.mbar.mbar`.

    Returns
    -------
    SteppingStoneEstimate

    Raises
    ------
    DataError, ScheduleError
        If the input is no ladder (see `check_ladder`).

    Examples
    --------
    >>> stepping_stone(np.full((30, 3), -2.0), [0, 0.5, 1]).log_z.round(9).tolist()
    [0.0, -1.0, -2.0]
    """
    delta, betas = check_ladder(delta, betas)
    return _chain_pairs(np.diff(betas) * delta[:, :-1], sign=1.0)


def stepping_stone_reverse(delta: ArrayLike, betas: ArrayLike) -> SteppingStoneEstimate:
    r"""Estimate log z from the target downwards.

    .. math:: z_{k+1} / z_k = 1 / E_{k+1}[\exp(-(\beta_{k+1} - \beta_k) \delta)]

    with the mean over samples of level k + 1. Where the target is zero on part of the base the
    first ratio is :math:`z_1 / b` with b the base's mass on the support, so the log of
    `support_mass` is added, with its influence. The variance is infinite where the target's tails
    are lighter than the base's.

    Parameters
    ----------
    delta, betas
        As for `pymc_tempering.estimators.mbar.mbar`.

    Returns
    -------
    SteppingStoneEstimate

    Raises
    ------
    DataError, ScheduleError
        If the input is no ladder (see `check_ladder`).

    Examples
    --------
    >>> stepping_stone_reverse(np.full((30, 3), -2.0), [0, 0.5, 1]).log_z.round(9).tolist()
    [0.0, -1.0, -2.0]
    """
    delta, betas = check_ladder(delta, betas)
    estimate = _chain_pairs(-np.diff(betas) * delta[:, 1:], sign=-1.0)
    support = support_mass(delta[:, 0])
    log_z = estimate.log_z.copy()
    log_z[1:] += support.log_mass
    return SteppingStoneEstimate(log_z, estimate.influence + support.influence, estimate.pareto_k)


def _chain_pairs(log_weights: FloatArray, sign: float) -> SteppingStoneEstimate:
    log_ratio = log_mean_exp(log_weights, axis=0)
    with np.errstate(invalid="ignore"):
        relative = np.exp(log_weights - log_ratio) - 1.0
    log_z = np.concatenate([[0.0], np.cumsum(sign * log_ratio)])
    k = np.array([pareto_k(column) for column in log_weights.T])
    return SteppingStoneEstimate(log_z, sign * relative.sum(axis=1), k)


def support_mass(delta_base: ArrayLike) -> SupportMass:
    """Estimate the base's mass on the support of the target from draws of the base.

    Parameters
    ----------
    delta_base : array_like of shape (n_draws,)
        ``log_target - log_base`` at draws from the base, ``-inf`` outside the support.

    Returns
    -------
    SupportMass
        ``se`` and ``influence`` are 0 where every draw is in the support: the mass is then below
        1 by less than about ``3 / n_draws`` (95 % limit). They are ``nan`` where none is.

    Raises
    ------
    DataError
        If there is no draw or one is nan.

    Examples
    --------
    >>> mass = support_mass([-np.inf, 1.0, 2.0, 0.5])
    >>> round(mass.log_mass, 6), round(mass.se, 6)
    (-0.287682, 0.288675)
    """
    array = as_numbers("delta_base", delta_base, DataError).ravel()
    if array.size == 0 or np.isnan(array).any():
        raise DataError(
            f"delta_base has {array.size} values, {np.isnan(array).sum()} of them nan; expected "
            "draws from the base, -inf where the target is zero. Record invalid points as -inf."
        )
    inside = np.isfinite(array)
    share = inside.mean()
    if share == 0.0:
        return SupportMass(-np.inf, np.nan, np.full(array.size, np.nan))
    se = np.sqrt((1.0 - share) / (share * array.size))
    return SupportMass(float(np.log(share)), float(se), inside / share - 1.0)
