"""Posterior draws and the log marginal likelihood of a model, or of a stored run, in one call."""

import inspect
import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pymc as pm
import xarray as xr

from pymc_tempering.checkpoint.store import resumed
from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.estimators.diagnostic import Diagnostic, warn_of
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.checks import refusing
from pymc_tempering.evidence.checks.check import AtHand
from pymc_tempering.evidence.checks.requested import interrupted
from pymc_tempering.evidence.more_chains import estimate_draws, reach_target_se, round_seeds
from pymc_tempering.evidence.run import Request
from pymc_tempering.evidence.stored import at_hand, checked, read_run
from pymc_tempering.methods import load, resolve_method
from pymc_tempering.options import check_positive, check_whole, resolve_model, unwrapped
from pymc_tempering.results.datatree import open_hint
from pymc_tempering.steps.executors import check_executor
from pymc_tempering.steps.run import DEFAULT_CHAINS, Sampler, check_budget, check_run


def sample(  # noqa: PLR0913 - every option by its name, as of pm.sample
    model: pm.Model | None = None,
    *,
    method: str = "pt",
    draws: int = 1000,
    tune: int | None = None,
    chains: int = DEFAULT_CHAINS,
    cores: int | None = None,
    random_seed: Any = None,
    max_gradients: int | None = None,
    resume: str | os.PathLike[str] | None = None,
    executor: Any = None,
    progressbar: bool = True,
    **kwargs: Any,
) -> xr.DataTree:
    """Draw from the posterior of a model by a tempered sampler and estimate its evidence.

    The same as ``pm.sample(step=...)`` followed by :func:`pymc_tempering.estimate_logz`, whose
    result is attached: group ``tempering`` and ``sample_stats["log_marginal_likelihood"]``.

    Parameters
    ----------
    model : pymc.Model, optional
        Default: the model of the context.
    method : {"pt", "gibbs_ct", "joint_ct", "st", "hais", "auto"}
        The sampler, default parallel tempering; see :func:`pymc_tempering.estimate_logz`.
    draws, tune, chains, cores, random_seed, progressbar
        As in ``pm.sample``; ``tune`` defaults to what the step needs.
    max_gradients : int, optional
        The most gradients that the whole call may take: search for modes (a quarter of them),
        tuning and draws of all chains. Draws have fewer scans then, or there are fewer of them, and
        a warning says so. They are counted, not timed: the same draws on every machine. Not for
        "joint_ct" and "hais", nor where PyMC's step methods move discrete variables.
    resume : path-like, optional
        A folder in which the run is kept while it is sampled, made where there is none. A call that
        was killed is continued by the same call: it returns the draws and log Z of a run that was
        not, to the last bit; of one that had ended, without sampling. With more `draws` than the
        folder has its chains are made longer. Without a seed that of the folder is taken. Not for
        "joint_ct".
    executor : int or executor, optional
        Where chains are sampled in place of PyMC's own processes: so many processes, any
        ``concurrent.futures.Executor`` (of dask, MPI, ...), or a pool with ``map``. Draws and log Z
        are the same whatever it is. A chain whose worker is lost is sampled once more, then left
        out with a warning. Not for "joint_ct".
    **kwargs
        Options of the step, for instance ``scans_per_draw``, or of ``pm.sample``. Of the latter,
        ``backend="numba"``, ``"c"`` or ``"jax"`` says what computes the density; by default it is
        numba where it can.

    Returns
    -------
    xarray.DataTree
        Posterior draws (beta = 1), statistics, and the estimate.

    Raises
    ------
    ModelError, OptionError
        Before any sampling.
    DataError
        Before any sampling, if `resume` holds another run: of another model, other data, other
        settings than `draws`, or versions; it says what differs.
    OutputError
        If the folder of `resume` can no longer be written. What is there is whole, and the same
        call goes on from it.
    DensityError
        If Python code that the model calls raises.
    WorkerError
        If a process that sampled a chain was ended by the system.
    KeyboardInterrupt
        After Ctrl-C before any chain had finished tuning. Later, one press ends the run, and what
        there is is returned, with a warning.

    Warns
    -----
    TemperingWarning
        Once for everything that speaks against the estimate; the same texts are in
        ``idata["tempering"]["warning_text"]``.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_tempering as pm_temper
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=1.0)
    >>> idata = pm_temper.sample(model, draws=100, tune=50, chains=2, cores=1, random_seed=1,
    ...                          scans_per_draw=8, progressbar=False, quiet=True)
    >>> round(float(idata.tempering["log_marginal_likelihood"]), 1)
    -1.4
    """
    model = resolve_model(model, "sample")
    check_whole("draws", draws, 1)
    estimate = sample_and_estimate(
        model, method, draws, kwargs, tune=tune, chains=chains, cores=cores,
        random_seed=random_seed, max_gradients=max_gradients, resume=resume,
        executor=executor, progressbar=progressbar,
    )  # fmt: skip
    warn_of(estimate.warnings)
    return estimate.idata


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
        tempering (Graham & Storkey 2017) with a bridge. "joint_ct": NUTS on the tempered model of
        :func:`pymc_tempering.temper`. "st": simulated tempering with RTS (Carlson et al. 2016,
        eq. 12). "hais": Hamiltonian annealed importance sampling, with bounds (Sohl-Dickstein &
        Culpepper 2012). "auto": parallel tempering, the cheapest for a
        given error on 10 of 14 reference problems. "bridge", with a DataTree and its model: bridge
        sampling, also where the draws are those of a tempered run.
    draws, tune, chains, random_seed
        As in ``pm.sample``; ``draws`` defaults to 160, for "joint_ct" to 3000. A draw is
        ``scans_per_draw`` scans: with "pt" as many as 160 draws of 4 chains need for an error of
        0.02 nats, between 4 and 50, or of up to 0.05 nats where 0.02 would take more than 40,000
        gradients: twice the error at 16 times the price.
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
    model_or_idata = unwrapped(model_or_idata)
    stored = isinstance(model_or_idata, xr.DataTree)
    if model is not None and not stored:
        raise OptionError(
            f"`model` goes with stored draws, but the first argument is a "
            f"{type(model_or_idata).__name__}; expected a DataTree. A model alone is the first "
            "argument: `estimate_logz(model)`."
        )
    settled = {name: kwargs.pop(name, default) for name, default in _DEFAULTS.items()}
    for name in ("resume", "max_gradients"):
        if stored and settled[name] is not None:
            raise OptionError(
                f"`{name}` is {settled[name]!r}, and the first argument is a stored run; expected "
                f"a model, whose sampling it is about. Leave `{name}` away."
            )
    run = {"draws": draws, "tune": tune, "chains": chains, "cores": settled["cores"]}
    if isinstance(model_or_idata, xr.DataTree) and model is not None:
        estimate = estimate_draws(
            model_or_idata, model, method, target_se, settled["max_chains"], random_seed, kwargs,
            progressbar=settled["progressbar"], **run,
        )  # fmt: skip
    elif isinstance(model_or_idata, xr.DataTree):
        given = {"method": method, "random_seed": random_seed} | run
        given["max_chains"] = settled["max_chains"]
        estimate = _estimate_stored(model_or_idata, target_se, kwargs | _changed(given))
    elif isinstance(model_or_idata, pm.Model | None):
        model = resolve_model(model_or_idata, "estimate_logz")
        estimate = sample_and_estimate(
            model, method, draws, kwargs, tune=tune, chains=chains, random_seed=random_seed,
            target_se=target_se, **settled,
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
    "cores": None, "executor": None, "max_chains": 64, "max_gradients": None, "progressbar": True,
    "resume": None,
}  # fmt: skip
"""Of the keyword arguments that `estimate_logz` leaves to this."""


def sample_and_estimate(  # noqa: PLR0913 - the one path of all that is sampled
    model: pm.Model,
    method: str,
    draws: int | None,
    options: dict[str, Any],
    *,
    tune: int | None,
    chains: int,
    cores: int | None,
    random_seed: Any,
    max_gradients: int | None,
    resume: str | os.PathLike[str] | None,
    executor: Any,
    progressbar: bool,
    target_se: float | None = None,
    max_chains: int = 64,
    inherited: Sequence[Diagnostic] = (),
) -> LogZEstimate:
    """Check the options, sample, add chains where an error is requested, estimate and check.

    Warnings that are ``inherited`` from another run are added to those of this one.
    """
    row = resolve_method(method)
    draws = row.draws if draws is None else draws
    check_run(
        draws=draws, tune=tune, chains=chains, cores=cores, random_seed=random_seed,
        target_se=target_se,
    )  # fmt: skip
    check_whole("max_chains", max_chains, 1)
    budget = check_budget(row, max_gradients)
    check_executor(executor)
    if executor is not None and row.step is None:
        raise OptionError(
            f"`executor` is not available for {row.name}, whose chains belong to one tempered "
            "model; use another method, or `cores`."
        )
    settings = {
        "draws": draws, "tune": tune, "chains": chains, "cores": cores, "progressbar": progressbar,
        "budget": budget, "executor": executor,
    }  # fmt: skip
    with resumed(resume, row, random_seed) as (store, seed):
        if target_se is not None and row.step is None:
            raise OptionError(
                f"`target_se` is not available for {row.name}, whose chains belong to one tempered "
                "model; use method='gibbs_ct', or raise `draws`."
            )
        aim = {} if target_se is None else {"target_se": target_se}
        sampler: Sampler = load(row.prepare)(row, model, options, settings | {"store": store} | aim)
        seeds = round_seeds(seed)
        idata = sampler(chains=chains, random_seed=next(seeds))
        run = at_hand(read_run(idata), model)
        request = Request(draws, chains, budget, target_se, max_chains)
        if target_se is not None and refusing(run):
            request = replace(request, target_se=None)
        elif target_se is not None and not interrupted(replace(run, request=request)):
            run, request = reach_target_se(
                run, idata, request, lambda n: sampler(chains=n, random_seed=next(seeds)),
                least=chains, show=bool(progressbar) and not options.get("quiet", False),
            )  # fmt: skip
        return checked(run, model=model, request=request, inherited=inherited)


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
    run: AtHand = read_run(idata)
    if target_se is None:
        return checked(run)
    sizes = run.idata["sample_stats"].sizes
    return checked(run, request=Request(sizes["draw"], sizes["chain"], target_se=target_se))
