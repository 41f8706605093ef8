"""One compiled log density for many data sets of one model.

Elsewhere data are constants of the graph, so that the compiler can compute with them; each data set
then takes as long to compile as the first. Here observed values, and ``pm.Data`` where it is asked
for, are read from memory. One C function takes a table of their addresses and shapes, and a
function of two lines knows where a table is: of data that stay (:meth:`OpenDensity.at`), or one
that is written anew for each data set (:meth:`OpenDensity.refillable`).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import cloudpickle
import numba
import numpy as np
import pymc as pm
import pytensor
from llvmlite import ir
from numba.extending import intrinsic
from pymc.pytensorf import compile as pymc_compile
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors

from pymc_tempering.errors import DataError, ModelError
from pymc_tempering.model.compile import N_VERIFIED, CompiledDensity, compile_frozen
from pymc_tempering.model.freeze import (
    check_finite,
    copied,
    freeze,
    naming_shapes,
    starting_points,
)
from pymc_tempering.model.graph import KnownIndices, density_graph, interpreted
from pymc_tempering.model.machine_code import at_addresses, numba_mode, wrapped
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.python_density import watch_for_python
from pymc_tempering.model.verify import verify_density
from pymc_tempering.private.of_pymc import has_total_size, resize_observed
from pymc_tempering.private.of_pytensor import graph_key, is_cast, jitted, never_merge


@intrinsic
def pointer(typingctx: Any, address: Any) -> Any:
    """What ``carray`` takes, of an address that compiled code has as a number."""

    def codegen(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], ir.IntType(8).as_pointer())

    return numba.types.voidptr(address), codegen


class Refillable:
    """A density that takes other data at the cost of a note: what it was before, it is no longer.

    It is for the eyes of one caller: never kept as that of the model, nor sent to another process.
    """

    def __init__(
        self,
        density: CompiledDensity,
        table: "_Table",
        indices: KnownIndices,
        check: Callable[[], None],
    ) -> None:
        self.density, self._table, self._indices, self._check = density, table, indices, check
        self._known = {table.shapes}

    def fill(self, values: Mapping[str, np.ndarray]) -> None:
        """Take other data, by name; the density reads them where they are.

        ValueError where their types are others, or shapes that are the same for all. ModelError
        where an index among them is out of range, or the model cannot be evaluated with lengths
        that it is given for the first time.
        """
        self._table.set(values)
        self._indices.check(self._table.arrays)
        if self._table.shapes not in self._known:
            self._check()
            self._known.add(self._table.shapes)


class _Table:
    """Addresses and shapes of arrays, as compiled code reads them."""

    def __init__(self, data: Mapping[str, np.ndarray], types: Sequence[Any]) -> None:
        self._types = dict(zip(data, types, strict=True))
        self._by_name: dict[str, np.ndarray] = {}
        self.numbers = np.zeros(sum(1 + array.ndim for array in data.values()), dtype=np.int64)
        self.set(data)

    @property
    def arrays(self) -> list[np.ndarray]:
        return list(self._by_name.values())

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        return tuple(array.shape for array in self.arrays)

    def set(self, values: Mapping[str, np.ndarray]) -> None:
        fitting = dict(self._by_name)
        for name, given in values.items():
            array, into = np.asarray(given), self._types[name]
            # of any length where there is none
            fits = array.ndim == into.ndim and all(
                length in (None, n) for length, n in zip(into.shape, array.shape, strict=True)
            )
            if not fits or not np.can_cast(array.dtype, into.dtype):
                raise ValueError(
                    f"{name!r} is {array.dtype} of shape {array.shape}; the density takes "
                    f"{into.dtype} of shape {into.shape}."
                )
            fitting[name] = np.require(array, into.dtype, ["C", "A"])
        self._by_name = fitting
        entries = [(array.ctypes.data, *array.shape) for array in self.arrays]
        self.numbers[:] = [number for entry in entries for number in entry]


class OpenDensity:
    """The log density of a model as a function of its data too.

    Nothing but the data may change, and these in neither shape nor type: the observed values, or
    with ``names`` those of these observed variables and ``pm.Data``. Data in ``lengths`` may have
    any length, as :meth:`refillable` takes them. If they are ``growing``, :meth:`at` takes any
    number of rows. Models that call Python code, and of those that grow the ones in which a number
    of rows is written down elsewhere, are compiled anew for each data set.
    """

    def __init__(
        self,
        model: pm.Model,
        names: Sequence[str] | None = None,
        lengths: Sequence[str] = (),
        *,
        growing: bool = False,
        frozen: pm.Model | None = None,
    ) -> None:
        self._names = [rv.name for rv in model.observed_RVs] if names is None else list(names)
        self._growing = growing
        if frozen is None:
            frozen = _with_open_rows(model, self._names) if growing else freeze(model, but=lengths)
        self._frozen = frozen
        points = PointMap.from_model(frozen)
        # a copy, as the values are to stay somewhere
        opened = cloudpickle.loads(cloudpickle.dumps(frozen))
        data = self._variables(opened)
        never_merge(value for value in data.values() if isinstance(value, Constant))
        inputs = {value: value.type(f"data {name}") for name, value in data.items()}
        given = [inputs[value] for value in data.values()]
        inputs |= _lengths(opened, data, inputs)
        _replace_constants(opened, inputs)
        shared = {value: inputs[value] for value in inputs if not isinstance(value, Constant)}
        places = [v if isinstance(v, SharedVariable) else inputs[v] for v in data.values()]
        self._indices = KnownIndices(opened, places)
        graph = density_graph(opened, points, opened.logp(), shared)
        self._no_gradient = graph.no_gradient
        exact = pytensor.config.change_flags(numba__fastmath=False)
        with exact, frozen, watch_for_python() as python_ops:
            self._function = pymc_compile(
                [pytensor.In(v, borrow=True) for v in (graph.z, *given)],
                [pytensor.Out(v, borrow=True) for v in (graph.log_density, graph.gradient)],
                mode=numba_mode(),
                on_unused_input="ignore",
            )
        self._types = [v.type for v in given]
        keyed = jitted(self._function)
        in_python = bool(python_ops) or (pytensor.config.numba__cache and graph_key(keyed) is None)
        self._core = None if in_python or not data else self._compile(keyed, points)

    def _compile(self, keyed: Any, points: PointMap) -> Any:
        arguments, n = ["z"], 0
        for i, of in enumerate(self._types):
            shape = "".join(f"table[{k}], " for k in range(n + 1, n + 1 + of.ndim))
            arguments.append(f"carray(pointer(table[{n}]), ({shape}), type_{i})")
            n += 1 + of.ndim
        dtypes = [np.dtype(of.dtype) for of in self._types]
        names = {f"type_{i}": dtype.type for i, dtype in enumerate(dtypes)} | {"pointer": pointer}
        # types are in the source, so that they are in the key
        table = f"table = carray(table_pointer, ({n},))  # {list(map(str, dtypes))}"
        return wrapped(keyed, points.dim, ", ".join(arguments), table, names)

    def at(self, model: pm.Model) -> CompiledDensity:
        """Give the density with the data that the model of construction has now.

        The values are copied: the density stays as it is when those of the model change.
        """
        return self.at_frozen(freeze(model))

    def at_frozen(self, frozen: pm.Model) -> CompiledDensity:
        """Give the density of a model that is frozen already, as :meth:`at` does."""
        if self._core is None:
            return compile_frozen(frozen)
        table = self._table(frozen)
        self._indices.check(table.arrays)
        # with data as constants, code is other code, and rounds otherwise
        made_by = _elsewhere, (self._frozen, self._names, self._growing, frozen)
        density = self._reading(frozen, table, made_by)
        try:
            self._verify(density, table)
        except ModelError:
            if not self._growing:
                raise
            return compile_frozen(frozen)
        starts = starting_points(density.start)
        check_finite(density.value_and_grad, density.points, frozen, starts)
        return density

    def refillable(self) -> Refillable | None:
        """Give a density that takes other data at the cost of a note.

        It has those of the model as it was at construction first, and is verified with them; that
        it is finite anywhere is not looked at. None for models that call Python.
        """
        if self._core is None:
            return None
        table = self._table(self._frozen)
        self._indices.check(table.arrays)
        density = self._reading(self._frozen, table, (_stays_here, ()))
        self._verify(density, table)
        return Refillable(density, table, self._indices, lambda: self._verify(density, table))

    def _variables(self, frozen: pm.Model) -> dict[str, Any]:
        observed = {rv.name: frozen.rvs_to_values[rv] for rv in frozen.observed_RVs}
        named = dict(frozen.named_vars) | observed
        return {name: shared_of(named[name]) for name in self._names}

    def _table(self, frozen: pm.Model) -> _Table:
        data = {
            name: np.array(value_of(variable), dtype=of.dtype, order="C")
            for (name, variable), of in zip(
                self._variables(frozen).items(), self._types, strict=True
            )
        }
        return _Table(data, self._types)

    def _reading(
        self, frozen: pm.Model, table: _Table, made_by: tuple[Any, ...]
    ) -> CompiledDensity:
        """Compile the function that knows where these data are."""
        assert self._core is not None
        points = PointMap.from_model(frozen)
        closure = at_addresses(self._core.address, [int(table.numbers.ctypes.data)])
        return CompiledDensity(
            address=closure.address, dim=points.dim, start=points.ravel(points.initial),
            points=points, model=frozen, no_gradient=self._no_gradient, calls_python="",
            backend="numba", uses_jax=False, _function=closure.ctypes,
            _keep_alive=(closure, self._core, self._function, table), _made_by=made_by,
        )  # fmt: skip

    def _verify(self, density: CompiledDensity, table: _Table) -> None:
        starts = starting_points(density.start)[:N_VERIFIED]
        function, arrays = self._function, table.arrays
        if self._growing:
            # numbers of rows may be written down in the graph itself, where no input changes them
            with naming_shapes(density.model):
                term = density.model.logp()
            graph = density_graph(density.model, density.points, term)
            function, arrays = interpreted([graph.z], [graph.log_density, graph.gradient]), []
        verify_density(density.value_and_grad, function, starts, arrays)


def exact_array(
    of: str, given: Any, dtype: np.dtype, expected: str, first: str = "in row {}"
) -> np.ndarray:
    """Values that a user gave as data, in the type that a model has them in; nothing is rounded.

    ``of`` says what they are, ``expected`` what they should be, and ``first`` where along the first
    axis, for the DataError where they are no array, are missing in part, or have another type or
    numbers that this one cannot hold.
    """
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise DataError(f"{of} is no array: {error}; {expected}.") from error
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        raise DataError(
            f"{of} is of type {array.dtype}; {expected}. Convert it, by `astype({dtype.name!r})`, "
            "if nothing is lost."
        )
    missing = np.ma.getmaskarray(given) if np.ma.isMaskedArray(given) else np.zeros(array.shape)
    if array.dtype.kind == "f":
        missing = np.logical_or(missing, np.isnan(array))
    if np.any(missing):
        place = first.format(np.argwhere(missing)[0][0])
        raise DataError(
            f"{of} has missing values, {place} first; {expected}, without any. Leave it out, or "
            "write what is missing into the model."
        )
    cast = array.astype(dtype, order="C")
    if array.dtype.kind in "iu" and not np.array_equal(cast, array):
        raise DataError(f"{of} has numbers that {dtype} cannot hold; {expected}.")
    return cast


def with_observed(
    model: pm.Model,
    make: Callable[[str, Any], Any],
    lengths: Sequence[str] = (),
    *,
    resize: bool = False,
) -> pm.Model:
    """Copy of a model that observes the variables ``make(name, old)`` instead.

    They have the shapes of the old ones, but those in ``lengths`` follow the length of these; with
    ``resize``, all do whose shapes differ and that have no dims, whose lengths they follow.
    """
    copy = copied(model)
    with copy:
        for i, rv in enumerate(copy.observed_RVs):
            old = copy.rvs_to_values.pop(rv)
            new = make(rv.name, old)
            copy.values_to_rvs.pop(old)
            differs = new.type.shape != old.type.shape
            follows = resize and differs and not copy.named_vars_to_dims.get(rv.name)
            own = rv
            if follows or rv.name in lengths:
                if has_total_size(rv):
                    raise ModelError(
                        f"{rv.name!r} has a `total_size`, so that other numbers of rows change the "
                        "power of its likelihood. Leave `total_size` away, or give all the data."
                    )
                own = resize_observed(copy, i, new)
            copy.rvs_to_values[own] = new
            copy.values_to_rvs[new] = own
    return copy


_OPEN = "rows of "
"""Before the name of an observed variable, that of the shared variable with its values."""


def _with_open_rows(model: pm.Model, names: Sequence[str]) -> pm.Model:
    """Freeze a model but for these data and the lengths of their first dims."""

    def data(name: str, old: Any) -> Any:
        # of the type of the distribution, which that of `pm.Data` need not be
        constant = name in names and isinstance(old, Constant)
        return pm.Data(_OPEN + name, old.data).astype(old.dtype) if constant else old

    copy = with_observed(model, data, resize=True)
    return freeze(copy, but=[*names, *(_OPEN + name for name in names)])


def _lengths(
    frozen: pm.Model, data: Mapping[str, Any], inputs: Mapping[Any, Any]
) -> dict[Any, Any]:
    """Numbers of rows in place of the lengths of dims that are not frozen."""
    lengths = {}
    for name, variable in data.items():
        dims = frozen.named_vars_to_dims.get(name)
        length = frozen.dim_lengths[dims[0]] if dims else None
        if isinstance(length, SharedVariable):
            lengths[length] = inputs[variable].shape[0]
    return lengths


def _replace_constants(model: pm.Model, inputs: Mapping[Any, Any]) -> None:
    """Put inputs of the same types in the place of a frozen model's constants, in its own graph.

    PyMC computes with constants while it writes down the density, ``x**2`` for one: what it makes
    of them would be replaced nowhere, and be that of the first data for all others.
    """
    ends = [*model.basic_RVs, *model.potentials, *model.rvs_to_values.values()]
    for node in {variable.owner for variable in ancestors(ends) if variable.owner}:
        node.inputs[:] = [inputs.get(v, v) if isinstance(v, Constant) else v for v in node.inputs]
    for rv, value in model.rvs_to_values.items():
        if isinstance(value, Constant):
            model.rvs_to_values[rv] = inputs.get(value, value)


def _elsewhere(
    opened: pm.Model, names: list[str], growing: bool, frozen: pm.Model
) -> CompiledDensity:
    return OpenDensity(opened, names, growing=growing, frozen=opened).at_frozen(frozen)


def _stays_here(*_: Any) -> NoReturn:
    raise TypeError("a density whose data are written anew cannot be sent to another process")


def shared_of(variable: Any) -> Any:
    """What is cast, where it is shared: lengths in the graph may be those of other casts of it."""
    below = variable.owner.inputs[0] if is_cast(variable) else variable
    return below if isinstance(below, SharedVariable) else variable


def value_of(variable: Any) -> Any:
    """Of a constant, a shared variable, or one that PyMC casts to the type of its distribution."""
    if isinstance(variable, SharedVariable):
        return variable.get_value()
    return variable.data if isinstance(variable, Constant) else variable.eval()
