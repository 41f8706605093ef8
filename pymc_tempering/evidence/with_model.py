"""Estimates from stored draws and their model: bridge sampling, or chains added to a run."""

import hashlib
import inspect
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.errors import OptionError
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.bridge import bridge_from_idata
from pymc_tempering.evidence.meaning import model_diagnostics
from pymc_tempering.evidence.rounds import reach_target_se, round_seeds
from pymc_tempering.evidence.same_model import check_identity, draws_of_model
from pymc_tempering.evidence.stored import (
    estimate_from_idata,
    has_statistics,
    recorded_statistics,
    with_diagnostics,
)
from pymc_tempering.methods import Method, load, resolve_method
from pymc_tempering.model.compile import density_at_hand
from pymc_tempering.results.datatree import label_dimensions
from pymc_tempering.steps.run import build_step, check_run, run_chains

__all__ = ["estimate_draws"]

# options of a step that its statistics show by their lengths
_SHOWN = {"scans_per_draw": "scan", "n_levels": "level"}

# draws at which the density of a model that is known to be the one is compared with what was
# recorded, as draws may have been changed since
_N_CHECKED = 200


def estimate_draws(
    idata: xr.DataTree,
    model: pm.Model,
    method: str,
    target_se: float | None,
    max_chains: int,
    random_seed: Any,
    options: dict[str, Any],
    **run: Any,
) -> LogZEstimate:
    """Estimate log Z from stored draws and their model.

    Parameters
    ----------
    idata : xarray.DataTree
        A tempered run, to which chains are added where `target_se` asks for it, or draws of any
        other sampler, for bridge sampling.
    model, method, target_se, max_chains, random_seed
        As for :func:`pymc_tempering.estimate_logz`.
    options : dict
        Of the step and of ``pm.sample``.
    **run
        ``draws``, ``tune``, ``chains``, ``cores``, ``progressbar``.

    Raises
    ------
    DataError, ModelError, OptionError
        Before any sampling: if the draws are not of the model, or the chains to be added would not
        fit those that are there.
    """
    bridging = method == "bridge" or not has_statistics(idata)
    if not bridging and target_se is not None:
        return _add_chains(idata, model, method, target_se, max_chains, random_seed, options, **run)
    given = sorted(options) + [name for name in ("draws", "tune") if run[name] is not None]
    if bridging and target_se is not None:
        given.append("target_se")
    if given:
        raise OptionError(
            f"The options {given} are for sampling, and nothing is sampled here: "
            + (
                "bridge sampling takes the draws as they are. Leave them out, or sample with "
                "`estimate_logz(model, base=idata)`."
                if bridging
                else "chains are added to a stored run for a `target_se`. Pass one, or leave them "
                "out."
            )
        )
    if bridging:
        return bridge_from_idata(idata, model, random_seed=random_seed)
    _stored_method(idata, method)
    _check_model(idata, model)
    return estimate_from_idata(idata)


def _add_chains(
    idata: xr.DataTree,
    model: pm.Model,
    method: str,
    target_se: float,
    max_chains: int,
    random_seed: Any,
    options: dict[str, Any],
    **run: Any,
) -> LogZEstimate:
    stored_method = _stored_method(idata, method)
    idata = label_dimensions(idata)
    statistics = idata["sample_stats"].dataset
    n_draws = statistics.sizes["draw"]
    if run["draws"] not in (None, n_draws):
        raise OptionError(
            f"`draws` is {run['draws']}, but the chains of the stored run have {n_draws} draws, "
            "and those added need as many. Leave it out."
        )
    run["draws"] = n_draws
    if run["tune"] is None:
        run["tune"] = statistics.attrs.get("tuning_steps")
    checked = {name: value for name, value in run.items() if name != "progressbar"}
    check_run(target_se=target_se, random_seed=random_seed, **checked)
    _check_model(idata, model)
    step = _step_like(stored_method, model, statistics, options)
    estimate = estimate_from_idata(idata)
    seeds = round_seeds(_other_seed(random_seed, idata))
    least = run.pop("chains")
    # the new chains have no posterior predictive draws, log likelihoods or draws of tuning
    alike = {
        f"/{name}": node.to_dataset()
        for name, node in idata.children.items()
        if name in ("posterior", "sample_stats") or "chain" not in node.dims
    }
    n_stored = estimate.per_chain.size
    estimate, of_run = reach_target_se(
        estimate,
        xr.DataTree.from_dict(alike),
        lambda n: run_chains(step, model, chains=n, random_seed=next(seeds), **run, **options),
        target_se=target_se,
        max_chains=max_chains,
        least=least,
        show=bool(run["progressbar"]) and not options.get("quiet", False),
    )
    # an estimate of the stored chains alone repeats what was stored about the model
    added = estimate.per_chain.size > n_stored
    of_model = model_diagnostics(model, estimate.idata) if added else []
    return with_diagnostics(estimate, [*of_model, *of_run])


def _stored_method(idata: xr.DataTree, name: str) -> Method:
    method, (stored, _) = resolve_method(name), recorded_statistics(idata)
    # "pt" is the default of the argument, so that it says nothing
    if method.name not in ("pt", stored.name):
        raise OptionError(
            f"`method` is {method.name!r}, but the run was sampled with {stored.name!r}. Chains of "
            "two methods make no run: leave `method` out, or estimate the model afresh with "
            f"`estimate_logz(model, method={method.name!r})`."
        )
    if stored.step is None:
        raise OptionError(
            f"The run is of {stored.name!r}, whose chains belong to one tempered model, so none "
            "can be added. Estimate it without `model=`, or the model by another method."
        )
    return stored


def _check_model(idata: xr.DataTree, model: pm.Model) -> None:
    known = check_identity(model, idata, "The stored run")
    draws_of_model(idata, density_at_hand(model), model, max_draws=_N_CHECKED if known else None)


def _step_like(
    method: Method, model: pm.Model, statistics: xr.Dataset, options: dict[str, Any]
) -> Any:
    assert method.step is not None
    cls: Any = load(method.step)
    known = inspect.signature(cls.__init__).parameters
    for option, dimension in _SHOWN.items():
        # levels that no stored chain used say nothing of the room that tuning needs
        fixed = option == "n_levels" and ("betas" in options or method.name == "pt")
        if option in known and dimension in statistics.sizes and not fixed:
            options.setdefault(option, statistics.sizes[dimension])
    step = build_step(method, model, options)
    for statistic, (_, shape) in step.stats_dtypes_shapes.items():
        if statistic not in statistics:
            continue
        stored = statistics[statistic].transpose("chain", "draw", ...)
        there, padded = stored.shape[2:], stored.dims[2:]
        if method.name == "pt":
            padded = tuple(d for d in padded if d not in ("level", "pair", "scan"))
        if tuple(shape[: len(padded)]) != there[: len(padded)]:
            raise OptionError(
                f"The chains to be added would record `{statistic}` of shape {tuple(shape)}, and "
                f"those of the stored run have {there}. Pass the options that the run was sampled "
                f"with (`scans_per_draw`, and the number of levels or knots of {cls.__name__})."
            )
    return step


def _other_seed(random_seed: Any, idata: xr.DataTree) -> Any:
    """Seed that is new for every state of a run, so that no chain is sampled a second time."""
    if random_seed is None or isinstance(random_seed, np.random.Generator):
        return random_seed
    draws = np.ascontiguousarray(idata["sample_stats"]["lp"].values)
    there = np.frombuffer(hashlib.sha256(draws.tobytes()).digest(), dtype=np.uint32)
    given = np.random.SeedSequence(random_seed).generate_state(4)
    return int(np.random.SeedSequence([*given, *there]).generate_state(1)[0])
