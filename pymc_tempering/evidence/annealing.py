"""The estimate that an ensemble of annealed particles supports."""

import numpy as np

from pymc_tempering.estimators.annealed import (
    annealed_forward,
    annealed_reverse,
    bidirectional,
)
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.evidence.hais import annealing_doubts
from pymc_tempering.types import FloatArray

__all__ = ["ensemble_estimate"]


def ensemble_estimate(
    forward: FloatArray,
    reverse: FloatArray,
    support_mass: float = 1.0,
    n_support_draws: int = 1,
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
    pareto, per_method, lower, upper = [], {}, None, None
    influences: list[FloatArray] = []
    if forward.size:
        up = annealed_forward(forward)
        lower = log_z = up.log_z
        pareto.append(up.pareto_k)
        influences = [up.influence]
        per_method["ais forward"] = up.log_z
    if reverse.size:
        down = annealed_reverse(reverse, log_mass)
        upper = log_z = down.log_z
        pareto.append(down.pareto_k)
        influences = [down.influence]
        per_method["ais reverse"] = down.log_z
    if forward.size and reverse.size:
        pair = bidirectional(forward, reverse, log_mass)
        log_z = pair.log_z
        influences = [pair.forward_influence, pair.reverse_influence]
        per_method["bar"] = pair.log_z
    errors = [log_z_standard_error([0.0], [influence]) for influence in influences]
    # the two directions are independent given the model
    variance = sum(error.se**2 for error in errors)
    if not forward.size and support_mass > 0:
        variance += (1.0 - support_mass) / (support_mass * n_support_draws)
    direction = ("forward" if upper is None else "reverse") if len(errors) == 1 else "bar"
    return LogZEstimate(
        log_z=log_z,
        se=float(np.sqrt(variance)),
        method=f"hais, {direction}",
        per_chain=np.array([log_z]),
        warnings=tuple(
            annealing_doubts(
                weight_ess=up.weight_ess if forward.size else down.weight_ess,
                pareto_k=float(np.nanmin(pareto)),
                gap=np.nan if lower is None or upper is None else upper - lower,
                support_mass=support_mass,
            )
        ),
        ess=float(sum(error.ess for error in errors)),
        df=float(min(error.df for error in errors)),
        lower=lower,
        upper=upper,
        per_method=per_method,
    )
