"""``pm.sample`` with a tempered step, and the estimate of log Z attached to the result."""

import inspect
from dataclasses import replace
from importlib import import_module
from typing import Any

import pymc as pm
import xarray as xr

from pymc_tempering.errors import OptionError
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.common import combine
from pymc_tempering.evidence.stored import estimate_from_idata
from pymc_tempering.results.datatree import attach_estimate, label_dimensions
from pymc_tempering.step_methods.common import check_choice, resolve_model

__all__ = ["METHODS", "STEPS", "build_step", "check_run", "resolve_method", "run_chains", "sample"]

STEPS: dict[str, tuple[str, str]] = {
    "pt": ("pymc_tempering.step_methods.parallel", "ParallelTempering"),
    "gibbs_ct": ("pymc_tempering.step_methods.gibbs_continuous", "GibbsCT"),
    "st": ("pymc_tempering.step_methods.simulated", "SimulatedTempering"),
    "hais": ("pymc_tempering.step_methods.hais", "HAIS"),
}
"""For each method: where its step class is."""

METHODS = (*STEPS, "joint_ct", "auto")
"""All methods: the steps, NUTS on the tempered model, and the choice among them."""

AUTO = "pt"
"""What "auto" takes. Parallel tempering had the smallest time to an error of 0.1 nats on every
reference problem (``make bench ARGS="--methods"``), so the rule has no branches."""

DEFAULT_CHAINS = 4


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
    *, draws: int, tune: int | None, chains: int, cores: int | None, target_se: float | None = None
) -> None:
    """Refuse a run that cannot start.

    Raises
    ------
    OptionError
    """
    least = {"draws": 1, "chains": 1}
    given: dict[str, Any] = {"draws": draws, "chains": chains}
    if tune is not None:
        given["tune"], least["tune"] = tune, 0
    if cores is not None:
        given["cores"], least["cores"] = cores, 1
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < least[name]:
            raise OptionError(
                f"`{name}` is {value!r}; expected a whole number of at least {least[name]}."
            )
    if target_se is not None and not target_se > 0:
        raise OptionError(f"`target_se` is {target_se!r}; expected a positive number of nats.")


def build_step(method: str, model: pm.Model, options: dict[str, Any]) -> Any:
    """Build the step of a method.

    Parameters
    ----------
    method : str
        One of :data:`STEPS`.
    model : pymc.Model
    options : dict
        Keyword arguments of the step; those that it knows are taken out.
    """
    module, name = STEPS[method]
    cls = getattr(import_module(module), name)
    known = set(inspect.signature(cls.__init__).parameters) - {"self", "kwargs", "model", "rng"}
    return cls(model=model, **{key: options.pop(key) for key in list(options) if key in known})


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
    """``pm.sample`` with a tempered step, with the dimensions of its statistics labelled."""
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
    return label_dimensions(idata)


def run_joint(model: pm.Model, *, tune: int | None, **kwargs: Any) -> LogZEstimate:
    """Joint continuous tempering: NUTS on the tempered model, untempered, with its estimate."""
    from pymc_tempering.evidence.joint_ct import run

    known = {"draws", "chains", "cores", "random_seed", "progressbar", "nuts_sampler"}
    # asked of every pm.sample call; here they are settled by the method
    options = {k: v for k, v in kwargs.items() if k not in ("quiet", "compute_convergence_checks")}
    unknown = set(options) - known
    if unknown:
        raise OptionError(
            f"joint_ct does not know the arguments {sorted(unknown)}; it takes {sorted(known)}. "
            "For more control use `temper`, `pm.sample` and `untemper`."
        )
    idata, parts = run(model, tune=1000 if tune is None else tune, **options)
    estimate = combine(parts, "joint_ct, bridge")
    return replace(estimate, idata=attach_estimate(idata, estimate, parts.arrays))


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
    check_run(draws=draws, tune=tune, chains=chains, cores=cores)
    method = resolve_method(method)
    if method == "joint_ct":
        return run_joint(
            model, draws=draws, tune=tune, chains=chains, cores=cores,
            random_seed=random_seed, progressbar=progressbar, **kwargs,
        ).idata  # fmt: skip
    step = build_step(method, model, kwargs)
    idata = run_chains(
        step, model, draws=draws, tune=tune, chains=chains, cores=cores,
        random_seed=random_seed, progressbar=progressbar, **kwargs,
    )  # fmt: skip
    return estimate_from_idata(idata).idata
