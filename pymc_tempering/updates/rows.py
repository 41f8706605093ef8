"""Old and new data of a run in one model, its density, and what does not fit together."""

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

from pymc_tempering.errors import DataError, ModelError
from pymc_tempering.evidence.same_model import check_identity, draws_of_model
from pymc_tempering.model.compile import CompiledDensity, compile_density, keep_density
from pymc_tempering.model.identity import Identity, Kept, listed, recipe
from pymc_tempering.model.open_data import OpenDensity, exact_array, shared_of, with_observed
from pymc_tempering.options import did_you_mean
from pymc_tempering.results.identity import observed_values, recorded_identity

_MAY_DIFFER = ("the data ", "the likelihood of ", "the potential ", "the length of the dim ")


def check_all_data(model: pm.Model, tree: xr.DataTree) -> None:
    """Refuse a model of all data with other priors than the run, or that has not its data first."""
    theirs = recorded_identity(tree)
    changes = [] if theirs is None else theirs.changes(Identity.of(model))
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


_opened = Kept[OpenDensity]()


def with_new_rows(
    model: pm.Model, tree: xr.DataTree, new_data: Any
) -> tuple[pm.Model, CompiledDensity]:
    """Model of old and new data, and its density."""
    if not isinstance(new_data, Mapping) or not new_data:
        raise DataError(
            f"`new_data` is {type(new_data).__name__}; expected a mapping of at least one name to "
            "an array of new rows, or the model of all data."
        )
    held = _held(model)
    if unknown := sorted(set(new_data) - set(held)):
        raise DataError(
            f"`new_data` has {unknown}{did_you_mean(unknown, held)}, which the model neither "
            f"observes nor has as `pm.Data`; it has {sorted(held)}. Rename them. If they are "
            "written down in the model, pass the model of all data instead."
        )
    if len({held[name][0] for name in new_data}) < len(new_data):
        raise DataError(
            f"`new_data` has {sorted(new_data)}, of which some observe others; expected all rows "
            "once. Leave out observed variables or the `pm.Data` that they observe."
        )
    # and what earlier updates of other names have made longer
    grown = {n for n, of in held.items() if len(_kept(of, held, tree)) > len(np.atleast_1d(of[1]))}
    named = {*new_data, *grown} if "updates" in tree.children else set(new_data)
    old = {of[0]: _old_rows(of, held, tree) for name, of in held.items() if name in named}
    names = list(old)
    _refuse_priors_of_data(model, names)
    before = _with_values(model, old)
    check_identity(before, tree, "The run")
    rows = {held[n][0]: _checked_rows(n, new, old[held[n][0]]) for n, new in new_data.items()}
    all_rows = {n: np.concatenate([of, rows[n]]) if n in rows else of for n, of in old.items()}
    whole = _with_values(model, all_rows)
    opened = _opened.get(
        model, [*recipe(model), tuple(names)], lambda: OpenDensity(model, names, growing=True)
    )
    if recorded_identity(tree) is None:
        draws_of_model(tree, opened.at(before), before, max_draws=200)
    # where it is finite at none of a few starts, compiling looks further
    with suppress(ModelError):
        keep_density(whole, opened.at(whole))
    return whole, compile_density(whole)


type _Held = tuple[str, np.ndarray]
"""Name of the constant or shared variable that holds data, and its values."""


def _held(model: pm.Model) -> dict[str, _Held]:
    """What holds data, by the names of observed variables and of ``pm.Data``."""
    shared = {d: d.name for d in model.data_vars if isinstance(d, SharedVariable)}
    held = {name: (name, d.get_value()) for d, name in shared.items()}
    for rv in model.observed_RVs:
        value = shared_of(model.rvs_to_values[rv])
        if isinstance(value, Constant):
            held[rv.name] = rv.name, value.data
        elif value in shared:
            held[rv.name] = held[shared[value]]
    return held


def _kept(of: _Held, held: Mapping[str, _Held], tree: xr.DataTree) -> np.ndarray:
    """Values that the run had; the model's own where it kept none."""
    groups = [tree[g].dataset for g in ("observed_data", "constant_data") if g in tree.children]
    names = [name for name, (home, _) in held.items() if home == of[0]]
    kept = [group[name].values for group in groups for name in names if name in group]
    return np.atleast_1d([*kept, of[1]][0])


def _old_rows(of: _Held, held: Mapping[str, _Held], tree: xr.DataTree) -> np.ndarray:
    old = _kept(of, held, tree)
    if of[1].ndim == 0 or old.shape[1:] != of[1].shape[1:]:
        raise DataError(
            f"{of[0]!r} has the shape {old.shape} in the run and {of[1].shape} in the model; "
            "expected rows along a first axis, of the same shape in both."
        )
    return old.astype(of[1].dtype)


def _checked_rows(name: str, given: Any, old: np.ndarray) -> np.ndarray:
    of = f"{name!r} of `new_data`"
    expected = f"expected {old.dtype} of shape (new rows, {', '.join(map(str, old.shape[1:]))})"
    rows = exact_array(of, given, old.dtype, expected)
    if rows.ndim != old.ndim or rows.shape[1:] != old.shape[1:] or len(rows) == 0:
        raise DataError(f"{of} has the shape {rows.shape}; {expected}.")
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
