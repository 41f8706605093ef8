"""The evidence of a changed model from the weights of a run's draws, with its error."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.errors import DataError, OptionError, WorkerError
from pymc_tempering.estimators.reweighting import mbar_powers, reweight
from pymc_tempering.estimators.uncertainty import log_z_standard_error
from pymc_tempering.evidence.checks.few_draws import MIN_ESS
from pymc_tempering.evidence.common import ladders
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.evidence.same_model import check_density, check_identity, check_observed
from pymc_tempering.evidence.stored import recorded_statistics
from pymc_tempering.methods import load
from pymc_tempering.model.at_draws import constrained_model, evaluate, log_jacobian, stack_draws
from pymc_tempering.model.graph import in_python
from pymc_tempering.model.scaled_prior import log_prior_ratio
from pymc_tempering.numerics import MAX_PARETO_K, pareto_k, weight_ess
from pymc_tempering.references.importance import FINITE_VARIANCE
from pymc_tempering.results.compact import DELTA_DIGIT
from pymc_tempering.steps.executors import Lost, run_tasks
from pymc_tempering.types import FloatArray

_log = logging.getLogger(__name__)

MIN_WEIGHTS = 20.0
"""Effective weights below which nothing is known of them, not even that their tail is light."""


class Change(NamedTuple):
    """One change of a model, with kind and name as tables show them.

    A "prior scale" multiplies the scales of the priors of `names` together by `value`, a
    "likelihood power" raises the likelihood to it, and an "alternative" is another `model` of the
    same free variables and data.
    """

    kind: str
    name: str
    value: float = np.nan
    names: tuple[str, ...] = ()
    model: pm.Model | None = None


def evaluate_changes(
    idata: xr.DataTree, model: pm.Model, changes: list[Change], executor: Any = None
) -> tuple[list[tuple[Change, FloatArray, str]], FloatArray]:
    """Evaluate each change at every posterior draw; alternatives are tasks of an executor.

    Returned are for each change the log weight of each draw (chain, draw) in nats, and the code of
    what is doubtful beside the weights; and the log likelihood (chain, draw) in nats: observed
    terms and potentials.

    Refused are runs that are not of the model, alternatives with other data or variables
    (DataError), and priors that cannot be scaled (ModelError, OptionError).
    """
    check_identity(model, idata, "The run")
    if any(change.kind == "likelihood power" for change in changes) and not (
        model.observed_RVs or model.potentials
    ):
        raise OptionError("The model has no observed variables, so no likelihood has a power.")
    constrained = constrained_model(model)
    draws = stack_draws(idata, constrained)
    outputs = [constrained.varlogp, constrained.datalogp, log_jacobian(model, constrained)]
    for change in changes:
        if change.kind == "prior scale":
            ratios = [log_prior_ratio(model, constrained, n, change.value) for n in change.names]
            outputs.append(sum(ratios[1:], start=ratios[0]))
    log_prior, log_likelihood, log_jac, *ratios_at_draws = evaluate(constrained, outputs, draws)
    log_joint = log_prior + log_likelihood
    check_density(idata, model, log_joint + log_jac)
    of_scales = iter(ratios_at_draws)
    of_others = iter(_of_alternatives(idata, constrained, changes, executor))
    sizes = idata["posterior"].dataset.sizes
    shape = (sizes["chain"], sizes["draw"])
    weights: list[tuple[Change, FloatArray, str]] = []
    for change in changes:
        diagnostic = ""
        if change.kind == "prior scale":
            log_weights = next(of_scales)
        elif change.kind == "likelihood power":
            log_weights = (change.value - 1.0) * log_likelihood
        else:
            joint, share_out_of_reach = next(of_others)
            log_weights = joint - log_joint
            if share_out_of_reach > 0.0:
                diagnostic = "prior_mass_out_of_reach"
        weights.append((change, log_weights.reshape(shape), diagnostic))
    return weights, log_likelihood.reshape(shape)


def _of_alternatives(
    idata: xr.DataTree, constrained: pm.Model, changes: list[Change], executor: Any
) -> list[tuple[FloatArray, float]]:
    """Log densities of alternatives at the draws, and their shares out of reach, in order."""
    tasks = []
    for change in changes:
        if change.model is not None:
            check_observed(change.model, idata, f"The alternative {change.name!r}")
            other = constrained_model(change.model)
            ours, theirs = (sorted(rv.name for rv in m.free_RVs) for m in (constrained, other))
            if ours != theirs:
                raise DataError(
                    f"The alternative {change.name!r} has the free variables {theirs} and the "
                    f"model {ours}. Reweighting needs the same variables; models of different "
                    "parameters are compared with `compare`."
                )
            tasks.append((other, stack_draws(idata, other)))
    results = run_tasks(executor, partial(_of_alternative, constrained), tasks)
    for result in results:
        if result is None:
            # after Ctrl-C
            raise KeyboardInterrupt
        if isinstance(result, Lost):
            raise WorkerError(f"The worker of an alternative was lost, twice: {result.why}")
    return results


def _of_alternative(
    constrained: pm.Model, other: pm.Model, draws: Mapping[str, np.ndarray]
) -> tuple[FloatArray, float]:
    [joint] = evaluate(other, [other.varlogp + other.datalogp], draws)
    return joint, _share_out_of_reach(other, constrained)


def _share_out_of_reach(other: pm.Model, model: pm.Model) -> float:
    """Share of another model's prior where only that model has density; 0 where none can be drawn.

    Potentials and likelihoods cut off parts of the space as priors do.
    """
    # a share of a hundredth is missed by 500 draws once in 150 times
    draw = partial(pm.draw, draws=500, random_seed=0, mode="FAST_COMPILE")
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


class Original(NamedTuple):
    """The evidence of the run itself in nats, nan where it has none.

    `influence` (chain, draw) is of every recorded draw; None where only the result was kept.
    """

    log_z: float
    se: float
    per_chain: FloatArray | None = None
    influence: FloatArray | None = None


class Row(NamedTuple):
    """The evidence of one changed model; in the order of the table."""

    log_z: float
    se: float
    log_bayes_factor: float
    log_bayes_factor_se: float
    weight_ess_share: float
    pareto_k: float
    source: str
    warning: str


def original_of(idata: xr.DataTree) -> Original:
    """Evidence of a run, with the influence of its draws where its statistics are there."""
    try:
        method, statistics = recorded_statistics(idata)
        parts = load(method.collect)(statistics)
    except DataError:
        return _stored(idata)
    if method.per_draw:
        # the estimate is from other draws than those of the result
        return _stored(idata)
    n_draws = statistics[method.needs[0]].shape[1]
    error = log_z_standard_error(parts.log_z, parts.influences)
    influence = None
    if all(len(series) % n_draws == 0 for series in parts.influences):
        influence = np.stack([s.reshape(n_draws, -1).mean(axis=1) for s in parts.influences])
    return Original(float(np.mean(parts.log_z)), error.se, parts.log_z, influence)


def _stored(idata: xr.DataTree) -> Original:
    try:
        estimate = stored_estimate(idata)
    except DataError:
        # draws of another sampler: ratios of evidences need no more than these
        return Original(np.nan, np.nan)
    return Original(estimate.log_z, estimate.se)


def from_draws(original: Original, log_weights: FloatArray) -> Row:
    """Evidence of a changed model from log weights (chain, draw) of posterior draws, in nats."""
    ratio = reweight(log_weights)
    error = log_z_standard_error(np.zeros(len(log_weights)), ratio.influence)
    influence, per_chain = original.influence, original.per_chain
    if per_chain is not None and influence is not None and influence.shape == log_weights.shape:
        # both come from the same scans: their errors add scan by scan
        se = log_z_standard_error(per_chain, influence + ratio.influence).se
    else:
        # how they are correlated is not known, so the bound is given
        se = original.se + error.se
    return Row(
        original.log_z + ratio.log_ratio, se, ratio.log_ratio, error.se,
        ratio.weight_ess / log_weights.size, ratio.pareto_k, "draws",
        _diagnostic(ratio.pareto_k, ratio.weight_ess, error.ess),
    )  # fmt: skip


def from_ladder(
    idata: xr.DataTree, powers: list[float], log_likelihood: FloatArray
) -> list[Row] | None:
    """Evidence under likelihood powers from all levels.

    `log_likelihood` (chain, draw) is that of the recorded draws. None where the run is not one of
    parallel tempering, or its base is not the prior, so that delta is no log likelihood.
    """
    try:
        method, statistics = recorded_statistics(idata)
        if method.name != "pt":
            return None
    except DataError:
        return None
    if not _base_is_prior(statistics, log_likelihood):
        return None
    chains = [mbar_powers(*ladder, [*powers, 1.0]) for ladder in ladders(statistics)]
    rows = []
    for i in range(len(powers)):
        log_z = [chain.log_z[i] for chain in chains]
        log_ratio = [chain.log_z[i] - chain.log_z[-1] for chain in chains]
        differences = [chain.influence[i] - chain.influence[-1] for chain in chains]
        error = log_z_standard_error(log_ratio, differences)
        weights = np.concatenate([chain.log_weights[i] for chain in chains])
        k, ess = pareto_k(weights), weight_ess(weights)
        rows.append(
            Row(
                float(np.mean(log_z)),
                log_z_standard_error(log_z, [chain.influence[i] for chain in chains]).se,
                float(np.mean(log_ratio)), error.se, ess / weights.size, k, "ladder",
                _diagnostic(k, ess, error.ess),
            )
        )  # fmt: skip
    return rows


def _base_is_prior(statistics: Mapping[str, FloatArray], log_likelihood: FloatArray) -> bool:
    # the last scan of a draw ends in the recorded draw, at the highest level in use
    top = np.isfinite(statistics["betas"]).sum(axis=-1) - 1
    target = np.take_along_axis(statistics["delta"], top[..., None, None], axis=-1)[..., 0]
    scan = np.isfinite(target).sum(axis=-1, keepdims=True) - 1
    last = np.take_along_axis(target, scan, axis=-1)[..., 0]
    if last.shape != log_likelihood.shape:
        return False
    return bool(np.allclose(last, log_likelihood, rtol=1e-6, atol=DELTA_DIGIT))


def _diagnostic(k: float, ess: float, independent: float) -> str:
    if not np.isfinite(ess) or ess < MIN_WEIGHTS or np.isnan(k) or k > MAX_PARETO_K:
        return "weights_collapse"
    if k > FINITE_VARIANCE:
        return "heavy_tailed_weights"
    if min(ess, independent) < MIN_ESS:
        return "too_few_effective_draws"
    return ""
