"""Continuous tempering: log Z and expectations from positions with beta integrated out.

The joint density over position and beta is ``exp(log_base + beta delta - c(beta))`` with a bias c
piecewise linear on `knots`. One piece, ``c = beta log_zeta``, is the method of Graham & Storkey
(2017); their Delta is ``log_zeta - delta``.
"""

import numpy as np
from numpy.typing import ArrayLike

from pymc_tempering.errors import DataError, OptionError, ScheduleError
from pymc_tempering.estimators.bar import bar
from pymc_tempering.estimators.ladder import LadderEstimate, check_log_values
from pymc_tempering.jit import compiled
from pymc_tempering.numerics import log_exprel, log_mean_exp, log_sum_exp
from pymc_tempering.options import as_numbers, check_betas, is_number
from pymc_tempering.types import FloatArray


@compiled
def log_normaliser(delta: FloatArray, knots: FloatArray, bias: FloatArray) -> FloatArray:
    """Log integral of exp(beta delta - c(beta)) over [0, 1] for every delta, shape (n_scans,).

    c is piecewise linear, with values `bias` (nats) at `knots`, both of shape (n_knots,).
    """
    pieces = np.empty(knots.size - 1)
    out = np.empty(delta.size)
    for i in range(delta.size):
        for j in range(pieces.size):
            width = knots[j + 1] - knots[j]
            rise = width * delta[i] - (bias[j + 1] - bias[j])
            start = knots[j] * delta[i] - bias[j]
            pieces[j] = np.log(width) + start + log_exprel(rise)
        out[i] = log_sum_exp(pieces)
    return out


def _check(
    delta: ArrayLike, knots: ArrayLike, bias: ArrayLike
) -> tuple[FloatArray, FloatArray, FloatArray]:
    try:
        knots = check_betas(knots)
    except ScheduleError as error:
        raise ScheduleError(f"knots are not a schedule: {error}") from error
    c = as_numbers("bias", bias, DataError)
    x = check_log_values("delta", delta, "Pass the recorded deltas of one chain.")
    if c.shape != knots.shape or not np.isfinite(c).all():
        raise DataError(
            f"bias has shape {c.shape}; expected {knots.size} finite values, one per knot. Pass "
            "[0, log_zeta] on knots [0, 1] for the method with one slope."
        )
    if not np.isfinite(x).any():
        raise DataError("delta is -inf at all scans; expected that before the first valid state.")
    return x, knots, c


def log_beta_density(
    delta: ArrayLike, knots: ArrayLike, bias: ArrayLike, beta: float
) -> FloatArray:
    r"""Return the log density of beta at one value given each position.

    .. math:: p(\beta \mid z) = e^{\beta \delta - c(\beta)} / \int_0^1 e^{b \delta - c(b)} db,

    eq. 18 of Graham & Storkey 2017, a sum over pieces of the bias of terms whose logarithms are
    stable for slopes of either sign and near zero.

    Parameters
    ----------
    delta : array_like of shape (n_scans,)
        ``log_target - log_base`` in nats.
    knots : array_like of shape (n_knots,)
        Increasing from 0 to 1.
    bias : array_like of shape (n_knots,)
        c at the knots, in nats.
    beta : float
        In [0, 1].

    Returns
    -------
    ndarray of shape (n_scans,)
        ``-inf`` where delta is: such a position has probability zero under the joint density.

    Raises
    ------
    DataError, ScheduleError, OptionError
        If a shape or value is not as above.

    Examples
    --------
    >>> log_beta_density([3.0], [0, 1], [0, 3], 0.2).tolist()
    [0.0]
    """
    if not is_number(beta) or not 0.0 <= beta <= 1.0:
        raise OptionError(f"beta is {beta!r}; expected a value in [0, 1]. Use 1 for the target.")
    x, knots, c = _check(delta, knots, bias)
    out = np.full(x.size, -np.inf)
    valid = np.isfinite(x)
    out[valid] = beta * x[valid] - np.interp(beta, knots, c) - log_normaliser(x[valid], knots, c)
    return out


def continuous_tempering(
    delta: ArrayLike,
    knots: ArrayLike = (0.0, 1.0),
    bias: ArrayLike = (0.0, 0.0),
    betas: ArrayLike = (0.0, 1.0),
    log_support_mass: float = 0.0,
) -> LadderEstimate:
    r"""Estimate log z(beta) from positions of the tempered replica.

    .. math:: \log z(\beta) = c(\beta) - c(0) + \log \overline{p(\beta \mid z)}
              - \log \overline{p(0 \mid z)} + \log b

    eq. 21 of Graham & Storkey 2017 with their bias ``beta log_zeta`` generalised to c.

    Parameters
    ----------
    delta : array_like of shape (n_scans,)
        Of the tempered replica after each scan, in nats. Scans at ``-inf``, possible only before
        the first valid state, are left out of the means and have influence 0.
    knots, bias : array_like of shape (n_knots,), default (0, 1) and (0, 0)
        Of the bias with which the chain was run; the default is no bias.
    betas : array_like of shape (n_betas,), default (0, 1)
        Where log z is wanted, increasing from 0 to 1; knots of the next bias, for example.
    log_support_mass : float, default 0
        Log of b, the base's mass on the support of the target, which the joint density never
        leaves, from `pymc_tempering.estimators.stepping_stone.support_mass`. Its error is not
        part of ``influence``: add it in quadrature, since its draws are independent.

    Returns
    -------
    LadderEstimate
        ``log_z`` at `betas`, the last being log Z.

    Raises
    ------
    DataError, ScheduleError
        If a shape or value is not as above.

    Examples
    --------
    >>> continuous_tempering(np.full(5, -2.0), bias=(0.0, 1.0)).log_z.round(9).tolist()
    [0.0, -2.0]
    """
    x, knots, c = _check(delta, knots, bias)
    betas = check_betas(betas)
    valid = np.isfinite(x)
    normaliser = log_normaliser(x[valid], knots, c)
    log_base_weight = -c[0] - normaliser
    log_p0 = float(log_mean_exp(log_base_weight))
    log_z = np.zeros(betas.size)
    for k in range(1, betas.size):
        c_beta = np.interp(betas[k], knots, c)
        log_weight = betas[k] * x[valid] - c_beta - normaliser
        log_p = float(log_mean_exp(log_weight))
        log_z[k] = c_beta - c[0] + log_p - log_p0 + log_support_mass
    # The last of the betas is 1, so its weights are those of the target.
    influence = np.zeros(x.size)
    influence[valid] = np.exp(log_weight - log_p) - np.exp(log_base_weight - log_p0)
    return LadderEstimate(log_z, influence * (x.size / valid.sum()))


def bridged_log_z(
    delta: FloatArray, delta_base: FloatArray, knots: FloatArray, bias: FloatArray,
    target_delta: FloatArray | None = None,
) -> LadderEstimate:  # fmt: skip
    r"""Estimate log Z with Bennett's acceptance ratio between base and tempered marginal.

    With beta integrated out, tempered positions have the density :math:`b(z) N(z) / C`,
    :math:`N = \int_0^1 e^{\beta\delta - c(\beta)} d\beta`, and

    .. math:: \log Z = c(1) + \log \overline{p(1 \mid z)} + \log C,

    with log C, the log ratio of the normalisers of :math:`b N` and b, by :func:`.bar.bar`, and with
    draws of the target the mean of p(1 | z), too. Eq. 21 of Graham & Storkey (2017) is the special
    case :math:`\log C = -c(0) - \log\overline{p(0 \mid z)}`. It rests on the few tempered draws
    near the base, although draws of the base itself cost nothing, and p(0 | z) has no variance
    where the base has heavy tails: it goes like ``-delta``. Every term here is bounded.

    `delta` (n_draws,), `delta_base` (n_base,) and `target_delta` (n_target,) are in nats, ``-inf``
    outside the support; `knots` and `bias` (n_knots,) are of the piecewise linear bias. The
    influence has one entry per tempered draw, over which those of the others are spread.
    """
    valid = np.isfinite(delta)
    log_p1 = log_beta_density(delta, knots, bias, 1.0)[valid]
    influence = np.zeros(delta.size)
    if target_delta is None:
        log_mean = float(log_mean_exp(log_p1))
        influence[valid] = np.expm1(log_p1 - log_mean)
    else:
        upper = bar(log_p1, -log_beta_density(target_delta, knots, bias, 1.0))
        log_mean, influence[valid] = upper.log_ratio, upper.forward_influence
    ratio = bar(
        _log_normaliser(delta_base, knots, bias), -_log_normaliser(delta[valid], knots, bias)
    )
    influence[valid] += ratio.reverse_influence
    influence *= delta.size / valid.sum()
    influence += _spread(ratio.forward_influence, delta.size)
    if target_delta is not None:
        influence += _spread(upper.reverse_influence, delta.size)
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
    return np.asarray(np.diff(at) * (n / influence.size))


def tempered_expectation(
    values: ArrayLike, delta: ArrayLike, knots: ArrayLike, bias: ArrayLike, beta: float
) -> FloatArray:
    r"""Estimate an expectation at one beta from positions of the tempered replica.

    .. math:: E[f \mid \beta] \approx \sum_s p(\beta \mid z_s) f(z_s) / \sum_s p(\beta \mid z_s),

    eq. 22 of Graham & Storkey 2017 for ``beta = 1`` and eq. 23 for ``beta = 0``. Moments of the
    base are known, so eq. 23 is a necessary check of convergence.

    Parameters
    ----------
    values : array_like of shape (n_scans, ...)
        f at each position.
    delta : array_like of shape (n_scans,)
        In nats.
    knots, bias : array_like of shape (n_knots,)
        Of the bias with which the chain was run.
    beta : float
        In [0, 1].

    Returns
    -------
    ndarray of shape (...)

    Raises
    ------
    DataError, ScheduleError, OptionError
        If a shape or value is not as above.

    Examples
    --------
    >>> tempered_expectation([1.0, 3.0], [-2.0, -2.0], [0, 1], [0, 0], 1.0).tolist()
    2.0
    """
    log_p = log_beta_density(delta, knots, bias, beta)
    f = as_numbers("values", values, DataError)
    if f.shape[:1] != log_p.shape:
        raise DataError(
            f"values has shape {f.shape}; expected {log_p.size} rows, one per delta. Pass the "
            "quantity at the same scans."
        )
    weights = np.exp(log_p - log_p.max())
    used = weights > 0.0
    return np.asarray(np.tensordot(weights[used], f[used], axes=1) / weights.sum())
