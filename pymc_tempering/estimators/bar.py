"""Bennett's acceptance ratio between two densities, and chained along a ladder."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import expit, log_expit

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.ladder import LadderEstimate, check_ladder, check_log_values
from pymc_tempering.numerics import log_sum_exp
from pymc_tempering.options import as_numbers
from pymc_tempering.types import FloatArray


class BarEstimate(NamedTuple):
    """Log ratio of two normalisers.

    ``log_ratio``, ``log(z_upper / z_lower)`` in nats, is ``-inf`` or ``inf`` where no lower (upper)
    sample lies in the support of the other density, so that the data bound it on one side only. Its
    error is to first order the mean of ``forward_influence`` (n_forward,) plus that of
    ``reverse_influence`` (n_reverse,), both ``nan`` where it is infinite. ``overlap``, between 0
    (disjoint) and 1 (equal), estimates ``2 * integral of p_lower p_upper / (p_lower + p_upper)``
    where both have the same number of samples; the variance of the ratio is bounded by its inverse.
    """

    log_ratio: float
    forward_influence: FloatArray
    reverse_influence: FloatArray
    overlap: float


def bar(
    forward: ArrayLike, reverse: ArrayLike, *, n_effective: tuple[float, float] | None = None
) -> BarEstimate:
    r"""Estimate the log ratio of two normalisers from samples of both densities.

    The estimate x solves

    .. math:: \sum_i \sigma(f_i - x + m) = \sum_j \sigma(r_j + x - m), \; m = \log(n_r / n_f)

    with the logistic function :math:`\sigma`: eq. 17 of Carlson et al. 2016 with the bridge
    function of least variance (Bennett 1976; Meng & Wong 1996; in terms of work, Shirts et al.
    2003, eq. 6). Every term is bounded, so tails of either density do no harm. The balance is
    solved between logarithms of both sides, which are nearly linear in x however far apart the
    densities are. With effective numbers of samples, the sums are means and
    :math:`m = \log(\mathrm{ess}_r / \mathrm{ess}_f)` shifts their balance.

    Parameters
    ----------
    forward : array_like of shape (n_forward,)
        ``log f_upper - log f_lower`` at samples of the lower density, in nats; ``-inf`` where the
        upper density vanishes.
    reverse : array_like of shape (n_reverse,)
        ``log f_lower - log f_upper`` at samples of the upper density, in nats; ``-inf`` where the
        lower density vanishes.
    n_effective : tuple of float, optional
        Effective numbers of forward and reverse samples, which weigh the two densities in the
        bridge function (Gronau et al. 2017, eq. 14). By default the numbers of samples, best for
        independent ones; the estimate is consistent with any.

    Returns
    -------
    BarEstimate

    Raises
    ------
    DataError
        If either array is empty or contains nan or ``inf``.

    Examples
    --------
    >>> round(bar([2.0, 2.0], [-2.0, -2.0, -2.0]).log_ratio, 9)
    2.0
    """
    remedy = "Record a density that vanishes as -inf on the log scale."
    f, r = (
        check_log_values(name, as_numbers(name, values, DataError).ravel(), remedy, "n")
        for name, values in (("forward", forward), ("reverse", reverse))
    )
    # what is further off would overflow where it is added, and a run that met it is to go on
    f, r = (np.where(np.isneginf(x), x, np.clip(x, -1e150, 1e150)) for x in (f, r))
    no_forward, no_reverse = np.isneginf(f).all(), np.isneginf(r).all()
    if no_forward or no_reverse:
        log_ratio = np.nan if no_forward and no_reverse else (-np.inf if no_forward else np.inf)
        return BarEstimate(log_ratio, np.full(f.size, np.nan), np.full(r.size, np.nan), 0.0)
    m = np.log(r.size / f.size)
    if n_effective is not None:
        m = np.log(n_effective[1] / n_effective[0])
    # where samples count by less than one each, their sums do not balance, but their means do
    excess = m - np.log(r.size / f.size)
    x = _root(f, r, m, excess)
    p, q = expit(f - x + m), expit(r + x - m)
    ratio = np.exp(excess)
    information = p @ (1 - p) + (q @ (1 - q)) * ratio
    p_mean, q_mean = p.mean(), q.mean()
    with np.errstate(divide="ignore", invalid="ignore"):
        forward_influence = f.size * (p - p_mean) / information
        reverse_influence = -r.size * ratio * (q - q_mean) / information
    return BarEstimate(x, forward_influence, reverse_influence, float(p_mean + q_mean))


def _root(f: FloatArray, r: FloatArray, m: float, excess: float) -> float:
    def balance(x: float) -> float:
        forward, reverse = log_sum_exp(log_expit(f - x + m)), log_sum_exp(log_expit(r + x - m))
        return float(forward - reverse - excess)

    centre = 0.5 * (np.median(f[np.isfinite(f)]) - np.median(r[np.isfinite(r)]))
    at_centre = balance(centre)
    if at_centre == 0.0:
        return float(centre)
    direction = np.sign(at_centre)
    inner, step = centre, max(1.0, abs(at_centre))
    outer = centre + direction * step
    while balance(outer) * direction > 0.0:
        inner, step = outer, 2.0 * step
        outer = inner + direction * step
    return float(
        brentq(balance, inner, outer, xtol=1e-13 * max(1.0, abs(outer)), rtol=1e-14, maxiter=2000)
    )


def bar_ladder(delta: ArrayLike, betas: ArrayLike) -> LadderEstimate:
    """Estimate log z of every level by Bennett's acceptance ratio between neighbours.

    Log ratios of `bar` between neighbours add up along the ladder. Influences of pairs are added
    scan by scan, so that correlation between levels enters the error.

    Parameters
    ----------
    delta, betas
        As for `pymc_tempering.estimators.mbar.mbar`.

    Returns
    -------
    LadderEstimate

    Raises
    ------
    DataError, ScheduleError
        If the input is no ladder (see `check_ladder`).

    Examples
    --------
    >>> bar_ladder(np.full((5, 3), -2.0), [0, 0.5, 1]).log_z.round(12).tolist()
    [0.0, -1.0, -2.0]
    """
    delta, betas = check_ladder(delta, betas)
    log_z = np.zeros(betas.size)
    influence = np.zeros(delta.shape[0])
    for k, pair in enumerate(_pairs(delta, betas)):
        log_z[k + 1] = log_z[k] + pair.log_ratio
        influence += pair.forward_influence + pair.reverse_influence
    return LadderEstimate(log_z, influence)


def _pairs(delta: FloatArray, betas: FloatArray) -> list[BarEstimate]:
    return [bar(s * delta[:, k], -s * delta[:, k + 1]) for k, s in enumerate(np.diff(betas))]


def neighbour_overlap(delta: ArrayLike, betas: ArrayLike) -> FloatArray:
    """Return the overlap of every pair of neighbouring levels.

    Parameters
    ----------
    delta, betas
        As for `bar_ladder`.

    Returns
    -------
    ndarray of shape (n_levels - 1,)
        0 for disjoint levels, 1 for equal ones. Below about 0.03 the ratio rests on few scans.

    Examples
    --------
    >>> neighbour_overlap(np.full((5, 3), -2.0), [0, 0.5, 1]).tolist()
    [1.0, 1.0]
    """
    delta, betas = check_ladder(delta, betas)
    return np.array([pair.overlap for pair in _pairs(delta, betas)])
