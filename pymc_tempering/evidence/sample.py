"""Draws from the posterior, and the estimate of log Z attached to them."""

import os
from typing import Any

import pymc as pm
import xarray as xr

from pymc_tempering.checkpoint.store import resumed
from pymc_tempering.estimators.diagnostic import warn_of
from pymc_tempering.evidence.bound import bound_diagnostics
from pymc_tempering.evidence.budget import budget_diagnostics
from pymc_tempering.evidence.interrupted import interruption
from pymc_tempering.evidence.meaning import model_diagnostics
from pymc_tempering.evidence.stored import estimate_from_idata, with_diagnostics
from pymc_tempering.methods import load, resolve_method
from pymc_tempering.options import resolve_model
from pymc_tempering.steps.run import DEFAULT_CHAINS, Sampler, check_budget, check_run

__all__ = ["sample"]


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
    check_run(draws=draws, tune=tune, chains=chains, cores=cores, random_seed=random_seed)
    row = resolve_method(method)
    budget = check_budget(row, max_gradients)
    run = {
        "draws": draws, "tune": tune, "chains": chains, "cores": cores, "progressbar": progressbar,
        "budget": budget,
    }  # fmt: skip
    with resumed(resume, row, random_seed) as (store, seed):
        sampler: Sampler = load(row.prepare)(row, model, kwargs, run | {"store": store})
        idata = sampler(chains=chains, random_seed=seed)
    estimate = estimate_from_idata(idata)
    of_run = interruption(estimate.idata, draws=draws, chains=chains, budget=budget)
    of_run += budget_diagnostics(estimate, budget, draws=draws)
    estimate = with_diagnostics(estimate, [*model_diagnostics(model, estimate.idata), *of_run])
    estimate = with_diagnostics(estimate, bound_diagnostics(model, estimate))
    warn_of(estimate.warnings)
    return estimate.idata
