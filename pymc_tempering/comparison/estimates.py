"""The estimates that are compared: of the same data, sampled where there is only a model."""

import logging
import warnings
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.errors import DataError, OptionError, TemperingWarning, WorkerError
from pymc_tempering.estimators.diagnostic import Diagnostic, warn_of
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.checks.requested import whole
from pymc_tempering.evidence.estimate import estimate_logz
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.evidence.stored import has_statistics
from pymc_tempering.model.identity import Identity
from pymc_tempering.options import unwrapped
from pymc_tempering.progress import phases
from pymc_tempering.results.datatree import group_of
from pymc_tempering.results.files import as_run
from pymc_tempering.results.identity import describe_observed, observed_digest, recorded_identity
from pymc_tempering.steps.executors import Lost, check_executor, run_tasks
from pymc_tempering.steps.spread import check_trace
from pymc_tempering.steps.workers import check_workers

# where PyMC says what it samples, so that users silence both alike
_log = logging.getLogger("pymc")


def resolve_estimates(
    models: Mapping[str, Any], *, random_seed: Any = None, executor: Any = None, **kwargs: Any
) -> dict[str, LogZEstimate]:
    """Estimates of models, runs, also in files, and estimates of the same data; models are sampled.

    `kwargs` are passed to :func:`pymc_tempering.estimate_logz` for models, each of which is a task
    of the executor. Anything else is an OptionError; different data, or a file without a run, are a
    DataError. A model that was not sampled to its end has an unknown log Z and a warning that names
    it; where none was: the first error, a WorkerError or, after Ctrl-C, a KeyboardInterrupt.
    """
    models = {name: as_run(unwrapped(model)) for name, model in models.items()}
    for name, model in models.items():
        if not isinstance(model, pm.Model | xr.DataTree | LogZEstimate):
            raise OptionError(
                f"{name!r} is a {type(model).__name__}; expected a pymc.Model, a DataTree, a "
                "LogZEstimate or the path of a stored run."
            )
    check_same_data(models)
    warn_of(data_diagnostics(models), outwards=1)
    if kwargs.get("resume") is not None:
        raise OptionError(
            f"`resume` is {kwargs['resume']!r}, which would be one folder for several runs. Pass "
            "estimates, each from `estimate_logz(model, resume=...)` with a path of its own."
        )
    check_executor(executor)
    given = sorted(kwargs if executor is None else {*kwargs, "executor"})
    if given and not any(isinstance(model, pm.Model) for model in models.values()):
        raise OptionError(
            f"The options {given} are for sampling, and there is no model among these: "
            "runs and estimates are used as they are. Leave the options out, or pass models."
        )
    if not isinstance(random_seed, int | np.integer | None):
        random_seed = np.random.default_rng(random_seed).integers(2**62)
    entropy = None if random_seed is None else int(random_seed)
    seeds = np.random.SeedSequence(entropy).generate_state(len(models))
    estimates, tasks = {}, []
    for (name, model), seed in zip(models.items(), seeds, strict=True):
        if isinstance(model, LogZEstimate):
            estimates[name] = model
        elif isinstance(model, pm.Model):
            tasks.append((name, model, int(seed)))
        else:
            # before any sampling, as it may be refused
            estimates[name] = _of_run(name, model)
    if tasks:
        estimates |= _of_models(tasks, executor, kwargs)
    return {name: estimates[name] for name in models}


def _of_models(
    tasks: list[tuple[str, pm.Model, int]], executor: Any, options: dict[str, Any]
) -> dict[str, LogZEstimate]:
    """Sample models by name, with their seeds: each a task, or one after the other in this process.

    Of one model alone it is the chains that are tasks.
    """
    if len(tasks) == 1:
        options, executor = options | {"executor": executor}, None
    show, sample = False, partial(_sampled, options, [])
    if executor is not None:
        check_trace(options)
        check_workers(None, chains=len(tasks), cores=executor if isinstance(executor, int) else 1)
        show = bool(options.get("progressbar", True)) and not options.get("quiet")
        if not options.get("quiet"):
            _log.info("Sampling the models %s, each as a task", [name for name, *_ in tasks])
        sample = partial(_elsewhere, options)
    with phases(show) as work:
        done = work.add("Models", len(tasks)).advance
        results = run_tasks(executor, sample, tasks, done=done, apart=True)
    if not any(isinstance(result, LogZEstimate) for result in results):
        errors = [result for result in results if isinstance(result, Exception)]
        lost = {t[0]: r.why for t, r in zip(tasks, results, strict=True) if isinstance(r, Lost)}
        text = f"The workers of all models were lost, and lost again: {lost}"
        raise errors[0] if errors else WorkerError(text)
    estimates = {}
    for (name, *_), result in zip(tasks, results, strict=True):
        sampled = isinstance(result, LogZEstimate)
        estimates[name] = result if sampled else _unknown(name, result, options)
        if executor is not None or not sampled:
            warn_of(estimates[name].warnings)
    return estimates


def _unknown(name: str, result: Any, options: dict[str, Any]) -> LogZEstimate:
    """Estimate of a model that was not sampled: lost with its worker, stopped, or with an error."""
    why = "the call was stopped" if result is None else f"{type(result).__name__}: {result}"
    if isinstance(result, Lost):
        why = f"its worker was lost twice ({result.why})"
    text = f"the model {name!r} was not sampled to its end, and has no log Z: {why}."
    remedy = "Sample it by itself, and pass its estimate."
    diagnostic = Diagnostic("interrupted", text, remedy, {"model": name})
    return LogZEstimate(np.nan, np.nan, options.get("method", "pt"), np.empty(0), (diagnostic,))


def _sampled(
    options: dict[str, Any], before: list[LogZEstimate], name: str, model: pm.Model, seed: int
) -> LogZEstimate:
    if before:
        # one that Ctrl-C has cut short stays, and is the last
        whole(before[-1])
    if not options.get("quiet"):
        _log.info("Sampling the model %r", name)
    try:
        before.append(estimate_logz(model, random_seed=seed, **options))
    except Exception as error:
        error.add_note(f"It is the model {name!r} that raised this.")
        raise
    return before[-1]


def _elsewhere(options: dict[str, Any], name: str, model: pm.Model, seed: int) -> LogZEstimate:
    """Sample a model in a worker, which may have no processes of its own, and nobody listens to."""
    with warnings.catch_warnings(action="ignore", category=TemperingWarning):
        there = {"cores": 1, "progressbar": False, "quiet": True}
        return _sampled(options | there, [], name, model, seed)


def _of_run(name: str, idata: xr.DataTree) -> LogZEstimate:
    statistics = group_of(idata, "sample_stats")
    # of `pm.sample_smc`, which has stages
    if "log_marginal_likelihood" in statistics and "draw" not in statistics.sizes:
        return LogZEstimate.from_smc(idata)
    try:
        # a run may have been cut down to its result
        return estimate_logz(idata) if has_statistics(idata) else stored_estimate(idata)
    except DataError as error:
        raise DataError(f"{name!r}: {error}") from error


def check_same_data(models: Mapping[str, Any]) -> None:
    """Refuse models, runs and estimates of different data, naming groups that share theirs."""
    digests = {name: observed_digest(model) for name, model in models.items()}
    known = {name: digest for name, digest in digests.items() if digest is not None}
    if len(set(known.values())) > 1:
        groups: dict[str, list[str]] = {}
        for name, digest in known.items():
            groups.setdefault(digest, []).append(name)
        listed = "; ".join(
            f"{' and '.join(map(repr, names))} {describe_observed(models[names[0]])}"
            for names in groups.values()
        )
        raise DataError(
            f"The models were fitted to different data: {listed}. Evidences of different data "
            "cannot be compared; fit all models to the same observations."
        )


def data_diagnostics(models: Mapping[str, Any]) -> list[Diagnostic]:
    """Say of which models nobody can tell whether their data are the same.

    A potential may hold data or none. Where those of all models are the same, so are the data.
    """
    potentials: dict[str, dict[str, str]] = {}
    for name, model in models.items():
        identity = Identity.of(model) if isinstance(model, pm.Model) else recorded_identity(model)
        if identity is not None and observed_digest(model) is None:
            potentials[name] = identity.potentials
    alike = [each for each in potentials.values() if each]
    if not alike or (len(alike) == len(models) and all(each == alike[0] for each in alike)):
        return []
    named = [name for name, each in potentials.items() if each]
    diagnostic = Diagnostic(
        "data_not_compared",
        f"the likelihoods of {named} are potentials, which do not say what in them is data, so "
        "that it cannot be checked that all models are of the same data.",
        "Make sure that they are; evidences of different data have nothing to do with one another.",
        {"models": named},
    )
    return [diagnostic]


def diagnostics_of_comparison(estimates: Mapping[str, LogZEstimate]) -> dict[str, Diagnostic]:
    """What speaks against comparing models, by their names, where it is not the same for all.

    Examples
    --------
    >>> def estimate(width):
    ...     diagnostic = Diagnostic("extremely_wide_priors", "x.", "Look.", {"width of x": width})
    ...     return LogZEstimate(0.0, 0.1, "pt, mbar", [0.0] * 4, (diagnostic,))
    >>> diagnostics_of_comparison({"a": estimate(2e4), "b": estimate(2.1e4)})
    {}
    >>> diagnostics = diagnostics_of_comparison({"a": estimate(2e4), "b": estimate(9e4)})
    >>> [diagnostic.text for diagnostic in diagnostics.values()]
    ["of 'a', x.", "of 'b', x."]
    """
    measured = [
        {what: value for d in estimate.of_comparison for what, value in d.measured.items()}
        for estimate in estimates.values()
    ]
    shared = set[str]()
    for what in set.intersection(*map(set, measured)):
        widths = [float(str(m[what])) for m in measured]
        # a prior that is as wide in all models cancels; the posterior's width may differ a little
        if max(widths) <= 2.0 * min(widths):
            shared.add(what)
    return {
        name: replace(diagnostic, text=f"of {name!r}, {diagnostic.text}")
        for name, estimate in estimates.items()
        for diagnostic in estimate.of_comparison
        if not set(diagnostic.measured) <= shared
    }
