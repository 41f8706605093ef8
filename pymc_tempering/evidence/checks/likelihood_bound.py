"""The evidence beside the largest likelihood, which it cannot exceed."""

import numpy as np
import pymc as pm

from pymc_tempering.errors import TemperingError
from pymc_tempering.evidence.checks.check import Check, Finding
from pymc_tempering.evidence.run import Run
from pymc_tempering.model.at_draws import constrained_model, evaluate, stack_draws
from pymc_tempering.private import is_improper

__all__ = ["CHECKS", "above_likelihood"]


def above_likelihood(run: Run) -> list[Finding]:
    """Whether log Z is above the log likelihood of every draw by four of its errors.

    The evidence is the mean of the likelihood under the prior, so it is at most the largest one.
    Not said of models with potentials, or with priors that are not known to be normalised. Asked
    only where another check warns: the likelihood of all draws takes the time of a small run.
    """
    model, estimate = run.model, run.estimate
    assert model is not None
    assert estimate is not None
    assert run.idata is not None
    refused = any(warning.refuses for warning in run.warnings or ())
    if refused or _may_exceed(model) or np.isnan(estimate.log_z):
        return []
    try:
        constrained = constrained_model(model)
        draws = stack_draws(run.idata, constrained)
        [log_likelihood] = evaluate(constrained, [constrained.datalogp], draws)
    except TemperingError:
        return []
    largest = float(log_likelihood.max())
    error = estimate.se if np.isfinite(estimate.se) else 0.0
    if not estimate.log_z > largest + 4.0 * error:
        return []
    return [
        Finding(
            f"log Z came out as {estimate.log_z:.2f}, and the largest log likelihood of all draws "
            f"is {largest:.2f}, which it cannot exceed with priors that integrate to one. So there "
            "is no estimate.",
            {"log_z": float(estimate.log_z), "largest log likelihood": largest},
        )
    ]


def _may_exceed(model: pm.Model) -> bool:
    custom = any("Custom" in type(rv.owner.op).__name__ for rv in model.free_RVs)
    unknown = custom or any(map(is_improper, model.free_RVs)) or bool(model.potentials)
    return unknown or not model.observed_RVs


CHECKS = (
    Check(
        "above_likelihood",
        "above the largest likelihood",
        "Log Z came out above the log likelihood of every draw. With priors that integrate to one "
        "it cannot be: the evidence is the mean of the likelihood under the prior. There is no "
        "estimate (`nan`). Looked at where another check warns too, and not in models with "
        "potentials, whose meaning is not known.",
        "Look at the other warnings; write the model in coordinates that the data determine by "
        "themselves, or raise `n_levels` and `tune`.",
        above_likelihood,
        ("model", "estimate", "idata", "warnings"),
        lasting=True,
        refuses=True,
    ),
)
