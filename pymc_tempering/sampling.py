"""``pm.sample`` with a tempered step, and the estimate of log Z attached to the result."""

import inspect
from importlib import import_module
from time import perf_counter
from typing import Any

import pymc as pm
import xarray as xr

from pymc_tempering.errors import OptionError
from pymc_tempering.estimators.doubt import warn_of
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.interrupted import interruption
from pymc_tempering.evidence.meaning import model_doubts
from pymc_tempering.evidence.stored import estimate_from_idata, with_doubts
from pymc_tempering.options import (
    check_choice,
    check_positive,
    check_random_seed,
    check_whole,
    did_you_mean,
    resolve_model,
)
from pymc_tempering.progress.phases import compiling
from pymc_tempering.progress.plan import plan, say
from pymc_tempering.results.compact import compact
from pymc_tempering.results.datatree import label_dimensions

__all__ = [
    "METHODS",
    "STEPS",
    "build_step",
    "check_run",
    "prepare_step",
    "resolve_method",
    "run_chains",
    "sample",
]

STEPS: dict[str, tuple[str, str]] = {
    "pt": ("pymc_tempering.steps.parallel", "ParallelTempering"),
    "gibbs_ct": ("pymc_tempering.steps.gibbs_continuous", "GibbsCT"),
    "st": ("pymc_tempering.steps.simulated", "SimulatedTempering"),
    "hais": ("pymc_tempering.steps.hais", "HAIS"),
}
"""For each method: where its step class is."""

METHODS = (*STEPS, "joint_ct", "auto")
"""All methods: the steps, NUTS on the tempered model, and the choice among them."""

AUTO = "pt"
"""What "auto" takes: parallel tempering, the cheapest for a given error on 12 of 13 reference
problems and second on the other (``benchmarks/agreement.py``), so the rule has no branches."""

DEFAULT_CHAINS = 4

# what PyMC says where no chain has draws, which happens after an interrupt alone
_NO_DRAWS = "Not enough samples to build a trace."

# what the package passes to pm.sample itself, and what would leave no DataTree or no tempered run
_SETTLED = {
    "step", "model", "kwargs", "nuts_sampler", "nuts_sampler_kwargs", "return_inferencedata",
}  # fmt: skip


def resolve_method(method: str) -> str:
    """Name the method that will run, with "auto" resolved.

    Raises
    ------
    OptionError
        For an unknown method; the message lists the known ones.
    """
    check_choice("method", method, METHODS)
    return AUTO if method == "auto" else method


def check_run(
    *,
    draws: int,
    tune: int | None,
    chains: int,
    cores: int | None,
    random_seed: Any,
    target_se: float | None = None,
) -> None:
    """Refuse a run that cannot start.

    Raises
    ------
    OptionError
    """
    check_whole("draws", draws, 1)
    check_whole("chains", chains, 1)
    if tune is not None:
        check_whole("tune", tune, 0)
    if cores is not None:
        check_whole("cores", cores, 1)
    check_random_seed(random_seed)
    if target_se is not None:
        check_positive("target_se", target_se)


def build_step(method: str, model: pm.Model, options: dict[str, Any]) -> Any:
    """Build the step of a method.

    Parameters
    ----------
    method : str
        One of :data:`STEPS`.
    model : pymc.Model
    options : dict
        Keyword arguments of the step and of ``pm.sample``; those of the step are taken out.

    Raises
    ------
    OptionError
        If neither knows an option, or it is one that the package settles.
    """
    module, name = STEPS[method]
    cls = getattr(import_module(module), name)
    known = set(inspect.signature(cls.__init__).parameters) - {"self", "kwargs", "model", "rng"}
    passed_on = set(inspect.signature(pm.sample).parameters) - _SETTLED
    unknown = sorted(set(options) - known - passed_on)
    if unknown:
        raise OptionError(
            f"Unknown or unavailable options {unknown}{did_you_mean(unknown, known | passed_on)}; "
            f"{name} has {sorted(known)}, and `pm.sample` takes {sorted(passed_on)}. A step of "
            "your own goes to `pm.sample` itself."
        )
    return cls(model=model, **{key: options.pop(key) for key in list(options) if key in known})


def prepare_step(method: str, model: pm.Model, options: dict[str, Any], run: dict[str, Any]) -> Any:
    """Build the step of a method, and say what the run will do unless it is to be quiet.

    Parameters
    ----------
    method, model, options
        As for :func:`build_step`.
    run : dict
        ``draws``, ``tune``, ``chains``, ``cores`` and ``progressbar`` of the run.
    """
    show = bool(run["progressbar"]) and not options.get("quiet", False)
    started = perf_counter()
    with compiling(show):
        step = build_step(method, model, options)
    if show:
        settings = {name: run[name] for name in ("draws", "tune", "chains", "cores")}
        say(plan(step, **settings, compiled=perf_counter() - started))
    return step


def run_chains(
    step: Any,
    model: pm.Model,
    *,
    draws: int,
    tune: int | None,
    chains: int,
    cores: int | None,
    random_seed: Any,
    progressbar: bool,
    **kwargs: Any,
) -> xr.DataTree:
    """``pm.sample`` with a tempered step; statistics labelled, without levels that are not used.

    Raises
    ------
    KeyboardInterrupt
        If the run was interrupted before there were any draws.
    """
    try:
        idata = pm.sample(
            draws,
            tune=tune,
            chains=chains,
            cores=cores,
            step=step,
            model=model,
            random_seed=random_seed,
            progressbar=progressbar,
            **kwargs,
        )
    except ValueError as error:
        if str(error) != _NO_DRAWS:
            raise
        raise KeyboardInterrupt(
            "The run was interrupted before any chain had finished tuning, so there are no draws "
            "to return."
        ) from error
    return compact(label_dimensions(idata))


def run_joint(model: pm.Model, *, tune: int | None, **kwargs: Any) -> LogZEstimate:
    """Joint continuous tempering: NUTS on the tempered model, untempered, with its estimate."""
    from pymc_tempering.evidence.joint_ct import run

    known = {"draws", "chains", "cores", "random_seed", "progressbar", "nuts_sampler"}
    # asked of every pm.sample call; here they are settled by the method
    options = {k: v for k, v in kwargs.items() if k not in ("quiet", "compute_convergence_checks")}
    unknown = set(options) - known
    if unknown:
        raise OptionError(
            f"joint_ct does not know the arguments {sorted(unknown)}"
            f"{did_you_mean(unknown, known)}; it takes {sorted(known)}. "
            "For more control use `temper`, `pm.sample` and `untemper`."
        )
    return estimate_from_idata(run(model, tune=1000 if tune is None else tune, **options))


def sample(
    model: pm.Model | None = None,
    *,
    method: str = "pt",
    draws: int = 1000,
    tune: int | None = None,
    chains: int = DEFAULT_CHAINS,
    cores: int | None = None,
    random_seed: Any = None,
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
    **kwargs
        Options of the step, for instance ``scans_per_draw``, or of ``pm.sample``.

    Returns
    -------
    xarray.DataTree
        Posterior draws (beta = 1), statistics, and the estimate.

    Raises
    ------
    ModelError, OptionError
        Before any sampling.
    DensityError
        If Python code that the model calls raises; from several processes as the cause of PyMC's
        ``ParallelSamplingError``.
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
    check_run(draws=draws, tune=tune, chains=chains, cores=cores, random_seed=random_seed)
    method = resolve_method(method)
    run: dict[str, Any] = {
        "draws": draws, "tune": tune, "chains": chains, "cores": cores,
        "random_seed": random_seed, "progressbar": progressbar,
    }  # fmt: skip
    if method == "joint_ct":
        estimate = run_joint(model, **run, **kwargs)
    else:
        step = prepare_step(method, model, kwargs, run)
        estimate = estimate_from_idata(run_chains(step, model, **run, **kwargs))
    of_run = interruption(estimate.idata, draws=draws, chains=chains)
    estimate = with_doubts(estimate, [*model_doubts(model, estimate.idata), *of_run])
    warn_of(estimate.warnings)
    return estimate.idata
