"""Priors that the evidence depends on more than on the data: improper or extremely wide ones."""

import logging
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.evidence.checks.check import AtHand, Check, Finding, Findings
from pymc_tempering.model.freeze import discrete_names
from pymc_tempering.model.graph import interpreted
from pymc_tempering.model.identity import Kept, recipe
from pymc_tempering.private.of_pymc import is_improper, reseed
from pymc_tempering.types import FloatArray

_log = logging.getLogger(__name__)


def _improper(model: pm.Model) -> list[str]:
    return [rv.name for rv in model.free_RVs if is_improper(rv)]


def improper_priors(model: pm.Model) -> Findings:
    """Priors that are not normalised."""
    improper = _improper(model)
    # in a model of potentials alone a flat variable is how an unnormalised density is written
    is_posterior = bool(model.observed_RVs) or len(improper) < len(model.free_RVs)
    if improper and is_posterior:
        yield Finding(
            f"{improper} have no normalised prior, so log Z is the log integral of the model's "
            "density and not a marginal likelihood; ratios with models of other priors mean "
            "nothing.",
            {"variables": improper},
        )


def runaway_flat_variables(run: AtHand) -> Findings:
    """Draws of flat variables more than 10^7 from their median: the integral is not finite."""
    posterior = run.idata["posterior"].dataset
    spread = {}
    for name in _improper(run.model):
        if name in posterior and posterior[name].size:
            with np.errstate(invalid="ignore"):
                distance = np.abs(posterior[name].values - np.median(posterior[name].values))
            spread[name] = float(np.nan_to_num(distance, nan=np.inf, posinf=np.inf).max())
    far = {name: s for name, s in spread.items() if not s <= 1e7}
    if far:
        listed = ", ".join(f"{name} ({s:.2g})" for name, s in far.items())
        yield Finding(
            f"draws of flat variables spread as far as {listed}, as they do where the posterior "
            "has no finite integral, and log Z is then infinite whatever is printed.",
            {f"largest distance from the median of {name}": s for name, s in far.items()},
            remedy="Give these variables proper priors; or, if such numbers are meant, write the "
            "model in other units.",
        )


def wide_priors(model: pm.Model, posterior: xr.Dataset) -> Findings:
    """Priors a thousand times as wide as the posterior, by interquartile ranges."""
    wide: dict[str, float] = {}
    sampled = [rv for rv in model.free_RVs if rv.name in posterior and posterior[rv.name].size]
    # the quartiles of a handful of draws are no width, and those of one draw coincide
    enough = posterior.sizes["chain"] * posterior.sizes["draw"] >= 20
    # a discrete variable may have but one value in the posterior, which is no width
    left_out = {*_improper(model), *discrete_names(model)}
    proper = [rv for rv in sampled if rv.name not in left_out and enough]
    drawn = _prior_draws(model, proper, sampled, posterior)
    for rv, draws in zip(proper, drawn, strict=True):
        if draws is None:
            continue
        low, high = np.quantile(draws, [0.25, 0.75], axis=0)
        values = posterior[rv.name].stack(sample=("chain", "draw")).values
        lower, upper = np.quantile(values, [0.25, 0.75], axis=-1)
        ratio = np.max((high - low) / np.maximum(upper - lower, 1e-300))
        if ratio > 1e3:
            wide[rv.name] = float(ratio)
    if wide:
        listed = ", ".join(
            f"{name} ({r:.1g} times the posterior's width)" for name, r in wide.items()
        )
        measured = {f"prior width / posterior width of {name}": r for name, r in wide.items()}
        yield Finding(f"{listed}.", measured)


def _prior_draws(
    model: pm.Model, variables: list[Any], sampled: list[Any], posterior: xr.Dataset
) -> list[FloatArray | None]:
    """Draws of each variable from its prior; None where one cannot be drawn.

    Where a prior depends on other variables, these are at posterior draws: log Z averages over
    the hyperparameters that the data support, however wide the prior is at others.
    """
    if not variables:
        return []
    try:
        draw = _drawn_with.get(
            model,
            [*recipe(model), *variables, None, *sampled],
            lambda: _given_parents(variables, sampled),
        )
        reseed(draw, 0)
        values = [
            posterior[rv.name].stack(sample=("chain", "draw")).transpose("sample", ...).values
            for rv in sampled
        ]
        # quartiles of so many are a third off, where widths a thousand times too large are wanted;
        # an autoregression of 300 values takes 50 ms to draw
        chosen = np.linspace(0, len(values[0]) - 1, 25).astype(np.int64)
        draws = [draw(*(value[i] for value in values)) for i in chosen]
        return [np.array(column) for column in zip(*draws, strict=True)]
    except Exception as error:  # noqa: BLE001  user code may draw, and sampling was long
        _log.debug("no draws from the priors of %s: %s", variables, error)
        if len(variables) == 1:
            return [None]
        return [_prior_draws(model, [rv], sampled, posterior)[0] for rv in variables]


_drawn_with = Kept[Any]()


def _given_parents(variables: list[Any], sampled: list[Any]) -> Any:
    """Compile one draw of each variable, given values of all of them."""
    # a copy of each node depends on the inputs below; the node itself would be one of them
    fresh = [rv.owner.clone().outputs[rv.owner.outputs.index(rv)] for rv in variables]
    # compiling costs more than the draws do by the interpreter
    return interpreted(sampled, fresh, on_unused_input="ignore", allow_input_downcast=True)


CHECKS = (
    Check(
        "improper_priors",
        "A variable is `pm.Flat` or `pm.HalfFlat`: log Z is no marginal likelihood.",
        "Give it a proper prior.",
        lambda run: improper_priors(run.model),
        ("model",),
        lasting=True,
    ),
    Check(
        "extremely_wide_priors",
        "A prior is more than a thousand times as wide as the posterior: log Z is mostly about "
        "that width. A prior that depends on other parameters is judged at their posterior "
        "values. Most good models have a vague prior, and neither draws nor log Z are wrong for "
        "it, so `compare` alone says it, where models differ in such a width.",
        "Each factor of ten in such a width takes 2.3 nats off log Z and leaves the posterior as "
        "it is: compare models only if these widths are meant, and look at `prior_sensitivity`.",
        lambda run: wide_priors(run.model, run.idata["posterior"].dataset),
        ("model", "idata"),
        lasting=True,
        of_comparison=True,
    ),
)
