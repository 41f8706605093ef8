"""The data of many data sets: checked, and as inputs of one model."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import pymc as pm
import xarray as xr
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.traversal import ancestors

from pymc_tempering.errors import DataError
from pymc_tempering.model.freeze import freeze
from pymc_tempering.model.graph import interpreted
from pymc_tempering.model.open_data import exact_array, shared_of, value_of, with_observed
from pymc_tempering.options import did_you_mean
from pymc_tempering.private.of_pytensor import with_types_of

DIM = "dataset"

type Rows = np.ndarray | list[np.ndarray]


@dataclass(frozen=True)
class ManyData:
    """Data sets of a model."""

    model: pm.Model  # a copy, whose data are shared variables with the values of the first data set
    inputs: dict[str, str]  # name of that shared variable, by the name of the data
    values: dict[str, Rows]  # by name, along the first axis
    lengths: tuple[str, ...]  # names of data whose lengths may differ
    coordinate: Any  # labels of the data sets

    @property
    def n(self) -> int:
        """Number of data sets."""
        return len(next(iter(self.values.values())))

    def rows(self, first: int, size: int) -> dict[str, Rows]:
        """Some of them, by name."""
        return {name: rows[first : first + size] for name, rows in self.values.items()}

    def differing(self, names: Sequence[str]) -> list[str]:
        """Of these variables, those whose shapes differ between data sets."""
        graphs = self.model.replace_rvs_by_values([self.model[name] for name in names])
        inputs, shapes = self.model.value_vars, [graph.shape for graph in graphs]
        function = interpreted(inputs, shapes, on_unused_input="ignore")
        point, found = self.model.initial_point(random_seed=0), []
        for i in reversed(range(self.n)):
            for name, values in self.values.items():
                self.model[self.inputs[name]].set_value(values[i])
            # data that do not go together fail by name later
            with suppress(ValueError, IndexError):
                found.append([tuple(shape) for shape in function(**point)])
        columns = zip(names, zip(*found, strict=True), strict=False)
        return [name for name, column in columns if len(set(column)) > 1]


def read_data(model: pm.Model, data: Any) -> ManyData:
    """Check data against a model, and make them its inputs; DataError where they do not fit."""
    given, coordinate = _by_name(model, data)
    old = _values_in(model, list(given))
    lengths = tuple(
        name
        for name, rows in given.items()
        if isinstance(rows, list | tuple) and {np.shape(row) for row in rows} - {old[name].shape}
    )
    conditioned, inputs = _with_inputs(model, list(given), lengths)
    values: dict[str, Rows] = {}
    for name, rows in given.items():
        like = conditioned[inputs[name]].get_value()
        if name in lengths:
            values[name] = [_checked(name, row, like, i) for i, row in enumerate(rows)]
        else:
            values[name] = _checked(name, rows, like)
    numbers = {name: len(rows) for name, rows in values.items()}
    if len(set(numbers.values())) > 1:
        raise DataError(
            f"The arrays of `data` have different numbers of data sets, {numbers}; expected one."
        )
    # the model is the same in every process, and compiled with the first data set
    for name, rows in values.items():
        conditioned[inputs[name]].set_value(rows[0])
    _check_free_shapes(conditioned, inputs, lengths)
    n = len(next(iter(values.values())))
    if coordinate is None:
        coordinate = np.arange(n)
    return ManyData(conditioned, inputs, values, lengths, coordinate)


def _by_name(model: pm.Model, data: Any) -> tuple[dict[str, Any], Any]:
    """Arrays by name, the axis of data sets first; and its labels, where xarray has them."""
    kind = type(data).__name__
    if isinstance(data, xr.Dataset):
        without = [str(name) for name, values in data.items() if DIM not in values.dims]
        if without:
            raise DataError(
                f"{without} of `data` lack the dimension {DIM!r}; expected every variable to have "
                "it. Rename that of the data sets, or leave out what is the same for all."
            )
        data = dict(data.data_vars)
    if not isinstance(data, Mapping) or not data:
        raise DataError(
            f"`data` is {kind}, without arrays by name; expected a mapping of at least one name to "
            "an array with a leading axis of data sets, or to a list of arrays of different "
            f"lengths; or an xarray.Dataset with the dimension {DIM!r}."
        )
    of_xarray = [v for v in data.values() if isinstance(v, xr.DataArray) and DIM in v.dims]
    labels = [values[DIM] for values in of_xarray if DIM in values.coords]
    if any(not each.equals(labels[0]) for each in labels):
        raise DataError(
            f"The arrays of `data` have different labels along {DIM!r}; expected one. Put them "
            "into an xarray.Dataset, which brings them into one order."
        )
    given = {
        str(name): _in_order_of(model, str(name), v) if any(v is x for x in of_xarray) else v
        for name, v in data.items()
    }
    return given, labels[0] if labels else None


def _in_order_of(model: pm.Model, name: str, values: xr.DataArray) -> np.ndarray:
    """Data sets first, then the dims of the model, with their labels in its order."""
    dims = model.named_vars_to_dims.get(name) or ()
    if {DIM, *dims} != set(values.dims):
        return values.transpose(DIM, ...).to_numpy()
    for dim in dims:
        labels, theirs = model.coords.get(dim), values.indexes.get(dim)
        if labels is None or theirs is None or list(theirs) == list(labels):
            continue
        if len(theirs) != len(labels) or set(theirs) != set(labels):
            raise DataError(
                f"{name!r} of `data` has the labels {list(theirs)!r:.60} along {dim!r}; the model "
                f"has {list(labels)!r:.60}. Give it those, or drop the labels if the order is "
                f"that of the model: `drop_vars({dim!r})`."
            )
        values = values.sel({dim: list(labels)})
    return values.transpose(DIM, *dims).to_numpy()


def _values_in(model: pm.Model, names: Sequence[str]) -> dict[str, np.ndarray]:
    """What a model has of these now; DataError for names of which its density has nothing."""
    observed = {rv.name: model.rvs_to_values[rv] for rv in model.observed_RVs}
    shared = {d.name: d for d in model.data_vars if isinstance(d, SharedVariable)}
    known = shared | observed
    unknown = sorted(set(names) - set(known))
    if unknown:
        raise DataError(
            f"`data` has {unknown}{did_you_mean(unknown, known)}, which the model neither observes "
            f"nor has as `pm.Data`; it has {sorted(known)}. Rename them, or leave them out."
        )
    used = set(ancestors([model.logp()]))
    idle = [name for name in names if name in shared and model[name] not in used]
    if idle:
        raise DataError(f"The density of the model does not depend on {idle}; leave them out.")
    return {name: np.asarray(value_of(known[name])) for name in names}


def _with_inputs(
    model: pm.Model, names: Sequence[str], lengths: Sequence[str]
) -> tuple[pm.Model, dict[str, str]]:
    """Copy of a model whose named data are shared variables, and what these are called."""
    homes = {rv.name: shared_of(model.rvs_to_values[rv]) for rv in model.observed_RVs}
    inputs = {name: f"{name} of each data set" if name in homes else name for name in names}
    held = {n: home.name for n, home in homes.items() if isinstance(home, SharedVariable)}
    if twice := {name: home for name, home in held.items() if {name, home} <= {*names}}:
        raise DataError(
            f"`data` has observed variables and the `pm.Data` that they observe, {twice}; expected "
            "one of each. Leave the others out."
        )

    def data(name: str, old: Any) -> Any:
        # of the type of the distribution, which that of `pm.Data` need not be
        return pm.Data(inputs[name], old.eval()).astype(old.dtype) if name in inputs else old

    lengths = [*lengths, *(name for name, home in held.items() if home in lengths)]
    copy = with_observed(model, data, lengths)
    for name in lengths:
        # labels are of one length
        copy.named_vars_to_dims.pop(name, None)
    # pickled and back: shared variables of the copy are its own
    return cloudpickle.loads(cloudpickle.dumps(copy)), inputs


def _checked(name: str, given: Any, like: np.ndarray, row: int | None = None) -> np.ndarray:
    """Data of one variable in the type that the model has them in.

    Of all data sets, of the shape of the model's; or of the one in a row, of any length.
    """
    of, first = f"{name!r} of `data`", "in data set {}"
    expected = f"expected {like.dtype} of shape (number of data sets, *{like.shape})"
    if row is not None:
        of, first = f"{of}, data set {row},", f"in data set {row}"
        expected = f"expected arrays of {like.dtype} with {like.ndim} axes"
    array = exact_array(of, given, like.dtype, expected, first)
    fits = array.ndim == like.ndim
    if row is None:
        fits = array.ndim == like.ndim + 1 and array.shape[1:] == like.shape and len(array) > 0
    if not fits:
        raise DataError(
            f"{of} has the shape {array.shape}; {expected}, as in the model. Where lengths differ, "
            "give a list with an array for each data set; other axes need models of their own."
        )
    return array


def _check_free_shapes(model: pm.Model, inputs: Mapping[str, str], lengths: Sequence[str]) -> None:
    """Refuse data that shapes of free variables follow: each is another model."""
    whole = freeze(model, discrete=True)
    open_ended = freeze(model, discrete=True, but=[inputs[name] for name in lengths]).free_RVs
    values = {whole[inside]: whole[inside].type() for inside in inputs.values()}
    unknown = with_types_of(whole.free_RVs, values)
    for others, of in ((open_ended, f"lengths of {list(lengths)}"), (unknown, "values of data")):
        follow = [
            rv.name
            for rv, other in zip(whole.free_RVs, others, strict=True)
            if None in other.type.shape and None not in rv.type.shape
        ]
        if follow:
            raise DataError(
                f"The shapes of the free variables {follow} follow the {of}, which differ between "
                "data sets. Write them with a fixed shape, that of the longest data set, and pick "
                "entries by an index; or call for all data sets of one length at a time."
            )
