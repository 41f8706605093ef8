"""The evidence beside the largest likelihood, which it cannot exceed."""

import numpy as np
import pymc as pm

from pymc_tempering.errors import TemperingError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.model.at_draws import constrained_model, evaluate, stack_draws
from pymc_tempering.private import is_improper

__all__ = ["bound_diagnostics"]

_MOST_ERRORS = 4.0


def bound_diagnostics(model: pm.Model, estimate: LogZEstimate) -> list[Diagnostic]:
    r"""Diagnostic that leaves a run without an estimate: log Z is above every log likelihood.

    The evidence is the mean of the likelihood under the prior, so that it is at most the largest
    one; and by Jensen's inequality ``log Z`` is at most the mean of the log likelihood over the
    posterior. Draws of the posterior have both.

    Parameters
    ----------
    model : pymc.Model
    estimate : LogZEstimate
        With its ``idata``. One that nothing else speaks against is not looked at: the likelihood of
        all draws takes the time of a small run.

    Returns
    -------
    list of Diagnostic
        One at most; none for models with potentials, or with priors that are not known to be
        normalised.
    """
    custom = any("Custom" in type(rv.owner.op).__name__ for rv in model.free_RVs)
    unknown = custom or any(map(is_improper, model.free_RVs)) or bool(model.potentials)
    if unknown or not model.observed_RVs or not estimate.warnings or np.isnan(estimate.log_z):
        return []
    try:
        constrained = constrained_model(model)
        draws = stack_draws(estimate.idata, constrained)
        [log_likelihood] = evaluate(constrained, [constrained.datalogp], draws)
    except TemperingError:
        return []
    largest = float(log_likelihood.max())
    error = estimate.se if np.isfinite(estimate.se) else 0.0
    if not estimate.log_z > largest + _MOST_ERRORS * error:
        return []
    return [
        Diagnostic(
            "above_likelihood",
            f"log Z came out as {estimate.log_z:.2f}, and the largest log likelihood of all draws "
            f"is {largest:.2f}, which it cannot exceed with priors that integrate to one. So there "
            "is no estimate.",
            "Look at the other warnings; write the model in coordinates that the data determine "
            "by themselves, or raise `n_levels` and `tune`.",
            {"log_z": float(estimate.log_z), "largest log likelihood": largest},
        )
    ]
