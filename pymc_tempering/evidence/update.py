"""Posterior and evidence of more data, from draws of the posterior of less."""

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_tempering.diagnostics.clustering.tree import find_modes
from pymc_tempering.errors import DataError, ModelError
from pymc_tempering.estimators.diagnostic import warn_of
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.estimate import sample_and_estimate
from pymc_tempering.evidence.reading import check_tree, stored_estimate
from pymc_tempering.evidence.same_model import check_identity, draws_of_model
from pymc_tempering.evidence.stored import has_statistics
from pymc_tempering.model.at_draws import unconstrained_draws
from pymc_tempering.model.compile import CompiledDensity, compile_density, keep_density
from pymc_tempering.model.freeze import discrete_names
from pymc_tempering.model.identity import Identity, Kept, listed, recipe
from pymc_tempering.model.open_data import OpenDensity, with_observed
from pymc_tempering.options import check_whole, did_you_mean, resolve_model, unwrapped
from pymc_tempering.references.posterior import PosteriorDraws
from pymc_tempering.results.identity import observed_values, recorded_identity
from pymc_tempering.steps.run import DEFAULT_CHAINS

__all__ = ["GROUP", "update"]

GROUP = "updates"
"""Group of a run with an entry for each update, along the dimension `update`."""

_MAY_DIFFER = ("the data ", "the likelihood of ", "the potential ", "the length of the dim ")


def update(  # noqa: PLR0913 - every option by its name, as of sample
    idata: xr.DataTree,
    new_data: Mapping[str, Any] | pm.Model,
    model: pm.Model | None = None,
    *,
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
    r"""Update the posterior and the evidence of a run with more data.

    The modes of the old draws are the reference, moved and narrowed by a few ascents; tempering
    corrects it. There is no search for modes: one that the new data open far from all old draws is
    missed.

    Parameters
    ----------
    idata : DataTree
        The run so far, with log Z: of :func:`pymc_tempering.sample`, of an update, or of another
        sampler with ``estimate_logz(idata, model=model).idata``. It has the old data, in
        ``observed_data`` and ``constant_data``.
    new_data : mapping of str to array, or pymc.Model
        New rows by the names of observed variables and ``pm.Data``, to come after the old ones
        along the first axis; what is not named stays. Or the model of all data, as where covariates
        are written down in it: the old observations come first in it, and of its likelihoods
        nothing else is compared.
    model : pymc.Model, optional
        With new rows: the model that was sampled. Default: that of the context. Not changed; its
        own values of what `new_data` has do not matter where the run has them. Compiled once for
        all updates.
    draws, tune, chains, cores, random_seed, max_gradients, resume, executor, progressbar
        As of :func:`pymc_tempering.sample`.
    **kwargs
        Options of :class:`pymc_tempering.ParallelTempering`, or of ``pm.sample``.

    Returns
    -------
    DataTree
        As of :func:`pymc_tempering.sample`, of all data. The group ``updates`` has, for each update
        so far, ``log_increment``, the log probability of the new data given the old, in nats, with
        its error ``log_increment_se``; ``log_marginal_likelihood`` of all data after it, and its
        error; ``gradients``; and the codes of the ``warnings`` that it rests on.

    Raises
    ------
    DataError
        For a run without log Z, of another model, or with other data; for rows that do not fit;
        where a prior depends on the number of rows, or on data that grow.
    ModelError
        For a model with discrete variables, or that cannot be tempered.

    Notes
    -----
    The increment is a difference, :math:`\log Z_{all} - \log Z_{old}`. The new chains have random
    numbers of their own, whatever their reference, so both errors are independent. Increments of
    consecutive updates share a log Z: sums of them telescope, and have the error of the first and
    the last log Z alone, not that of independent terms.

    Examples
    --------
    >>> import pymc as pm
    >>> import pymc_tempering as pm_temper
    >>> options = {"draws": 100, "tune": 50, "chains": 2, "cores": 1, "random_seed": 1,
    ...            "progressbar": False, "quiet": True}
    >>> with pm.Model() as model:
    ...     x = pm.Normal("x", 0.0, 1.0)
    ...     y = pm.Normal("y", x, 0.5, observed=[1.0, 0.8])
    >>> idata = pm_temper.sample(model, **options)
    >>> idata = pm_temper.update(idata, {"y": [1.1]}, model, **options)
    >>> idata["updates"]["log_increment"].values.round(1).tolist()
    [-0.5]
    """
    tree, new_data = check_tree(idata), unwrapped(new_data)
    check_whole("draws", draws, 1)
    before = _evidence_before(tree)
    if isinstance(new_data, pm.Model):
        whole = _checked_model(new_data, tree)
        density = compile_density(whole)
    else:
        whole, density = _with_new_rows(resolve_model(model, "update"), tree, new_data)
    estimate = sample_and_estimate(
        whole, "pt", draws, kwargs | {"base": _known_draws(tree, density)}, tune=tune,
        chains=chains, cores=cores, random_seed=random_seed, max_gradients=max_gradients,
        resume=resume, executor=executor, progressbar=progressbar,
        # a mode that the old draws lack is lacking in the reference
        inherited=[d for d in before.warnings if d.mass_missing],
    )  # fmt: skip
    warn_of(estimate.warnings)
    run = estimate.idata
    assert run is not None
    run[GROUP] = xr.DataTree(_updates(tree, before, estimate))
    return run


def _evidence_before(tree: xr.DataTree) -> LogZEstimate:
    if "tempering" not in tree.children and not has_statistics(tree):
        raise DataError(
            "The run has no log Z, which the increment is relative to. Estimate it first, as in "
            "`idata = estimate_logz(idata, model=model).idata`, and pass that."
        )
    return stored_estimate(tree)


def _updates(tree: xr.DataTree, before: LogZEstimate, after: LogZEstimate) -> xr.Dataset:
    """What the run had of earlier updates, and one entry more."""
    codes = dict.fromkeys(d.code for d in (*before.warnings, *after.warnings))
    values = {
        "log_increment": after.log_z - before.log_z,
        "log_increment_se": float(np.hypot(before.se, after.se)),
        "log_marginal_likelihood": after.log_z,
        "log_marginal_likelihood_se": after.se,
        "gradients": float(sum(after.gradients.values())),
        "warnings": " ".join(codes),
    }
    units = {name: {"units": "nats"} for name in values if name.startswith("log_")}
    row = xr.Dataset({n: ("update", [v], units.get(n, {})) for n, v in values.items()})
    if GROUP not in tree.children:
        return row
    return xr.concat([tree[GROUP].to_dataset(), row], "update", combine_attrs="override")


def _known_draws(tree: xr.DataTree, density: CompiledDensity) -> PosteriorDraws:
    """Unconstrained draws of the old posterior, 4000 at most, and their modes."""
    posterior = tree["posterior"].to_dataset()
    step = -(-posterior.sizes["chain"] * posterior.sizes["draw"] // 4000)
    thinned = xr.DataTree.from_dict({"/posterior": posterior.isel(draw=slice(None, None, step))})
    z = unconstrained_draws(thinned, density)
    mode = find_modes(z.reshape(posterior.sizes["chain"], -1, density.dim)).ravel()
    depth = tree["tempering"].get("search_funnel_depth") if "tempering" in tree.children else None
    return PosteriorDraws(z, mode, 0.0 if depth is None else float(depth.max()))


def _checked_model(model: pm.Model, tree: xr.DataTree) -> pm.Model:
    """Refuse a model of all data with other priors than the run, or that has not its data first."""
    _refuse_discrete(model)
    theirs, ours = recorded_identity(tree), Identity.of(model)
    changes = [] if theirs is None else theirs.changes(ours)
    if changes := [each for each in changes if not each.startswith(_MAY_DIFFER)]:
        raise DataError(
            f"The model of all data and that of the run differ in more than data: in "
            f"{listed(changes)}. Priors have to be the same, those of bambi given as `priors=` and "
            "with `center_predictors=False`: by default they depend on the data."
        )
    have, had = observed_values(model), observed_values(tree)
    for name, old in had.items():
        new = have.get(name, np.empty(0))
        if len(new) < len(old) or not np.array_equal(new[: len(old)], old):
            raise DataError(
                f"{name!r} of the model of all data, of shape {np.shape(new)}, does not begin with "
                f"the values that the run has observed, of shape {old.shape}. Put new rows after "
                "the old ones, which stay as they were."
            )
    if had and all(len(have[name]) == len(old) for name, old in had.items()):
        raise DataError("The model of all data observes no more than the run. Add new rows.")
    return model


def _refuse_discrete(model: pm.Model) -> None:
    if names := discrete_names(model):
        raise ModelError(
            f"The free variables {names} are discrete; `update` fits its reference to continuous "
            "ones. Sample the model of all data afresh, with `sample`."
        )


_opened = Kept[OpenDensity]()


def _with_new_rows(
    model: pm.Model, tree: xr.DataTree, new_data: Any
) -> tuple[pm.Model, CompiledDensity]:
    """Model of old and new data, and its density."""
    _refuse_discrete(model)
    if not isinstance(new_data, Mapping) or not new_data:
        raise DataError(
            f"`new_data` is {type(new_data).__name__}; expected a mapping of at least one name to "
            "an array of new rows, or the model of all data."
        )
    homes = _homes(model)
    if unknown := sorted(set(new_data) - set(homes)):
        raise DataError(
            f"`new_data` has {unknown}{did_you_mean(unknown, homes)}, which the model neither "
            f"observes nor has as `pm.Data`; it has {sorted(homes)}. Rename them. If they are "
            "written down in the model, pass the model of all data instead."
        )
    own = _own_values(model)
    old = {homes[name]: _old_rows(name, homes, own, tree) for name in new_data}
    _refuse_priors_of_data(model, list(old))
    before = _with_values(model, old)
    check_identity(before, tree, "The run")
    rows = {homes[n]: _checked_rows(n, given, old[homes[n]]) for n, given in new_data.items()}
    whole = _with_values(model, {n: np.concatenate([old[n], rows[n]]) for n in old})
    names = list(old)
    opened = _opened.get(
        model, [*recipe(model), tuple(names)], lambda: OpenDensity(model, names, growing=True)
    )
    if recorded_identity(tree) is None:
        draws_of_model(tree, opened.at(before), before, max_draws=200)
    # where it is finite at none of a few starts, compiling looks further
    with suppress(ModelError):
        keep_density(whole, opened.at(whole))
    return whole, compile_density(whole)


def _homes(model: pm.Model) -> dict[str, str]:
    """Name of what holds the data, by the names of observed variables and ``pm.Data``."""
    shared = {d: d.name for d in model.data_vars if isinstance(d, SharedVariable)}
    homes = {name: name for name in shared.values()}
    for rv in model.observed_RVs:
        value = model.rvs_to_values[rv]
        held = [shared[v] for v in ancestors([value]) if v in shared]
        if isinstance(value, Constant) or held:
            homes[rv.name] = held[0] if held else rv.name
    return homes


def _own_values(model: pm.Model) -> dict[str, np.ndarray]:
    held = {d.name: d.get_value() for d in model.data_vars if isinstance(d, SharedVariable)}
    values = ((rv.name, model.rvs_to_values[rv]) for rv in model.observed_RVs)
    return held | {name: v.data for name, v in values if isinstance(v, Constant)}


def _old_rows(
    name: str, homes: Mapping[str, str], own: Mapping[str, np.ndarray], tree: xr.DataTree
) -> np.ndarray:
    """Values that the run had of what is called so; the model's own where it kept none."""
    names = [n for n, home in homes.items() if home == homes[name]]
    groups = (tree[g].dataset for g in ("observed_data", "constant_data") if g in tree.children)
    kept = [group[n].values for group in groups for n in names if n in group]
    like = own[homes[name]]
    old = np.asarray(kept[0] if kept else like)
    if old.ndim == 0 or old.shape[1:] != like.shape[1:]:
        raise DataError(
            f"{name!r} has the shape {old.shape} in the run and {like.shape} in the model; "
            "expected rows along a first axis, of the same shape in both."
        )
    return old.astype(like.dtype)


def _checked_rows(name: str, given: Any, old: np.ndarray) -> np.ndarray:
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise DataError(f"{name!r} of `new_data` is no array: {error}.") from error
    expected = f"expected {old.dtype} of shape (new rows, {', '.join(map(str, old.shape[1:]))})"
    if array.ndim != old.ndim or array.shape[1:] != old.shape[1:] or len(array) == 0:
        raise DataError(f"{name!r} of `new_data` has the shape {array.shape}; {expected}.")
    missing = np.ma.getmaskarray(given).any() if np.ma.isMaskedArray(given) else False
    if missing or (array.dtype.kind == "f" and np.isnan(array).any()):
        raise DataError(
            f"{name!r} of `new_data` has missing values; expected numbers throughout. Leave their "
            "rows out."
        )
    rows = array.astype(old.dtype) if np.can_cast(array.dtype, old.dtype, "same_kind") else None
    if rows is None or (array.dtype.kind in "iu" and not np.array_equal(rows, array)):
        raise DataError(f"{name!r} of `new_data` is of type {array.dtype}; {expected}.")
    return rows


def _refuse_priors_of_data(model: pm.Model, names: list[str]) -> None:
    """Refuse variables that depend on data that grow: more rows would change their priors."""
    dims = {dim for name in names for dim in model.named_vars_to_dims.get(name, ())[:1]}
    grow = {model[name] for name in names} | {model.dim_lengths[dim] for dim in dims}
    wrong = [rv.name for rv in model.free_RVs if grow & set(ancestors([rv]))]
    if wrong:
        raise DataError(
            f"The priors of {wrong} depend on {names} or on the number of their rows, so that new "
            "rows change them. Old draws are no draws of that model; sample it afresh."
        )


def _with_values(model: pm.Model, values: Mapping[str, np.ndarray]) -> pm.Model:
    """Copy of a model with these values of its data, and dims as long as they are."""

    def data(name: str, old: Any) -> Any:
        constant = name in values and isinstance(old, Constant)
        return pt.constant(values[name], name=old.name, dtype=old.dtype) if constant else old

    # pickled and back: shared variables of the copy are its own
    copy: pm.Model = cloudpickle.loads(cloudpickle.dumps(with_observed(model, data, resize=True)))
    for name, array in values.items():
        if isinstance(copy[name], SharedVariable):
            copy[name].set_value(array)
        dims = copy.named_vars_to_dims.get(name, ())[:1]
        if dims and isinstance(copy.dim_lengths[dims[0]], SharedVariable):
            labels = None if copy.coords.get(dims[0]) is None else range(len(array))
            copy.set_dim(dims[0], len(array), labels)
    return copy
