"""Annealed importance sampling: forward and reverse weights, bounds, and both together."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.bar import bar
from pymc_tempering.estimators.ladder import check_log_values
from pymc_tempering.numerics import log_mean_exp, pareto_k, weight_ess
from pymc_tempering.options import as_numbers
from pymc_tempering.types import FloatArray


class AnnealedEstimate(NamedTuple):
    """Estimate from particles of one direction.

    In nats, ``log_z`` is below log Z in expectation for forward particles, above it for reverse
    ones; its first-order error is the mean of ``influence`` (n_particles,), itself of mean zero.
    ``weight_ess`` is the effective number of particles: near 1, one particle holds the estimate.
    ``pareto_k`` is the tail index of the weights: above 0.7 neither estimate nor error can be
    trusted.
    """

    log_z: float
    influence: FloatArray
    weight_ess: float
    pareto_k: float


class BidirectionalEstimate(NamedTuple):
    """Estimate from forward and reverse particles together.

    ``log_z`` is by Bennett's acceptance ratio, in nats. ``lower`` and ``upper`` are the forward and
    the reverse estimate: each is a bound in expectation, and is off in the other direction by more
    than a nats with probability at most ``exp(-a)``. The error of ``log_z`` is to first order the
    mean of ``forward_influence`` (n_forward,) plus that of ``reverse_influence`` (n_reverse,).
    ``overlap`` is between 0, where weights of both directions say nothing of each other, and 1.
    """

    log_z: float
    lower: float
    upper: float
    forward_influence: FloatArray
    reverse_influence: FloatArray
    overlap: float


_INVALID = "A particle of weight zero has -inf: record an invalid density so."


def annealed_forward(log_weights: ArrayLike) -> AnnealedEstimate:
    """Estimate log Z from particles that started at the base.

    ``log Z = log mean W``: the mean weight is unbiased for Z (Neal 2001, eq. 18; eq. 23 of Carlson
    et al. 2016 for W), so its logarithm is low by Jensen's inequality.

    Parameters
    ----------
    log_weights : array_like of shape (n_particles,)
        In nats; ``-inf`` where a particle left the support. Every particle counts.

    Returns
    -------
    AnnealedEstimate
        ``log_z = -inf`` and ``nan`` influence where every weight is zero.

    Raises
    ------
    DataError
        If there is no particle or a weight is nan or ``inf``.

    Examples
    --------
    >>> annealed_forward([-2.0, -2.0]).log_z
    -2.0
    """
    array = check_log_values("log_weights", log_weights, _INVALID, "n_particles")
    log_z = float(log_mean_exp(array))
    with np.errstate(invalid="ignore"):
        influence = np.exp(array - log_z) - 1.0
    return AnnealedEstimate(log_z, influence, weight_ess(array), pareto_k(array))


def annealed_reverse(log_weights: ArrayLike, log_support_mass: float = 0.0) -> AnnealedEstimate:
    """Estimate log Z from particles that started at the target and ran back to the base.

    ``log Z = -log mean 1 / W + log b``. Above log Z in expectation (Grosse et al. 2015,
    Sandwiching the marginal likelihood), if the particles start from the target itself.

    Parameters
    ----------
    log_weights : array_like of shape (n_particles,)
        log W in nats with the sign of the forward run; finite.
    log_support_mass : float, default 0
        Log of b, the base's mass on the support of the target (`.stepping_stone.support_mass`).

    Returns
    -------
    AnnealedEstimate
        ESS and Pareto k are those of ``1 / W``.

    Raises
    ------
    DataError
        If there is no particle or a weight is not finite.

    Examples
    --------
    >>> annealed_reverse([-2.0, -2.0]).log_z
    -2.0
    """
    array = check_log_values("log_weights", log_weights, _INVALID, "n_particles")
    mass = as_numbers("log_support_mass", log_support_mass, DataError)
    if mass.ndim or not mass < np.inf:
        raise DataError(
            f"`log_support_mass` is {log_support_mass!r:.80}; expected nats, at most 0."
        )
    if np.isneginf(array).any():
        raise DataError(
            f"{np.isneginf(array).sum()} reverse log weights are -inf; expected finite values. "
            "Start reverse particles from draws of the target, where its density is not zero."
        )
    inverse = annealed_forward(-array)
    return AnnealedEstimate(log_support_mass - inverse.log_z, -inverse.influence, *inverse[2:])


def bidirectional(
    forward: ArrayLike, reverse: ArrayLike, log_support_mass: float = 0.0
) -> BidirectionalEstimate:
    r"""Estimate log Z from both directions by Bennett's acceptance ratio, with bounds.

    The densities of the two weights obey Crooks' relation
    :math:`p_\mathrm{reverse}(w) / p_\mathrm{forward}(w) = e^{w} / Z`, so that forward and reverse
    runs are samples of two densities on paths whose log ratio is known (Shirts et al. 2003, eq. 6).
    Forward particles of weight zero are the part of the base outside the support, so the combined
    estimate needs no correction for it.

    Parameters
    ----------
    forward : array_like of shape (n_forward,)
        Forward log weights in nats.
    reverse : array_like of shape (n_reverse,)
        Reverse log weights in nats, with the sign of the forward run.
    log_support_mass : float, default 0
        Of `annealed_reverse`; enters ``upper`` only.

    Returns
    -------
    BidirectionalEstimate

    Raises
    ------
    DataError
        As for `annealed_forward` and `annealed_reverse`.

    Examples
    --------
    >>> round(bidirectional([-2.0, -2.0], [-2.0]).log_z, 9)
    -2.0
    """
    lower = annealed_forward(forward).log_z
    upper = annealed_reverse(reverse, log_support_mass).log_z
    pair = bar(
        as_numbers("forward", forward, DataError), -as_numbers("reverse", reverse, DataError)
    )
    return BidirectionalEstimate(
        pair.log_ratio, lower, upper, pair.forward_influence, pair.reverse_influence, pair.overlap
    )
