"""log Z from tempered draws and independent draws of the base.

Eq. 21 of Graham & Storkey (2017) estimates the density of beta at 0 from the few tempered draws
near the base, although draws from the base itself cost nothing. Here both are used.
"""

import numpy as np

from pymc_tempering.estimators.bar import bar
from pymc_tempering.estimators.continuous import log_beta_density
from pymc_tempering.estimators.ladder import LadderEstimate
from pymc_tempering.numerics import log_mean_exp
from pymc_tempering.types import FloatArray

__all__ = ["bridged_log_z"]


def bridged_log_z(
    delta: FloatArray, delta_base: FloatArray, knots: FloatArray, bias: FloatArray
) -> LadderEstimate:
    r"""Estimate log Z with Bennett's acceptance ratio between base and tempered marginal.

    With beta integrated out, tempered positions have the density :math:`b(z) N(z) / C`,
    :math:`N = \int_0^1 e^{\beta\delta - c(\beta)} d\beta`, and

    .. math:: \log Z = c(1) + \log \overline{p(1 \mid z)} + \log C,

    with log C, the log ratio of the normalisers of :math:`b N` and b, by
    :func:`pymc_tempering.estimators.bar.bar`. Eq. 21 of Graham & Storkey (2017) is the special
    case :math:`\log C = -c(0) - \log\overline{p(0 \mid z)}`, which leaves the base's draws out. A
    base that is partly outside the target's support needs no correction.

    Parameters
    ----------
    delta : ndarray of shape (n_draws,)
        At tempered draws, in nats.
    delta_base : ndarray of shape (n_base,)
        At independent draws from the base, ``-inf`` outside the support.
    knots, bias : ndarray of shape (n_knots,)
        Of the piecewise linear bias.

    Returns
    -------
    LadderEstimate
        ``log_z`` of shape (1,); the influence has one entry per tempered draw, that of the base's
        draws spread over them.

    Examples
    --------
    >>> knots, bias = np.array([0.0, 1.0]), np.array([0.0, -2.0])
    >>> float(bridged_log_z(np.full(9, -2.0), np.full(5, -2.0), knots, bias).log_z[0])
    -2.0
    """
    valid = np.isfinite(delta)
    log_p1 = log_beta_density(delta, knots, bias, 1.0)[valid]
    log_mean = float(log_mean_exp(log_p1))
    ratio = bar(
        _log_normaliser(delta_base, knots, bias), -_log_normaliser(delta[valid], knots, bias)
    )
    influence = np.zeros(delta.size)
    influence[valid] = np.expm1(log_p1 - log_mean) + ratio.reverse_influence
    influence *= delta.size / valid.sum()
    influence += _spread(ratio.forward_influence, delta.size)
    return LadderEstimate(np.array([bias[-1] + log_mean + ratio.log_ratio]), influence)


def _log_normaliser(delta: FloatArray, knots: FloatArray, bias: FloatArray) -> FloatArray:
    out = np.full(delta.size, -np.inf)
    valid = np.isfinite(delta)
    if valid.any():
        out[valid] = -bias[0] - log_beta_density(delta[valid], knots, bias, 0.0)
    return out


def _spread(influence: FloatArray, n: int) -> FloatArray:
    """Stretch or squeeze a series of independent terms to length n, keeping its mean's variance."""
    total = np.concatenate([[0.0], np.cumsum(influence)])
    at = np.interp(np.linspace(0, influence.size, n + 1), np.arange(influence.size + 1), total)
    return np.diff(at) * (n / influence.size)
