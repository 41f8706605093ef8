"""Priors that the evidence depends on more than on the data: improper or extremely wide ones."""

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.model.freeze import discrete_names
from pymc_tempering.model.identity import Kept, recipe
from pymc_tempering.model.interpreted import interpreted
from pymc_tempering.private import is_improper, reseed
from pymc_tempering.types import FloatArray

__all__ = ["MAX_WIDTH_RATIO", "prior_diagnostics"]

MAX_WIDTH_RATIO = 1e3
"""Width of the prior over that of the posterior (interquartile ranges) beyond which log Z is mostly
about the prior's width."""

MAX_SPREAD = 1e7
"""Distance of draws of a flat variable from their median beyond which it is taken to run away."""

_N_DRAWS = 500
_MIN_DRAWS = 20

_log = logging.getLogger(__name__)


def prior_diagnostics(model: pm.Model, idata: xr.DataTree) -> list[Diagnostic]:
    """Warnings about priors that determine the evidence; each names the variables.

    Of a wide prior comparisons alone warn: most good models have a vague one, and neither draws nor
    log Z are wrong for it.

    Parameters
    ----------
    idata : xarray.DataTree
        Posterior draws of the model.
    """
    improper = [rv.name for rv in model.free_RVs if is_improper(rv)]
    # in a model of potentials alone a flat variable is how an unnormalised density is written
    is_posterior = bool(model.observed_RVs) or len(improper) < len(model.free_RVs)
    warnings = []
    if improper and is_posterior:
        warnings.append(
            Diagnostic(
                "improper_priors",
                f"{improper} have no normalised prior, so log Z is the log integral of the "
                "model's density and not a marginal likelihood; ratios with models of other priors "
                "mean nothing.",
                "Give them proper priors.",
                {"variables": improper},
            )
        )
    posterior = idata["posterior"].dataset
    warnings += _without_end(posterior, improper)
    wide: dict[str, float] = {}
    sampled = [rv for rv in model.free_RVs if rv.name in posterior and posterior[rv.name].size]
    # the quartiles of a handful of draws are no width, and those of one draw coincide
    enough = posterior.sizes["chain"] * posterior.sizes["draw"] >= _MIN_DRAWS
    # a discrete variable may have but one value in the posterior, which is no width
    left_out = {*improper, *discrete_names(model)}
    proper = [rv for rv in sampled if rv.name not in left_out and enough]
    drawn = _prior_draws(model, proper, sampled, posterior)
    for rv, draws in zip(proper, drawn, strict=True):
        if draws is None:
            continue
        low, high = np.quantile(draws, [0.25, 0.75], axis=0)
        values = posterior[rv.name].stack(sample=("chain", "draw")).values
        lower, upper = np.quantile(values, [0.25, 0.75], axis=-1)
        ratio = np.max((high - low) / np.maximum(upper - lower, 1e-300))
        if ratio > MAX_WIDTH_RATIO:
            wide[rv.name] = float(ratio)
    if wide:
        listed = ", ".join(
            f"{name} ({r:.1g} times the posterior's width)" for name, r in wide.items()
        )
        warnings.append(
            Diagnostic(
                "extremely_wide_priors",
                f"{listed}.",
                "Each factor of ten in such a width takes 2.3 nats off log Z and leaves the "
                "posterior as it is: compare models only if these widths are meant, and look at "
                "`prior_sensitivity`.",
                {f"prior width / posterior width of {name}": r for name, r in wide.items()},
            )
        )
    return warnings


def _without_end(posterior: xr.Dataset, improper: list[str]) -> Iterator[Diagnostic]:
    """Warning about draws that spread as where the posterior has no finite integral."""
    spread = {}
    for name in improper:
        if name in posterior and posterior[name].size:
            with np.errstate(invalid="ignore"):
                distance = np.abs(posterior[name].values - np.median(posterior[name].values))
            spread[name] = float(np.nan_to_num(distance, nan=np.inf, posinf=np.inf).max())
    far = {name: s for name, s in spread.items() if not s <= MAX_SPREAD}
    if not far:
        return
    listed = ", ".join(f"{name} ({s:.2g})" for name, s in far.items())
    yield Diagnostic(
        "divergent_integral",
        f"draws of flat variables spread as far as {listed}, as they do where the posterior has "
        "no finite integral, and log Z is then infinite whatever is printed.",
        "Give these variables proper priors; or, if such numbers are meant, write the model in "
        "other units.",
        {f"largest distance from the median of {name}": s for name, s in far.items()},
    )


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
        return _draw_at(draw, sampled, posterior)
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
    # compiling costs more than 500 draws by the interpreter
    return interpreted(sampled, fresh, on_unused_input="ignore", allow_input_downcast=True)


def _draw_at(draw: Any, sampled: list[Any], posterior: xr.Dataset) -> list[FloatArray | None]:
    reseed(draw, 0)
    values = [
        posterior[rv.name].stack(sample=("chain", "draw")).transpose("sample", ...).values
        for rv in sampled
    ]
    chosen = np.linspace(0, len(values[0]) - 1, _N_DRAWS).astype(np.int64)
    draws = [draw(*(value[i] for value in values)) for i in chosen]
    return [np.array(column) for column in zip(*draws, strict=True)]
