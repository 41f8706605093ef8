"""The log marginal likelihood of a model or of a stored run, in one call."""

import inspect
import warnings
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.errors import DataError, OptionError, TemperingWarning
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.meaning import model_doubts
from pymc_tempering.evidence.stored import estimate_from_idata, with_notes
from pymc_tempering.options import check_positive, resolve_model
from pymc_tempering.results.datatree import concat_chains, open_hint
from pymc_tempering.sampling import (
    DEFAULT_CHAINS,
    build_step,
    check_run,
    resolve_method,
    run_chains,
    run_joint,
)

__all__ = ["DEFAULT_DRAWS", "estimate_logz"]

DEFAULT_DRAWS = 160
"""Draws of each chain; a draw is ``scans_per_draw`` scans."""

DEFAULT_JOINT_DRAWS = 3000
"""Draws of each chain of joint continuous tempering, where a draw is one step of NUTS."""

# room for the error to turn out larger than the first run said
_SAFETY = 1.15


def estimate_logz(
    model_or_idata: pm.Model | xr.DataTree | None = None,
    *,
    method: str = "pt",
    draws: int | None = None,
    tune: int | None = None,
    chains: int = DEFAULT_CHAINS,
    cores: int | None = None,
    target_se: float | None = None,
    max_chains: int = 64,
    random_seed: Any = None,
    progressbar: bool = True,
    **kwargs: Any,
) -> LogZEstimate:
    """Estimate the log marginal likelihood (evidence) of a model, with its error.

    Given a DataTree from ``pm.sample`` with a tempered step, nothing is sampled: the recorded
    statistics are enough, also after slicing draws, after a round trip through a file, and for
    chains of several runs put together. Options of sampling are then refused, as they would have
    no effect; the same chain twice is, as it would make the error too small.

    Parameters
    ----------
    model_or_idata : pymc.Model or DataTree, optional
        Default: the model of the context.
    method : {"pt", "gibbs_ct", "joint_ct", "st", "hais", "auto"}
        The sampler. "pt", the default: parallel tempering with MBAR. "gibbs_ct": Gibbs continuous
        tempering (Graham & Storkey 2017, eq. 21). "joint_ct": NUTS on the tempered model of
        :func:`pymc_tempering.temper`. "st": simulated tempering with RTS (Carlson et al. 2016,
        eq. 12). "hais": Hamiltonian annealed importance sampling, with bounds (Sohl-Dickstein &
        Culpepper 2012). "auto": parallel tempering, the cheapest for a
        given error on 12 of 13 reference problems.
    draws, tune, chains, cores, random_seed, progressbar
        As in ``pm.sample``; ``draws`` defaults to 160, for "joint_ct" to 3000. A draw is
        ``scans_per_draw`` scans; 160 draws of 4 chains reach an error of a few hundredths of a nat
        on most models.
    target_se : float, optional
        Standard error to reach, in nats: chains are added in rounds until it is.
    max_chains : int
        Where ``target_se`` gives up; the result then says so.
    **kwargs
        Options of the step, for instance ``scans_per_draw`` or ``base``, or of ``pm.sample``.

    Returns
    -------
    LogZEstimate
        With ``log_z``, ``se``, ``interval()``, ``per_chain``, ``warnings`` and the run itself as
        ``idata``.

    Raises
    ------
    ModelError, OptionError, DataError
        Before any sampling.

    Warns
    -----
    TemperingWarning
        Once for everything that speaks against the estimate; the same texts are in ``warnings``.

    Examples
    --------
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
    if isinstance(model_or_idata, xr.DataTree):
        given = {
            "method": method, "draws": draws, "tune": tune, "chains": chains, "cores": cores,
            "max_chains": max_chains, "random_seed": random_seed,
        }  # fmt: skip
        estimate = _estimate_stored(model_or_idata, target_se, kwargs | _changed(given))
    elif isinstance(model_or_idata, pm.Model | None):
        model = resolve_model(model_or_idata, "estimate_logz")
        method = resolve_method(method)
        if draws is None:
            draws = DEFAULT_JOINT_DRAWS if method == "joint_ct" else DEFAULT_DRAWS
        check_run(
            draws=draws, tune=tune, chains=chains, cores=cores, random_seed=random_seed,
            target_se=target_se,
        )  # fmt: skip
        check_positive("max_chains", max_chains, integer=True)
        estimate = _sample_and_estimate(
            model, method, target_se, max_chains, random_seed, kwargs, draws=draws, tune=tune,
            chains=chains, cores=cores, progressbar=progressbar,
        )  # fmt: skip
    else:
        raise DataError(
            f"estimate_logz was given a {type(model_or_idata).__name__}; expected a pymc.Model or "
            "a DataTree from `pm.sample` with a tempered step."
            f"{open_hint(model_or_idata)}"
        )
    for text in estimate.warnings:
        warnings.warn(text, TemperingWarning, stacklevel=2)
    return estimate


def _sample_and_estimate(
    model: pm.Model,
    method: str,
    target_se: float | None,
    max_chains: int,
    random_seed: Any,
    options: dict[str, Any],
    **run: Any,
) -> LogZEstimate:
    if method == "joint_ct":
        if target_se is not None:
            raise OptionError(
                "`target_se` is not available for joint_ct, whose chains belong to one tempered "
                "model; use method='gibbs_ct', or raise `draws`."
            )
        estimate = run_joint(model, random_seed=random_seed, **run, **options)
        return with_notes(estimate, model_doubts(model, estimate.idata))
    step = build_step(method, model, options)
    seeds = _seeds(random_seed)
    idata = run_chains(step, model, random_seed=next(seeds), **run, **options)
    estimate = estimate_from_idata(idata)
    first = run.pop("chains")
    doubts, notes = model_doubts(model, idata), []
    while target_se is not None and not estimate.se <= target_se:
        have = estimate.per_chain.size
        ratio = estimate.se / target_se if np.isfinite(estimate.se) else 2.0
        missing = int(np.ceil(_SAFETY * have * ratio**2)) - have
        more = min(max(missing, first), max_chains - have)
        if more <= 0:
            notes.append(
                f"target_se not reached: the error is {estimate.se:.3g} after {have} chains, more "
                f"than {target_se:g}. Raise `max_chains` (now {max_chains}) or `draws`."
            )
            break
        extra = run_chains(step, model, chains=more, random_seed=next(seeds), **run, **options)
        idata = concat_chains([idata, extra])
        estimate = estimate_from_idata(idata)
    return with_notes(estimate, doubts, notes)


def _changed(options: dict[str, Any]) -> dict[str, Any]:
    """Those of the options of `estimate_logz` that are not at their defaults."""
    parameters = inspect.signature(estimate_logz).parameters
    return {name: value for name, value in options.items() if value is not parameters[name].default}


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
    note = (
        f"target_se not reached: the error of the stored run is {estimate.se:.3g}, more than "
        f"{target_se:g}. Pass the model, so that chains can be added."
    )
    return with_notes(estimate, (), [note])


def _seeds(random_seed: Any) -> Any:
    """Seeds of successive rounds; the first is the user's own."""
    yield random_seed
    if isinstance(random_seed, np.random.Generator):
        while True:
            yield random_seed
    sequence = np.random.SeedSequence(random_seed)
    while True:
        yield int(sequence.spawn(1)[0].generate_state(1)[0])
