"""``pm.sample`` with a tempered step, and the estimate of log Z attached to the result."""

import inspect
from importlib import import_module
from typing import Any

import pymc as pm
import xarray as xr

from pymc_tempering.errors import OptionError
from pymc_tempering.evidence.stored import estimate_from_idata
from pymc_tempering.results.datatree import label_dimensions
from pymc_tempering.step_methods.common import check_choice, resolve_model

__all__ = ["STEPS", "build_step", "check_run", "run_chains", "sample"]

STEPS: dict[str, tuple[str, str]] = {
    "pt": ("pymc_tempering.step_methods.parallel", "ParallelTempering"),
}
"""For each method: where its step class is."""

DEFAULT_CHAINS = 4


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
    model : pymc.Model
    options : dict
        Keyword arguments of the step; those that it knows are taken out.

    Raises
    ------
    OptionError
        For an unknown method; the message lists the known ones.
    """
    check_choice("method", method, STEPS)
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
    method : {"pt"}
        The sampler, default parallel tempering.
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
    step = build_step(method, model, kwargs)
    idata = run_chains(
        step, model, draws=draws, tune=tune, chains=chains, cores=cores,
        random_seed=random_seed, progressbar=progressbar, **kwargs,
    )  # fmt: skip
    return estimate_from_idata(idata).idata
