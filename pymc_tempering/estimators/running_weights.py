"""Log weights that a block of scans contributes to :class:`RunningLogZ`, method by method."""

import numpy as np

from pymc_tempering.estimators.continuous import log_normaliser
from pymc_tempering.jit import compiled
from pymc_tempering.numerics import log_sum_exp
from pymc_tempering.types import FloatArray

__all__ = [
    "annealing_log_weights",
    "continuous_log_weights",
    "level_log_weights",
    "neighbour_log_weights",
]


@compiled
def neighbour_log_weights(delta: FloatArray, betas: FloatArray) -> FloatArray:
    r"""Log weights of the geometric bridge between neighbouring levels.

    .. math:: \frac{z_{k+1}}{z_k} = \frac{E_k[e^{h_k \delta}]}{E_{k+1}[e^{-h_k \delta}]},
              \qquad h_k = \tfrac12 (\beta_{k+1} - \beta_k)

    Bridge sampling (Meng & Wong 1996) with the geometric mean of the two densities as bridge. Right
    also where the target is zero on part of the base.

    Parameters
    ----------
    delta : ndarray of shape (n_scans, n_levels)
        ``log_target - log_base`` in nats; ``-inf`` allowed at the base.
    betas : ndarray of shape (n_levels,)

    Returns
    -------
    ndarray of shape (n_scans, 2 (n_levels - 1))
        Numerators, then denominators: signs 1 and -1.

    Examples
    --------
    >>> neighbour_log_weights(np.array([[1.0, 3.0]]), np.array([0.0, 1.0])).tolist()
    [[0.5, -1.5]]
    """
    n_scans, n_levels = delta.shape
    n_pairs = n_levels - 1
    out = np.empty((n_scans, 2 * n_pairs))
    for i in range(n_scans):
        for k in range(n_pairs):
            half = 0.5 * (betas[k + 1] - betas[k])
            out[i, k] = half * delta[i, k]
            out[i, n_pairs + k] = -half * delta[i, k + 1]
    return out


@compiled
def level_log_weights(
    delta: FloatArray, betas: FloatArray, log_level_weights: FloatArray
) -> FloatArray:
    r"""Log probabilities of the last and the first level, for simulated tempering.

    .. math:: \log \hat z = \log \overline{q(\beta_K \mid z)} - w_K
              - (\log \overline{q(\beta_0 \mid z)} - w_0)

    eq. 12 of Carlson et al. (2016), so the constant is ``w_0 - w_K``.

    Parameters
    ----------
    delta : ndarray of shape (n_scans,)
        In nats; ``-inf`` allowed.
    betas, log_level_weights : ndarray of shape (n_levels,)

    Returns
    -------
    ndarray of shape (n_scans, 2)
        Signs 1 and -1.

    Examples
    --------
    >>> ends = level_log_weights(np.array([-np.inf]), np.array([0.0, 1.0]), np.zeros(2))
    >>> ends.tolist()
    [[-inf, 0.0]]
    """
    out = np.empty((delta.size, 2))
    terms = np.empty(betas.size)
    for i in range(delta.size):
        if delta[i] == -np.inf:
            out[i, 0], out[i, 1] = -np.inf, 0.0
            continue
        for k in range(betas.size):
            terms[k] = betas[k] * delta[i] + log_level_weights[k]
        total = log_sum_exp(terms)
        out[i, 0] = terms[-1] - total
        out[i, 1] = terms[0] - total
    return out


@compiled
def continuous_log_weights(
    delta: FloatArray, knots: FloatArray, bias: FloatArray, support: float
) -> FloatArray:
    r"""Log densities of beta at 1 and at 0, and the log share of the base on the support.

    .. math:: \log \hat z = c(1) - c(0) + \log \overline{p(1 \mid z)}
              - \log \overline{p(0 \mid z)} + \log b

    eq. 21 of Graham & Storkey (2017), so the constant is ``c(1) - c(0)``.

    Parameters
    ----------
    delta : ndarray of shape (n_scans,)
        In nats; positions without density, possible before the first valid one, count in neither
        mean.
    knots, bias : ndarray of shape (n_knots,)
    support : float
        Share of this block's draws from the base where the target is positive.

    Returns
    -------
    ndarray of shape (n_scans, 3)
        Signs 1, -1 and 1.

    Examples
    --------
    >>> weights = continuous_log_weights(np.ones(1), np.array([0.0, 1.0]), np.zeros(2), 1.0)
    >>> weights.round(3).tolist()
    [[0.459, -0.541, 0.0]]
    """
    normaliser = log_normaliser(delta, knots, bias)
    out = np.empty((delta.size, 3))
    log_support = np.log(support) if support > 0.0 else -np.inf
    for i in range(delta.size):
        out[i, 2] = log_support
        if delta[i] == -np.inf:
            out[i, 0], out[i, 1] = -np.inf, -np.inf
            continue
        out[i, 0] = delta[i] - bias[-1] - normaliser[i]
        out[i, 1] = -bias[0] - normaliser[i]
    return out


def annealing_log_weights(forward: FloatArray, reverse: FloatArray) -> FloatArray:
    r"""Half of the log weights of both directions, for the geometric bridge between them.

    .. math:: Z = E_\mathrm{forward}[W^{1/2}] / E_\mathrm{reverse}[W^{-1/2}]

    by Crooks' relation. Its error is far below that of the mean forward weight.

    Parameters
    ----------
    forward, reverse : ndarray of shape (n_scans,)
        Log weights in nats; ``-inf`` allowed in `forward`.

    Returns
    -------
    ndarray of shape (n_scans, 2)
        Signs 1 and -1.

    Examples
    --------
    >>> annealing_log_weights(np.array([-2.0]), np.array([-2.0])).tolist()
    [[-1.0, 1.0]]
    """
    return np.stack([0.5 * forward, -0.5 * reverse], axis=1)
