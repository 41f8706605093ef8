"""Bridge sampling: log Z from draws of a density and of a normalised proposal.

The same equation as Bennett's acceptance ratio; what is added here is the error of draws that are
chains of a sampler, and the estimate from two halves of the draws.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit
from scipy.stats import t as student_t

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.bar import bar
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.numerics import pareto_k
from pymc_tempering.options import as_numbers
from pymc_tempering.types import FloatArray


class BridgeEstimate(NamedTuple):
    """Log Z by one proposal; influences are of mean zero, in nats."""

    log_z: float  # nats; infinite or nan where target and proposal do not overlap
    draw_influence: FloatArray  # (n_chains, n_draws), of each draw on the error of log_z
    proposal_influence: FloatArray  # (n_proposals,), of each independent draw from the proposal
    # (n_chains, n_fitted), what it would be at the draws that the proposal was fitted to
    fitted_influence: FloatArray
    per_chain: FloatArray  # (n_chains,), from the draws of each chain and all of the proposal's
    # importance weights in nats, from the proposal to the target at the proposal's draws, and from
    # the target to the proposal at the target's
    log_weights: tuple[FloatArray, FloatArray]


class HalvesEstimate(NamedTuple):
    """Log Z from two halves of the draws, each with a proposal fitted to the other; in nats."""

    log_z: float
    se: float
    df: float  # degrees of freedom of the interval
    ess: float  # effective number of the target's draws, for this estimate
    per_chain: FloatArray  # (n_chains,)
    per_half: FloatArray  # (2,)
    # probability of a difference as large as that of the halves, if both estimate the same number
    # with the errors that they state
    halves_p: float
    # (n_chains, n_draws), of the draws in their order, differences between halves included
    influence: FloatArray
    # (2,), tail index of the importance weights from the proposals to the target, and back. One
    # heavy tail does no harm: terms of the bridge are bounded, and both densities are weighed.
    pareto_k: FloatArray


def bridge(
    delta_draws: ArrayLike, delta_proposals: ArrayLike, delta_fitted: ArrayLike | None = None
) -> BridgeEstimate:
    r"""Estimate log Z from draws of a density and of a normalised proposal.

    With :math:`\delta = \log f - \log q`, the estimate solves the equation of
    :func:`pymc_tempering.estimators.bar.bar`, whose solution is the fixed point of the iterative
    scheme of Meng & Wong (1996). The bridge function has least variance for independent draws; for
    those of a chain, their number is replaced by the effective number of the terms that are
    averaged, from a first solution.

    Parameters
    ----------
    delta_draws : array_like of shape (n_chains, n_draws)
        Log density over normalised proposal at draws of the density, in nats.
    delta_proposals : array_like of shape (n_proposals,)
        The same at independent draws of the proposal; ``-inf`` where the density vanishes.
    delta_fitted : array_like of shape (n_chains, n_fitted), optional
        The same at the draws that the proposal was fitted to, for the error of two halves.

    Returns
    -------
    BridgeEstimate

    Raises
    ------
    DataError
        If there are no draws, a value is nan or ``inf``, or the density vanishes at its own draw.

    References
    ----------
    .. [1] X.-L. Meng, W. H. Wong (1996). Simulating ratios of normalizing constants via a simple
       identity: a theoretical exploration. Statistica Sinica 6, 831-860.
    .. [2] Q. F. Gronau et al. (2017). A tutorial on bridge sampling. Journal of Mathematical
       Psychology 81, 80-97.

    Examples
    --------
    >>> round(bridge(np.full((2, 50), -1.5), np.full(100, -1.5)).log_z, 9)
    -1.5
    """
    draws = np.atleast_2d(as_numbers("delta_draws", delta_draws, DataError))
    proposals = as_numbers("delta_proposals", delta_proposals, DataError).ravel()
    if draws.ndim != 2 or draws.size == 0 or not np.isfinite(draws).all():
        raise DataError(
            f"delta_draws has shape {draws.shape} and {int((~np.isfinite(draws)).sum())} values "
            "that are not finite; expected (n_chains, n_draws) finite numbers. A density that is "
            "zero at its own draws is not the one that was sampled."
        )
    first = bar(proposals, -draws)
    influence = first.reverse_influence.reshape(draws.shape)
    ess = log_z_standard_error(np.zeros(len(draws)), influence).ess
    known = np.isfinite(ess)
    sizes = (float(proposals.size), float(ess)) if known else None
    each = (float(proposals.size), float(ess) / len(draws)) if known else None
    estimate = bar(proposals, -draws, n_effective=sizes)
    fitted = np.empty((len(draws), 0)) if delta_fitted is None else np.asarray(delta_fitted)
    fitted_influence = np.full(fitted.shape, np.nan)
    if sizes is not None and np.isfinite(estimate.log_ratio):
        shift = estimate.log_ratio - np.log(sizes[1] / sizes[0])
        p, q = expit(proposals - shift), expit(shift - draws)
        slope = 2.0 - (p @ p) / p.sum() - (q**2).sum() / q.sum()
        fitted_influence = (1.0 - expit(shift - fitted) / q.mean()) / slope
    return BridgeEstimate(
        estimate.log_ratio, estimate.reverse_influence.reshape(draws.shape),
        estimate.forward_influence, fitted_influence,
        np.array([bar(proposals, -chain, n_effective=each).log_ratio for chain in draws]),
        (proposals, -draws.ravel()),
    )  # fmt: skip


def bridge_halves(first: BridgeEstimate, second: BridgeEstimate) -> HalvesEstimate:
    r"""Combine the estimates from the first and the second half of the draws, with their error.

    A proposal fitted to the very draws that enter the estimate biases it downwards. Fitting to one
    half and estimating with the other avoids this, and with the roles exchanged no draw is lost
    (Wong, Forster & Smith 2020). The squared error has two parts (Frühwirth-Schnatter 2004, for the
    relative error of Z): the variance of the mean over independent draws of the proposals, and that
    over the chains, here by :func:`pymc_tempering.estimators.uncertainty.log_z_standard_error`, so
    that autocorrelation and disagreement of chains and halves both enter.

    A third part is there because the roles are exchanged. Write the influence with a proposal
    fitted to half h as :math:`I + B_h`, where B comes from the errors of that fit. The errors of
    the two estimates from :math:`B_2` at the first half and from :math:`B_1` at the second are the
    same to leading order, being products of what both halves lack, and do not average out: the
    variance is that of independent halves plus half that of the mean of :math:`B_1 - B_2`. For a
    Gaussian target there is nothing but B, and without this part the error would be too small by
    a factor of up to :math:`\sqrt 2`.

    Parameters
    ----------
    first, second : BridgeEstimate
        From the draws of the first and of the second half of the same chains.

    Returns
    -------
    HalvesEstimate
        ``se`` is ``nan`` where a half has no finite estimate.

    Raises
    ------
    DataError
        If the halves have different numbers of chains.

    References
    ----------
    .. [1] S. Frühwirth-Schnatter (2004). Estimating marginal likelihoods for mixture and Markov
       switching models using bridge sampling techniques. Econometrics Journal 7, 143-167.
    .. [2] J. S. T. Wong, J. J. Forster, P. W. F. Smith (2020). Properties of the bridge sampler
       with a focus on splitting the MCMC sample. Statistics and Computing 30, 799-816.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> half = bridge(rng.normal(0.1, 0.4, (4, 500)), rng.normal(-0.1, 0.4, 2000))
    >>> bridge_halves(half, half).halves_p
    1.0
    """
    halves = (first, second)
    if len({len(half.draw_influence) for half in halves}) != 1:
        raise DataError(
            f"The halves have {[len(half.draw_influence) for half in halves]} chains; expected the "
            "same number: split every chain in two."
        )
    per_half = np.array([half.log_z for half in halves])
    lengths = np.array([half.draw_influence.shape[1] for half in halves], dtype=np.float64)
    weights = lengths / lengths.sum()
    log_z = float(weights @ per_half)
    series = np.concatenate(
        [half.draw_influence + (half.log_z - log_z) for half in halves], axis=1
    )  # fmt: skip
    n_chains = len(series)
    chains = log_z_standard_error(np.zeros(n_chains), series)
    # nan of a single draw, which has no error
    own = [half.proposal_influence for half in halves]
    proposals = np.array([x.var(ddof=1) / x.size if x.size > 1 else np.nan for x in own])
    variance = chains.se**2 + float(weights**2 @ proposals) + _shared_variance(first, second)
    errors = [log_z_standard_error(np.zeros(n_chains), half.draw_influence) for half in halves]
    spread = np.sqrt(sum(error.se**2 for error in errors) + proposals.sum())
    difference = abs(per_half[0] - per_half[1]) if np.isfinite(per_half).all() else np.nan
    return HalvesEstimate(
        log_z=log_z,
        se=float(np.sqrt(variance)),
        # the proposals' part has so many draws that its own error is as good as known
        df=float(chains.df * (variance / chains.se**2) ** 2) if chains.se > 0 else np.inf,
        ess=chains.ess,
        per_chain=weights @ np.stack([half.per_chain for half in halves]),
        per_half=per_half,
        halves_p=_p_value(difference, spread, min(error.df for error in errors)),
        influence=series,
        pareto_k=np.array(
            [pareto_k(np.concatenate([half.log_weights[i] for half in halves])) for i in range(2)]
        ),
    )  # fmt: skip


def _shared_variance(first: BridgeEstimate, second: BridgeEstimate) -> float:
    if first.fitted_influence.size == 0 or second.fitted_influence.size == 0:
        return 0.0
    parts = [
        first.draw_influence - second.fitted_influence,
        first.fitted_influence - second.draw_influence,
    ]
    # A density fits the draws it was fitted to better than others, which sets the halves apart, the
    # further the more dimensions: a bias of what stands in for other draws, and no error of theirs.
    difference = np.concatenate([part - part.mean() for part in parts], axis=1)
    return 0.5 * log_z_standard_error(np.zeros(len(difference)), difference).se ** 2


def _p_value(difference: float, spread: float, df: float) -> float:
    if not np.isfinite(difference) or not np.isfinite(spread):
        return float("nan")
    if spread == 0.0:
        return 1.0 if difference == 0.0 else 0.0
    return float(2.0 * student_t.sf(difference / spread, df))
