"""Estimates from stored draws and their model: bridge sampling, or chains added to a run."""

import hashlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.errors import OptionError
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.bridge import bridge_from_idata
from pymc_tempering.evidence.checks.requested import interrupted
from pymc_tempering.evidence.run import Request, Run
from pymc_tempering.evidence.same_model import check_identity, draws_of_model
from pymc_tempering.evidence.stored import (
    checked,
    estimate_from_idata,
    has_statistics,
    read_run,
    recorded_statistics,
)
from pymc_tempering.methods import Method, load, resolve_method
from pymc_tempering.model.compile import density_at_hand
from pymc_tempering.progress import say
from pymc_tempering.results.concat import concat_chains
from pymc_tempering.results.datatree import label_dimensions
from pymc_tempering.steps.run import build_step, check_run, run_chains

# options of a step that its statistics show by their lengths
_SHOWN = {"scans_per_draw": "scan", "n_levels": "level"}


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
    """Estimate log Z from stored draws and their model; arguments as of `estimate_logz`.

    Of a tempered run, to which chains are added for a `target_se`, or of any other draws, by bridge
    sampling. Refused before any sampling are draws that are not of the model, and chains that would
    not fit those that are there.
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
    return estimate_from_idata(idata, model=model)


def reach_target_se(
    run: Run,
    idata: xr.DataTree,
    request: Request,
    sample_chains: Callable[[int], xr.DataTree],
    *,
    least: int,
    show: bool,
) -> tuple[Run, Request]:
    """Add chains to a run in rounds, until the error of log Z is at most the `target_se` requested.

    `sample_chains` samples a number of new chains as the run was sampled; a round has at least
    `least` of them, unless `max_chains` of the request allows fewer. Returned is the run of all
    chains, and the request with those that were wanted in the end.
    """
    target_se, max_chains, budget = request.target_se, request.max_chains, request.budget
    assert target_se is not None
    assert max_chains is not None
    while run.estimate is not None and not run.estimate.se <= target_se:
        have, se = run.estimate.per_chain.size, run.estimate.se
        ratio = se / target_se if np.isfinite(se) else 2.0
        # room for the error to turn out larger than the first run said
        missing = int(np.ceil(1.15 * have * ratio**2)) - have
        more = min(max(missing, least), max_chains - have)
        if more > 0 and budget is not None:
            more = budget.more_chains(more)
        if more <= 0:
            break
        if show:
            say(
                f"The error of log Z is {se:.3g} nats after {have} chains; {more} more to reach "
                f"{target_se:g}."
            )
        draws = idata["posterior"].sizes["draw"]
        request = replace(request, draws=draws, chains=have + more)
        try:
            extra = sample_chains(more)
        except KeyboardInterrupt:
            break
        # after an interrupt chains may be shorter: cut all where that keeps more
        length = min(draws, extra["posterior"].sizes["draw"])
        if length * (have + extra["posterior"].sizes["chain"]) > draws * have:
            idata = concat_chains([_shortened(idata, length), _shortened(extra, length)])
            run = read_run(idata)
        if interrupted(replace(run, request=request)):
            break
    return run, request


def _shortened(idata: xr.DataTree, n_draws: int) -> xr.DataTree:
    """Return the first draws of a run, and the run itself where it has no more."""
    if idata["posterior"].sizes["draw"] == n_draws:
        return idata
    return idata.isel(draw=slice(n_draws), missing_dims="ignore")


def round_seeds(random_seed: Any) -> Iterator[Any]:
    """Seeds of successive rounds; the first is the user's own."""
    yield random_seed
    while isinstance(random_seed, np.random.Generator):
        yield random_seed
    sequence = np.random.SeedSequence(random_seed)
    while True:
        yield int(sequence.spawn(1)[0].generate_state(1)[0])


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
    settings = {name: value for name, value in run.items() if name != "progressbar"}
    check_run(target_se=target_se, random_seed=random_seed, **settings)
    _check_model(idata, model)
    step = _step_like(stored_method, model, statistics, options)
    stored = read_run(idata)
    seeds = round_seeds(_other_seed(random_seed, idata))
    least = run.pop("chains")
    n_stored = statistics.sizes["chain"]
    # the new chains have no posterior predictive draws, log likelihoods or draws of tuning
    alike = {
        f"/{name}": node.to_dataset()
        for name, node in idata.children.items()
        if name in ("posterior", "sample_stats") or "chain" not in node.dims
    }
    whole, request = reach_target_se(
        stored,
        xr.DataTree.from_dict(alike),
        Request(n_draws, n_stored, target_se=target_se, max_chains=max_chains),
        lambda n: run_chains(step, model, chains=n, random_seed=next(seeds), **run, **options),
        least=least,
        show=bool(run["progressbar"]) and not options.get("quiet", False),
    )
    # an estimate of the stored chains alone repeats what was stored about the model
    return checked(whole, model=None if whole is stored else model, request=request)


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
    # at some draws of a model that is known to be the one, as draws may have been changed since
    draws_of_model(idata, density_at_hand(model), model, max_draws=200 if known else None)


def _step_like(
    method: Method, model: pm.Model, statistics: xr.Dataset, options: dict[str, Any]
) -> Any:
    """Build a step whose chains record statistics of the lengths that are there."""
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
