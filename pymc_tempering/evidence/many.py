"""The evidence of one model for each of many data sets."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pymc as pm
import xarray as xr
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors

from pymc_tempering.checkpoint.blocks import BlockFolder
from pymc_tempering.checkpoint.description import describe
from pymc_tempering.errors import DataError
from pymc_tempering.estimators.diagnostic import warn_of
from pymc_tempering.evidence.all_blocks import STOPPED, estimate_blocks, stopped
from pymc_tempering.evidence.blocks import Many, Outcome
from pymc_tempering.methods import resolve_method
from pymc_tempering.model.identity import Identity
from pymc_tempering.model.open_data import with_observed
from pymc_tempering.options import (
    check_flag,
    check_positive,
    check_random_seed,
    check_whole,
    did_you_mean,
    resolve_model,
)
from pymc_tempering.progress import phases
from pymc_tempering.steps.executors import check_executor
from pymc_tempering.steps.run import DEFAULT_CHAINS, check_budget, check_options, check_run

__all__ = ["ManyEvidences", "Total", "estimate_many"]

DIM = "dataset"

_OF_ESTIMATE = {"draws", "tune", "chains", "max_chains", "cores", "progressbar", "quiet"}
"""Options of ``estimate_logz`` that are no options of a step."""


class Total(NamedTuple):
    """Sum of log Z over data sets, and its error, in nats."""

    log_z: float
    se: float


@dataclass(frozen=True, eq=False, repr=False)
class ManyEvidences:
    """Result of :func:`pymc_tempering.estimate_many`.

    Attributes
    ----------
    dataset : xarray.Dataset
        Along the dimension ``dataset``: ``log_marginal_likelihood`` and its error ``se`` in nats;
        ``gradients``, evaluations of the density that it took; ``V``, the variance of the log
        weights of the Gaussian in squared nats, and ``pareto_k``, their tail index, nan where none
        was fitted; ``how``, "importance" or the method of the run; ``why``, what made a run
        necessary; and ``warnings`` of the run, one a line. Where there is no result, numbers are
        nan and texts empty.
    failed : dict of int to str
        What was in the way, by the number of the data set, counted from 0.
    """

    dataset: xr.Dataset
    failed: Mapping[int, str] = field(default_factory=dict)

    @property
    def total(self) -> Total:
        """Log marginal likelihood of all data sets together, with its standard error.

        That is the sum over data sets, whose errors are independent; nan where one has failed.
        """
        se = self.dataset["se"].to_numpy()
        log_z = float(self.dataset["log_marginal_likelihood"].to_numpy().sum())
        return Total(log_z, float(np.sqrt((se**2).sum())))

    def __repr__(self) -> str:
        n = self.dataset.sizes[DIM]
        how = self.dataset["how"].to_numpy()
        names, counts = np.unique(how[how != ""], return_counts=True)
        parts = [f"{count} by {name}" for name, count in zip(names, counts, strict=True)]
        warned = int((self.dataset["warnings"].to_numpy() != "").sum())
        if warned:
            parts.append(f"{warned} with a warning")
        if self.failed:
            numbers = sorted(self.failed)
            listed = ", ".join(map(str, numbers[:5])) + (", ..." if len(numbers) > 5 else "")
            parts.append(f"{len(numbers)} failed ({listed})")
        total = self.total
        known = "" if self.failed else f"; total {total.log_z:.2f} ± {total.se:.2f} nats"
        return f"log Z of {n} data sets: {', '.join(parts)}{known}"


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
        for all. Shapes and types are those in the model.
    method : str
        Of :func:`pymc_tempering.estimate_logz`, for data sets that need a run. Default "pt".
    random_seed : int or numpy.random.Generator, optional
        The result for a data set depends on the seed and its number alone.
    target_se : float
        Standard error of each log Z from importance sampling, in nats, default 0.02. A run has the
        error that its own options give.
    max_gradients : int, optional
        The most gradients that each data set may take.
    starts : int
        Of ascents, default 16: the model's initial point, and where the density is highest among 64
        draws of the prior and points around that one, outside of the mode that is found from it.
    quick : bool
        Whether to try importance sampling. Default True.
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
        With ``dataset``, ``total`` and ``failed``.

    Raises
    ------
    DataError
        For data that do not fit the model, or hold nan; or a folder of another call.
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
    log Z of 10 data sets: 10 by importance; total -40.53 ± 0.02 nats
    """
    model = resolve_model(model, "estimate_many")
    _check_options(
        model, method, kwargs, random_seed=random_seed, target_se=target_se,
        max_gradients=max_gradients, executor=executor,
    )  # fmt: skip
    check_whole("starts", starts, 1)
    check_flag("quick", quick)
    given = _by_name(data)
    conditioned, inputs = _with_inputs(model, list(given))
    values = {n: _checked(n, given[n], conditioned[inputs[n]].get_value()) for n in given}
    n = _same_length(values)
    # the model is the same in every process, and compiled with the first data set
    for name, array in values.items():
        conditioned[inputs[name]].set_value(array[0])
    with nullcontext() if resume is None else closing(BlockFolder(resume)) as store:
        entropy = _entropy(random_seed, None if store is None else store.seed)
        many = Many(
            cloudpickle.dumps(conditioned), inputs, method, kwargs, entropy, float(target_se),
            max_gradients, int(starts), quick,
        )  # fmt: skip
        if store is not None:
            store.attach(_description(model, many, values))
        with phases(progressbar) as work:
            blocks = estimate_blocks(many, values, n, executor, store, work.add("Data sets", n))
    coordinate = data[DIM] if isinstance(data, xr.Dataset) and DIM in data.coords else np.arange(n)
    many_evidences = _gathered(blocks, coordinate)
    n_left = [*many_evidences.failed.values()].count(STOPPED)
    if n_left:
        warn_of([stopped(n - n_left, n, resume)])
    return many_evidences


def _check_options(
    model: pm.Model,
    method: str,
    options: dict[str, Any],
    *,
    random_seed: Any,
    target_se: float,
    max_gradients: int | None,
    executor: Any,
) -> None:
    row = resolve_method(method)
    run = {name: options.get(name) for name in ("tune", "cores")}
    draws, chains = options.get("draws", row.draws), options.get("chains", DEFAULT_CHAINS)
    check_run(draws=draws, chains=chains, random_seed=random_seed, target_se=target_se, **run)
    check_positive("max_chains", options.get("max_chains", 1), integer=True)
    check_budget(row, max_gradients)
    check_executor(executor)
    if row.step is not None:
        of_step = {name: value for name, value in options.items() if name not in _OF_ESTIMATE}
        check_options(row, model, of_step)


def _by_name(data: Any) -> dict[str, Any]:
    """Arrays by name, the axis of data sets first."""
    if isinstance(data, xr.Dataset):
        without = [str(name) for name, values in data.items() if DIM not in values.dims]
        if without:
            raise DataError(
                f"{without} of `data` lack the dimension {DIM!r}; expected every variable to have "
                "it. Rename that of the data sets, or leave out what is the same for all."
            )
        return {str(n): values.transpose(DIM, ...).to_numpy() for n, values in data.items()}
    if not isinstance(data, Mapping) or not data:
        raise DataError(
            f"`data` is {type(data).__name__}; expected a mapping of at least one name to an array "
            f"with a leading axis of data sets, or an xarray.Dataset with the dimension {DIM!r}."
        )
    return dict(data)


def _with_inputs(model: pm.Model, names: Sequence[str]) -> tuple[pm.Model, dict[str, str]]:
    """Copy of a model whose named data are shared variables, and what these are called."""
    observed = {rv.name for rv in model.observed_RVs}
    shared = {d.name for d in model.data_vars if isinstance(d, SharedVariable)}
    known = observed | shared
    unknown = sorted(set(names) - known)
    if unknown:
        raise DataError(
            f"`data` has {unknown}{did_you_mean(unknown, known)}, which the model neither observes "
            f"nor has as `pm.Data`; it has {sorted(known)}. Rename them, or leave them out."
        )
    used = set(ancestors([model.logp()]))
    idle = [name for name in names if name in shared and model[name] not in used]
    if idle:
        raise DataError(f"The density of the model does not depend on {idle}; leave them out.")
    inputs = {name: f"{name} of each data set" if name in observed else name for name in names}

    def data(name: str, old: Any) -> Any:
        # of the type of the distribution, which that of `pm.Data` need not be
        return pm.Data(inputs[name], old.eval()).astype(old.dtype) if name in inputs else old

    # pickled and back: shared variables of the copy are its own
    return cloudpickle.loads(cloudpickle.dumps(with_observed(model, data))), inputs


def _checked(name: str, given: Any, like: np.ndarray) -> np.ndarray:
    """Data of one variable in the type that the model has them in."""
    masked = np.ma.isMaskedArray(given) and np.ma.getmaskarray(given).any()
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise DataError(f"{name!r} of `data` is no array: {error}. Give it one shape.") from error
    expected = f"expected {like.dtype} of shape (number of data sets, *{like.shape})"
    if array.ndim != like.ndim + 1 or array.shape[1:] != like.shape or len(array) == 0:
        raise DataError(
            f"{name!r} of `data` has the shape {array.shape}; {expected}, as in the model. Data "
            "sets of other shapes need models of their own."
        )
    if not np.can_cast(array.dtype, like.dtype, "same_kind"):
        raise DataError(
            f"{name!r} of `data` is of type {array.dtype}; {expected}. Convert it, by "
            f"`astype({like.dtype.name!r})`, if nothing is lost."
        )
    missing = np.isnan(array) if array.dtype.kind == "f" else np.zeros(array.shape, dtype=bool)
    if masked or missing.any():
        where = missing | np.ma.getmaskarray(given) if masked else missing
        i = int(np.argwhere(where)[0][0])
        raise DataError(
            f"{name!r} of `data` has missing values, in data set {i} first; expected numbers "
            "throughout. Leave that data set out, or write what is missing into the model."
        )
    cast = array.astype(like.dtype, order="C")
    if array.dtype.kind in "iu" and not np.array_equal(cast, array):
        raise DataError(
            f"{name!r} of `data` has numbers that {like.dtype} cannot hold; {expected}."
        )
    return cast


def _same_length(values: Mapping[str, np.ndarray]) -> int:
    lengths = {name: len(array) for name, array in values.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(
            f"The arrays of `data` have different numbers of data sets, {lengths}; expected one."
        )
    return next(iter(lengths.values()))


def _entropy(random_seed: Any, kept: Any) -> Any:
    """What all generators come from: of the seed, else of the folder, else of the system."""
    if random_seed is None:
        return np.random.SeedSequence().entropy if kept is None else kept
    check_random_seed(random_seed)
    if isinstance(random_seed, int | np.integer):
        return int(random_seed)
    return np.random.default_rng(random_seed).integers(2**32, size=4).tolist()


def _description(model: pm.Model, many: Many, values: Mapping[str, np.ndarray]) -> dict[str, Any]:
    digest = hashlib.sha256()
    for name, array in values.items():
        digest.update(f"{name} {array.dtype} {array.shape} ".encode() + array.tobytes())
    names = ("method", "target_se", "starts", "max_gradients", "quick")
    settings = {name: getattr(many, name) for name in names} | {"data": digest.hexdigest()[:16]}
    identity = Identity.of(model)
    return describe(model, "estimate_many", identity, many.entropy, many.options | settings, {})


_NAMES = {"log_z": "log_marginal_likelihood", "variance": "V"}


def _gathered(blocks: Sequence[Mapping[str, Any]], coordinate: Any) -> ManyEvidences:
    columns = {name: np.concatenate([np.asarray(b[name]) for b in blocks])
               for name in Outcome._fields}  # fmt: skip
    failures = columns.pop("failure")
    failed = {int(i): str(failures[i]) for i in np.flatnonzero(failures != "")}
    variables = {_NAMES.get(name, name): (DIM, values) for name, values in columns.items()}
    return ManyEvidences(xr.Dataset(variables, coords={DIM: coordinate}), failed)
