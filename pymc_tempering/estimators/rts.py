"""Rao-Blackwellised tempered sampling: log z from simulated tempering (Carlson et al. 2016).

Simulated tempering draws level k given the position with probability proportional to
``exp(beta_k delta + log_level_weights[k])``, where ``log_level_weights = log r_k - log zhat_k`` in
the paper's notation: prior of the level over the current guess of its normaliser.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import LinAlgError, solve
from scipy.special import log_softmax, logsumexp, softmax

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.ladder import check_log_values, finite_floor
from pymc_tempering.estimators.uncertainty import chain_standard_errors
from pymc_tempering.options import as_numbers, check_betas
from pymc_tempering.types import FloatArray


class RtsEstimate(NamedTuple):
    """Estimate of one chain: a LadderEstimate, and the share of every level.

    ``level_probability`` (n_levels,) is Rao-Blackwellised, the paper's c-hat.
    """

    log_z: FloatArray
    influence: FloatArray
    level_probability: FloatArray


def _check(
    delta: ArrayLike, betas: ArrayLike, log_level_weights: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    betas = check_betas(betas)
    x = check_log_values("delta", delta, "Pass the recorded deltas of one chain.")
    weights = as_numbers("log_level_weights", log_level_weights, DataError)
    if weights.shape not in {betas.shape, (x.size, betas.size)} or not np.isfinite(weights).all():
        raise DataError(
            f"log_level_weights has shape {weights.shape}; expected {betas.size} finite values, "
            "one per beta. Pass the weights with which the levels were drawn."
        )
    return x, betas, weights


def level_log_probability(
    delta: ArrayLike, betas: ArrayLike, log_level_weights: ArrayLike
) -> FloatArray:
    """Return the log probability of every level given each position, eq. 7 of Carlson et al.

    delta (nats) has shape (n_scans,), ``-inf`` putting all probability on the base; the log level
    weights (n_levels,) or (n_scans, n_levels). The result has shape (n_scans, n_levels).

    Examples
    --------
    >>> np.exp(level_log_probability([-np.inf, 0.0], [0, 1], [0, 0])).round(3).tolist()
    [[1.0, 0.0], [0.5, 0.5]]
    """
    x, betas, weights = _check(delta, betas, log_level_weights)
    return np.asarray(log_softmax(np.multiply.outer(finite_floor(x), betas) + weights, axis=1))


def rts(delta: ArrayLike, betas: ArrayLike, log_level_weights: ArrayLike) -> RtsEstimate:
    r"""Estimate log z of every level from the conditional probabilities of the levels.

    .. math:: \log \hat z_k = \log \hat c_k - w_k - (\log \hat c_0 - w_0), \quad
              \hat c_k = \frac1n \sum_i q(\beta_k \mid x_i)

    eq. 9 and 12 of Carlson et al. 2016 with w the log level weights. Right also where the target
    is zero on part of the base.

    Parameters
    ----------
    delta : array_like of shape (n_scans,)
        Of the tempered replica after each scan, whatever its level; in nats.
    betas : array_like of shape (n_levels,), increasing from 0 to 1
    log_level_weights : array_like of shape (n_levels,)
        With which the chain was run, unchanged over these scans (else `rts_mixed`).

    Returns
    -------
    RtsEstimate

    Raises
    ------
    DataError, ScheduleError
        If a shape or value is not as above.

    Examples
    --------
    >>> rts(np.full(9, -2.0), [0, 0.5, 1], [0, 0, 0]).log_z.round(9).tolist()
    [0.0, -1.0, -2.0]
    """
    weights = as_numbers("log_level_weights", log_level_weights, DataError)
    if weights.ndim != 1:
        raise DataError(
            f"log_level_weights has shape {weights.shape}; expected (n_levels,), the same for "
            "all scans. Use rts_mixed where they changed during the run."
        )
    log_q = level_log_probability(delta, betas, weights)
    log_c = logsumexp(log_q, axis=0) - np.log(len(log_q))
    log_z = log_c - weights
    influence = np.exp(log_q[:, -1] - log_c[-1]) - np.exp(log_q[:, 0] - log_c[0])
    return RtsEstimate(log_z - log_z[0], influence, np.exp(log_c))


def rts_bias_and_variance(
    delta: ArrayLike, betas: ArrayLike, log_level_weights: ArrayLike
) -> tuple[FloatArray, FloatArray]:
    r"""Return bias and variance of `rts` at every level, eq. 15 and 16 of Carlson et al. 2016.

    .. math:: \mathrm{bias}_k \approx \tfrac12 (\sigma_0^2 / \hat c_0^2 - \sigma_k^2 / \hat c_k^2),
              \quad \mathrm{var}_k \approx \mathrm{Var}(\hat c_k / c_k - \hat c_0 / c_0)

    Variances of the averages take autocorrelation into account (eq. 27 and 28).

    Parameters
    ----------
    delta, betas, log_level_weights
        As for `rts`.

    Returns
    -------
    bias : ndarray of shape (n_levels,)
    variance : ndarray of shape (n_levels,)
        In nats and nats squared, both 0 at the base.

    Raises
    ------
    DataError, ScheduleError
        As for `rts`.

    Examples
    --------
    >>> bias, variance = rts_bias_and_variance(np.linspace(-3, 0, 50), [0, 1], [0, 0])
    >>> bool(variance[1] > 0)
    True
    """
    log_q = level_log_probability(delta, betas, log_level_weights)
    relative = np.exp(log_q - logsumexp(log_q, axis=0) + np.log(len(log_q))) - 1.0
    own = chain_standard_errors(relative.T) ** 2
    difference = chain_standard_errors((relative - relative[:, :1]).T) ** 2
    return 0.5 * (own[0] - own), difference


def rts_mixed(delta: ArrayLike, betas: ArrayLike, log_level_weights: ArrayLike) -> RtsEstimate:
    r"""Estimate log z where the level weights changed during the run.

    Maximises the likelihood of appendix A of Carlson et al. 2016,

    .. math:: \sum_i \Big[ \sum_k q(\beta_k \mid x_i; w_i) \log z_k
              - \log \sum_k e^{w_{ik}} z_k \Big], \quad z_0 = 1,

    which is concave in log z, by Newton's method with step halving.

    Parameters
    ----------
    delta, betas
        As for `rts`.
    log_level_weights : array_like of shape (n_scans, n_levels)
        In force when each scan drew its level.

    Returns
    -------
    RtsEstimate
        With constant weights the same as `rts`. ``influence`` is the score times the inverse
        curvature, ``nan`` if the likelihood has no maximum: some level was never probable.

    Raises
    ------
    DataError, ScheduleError
        If a shape or value is not as above.

    Examples
    --------
    >>> weights = np.tile([0.0, 1.0], (9, 1))
    >>> rts_mixed(np.full(9, -2.0), [0, 1], weights).log_z.round(9).tolist()
    [0.0, -2.0]
    """
    log_q = level_log_probability(delta, betas, log_level_weights)
    n_scans, n_levels = log_q.shape
    weights = np.broadcast_to(
        as_numbers("log_level_weights", log_level_weights, DataError), log_q.shape
    )
    q = np.exp(log_q)
    share = q.mean(axis=0)
    log_z = np.log(share) - logsumexp(weights, axis=0)
    log_z = np.where(np.isfinite(log_z), log_z, 0.0) - log_z[0]

    def likelihood(value: FloatArray) -> float:
        return float(share @ value - logsumexp(weights + value, axis=1).mean())

    current, step = likelihood(log_z), np.zeros(n_levels)
    for _ in range(200):
        expected = softmax(weights + log_z, axis=1)
        score = (share - expected.mean(axis=0))[1:]
        curvature = (np.diag(expected.mean(axis=0)) - expected.T @ expected / n_scans)[1:, 1:]
        try:
            step[1:] = solve(curvature, score, assume_a="pos")
        except (LinAlgError, ValueError):
            return RtsEstimate(log_z, np.full(n_scans, np.nan), share)
        size = 1.0
        while (proposed := likelihood(log_z + size * step)) < current - 1e-13 and size > 1e-10:
            size *= 0.5
        log_z, current = log_z + size * step, proposed
        if np.abs(step).max() < 1e-11:
            break
    else:
        return RtsEstimate(log_z, np.full(n_scans, np.nan), share)
    to_last = solve(curvature, np.eye(n_levels - 1)[-1], assume_a="pos")
    influence = (q - softmax(weights + log_z, axis=1))[:, 1:] @ to_last
    return RtsEstimate(log_z, influence, share)
