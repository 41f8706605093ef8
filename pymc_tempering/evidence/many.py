"""The evidence of one model for each of many data sets, and draws of their posteriors."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, nullcontext
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from pymc_tempering.checkpoint.blocks import BlockFolder
from pymc_tempering.checkpoint.description import describe
from pymc_tempering.errors import OptionError
from pymc_tempering.estimators.diagnostic import warn_of
from pymc_tempering.evidence.blocks import STOPPED, Found, blocks_of, estimate_blocks, stopped
from pymc_tempering.evidence.many_data import DIM, ManyData, read_data
from pymc_tempering.evidence.many_result import ManyEvidences, Total, gathered, posterior_of
from pymc_tempering.evidence.many_worker import FIT, NEIGHBOUR, Many, reference_at
from pymc_tempering.methods import resolve_method
from pymc_tempering.model.identity import Identity
from pymc_tempering.model.own_ops import packed
from pymc_tempering.options import (
    check_flag,
    check_names,
    check_random_seed,
    check_whole,
    resolve_model,
)
from pymc_tempering.progress import phases
from pymc_tempering.steps.executors import check_executor
from pymc_tempering.steps.run import DEFAULT_CHAINS, check_budget, check_options, check_run

__all__ = ["ManyEvidences", "Total", "estimate_many", "sample_many"]

_OF_ESTIMATE = {"draws", "tune", "chains", "max_chains", "cores", "progressbar", "quiet"}
"""Options of ``estimate_logz`` that are no options of a step."""


def estimate_many(  # noqa: PLR0913 - every option by its name, as of estimate_logz
    model: pm.Model | None = None,
    data: Mapping[str, Any] | xr.Dataset | None = None,
    *,
    method: str = "pt",
    random_seed: Any = None,
    target_se: float = 0.02,
    max_gradients: int | None = None,
    starts: int = 16,
    quick: bool = True,
    reference: Any = "fit",
    threads: int = 1,
    executor: Any = None,
    resume: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
    **kwargs: Any,
) -> ManyEvidences:
    """Estimate the log marginal likelihood of one model for each of many data sets.

    The model is compiled once. For each data set a few ascents look for the mode; where all lead to
    one place, and a Gaussian fits there, log Z comes from importance sampling with a few hundred
    draws. Otherwise there is a run, as of :func:`pymc_tempering.estimate_logz`.

    The quick way assumes that the starts would have met every mode. A mode that none of them meets
    is missed, and nothing says so. Raise `starts`, or give ``quick=False``, for models of which you
    cannot assume it.

    Parameters
    ----------
    model : pymc.Model, optional
        Default: the model of the context. Not changed; its own values of what `data` has do not
        matter.
    data : mapping of str to array, or xarray.Dataset
        Values of observed variables and of ``pm.Data`` by name, with an axis of data sets before
        those of the variable; a Dataset has the dimension "dataset". What is not named is the same
        for all. Shapes and types are those in the model; a list of arrays may have other lengths,
        which no free variable may follow.
    method : str
        Of :func:`pymc_tempering.estimate_logz`, for data sets that need a run. Default "pt".
    random_seed : int or numpy.random.Generator, optional
        The result for a data set depends on the seed and its number alone.
    target_se : float
        Standard error of each log Z, in nats, default 0.02, of importance sampling and of runs,
        but for "joint_ct".
    max_gradients : int, optional
        The most gradients that each data set may take.
    starts : int
        Of ascents, default 16: the model's initial point, and where the density is highest among 64
        draws of the prior and points around that one, outside of the mode that is found from it.
    quick : bool
        Whether to try importance sampling. Default True.
    reference : {"fit", "neighbour"} or callable
        Where to look for the mode. "fit", the default: from the starts, for each data set anew.
        "neighbour": by one ascent from the mode of the data set before, which assumes that there is
        no other mode where that one had none, and saves most where data sets are in an order. Every
        25th, by number, gets all starts, and so does one whose ascent will not do. Or a function of
        the data, such as an encoder: of a mapping of names to the arrays of one data set to the
        mean (D,) and the standard deviations (D,) or lower Cholesky factor (D, D) of a Gaussian, or
        a GaussianBase, on the unconstrained values in the order of ``model.value_vars``. Log Z is
        by importance sampling from it; where its weights vary too much, from a fit that starts are
        drawn from it for; else it is the base of the run, but for "joint_ct", unless the fit has
        a V of up to 1. That fit is the base then, with any ``reference``.
    threads : int
        Of this process, that take the quick way in blocks of data sets, default 1. Runs come after
        them. Results are the same for any number.
    executor : int or executor, optional
        Where blocks of data sets are estimated: so many processes, any
        ``concurrent.futures.Executor`` (of dask, MPI, ...), or a pool with ``map``. Results are the
        same whatever it is.
    resume : path-like, optional
        A folder in which finished blocks are kept, made where there is none; of an executor on
        several machines, one that all of them see. A call that was killed is continued by the same
        call.
    progressbar : bool
        Show how many data sets are done. Default True.
    **kwargs
        Passed to :func:`pymc_tempering.estimate_logz`, for runs.

    Returns
    -------
    ManyEvidences
        With ``dataset``, ``total``, ``failed`` and ``to_datatree()``.

    Raises
    ------
    DataError
        For data that do not fit the model, or hold nan; or a folder of another call.
    BaseError
        For a function `reference` that does not give a Gaussian for the first data set.
    OptionError
        For options that do not fit, before anything is compiled.
    ModelError
        For a model that cannot be tempered whatever its data. What goes wrong for one data set is
        in ``failed``.
    KeyboardInterrupt
        After Ctrl-C before any data set was done. Later, what is done is returned, and kept in the
        folder of `resume`; the others are in ``failed``.

    Warns
    -----
    TemperingWarning
        If it was stopped by Ctrl-C.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_tempering as pm_temper
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=np.zeros(3))
    >>> data = {"y": np.random.default_rng(1).normal(size=(10, 3))}
    >>> many = pm_temper.estimate_many(model, data, random_seed=1, progressbar=False)
    >>> many
    log Z of 10 data sets: 10 by importance; total -40.46 ± 0.04 nats
    """
    return _many(
        model, "estimate_many", data, method=method, random_seed=random_seed, target_se=target_se,
        max_gradients=max_gradients, starts=starts, quick=quick, reference=reference,
        threads=threads, executor=executor, resume=resume, progressbar=progressbar, **kwargs,
    )[0]  # fmt: skip


def sample_many(
    model: pm.Model | None = None,
    data: Mapping[str, Any] | xr.Dataset | None = None,
    *,
    draws: int = 200,
    var_names: Sequence[str] | None = None,
    **kwargs: Any,
) -> xr.DataTree:
    """Draw from the posterior of one model for each of many data sets, with its evidence.

    Where log Z comes from importance sampling (:func:`pymc_tempering.estimate_many`), at least
    twice as many draws as are asked for are weighted, and each is taken as often as its weight
    says (systematic resampling): draws of equal weight and in no order, of which few come twice.
    Elsewhere they are spread evenly over the chains of the run, whose draws depend on each other.

    Parameters
    ----------
    model, data
        As of :func:`pymc_tempering.estimate_many`.
    draws : int
        From each posterior, default 200: as many as estimating log Z gives for nothing.
    var_names : sequence of str, optional
        Free variables and deterministics to be kept. Default: all; where lengths differ, free
        variables alone.
    **kwargs
        All other options of :func:`pymc_tempering.estimate_many`. With ``resume``, draws are read
        from files of that folder when they are looked at: they need not fit into memory.

    Returns
    -------
    xarray.DataTree
        Group ``posterior``: draws with the dimensions "chain", one, "draw" and "dataset", nan where
        a data set has failed, and as floating-point numbers. Group ``tempering``: log Z and its
        error, as of :meth:`.ManyEvidences.to_datatree`.

    Raises
    ------
    DataError, BaseError, OptionError, ModelError
        As :func:`pymc_tempering.estimate_many`, and what is said there of Ctrl-C.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> import pymc_tempering as pm_temper
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=np.zeros(3))
    >>> data = {"y": np.random.default_rng(1).normal(size=(10, 3))}
    >>> found = pm_temper.sample_many(model, data, random_seed=1, progressbar=False)
    >>> found.posterior["x"].dims, found.posterior["x"].shape
    (('chain', 'draw', 'dataset'), (1, 200, 10))
    """
    check_whole("draws", draws, 1)
    many, posterior = _many(
        model, "sample_many", data, n_draws=int(draws), kept=var_names, **kwargs
    )
    tree = many.to_datatree()
    tree["posterior"] = xr.DataTree(posterior)
    return tree


def _many(  # noqa: PLR0913 - the one path of both
    model: pm.Model | None,
    caller: str,
    data: Any,
    *,
    n_draws: int = 0,
    kept: Sequence[str] | None = None,
    method: str = "pt",
    random_seed: Any = None,
    target_se: float = 0.02,
    max_gradients: int | None = None,
    starts: int = 16,
    quick: bool = True,
    reference: Any = FIT,
    threads: int = 1,
    executor: Any = None,
    resume: Any = None,
    progressbar: bool = True,
    **options: Any,
) -> tuple[ManyEvidences, xr.Dataset]:
    """Check the options, estimate all blocks, and put their results together."""
    model = resolve_model(model, caller)
    run = {"random_seed": random_seed, "target_se": target_se}
    _check_options(model, method, options, max_gradients, run)
    check_whole("starts", starts, 1)
    check_flag("quick", quick)
    check_executor(executor)
    check_whole("threads", threads, 1)
    if threads > 1 and executor is not None:
        raise OptionError(
            f"`threads` is {threads}, and there is an `executor`; expected one: threads are "
            "of this process, and an executor has its own workers."
        )
    if not callable(reference) and reference not in (FIT, NEIGHBOUR):
        raise OptionError(
            f"`reference` is {reference!r:.60}; expected {FIT!r}, {NEIGHBOUR!r}, or a function of "
            "the data of one data set that gives a Gaussian."
        )
    given = read_data(model, data)
    variables = _variables(model, kept, given) if n_draws else ()
    with nullcontext() if resume is None else closing(BlockFolder(resume)) as store:
        entropy = _entropy(random_seed, None if store is None else store.seed)
        many = Many(
            packed(given.model), given.inputs, method, options, entropy,
            float(target_se), max_gradients, int(starts), quick, given.lengths, reference, n_draws,
            variables,
        )  # fmt: skip
        base = None
        if callable(reference):
            dim = sum(value.size for value in model.initial_point(random_seed=0).values())
            first = {name: rows[0] for name, rows in given.values.items()}
            base = reference_at(many, first, dim)
        if store is not None:
            store.attach(_description(model, caller, many, given, base))
        blocks = blocks_of(many, given, store)
        with phases(progressbar) as work:
            phase = work.add("Data sets", given.n)
            results = estimate_blocks(many, blocks, threads, executor, store, phase)

        def drawn() -> Iterator[tuple[int, Mapping[str, np.ndarray]]]:
            for block, result in zip(blocks, results, strict=True):
                whole = result if store is None else Found.of(store.read(block.number))
                yield block.first, whole.draws

        def empty(number: int, *of: Any) -> np.ndarray:
            return np.empty(*of) if store is None else store.empty(number, *of)

        posterior = posterior_of(model, drawn(), given.n, given.coordinate, empty)
    found = gathered([o for result in results for o in result.outcomes], given.coordinate)
    n_left = [*found.failed.values()].count(STOPPED)
    if n_left:
        warn_of([stopped(given.n - n_left, given.n, resume)])
    return found, posterior


def _variables(
    model: pm.Model, var_names: Sequence[str] | None, given: ManyData
) -> tuple[str, ...]:
    free, others = ([v.name for v in of] for of in (model.free_RVs, model.deterministics))
    if var_names is None:
        var_names = free if given.lengths else free + others
    check_names("`var_names` of sample_many", var_names, free + others)
    if wrong := given.differing(var_names):
        raise OptionError(
            f"Draws of {wrong} have different shapes in different data sets; leave them out of "
            "`var_names`."
        )
    wrong = [name for name in var_names if DIM in (model.named_vars_to_dims.get(name) or ())]
    if wrong:
        raise OptionError(
            f"{wrong} have a dim {DIM!r} in the model, which is the name of that of data sets. "
            "Rename it in the model, or leave them out by `var_names`."
        )
    return tuple(var_names)


def _check_options(
    model: pm.Model, method: str, options: dict[str, Any], max_gradients: Any, run: dict[str, Any]
) -> None:
    row = resolve_method(method)
    run = run | {name: options.get(name) for name in ("tune", "cores")}
    draws, chains = options.get("draws", row.draws), options.get("chains", DEFAULT_CHAINS)
    check_run(draws=draws, chains=chains, **run)
    check_whole("max_chains", options.get("max_chains", 1), 1)
    check_budget(row, max_gradients)
    if row.step is not None:
        of_step = {name: value for name, value in options.items() if name not in _OF_ESTIMATE}
        check_options(row, model, of_step)


def _entropy(random_seed: Any, kept: Any) -> Any:
    """What all generators come from: of the seed, else of the folder, else of the system."""
    if random_seed is None:
        return np.random.SeedSequence().entropy if kept is None else kept
    check_random_seed(random_seed)
    if isinstance(random_seed, int | np.integer):
        return int(random_seed)
    return np.random.default_rng(random_seed).integers(2**32, size=4).tolist()


def _description(
    model: pm.Model, caller: str, many: Many, data: ManyData, base: Any
) -> dict[str, Any]:
    names = ("method", "target_se", "starts", "max_gradients", "quick", "draws", "variables")
    settings = {name: getattr(many, name) for name in names} | {"data": data.values}
    # of a function what it gives for the first data set
    settings["reference"] = many.reference if base is None else base
    identity = Identity.of(model)
    return describe(model, caller, identity, many.entropy, many.options | settings, {})
