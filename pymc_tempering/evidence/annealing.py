"""The estimate that an ensemble of annealed particles supports."""

from collections.abc import Iterator

import numpy as np

from pymc_tempering.estimators.annealed import (
    annealed_forward,
    annealed_reverse,
    bidirectional,
)
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.estimators.uncertainty import StandardError, log_z_standard_error
from pymc_tempering.evidence.hais import annealing_diagnostics, deciding_pareto_k
from pymc_tempering.types import FloatArray, IntArray

__all__ = ["ensemble_estimate"]

MIN_STARTS = 20
"""Draws of the target below which they may well have missed a mode of some weight: 20 draws miss
one of 0.2 with probability 0.01."""


def ensemble_estimate(
    forward: FloatArray,
    reverse: FloatArray,
    support_mass: float = 1.0,
    n_support_draws: int = 1,
    starts: IntArray | None = None,
) -> LogZEstimate:
    """Estimate log Z from one or both directions, with its error and bounds.

    Parameters
    ----------
    forward, reverse : ndarray of shape (n_particles,) or (0,)
        Log weights in nats, both with the sign of the forward run. Forward particles are
        independent; reverse ones may come from a chain of draws.
    support_mass : float
        The base's mass on the support of the target. Where there are forward particles, they say
        it.
    n_support_draws : int
        Draws that it was estimated from; its error is part of that of reverse particles alone.
    starts : ndarray of int of shape (n_particles,), optional
        Which draw of the target, from 0 on, each reverse particle descends from. Particles of one
        draw are dependent, as they may share its mode, so the error is that of means by draw.
        Default: every particle from a draw of its own.

    Returns
    -------
    LogZEstimate
        From forward particles alone the lower bound itself, from reverse ones the upper, from
        both Bennett's ratio.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> w = rng.normal(size=(2, 2000))
    >>> estimate = ensemble_estimate(w[0] - 0.5, w[1] + 0.5)
    >>> bool(abs(estimate.log_z) < 4 * estimate.se)
    True
    """
    if forward.size:
        support_mass = float(np.mean(np.isfinite(forward)))
    log_mass = float(np.log(support_mass)) if support_mass > 0 else -np.inf
    ess, per_method, lower, upper = np.nan, {}, None, None
    pareto_forward, pareto_reverse = [], []
    errors: list[StandardError] = []
    if forward.size:
        up = annealed_forward(forward)
        lower = log_z = up.log_z
        ess = up.weight_ess
        pareto_forward.append(up.pareto_k)
        errors.append(_error(up.influence))
        per_method["ais forward"] = up.log_z
    if reverse.size:
        down = annealed_reverse(reverse, log_mass)
        upper = log_z = down.log_z
        ess = ess if forward.size else down.weight_ess
        pareto_reverse.append(down.pareto_k)
        errors.append(_error(down.influence, starts))
        per_method["ais reverse"] = down.log_z
    # of the bounds, before both are combined
    gap_error = _sum(errors)
    if forward.size and reverse.size:
        pair = bidirectional(forward, reverse, log_mass)
        log_z = pair.log_z
        errors = [_error(pair.forward_influence), _error(pair.reverse_influence, starts)]
        per_method["bar"] = pair.log_z
    error = _sum(errors)
    variance = error.se**2
    if not forward.size and support_mass > 0:
        variance += (1.0 - support_mass) / (support_mass * n_support_draws)
    diagnostics = annealing_diagnostics(
        weight_ess=ess,
        pareto_k=deciding_pareto_k(pareto_forward, pareto_reverse),
        gap=np.nan if lower is None or upper is None else upper - lower,
        gap_error=gap_error,
        support_mass=support_mass,
        n_particles=max(forward.size, reverse.size),
    )
    few_starts = (
        _start_diagnostics(int(starts.max()) + 1) if reverse.size and starts is not None else ()
    )
    direction = ("forward" if upper is None else "reverse") if len(errors) == 1 else "bar"
    return LogZEstimate(
        log_z=log_z,
        se=float(np.sqrt(variance)),
        method=f"hais, {direction}",
        per_chain=np.array([log_z]),
        warnings=(*diagnostics, *few_starts),
        ess=error.ess,
        df=error.df,
        lower=lower,
        upper=upper,
        per_method=per_method,
    )


def _error(influence: FloatArray, starts: IntArray | None = None) -> StandardError:
    """Error of the mean of an influence, of particles that come in groups by their start."""
    alone = log_z_standard_error([0.0], [influence])
    n_groups = influence.size if starts is None else int(starts.max()) + 1
    # descendants of one draw are one chain: its autocorrelation is all that can be known
    if starts is None or n_groups in (1, influence.size):
        return alone
    by_start = np.bincount(starts, influence, n_groups) * (n_groups / influence.size)
    if n_groups >= MIN_STARTS:
        return log_z_standard_error([0.0], [by_start])
    se = float(by_start.std(ddof=1) / np.sqrt(n_groups))
    return StandardError(float(np.maximum(se, alone.se)), n_groups - 1.0, float(n_groups))


def _sum(errors: list[StandardError]) -> StandardError:
    """Error of a sum of parts, which are independent given the model (Welch & Satterthwaite)."""
    se = np.array([error.se for error in errors])
    df = np.array([error.df for error in errors])
    parts = np.sum(se**4 / df)
    total = float(np.sum(se**2))
    return StandardError(
        float(np.sqrt(total)),
        float(total**2 / parts) if parts != 0.0 else np.inf,
        float(sum(error.ess for error in errors)),
    )


def _start_diagnostics(n_starts: int) -> Iterator[Diagnostic]:
    if n_starts >= MIN_STARTS:
        return
    yield Diagnostic(
        "few_starting_draws",
        f"reverse particles descend from {n_starts} draws of the posterior, fewer than "
        f"{MIN_STARTS}. They share the modes of these, and the error cannot know what the draws "
        "left out.",
        "Pass more `draws`, or none, so that a pilot run makes them.",
        {"starting draws": n_starts},
    )
