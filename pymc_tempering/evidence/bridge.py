"""The evidence from posterior draws that exist, of any sampler, by warped bridge sampling."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from arviz_stats.base import array_stats

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import DataError
from pymc_tempering.estimators.bridge import HalvesEstimate, bridge, bridge_halves
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.checks import diagnose, found
from pymc_tempering.evidence.checks.chains import DISAGREEMENT_RATE, MAX_RHAT, rhat_limit
from pymc_tempering.evidence.checks.check import Finding
from pymc_tempering.evidence.checks.few_draws import MIN_ESS
from pymc_tempering.evidence.common import with_warnings
from pymc_tempering.evidence.run import Run
from pymc_tempering.evidence.same_model import check_identity, draws_of_model, log_density_at
from pymc_tempering.evidence.stored import has_statistics
from pymc_tempering.model.compile import compile_density
from pymc_tempering.numerics import MAX_PARETO_K, one_blas_thread
from pymc_tempering.results.datatree import attach_estimate
from pymc_tempering.types import FloatArray

LABEL = "bridge, warp-III"
"""What users read as the method."""


def bridge_from_idata(
    idata: xr.DataTree, model: pm.Model, *, random_seed: Any = None, max_draws: int = 20_000
) -> LogZEstimate:
    """Estimate log Z of a model from posterior draws of any sampler; nothing is sampled.

    Chains are thinned to `max_draws` in all: each costs two densities, and so does the proposal's
    draw that goes with it. The run has the estimate attached, unless it is a tempered one, which
    keeps its own. Refused with a DataError are draws that are not of the model, or too few.
    """
    check_identity(model, idata, "The run")
    density = compile_density(model)
    draws = draws_of_model(idata, density, model, max_draws=max_draws)
    with one_blas_thread():
        parts = bridge_draws(
            partial(log_density_at, density), draws, np.random.default_rng(random_seed)
        )
    estimate = LogZEstimate(
        log_z=parts.log_z,
        se=parts.se,
        method=LABEL,
        per_chain=parts.per_chain,
        warnings=tuple(findings(parts, largest_r_hat(draws), rhat_limit(*draws.shape))),
        ess=parts.ess,
        df=parts.df,
        per_method={
            f"bridge, {half} half": float(value)
            for half, value in zip(("first", "second"), parts.per_half, strict=True)
        },
        idata=idata,
    )
    if has_statistics(idata):
        return estimate
    # without `unconstrained` and `estimate`, of which tempering has checks of its own
    estimate = with_warnings(estimate, diagnose(Run(model=model, idata=idata)))
    return replace(estimate, idata=attach_estimate(idata, estimate, {}))


def bridge_draws(
    log_density: Callable[[FloatArray], FloatArray], draws: FloatArray, rng: np.random.Generator
) -> HalvesEstimate:
    r"""Estimate log Z of a density from draws of it, by bridge sampling with a warped density.

    A Gaussian proposal with mean m is fitted to the second halves of all chains, and the first
    halves enter the estimate; then the roles are exchanged. The density is symmetrised about m,

    .. math:: \tilde f(z) = \tfrac12 \{ f(z) + f(2m - z) \},

    which has the normaliser of f and matches the proposal in mean, covariance and symmetry:
    warp-III of Meng & Schilling (2002). Draws of f serve as draws of it, since it and the proposal
    are the same at z and 2m - z.

    Parameters
    ----------
    log_density : callable
        From (n, D) to (n,), in nats; ``-inf`` where the density vanishes.
    draws : ndarray of shape (n_chains, n_draws, D)
        Unconstrained.
    rng : numpy.random.Generator

    Returns
    -------
    HalvesEstimate

    Raises
    ------
    DataError
        With fewer than 8 draws of each chain.

    References
    ----------
    .. [1] X.-L. Meng, S. Schilling (2002). Warp bridge sampling. Journal of Computational and
       Graphical Statistics 11, 552-586.
    .. [2] Q. F. Gronau, E.-J. Wagenmakers, D. W. Heck, D. Matzke (2019). A simple method for
       comparing complex models: Bayesian model comparison for hierarchical multinomial processing
       tree models using warp-III bridge sampling. Psychometrika 84, 261-284.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> draws = rng.normal(3.0, 2.0, size=(4, 500, 1))
    >>> estimate = bridge_draws(lambda z: -0.125 * (z[:, 0] - 3.0) ** 2, draws, rng)
    >>> exact = np.log(2.0 * np.sqrt(2.0 * np.pi))
    >>> bool(abs(estimate.log_z - exact) < 5 * estimate.se < 0.1)
    True
    """
    n_chains, n_draws, dim = draws.shape
    # halves of four, of which ArviZ makes an effective sample size
    if n_draws < 8:
        raise DataError(
            f"There are {n_draws} draws in each of {n_chains} chains; bridge sampling needs at "
            "least 8, half of which fit its proposal. Sample more draws."
        )
    middle = n_draws // 2
    first, second = draws[:, :middle], draws[:, middle:]
    estimates = []
    for entering, fitted in ((first, second), (second, first)):
        # all draws count: correlations that are shrunk for a base would cost the overlap here
        proposal = GaussianBase.from_draws(fitted.reshape(-1, dim))
        # a thousand are cheap beside the draws
        proposed = proposal.draw(rng, max(1000, n_chains * entering.shape[1]))
        deltas = [_warped_delta(log_density, proposal, z) for z in (entering, proposed, fitted)]
        estimates.append(bridge(*deltas))
    return bridge_halves(*estimates)


def _warped_delta(
    log_density: Callable[[FloatArray], FloatArray], proposal: GaussianBase, z: FloatArray
) -> FloatArray:
    flat = z.reshape(-1, proposal.dim)
    mirrored = 2.0 * proposal.mean - flat
    symmetric = np.logaddexp(log_density(flat), log_density(mirrored)) - np.log(2.0)
    return np.asarray(symmetric - proposal.log_density(flat)).reshape(z.shape[:-1])


def largest_r_hat(draws: FloatArray) -> float:
    """Largest rank-normalised R-hat of the coordinates of draws (chain, draw, D).

    1 for constant draws; one chain is compared with itself, half against half.
    """
    varying = draws[..., np.ptp(draws, axis=(0, 1)) > 0.0]
    if varying.shape[-1] == 0:
        return 1.0
    return float(np.max(array_stats.rhat(varying, chain_axis=0, draw_axis=1)))


def findings(parts: HalvesEstimate, r_hat: float, limit: float = MAX_RHAT) -> list[Diagnostic]:
    """What speaks against an estimate; `r_hat` is the largest of the draws' coordinates.

    The error contains the autocorrelation of slow chains, so that slowness alone is no reason to
    warn: `limit` is :func:`.checks.chains.rhat_limit` of as many coordinates.
    """
    remedy = "sample with `pymc_tempering.ParallelTempering(base=idata)`"
    if not np.isfinite(parts.log_z) or not np.isfinite(parts.se):
        text = "the draws and a Gaussian fitted to them share no region, so log Z has no error."
        more = f"Sample more draws, or {remedy}."
        return found("no_overlap", [Finding(text, {"log_z": float(parts.log_z)}, remedy=more)])
    longer = f"Sample longer chains; where modes are the cause, {remedy}."
    disagreements = []
    if r_hat > limit:
        text = (
            f"R-hat of the draws is {r_hat:.2f}, above {limit:.2f}, so the chains are too short, "
            "or sit in different modes, and the error may be too small."
        )
        disagreements.append(Finding(text, {"largest R-hat": float(r_hat)}, "draws", longer))
    if parts.halves_p < DISAGREEMENT_RATE:
        text = (
            f"log Z is {parts.per_half[0]:.2f} from the first halves of the chains and "
            f"{parts.per_half[1]:.2f} from the second, which their own errors do not explain."
        )
        measured = {"log Z of each half": [float(value) for value in parts.per_half]}
        disagreements.append(Finding(text, measured, "halves", longer))
    # the bridge weighs both sides, so it fails only where both have heavy tails
    k = float(np.min(parts.pareto_k))
    heavy = Finding(
        "the weights between the posterior and the Gaussian fitted to it have heavy tails in both "
        f"directions (k = {k:.2f}), so the error of log Z may be too small.",
        {"lower Pareto k of both directions": k},
        remedy=f"To be sure, {remedy}.",
    )
    few = Finding(
        f"the error of log Z rests on {parts.ess:.0f} independent draws, fewer than {MIN_ESS:.0f}.",
        {"log_marginal_likelihood_ess": float(parts.ess)},
        "draws",
        f"Sample more draws, or {remedy}.",
    )
    return [
        *found("chains_disagree", disagreements),
        *found("heavy_tailed_weights", [heavy] if k > MAX_PARETO_K else []),
        *found("too_few_effective_draws", [few] if parts.ess < MIN_ESS else []),
    ]
