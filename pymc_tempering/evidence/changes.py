"""Changes of a model, and the log weight of every posterior draw under each."""

import logging
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.evidence.same_model import (
    check_density,
    check_identity,
    check_observed,
)
from pymc_tempering.model.at_draws import constrained_model, evaluate, log_jacobian, stack_draws
from pymc_tempering.model.interpreted import in_python
from pymc_tempering.model.scaled_prior import log_prior_ratio
from pymc_tempering.types import FloatArray

__all__ = [
    "Alternative",
    "Change",
    "EvaluatedChanges",
    "LikelihoodPower",
    "PriorScale",
    "evaluate_changes",
]

_N_PRIOR_DRAWS = 500

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class PriorScale:
    """Scales of the priors of some variables, multiplied together by one factor."""

    names: tuple[str, ...]
    value: float
    kind: ClassVar[str] = "prior scale"

    @property
    def name(self) -> str:
        """Names as shown."""
        return ", ".join(self.names)


@dataclass(frozen=True)
class LikelihoodPower:
    """The likelihood, raised to a power."""

    value: float
    kind: ClassVar[str] = "likelihood power"
    name: ClassVar[str] = "likelihood"


@dataclass(frozen=True)
class Alternative:
    """Another model of the same free variables and data."""

    name: str
    model: pm.Model
    kind: ClassVar[str] = "alternative"
    value: ClassVar[float] = np.nan


type Change = PriorScale | LikelihoodPower | Alternative


class EvaluatedChanges(NamedTuple):
    """What the draws say about the changes.

    Attributes
    ----------
    weights : list of (Change, ndarray of shape (n_chains, n_draws), str)
        Log weight of each draw in nats, and the code of what is doubtful beside the weights.
    log_likelihood : ndarray of shape (n_chains, n_draws)
        Observed terms and potentials, in nats.
    """

    weights: list[tuple[Change, FloatArray, str]]
    log_likelihood: FloatArray


def evaluate_changes(
    idata: xr.DataTree, model: pm.Model, changes: list[Change]
) -> EvaluatedChanges:
    """Evaluate each change at every posterior draw.

    Parameters
    ----------
    idata : xarray.DataTree
    model : pymc.Model
        The one that was sampled.
    changes : list of Change

    Raises
    ------
    DataError
        If the run is not one of the model, or an alternative has other data or variables.
    ModelError, OptionError
        If a prior cannot be scaled.
    """
    check_identity(model, idata, "The run")
    if any(isinstance(change, LikelihoodPower) for change in changes) and not (
        model.observed_RVs or model.potentials
    ):
        raise OptionError("The model has no observed variables, so no likelihood has a power.")
    constrained = constrained_model(model)
    draws = stack_draws(idata, constrained)
    outputs = [constrained.varlogp, constrained.datalogp, log_jacobian(model, constrained)]
    scales = [change for change in changes if isinstance(change, PriorScale)]
    for scale in scales:
        ratios = [log_prior_ratio(model, constrained, n, scale.value) for n in scale.names]
        outputs.append(sum(ratios[1:], start=ratios[0]))
    log_prior, log_likelihood, log_jac, *ratios_at_draws = evaluate(constrained, outputs, draws)
    log_joint = log_prior + log_likelihood
    check_density(idata, model, log_joint + log_jac)
    by_scale = dict(zip(scales, ratios_at_draws, strict=True))
    sizes = idata["posterior"].dataset.sizes
    shape = (sizes["chain"], sizes["draw"])
    weights: list[tuple[Change, FloatArray, str]] = []
    for change in changes:
        diagnostic = ""
        if isinstance(change, PriorScale):
            log_weights = by_scale[change]
        elif isinstance(change, LikelihoodPower):
            log_weights = (change.value - 1.0) * log_likelihood
        else:
            check_observed(change.model, idata, f"The alternative {change.name!r}")
            other = constrained_model(change.model)
            _check_variables(other, constrained, change.name)
            [joint] = evaluate(other, [other.varlogp + other.datalogp], stack_draws(idata, other))
            log_weights = joint - log_joint
            if _share_out_of_reach(other, constrained) > 0.0:
                diagnostic = "prior_mass_out_of_reach"
        weights.append((change, log_weights.reshape(shape), diagnostic))
    return EvaluatedChanges(weights, log_likelihood.reshape(shape))


def _check_variables(other: pm.Model, model: pm.Model, name: str) -> None:
    ours, theirs = (sorted(rv.name for rv in m.free_RVs) for m in (model, other))
    if ours != theirs:
        raise DataError(
            f"The alternative {name!r} has the free variables {theirs} and the model {ours}. "
            "Reweighting needs the same variables; models of different parameters are compared "
            "with `compare`."
        )


def _share_out_of_reach(other: pm.Model, model: pm.Model) -> float:
    """Share of another model's prior where only that model has density; 0 where none can be drawn.

    Potentials and likelihoods cut off parts of the space as priors do.
    """
    draw = partial(pm.draw, draws=_N_PRIOR_DRAWS, random_seed=0, mode="FAST_COMPILE")
    variables: list[Any] = list(other.free_RVs)
    try:
        with in_python():
            values = draw(variables)
    except Exception as error:  # noqa: BLE001  user code may draw; what it cannot do is no obstacle
        _log.debug("no draws from the prior of the alternative: %s", error)
        return 0.0
    drawn = {rv.name: np.asarray(v) for rv, v in zip(variables, values, strict=True)}
    here, there = (evaluate(m, [m.varlogp + m.datalogp], drawn)[0] for m in (model, other))
    return float((np.isneginf(here) & ~np.isneginf(there)).mean())
