"""The log marginal likelihood of a model or of a stored run, in one call."""

import inspect
from typing import Any

import pymc as pm
import xarray as xr

from pymc_tempering.checkpoint.store import resumed
from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.estimators.diagnostic import Diagnostic, warn_of
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.bound import bound_diagnostics
from pymc_tempering.evidence.budget import budget_diagnostics
from pymc_tempering.evidence.interrupted import interruption
from pymc_tempering.evidence.meaning import model_diagnostics
from pymc_tempering.evidence.refused import refused
from pymc_tempering.evidence.rounds import reach_target_se, round_seeds
from pymc_tempering.evidence.stored import estimate_from_idata, with_diagnostics
from pymc_tempering.evidence.with_model import estimate_draws
from pymc_tempering.methods import Method, load, resolve_method
from pymc_tempering.options import check_positive, resolve_model
from pymc_tempering.results.datatree import open_hint
from pymc_tempering.steps.run import DEFAULT_CHAINS, Sampler, check_budget, check_run

__all__ = ["estimate_logz"]


def estimate_logz(
    model_or_idata: pm.Model | xr.DataTree | None = None,
    *,
    model: pm.Model | None = None,
    method: str = "pt",
    draws: int | None = None,
    tune: int | None = None,
    chains: int = DEFAULT_CHAINS,
    target_se: float | None = None,
    random_seed: Any = None,
    **kwargs: Any,
) -> LogZEstimate:
    """Estimate the log marginal likelihood (evidence) of a model, with its error.

    Given a DataTree from ``pm.sample`` with a tempered step, nothing is sampled: the recorded
    statistics are enough, also after slicing draws, after a round trip through a file, and for
    chains of several runs put together. With ``model`` and ``target_se``, chains are added to it.
    Without, options of sampling are refused, as they would have no effect; the same chain twice
    is, as it would make the error too small.

    Given posterior draws of any other sampler and the model that they are of, nothing is sampled
    either: log Z comes from bridge sampling. A mode that the draws lack is lacking in it.

    Parameters
    ----------
    model_or_idata : pymc.Model or DataTree, optional
        Default: the model of the context.
    model : pymc.Model, optional
        With a DataTree: the model that its draws are of.
    method : {"pt", "gibbs_ct", "joint_ct", "st", "hais", "auto", "bridge"}
        The sampler. "pt", the default: parallel tempering with MBAR. "gibbs_ct": Gibbs continuous
        tempering (Graham & Storkey 2017, eq. 21). "joint_ct": NUTS on the tempered model of
        :func:`pymc_tempering.temper`. "st": simulated tempering with RTS (Carlson et al. 2016,
        eq. 12). "hais": Hamiltonian annealed importance sampling, with bounds (Sohl-Dickstein &
        Culpepper 2012). "auto": parallel tempering, the cheapest for a
        given error on 12 of 13 reference problems. "bridge", with a DataTree and its model: bridge
        sampling, also where the draws are those of a tempered run.
    draws, tune, chains, random_seed
        As in ``pm.sample``; ``draws`` defaults to 160, for "joint_ct" to 3000. A draw is
        ``scans_per_draw`` scans: with "pt" as many as 160 draws of 4 chains need for an error of
        0.02 nats, between 4 and 50, or of up to 0.025 nats where 0.02 would take more than 40,000
        gradients.
    target_se : float, optional
        Standard error to reach, in nats: chains are added in rounds until it is, with other seeds
        than those of the chains that are there.
    **kwargs
        Options of the step, for instance ``scans_per_draw`` or ``base``, or of ``pm.sample``, for
        instance ``cores`` or ``progressbar``; and ``max_chains``, default 64: chains in all, stored
        ones included, where ``target_se`` gives up; the result then says so. And ``max_gradients``,
        the most that search, tuning and draws of all chains may take together, those added for
        ``target_se`` included; and ``resume``, a folder in which the run is kept while it is
        sampled, so that the same call continues one that was killed, and one with more
        `draws` makes it longer; see :func:`pymc_tempering.sample`.

    Returns
    -------
    LogZEstimate
        With ``log_z``, ``se``, ``interval()``, ``per_chain``, ``warnings`` and the run itself as
        ``idata``.

    Raises
    ------
    ModelError, OptionError, DataError
        Before any sampling.
    OutputError
        If the folder of ``resume`` can no longer be written; what is there is whole.
    DensityError
        If Python code that the model calls raises.
    WorkerError
        If a process that sampled a chain was ended by the system.
    KeyboardInterrupt
        After Ctrl-C before any chain had finished tuning. Later, one press ends the run, and log Z
        is estimated from what there is, with a warning.

    Warns
    -----
    TemperingWarning
        Once for everything that speaks against the estimate; the same is in ``warnings``.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_tempering as pm_temper
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    >>> estimate = pm_temper.estimate_logz(model, draws=100, tune=50, chains=2, cores=1,
    ...                                    random_seed=1, progressbar=False, quiet=True)
    >>> exact = -0.5 * np.log(2 * np.pi * 1.25) - 0.5 / 1.25
    >>> bool(abs(estimate.log_z - exact) < 5 * estimate.se)
    True
    """
    if model is not None and not isinstance(model_or_idata, xr.DataTree):
        raise OptionError(
            f"`model` goes with stored draws, but the first argument is a "
            f"{type(model_or_idata).__name__}; expected a DataTree. A model alone is the first "
            "argument: `estimate_logz(model)`."
        )
    settled = {name: kwargs.pop(name, default) for name, default in _DEFAULTS.items()}
    cores, max_chains, max_gradients, progressbar, resume = settled.values()
    of_models = {"resume": resume, "max_gradients": max_gradients}
    given_too = [name for name, value in of_models.items() if value is not None]
    if given_too and isinstance(model_or_idata, xr.DataTree):
        name = given_too[0]
        raise OptionError(
            f"`{name}` is {of_models[name]!r}, and the first argument is a stored run; expected a "
            f"model, whose sampling it is about. Leave `{name}` away."
        )
    if isinstance(model_or_idata, xr.DataTree) and model is not None:
        estimate = estimate_draws(
            model_or_idata, model, method, target_se, max_chains, random_seed, kwargs,
            draws=draws, tune=tune, chains=chains, cores=cores, progressbar=progressbar,
        )  # fmt: skip
    elif isinstance(model_or_idata, xr.DataTree):
        given = {
            "method": method, "draws": draws, "tune": tune, "chains": chains, "cores": cores,
            "max_chains": max_chains, "random_seed": random_seed,
        }  # fmt: skip
        estimate = _estimate_stored(model_or_idata, target_se, kwargs | _changed(given))
    elif isinstance(model_or_idata, pm.Model | None):
        model = resolve_model(model_or_idata, "estimate_logz")
        row = resolve_method(method)
        draws = row.draws if draws is None else draws
        check_run(
            draws=draws, tune=tune, chains=chains, cores=cores, random_seed=random_seed,
            target_se=target_se,
        )  # fmt: skip
        check_positive("max_chains", max_chains, integer=True)
        budget = check_budget(row, max_gradients)
        with resumed(resume, row, random_seed) as (store, seed):
            estimate = _sample_and_estimate(
                model, row, target_se, max_chains, seed, kwargs, draws=draws, tune=tune,
                chains=chains, cores=cores, progressbar=progressbar, store=store, budget=budget,
            )  # fmt: skip
    else:
        raise DataError(
            f"estimate_logz was given a {type(model_or_idata).__name__}; expected a pymc.Model or "
            "a DataTree from `pm.sample` with a tempered step."
            f"{open_hint(model_or_idata)}"
        )
    warn_of(estimate.warnings)
    return estimate


_DEFAULTS: dict[str, Any] = {
    "cores": None,
    "max_chains": 64,
    "max_gradients": None,
    "progressbar": True,
    "resume": None,
}
"""Of the keyword arguments that the functions below take one by one."""


def _sample_and_estimate(
    model: pm.Model,
    method: Method,
    target_se: float | None,
    max_chains: int,
    random_seed: Any,
    options: dict[str, Any],
    **run: Any,
) -> LogZEstimate:
    if target_se is not None and method.step is None:
        raise OptionError(
            f"`target_se` is not available for {method.name}, whose chains belong to one tempered "
            "model; use method='gibbs_ct', or raise `draws`."
        )
    aim = {} if target_se is None else {"target_se": target_se}
    sampler: Sampler = load(method.prepare)(method, model, options, run | aim)
    seeds, least, draws = round_seeds(random_seed), run["chains"], run["draws"]
    idata = sampler(chains=least, random_seed=next(seeds))
    estimate = estimate_from_idata(idata)
    of_model, budget = model_diagnostics(model, idata), run["budget"]
    of_run = interruption(idata, draws=draws, chains=least, budget=budget)
    if target_se is not None and not of_run and not refused(of_model):
        estimate, of_run = reach_target_se(
            estimate,
            idata,
            lambda n: sampler(chains=n, random_seed=next(seeds)),
            target_se=target_se,
            max_chains=max_chains,
            least=least,
            show=bool(run["progressbar"]) and not options.get("quiet", False),
            budget=budget,
        )
    of_run = [*of_run, *budget_diagnostics(estimate, budget, draws=draws, target_se=target_se)]
    estimate = with_diagnostics(estimate, [*of_model, *of_run])
    return with_diagnostics(estimate, bound_diagnostics(model, estimate))


def _changed(options: dict[str, Any]) -> dict[str, Any]:
    """Those of the options of `estimate_logz` that are not at their defaults."""
    parameters = inspect.signature(estimate_logz).parameters
    defaults = _DEFAULTS | {name: parameter.default for name, parameter in parameters.items()}
    return {name: value for name, value in options.items() if value is not defaults[name]}


def _estimate_stored(
    idata: xr.DataTree, target_se: float | None, options: dict[str, Any]
) -> LogZEstimate:
    if target_se is not None:
        check_positive("target_se", target_se)
    if options:
        raise OptionError(
            f"The options {sorted(options)} are for sampling, and a stored run is not sampled "
            "again. Leave them out, or pass the model."
        )
    estimate = estimate_from_idata(idata)
    if target_se is None or estimate.se <= target_se:
        return estimate
    diagnostic = Diagnostic(
        "target_se_not_reached",
        f"the error of the stored run is {estimate.se:.3g}, more than {target_se:g}.",
        "Pass the model, as in `estimate_logz(idata, model=model, target_se=...)`, so that chains "
        "are added.",
        {"log_marginal_likelihood_se": float(estimate.se), "chains": int(estimate.per_chain.size)},
    )
    return with_diagnostics(estimate, [diagnostic])
