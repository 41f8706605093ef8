"""Ratios of evidences from draws that are there: importance weights, and MBAR between levels."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import logsumexp

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.ladder import check_ladder, finite_floor
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.numerics import pareto_k, weight_ess
from pymc_tempering.options import as_numbers
from pymc_tempering.types import FloatArray


class Reweighted(NamedTuple):
    """Log ratio of the normalisers of two densities, from draws of the one below.

    ``log_ratio``, ``log(z_new / z_old)`` in nats, is ``-inf`` where all weights are zero. Its error
    is to first order the mean of ``influence`` (n_chains, n_draws), itself of mean zero.
    ``weight_ess`` is the effective number of weights, autocorrelation not counted, and
    ``pareto_k`` their tail index.
    """

    log_ratio: float
    influence: FloatArray
    weight_ess: float
    pareto_k: float


class PowerEstimate(NamedTuple):
    """Log z at inverse temperatures that need not be levels, from one chain of a ladder.

    ``log_z`` (n_powers,) is in nats, relative to the base. ``influence`` (n_powers, n_scans) has
    mean zero, and is ``nan`` where levels do not overlap. ``log_weights``
    (n_powers, n_scans * n_levels), normalised, are of all samples towards each power.
    """

    log_z: FloatArray
    influence: FloatArray
    log_weights: FloatArray


def reweight(log_weights: ArrayLike) -> Reweighted:
    r"""Estimate a ratio of normalisers as the mean importance weight of draws.

    With draws x of the density f_old / z_old and :math:`\log w = \log f_{new} - \log f_{old}`,

    .. math:: \log \frac{z_{new}}{z_{old}} = \log \mathrm{E}_{old}[w(x)],

    the identity behind every importance estimate (Geyer & Thompson 1992). The influence of a
    draw is :math:`w / \bar w - 1`, the mean being that of all chains, so that chains that
    disagree show in the standard error.

    Parameters
    ----------
    log_weights : array_like of shape (n_chains, n_draws)
        In nats; ``-inf`` for a weight of zero.

    Returns
    -------
    Reweighted

    Raises
    ------
    DataError
        If a log weight is nan or ``inf``, or there are none.

    Examples
    --------
    >>> round(reweight([[0.0, np.log(3.0)]]).log_ratio, 6) == round(float(np.log(2.0)), 6)
    True
    """
    array = np.atleast_2d(as_numbers("log_weights", log_weights, DataError))
    if array.ndim != 2 or array.size == 0 or np.isnan(array).any() or np.isposinf(array).any():
        raise DataError(
            f"The log weights have shape {array.shape}; expected (n_chains, n_draws), finite or "
            "-inf. A density that is nan counts as zero: give -inf there."
        )
    log_ratio = float(logsumexp(array) - np.log(array.size))
    if np.isneginf(log_ratio):
        return Reweighted(log_ratio, np.full(array.shape, np.nan), 0.0, np.nan)
    influence = np.exp(array - log_ratio) - 1.0
    return Reweighted(log_ratio, influence, weight_ess(array), pareto_k(array))


def mbar_powers(delta: ArrayLike, betas: ArrayLike, powers: ArrayLike) -> PowerEstimate:
    r"""Estimate log z at any inverse temperatures from the samples of all levels of one chain.

    Samples of all levels are draws from their mixture, from which any density of the path follows
    by reweighting (Shirts & Chodera 2008, eq. 11, with no samples at the new state):

    .. math:: z(a) = \sum_i \frac{e^{a \delta_i}}{\sum_k n_k e^{\beta_k \delta_i - c_k}},

    c being MBAR's log z. Between levels no weight exceeds that of a level by much; beyond 1 the
    tail of the target's samples decides, as in :func:`reweight`.

    Parameters
    ----------
    delta, betas
        As for :func:`pymc_tempering.estimators.mbar.mbar`.
    powers : array_like of shape (n_powers,)
        Positive; those above 1 are extrapolated.

    Returns
    -------
    PowerEstimate

    Raises
    ------
    DataError, ScheduleError
        If the input is no ladder, or a power is not positive.

    Examples
    --------
    >>> mbar_powers(np.full((8, 3), -2.0), [0, 0.5, 1], [0.25, 2.0]).log_z.round(9).tolist()
    [-0.5, -4.0]
    """
    delta, betas = check_ladder(delta, betas)
    powers = np.atleast_1d(as_numbers("powers", powers, DataError))
    if powers.ndim != 1 or not (np.isfinite(powers) & (powers > 0.0)).all():
        raise DataError(f"The powers are {powers.tolist()}; expected positive numbers.")
    n_scans, n_levels = delta.shape
    x = finite_floor(delta).ravel()
    c = mbar(delta, betas).log_z
    log_terms = x[:, None] * betas + (np.log(n_scans) - c)
    log_mixture = logsumexp(log_terms, axis=1)
    share = np.exp(log_terms - log_mixture[:, None])
    log_weights = powers[:, None] * x - log_mixture
    log_z = logsumexp(log_weights, axis=1)
    log_weights -= log_z[:, None]
    weights = np.exp(log_weights)
    # how log z(a) moves with c, and through it with every sample
    slope = weights @ share
    curvature = np.diag(share.sum(axis=0)) - share.T @ share
    direction = np.zeros((powers.size, n_levels))
    try:
        direction[:, 1:] = cho_solve(cho_factor(curvature[1:, 1:]), slope[:, 1:].T).T
    except LinAlgError:
        direction[:] = np.nan
    level = np.tile(np.arange(n_levels), n_scans)
    influence = x.size * (weights + direction @ share.T - direction[:, level]) - 1.0
    by_scan = influence.reshape(powers.size, n_scans, n_levels).mean(axis=2)
    return PowerEstimate(log_z, by_scan, log_weights)
