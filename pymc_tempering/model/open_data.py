"""One compiled log density for many data sets of one model.

Elsewhere data are constants of the graph, so that the compiler can compute with them; each data set
then takes as long to compile as the first. Here observed values, and ``pm.Data`` where it is asked
for, are read from memory. One C function takes them by address, and a function of two lines knows
the addresses: of data that stay (:meth:`OpenDensity.at`), or of memory that is written to anew for
each data set (:meth:`OpenDensity.refillable`).
"""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

import numba
import numpy as np
import pymc as pm
import pytensor
from pymc.model.fgraph import clone_model
from pymc.pytensorf import compile as pymc_compile
from pytensor.graph.basic import Constant

from pymc_tempering.model.compile import N_VERIFIED, CompiledDensity, compile_frozen
from pymc_tempering.model.freeze import check_finite, copies_of_gps, freeze, starting_points
from pymc_tempering.model.graph import density_graph
from pymc_tempering.model.machine_code import DENSITY_SIGNATURE, numba_mode, wrapper_key
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.python_density import watch_for_python
from pymc_tempering.model.verify import verify_density
from pymc_tempering.private import compile_keyed, graph_key, jitted, without_key

__all__ = ["OpenDensity", "Refillable", "value_of", "with_observed"]

_CORE = """
def tempering_density_of_data(z_pointer, grad_pointer, {pointers}):
    # {types}
    z = carray(z_pointer, ({dim},))
    grad = carray(grad_pointer, ({dim},))
    try:
        value, gradient = inner(z, {arrays})
        for i in range({dim}):
            grad[i] = gradient[i]
        return value.item()
    except Exception:
        return -np.inf
"""

_AT_ADDRESSES = """
def density_at_addresses(z_pointer, grad_pointer):
    return core(z_pointer, grad_pointer, {addresses})
"""


class Refillable(NamedTuple):
    """A density whose data are written anew: what it was before, it is no longer.

    It is for the eyes of one caller: never kept as that of the model, nor sent to another process.
    """

    density: CompiledDensity
    data: dict[str, np.ndarray]

    def fill(self, values: Mapping[str, np.ndarray]) -> None:
        """Write other data, by name; those of the shapes and types that are there."""
        for name, array in values.items():
            into = self.data[name]
            if array.shape != into.shape or not np.can_cast(array.dtype, into.dtype):
                raise ValueError(
                    f"{name!r} is {array.dtype} of shape {array.shape}; the density takes "
                    f"{into.dtype} of shape {into.shape}."
                )
            into[...] = array


class OpenDensity:
    """The log density of a model as a function of its data too.

    Nothing but the data may change, and these in neither shape nor type: the observed values, or
    with ``names`` those of these observed variables and ``pm.Data``. Models that call Python code
    are compiled anew for each data set.
    """

    def __init__(self, model: pm.Model, names: Sequence[str] | None = None) -> None:
        self._frozen = frozen = freeze(model)
        points = PointMap.from_model(frozen)
        self._names = [rv.name for rv in frozen.observed_RVs] if names is None else list(names)
        data = self._variables(frozen)
        inputs = {value: value.type(f"data {name}") for name, value in data.items()}
        graph = density_graph(frozen, points, frozen.logp(), inputs)
        self._no_gradient = graph.no_gradient
        exact = pytensor.config.change_flags(numba__fastmath=False)
        with exact, frozen, watch_for_python() as python_ops:
            self._function = pymc_compile(
                [pytensor.In(v, borrow=True) for v in (graph.z, *inputs.values())],
                [pytensor.Out(v, borrow=True) for v in (graph.log_density, graph.gradient)],
                mode=numba_mode(),
                on_unused_input="ignore",
            )
        self._dtypes = [v.type.dtype for v in data.values()]
        keyed = jitted(self._function)
        in_python = python_ops.found or (pytensor.config.numba__cache and graph_key(keyed) is None)
        self._core = None if in_python or not data else self._compile(keyed, points, data)

    def _compile(self, keyed: Any, points: PointMap, data: dict[str, Any]) -> Any:
        shapes = [np.shape(value_of(v)) for v in data.values()]
        source = _CORE.format(
            dim=points.dim,
            types=list(zip(self._dtypes, shapes, strict=True)),
            pointers=", ".join(f"data_{i}" for i in range(len(shapes))),
            arrays=", ".join(f"carray(data_{i}, {shape})" for i, shape in enumerate(shapes)),
        )
        key, inner = wrapper_key(graph_key(keyed), source), without_key(keyed)
        names = {"__name__": __name__, "carray": numba.carray, "np": np, "inner": inner}
        double = numba.types.CPointer(numba.types.float64)
        pointers = [numba.types.CPointer(numba.from_dtype(np.dtype(d))) for d in self._dtypes]
        signature = numba.types.float64(double, double, *pointers)
        function = compile_keyed(source, "tempering_density_of_data", names, key)
        return numba.cfunc(signature, cache=key is not None)(function)

    def at(self, model: pm.Model) -> CompiledDensity:
        """Give the density with the data that the model of construction has now.

        The values are copied: the density stays as it is when those of the model change.
        """
        frozen = freeze(model)
        if self._core is None:
            return compile_frozen(frozen)
        density = self._reading(frozen, self._copied(frozen), (compile_frozen, (frozen, 0)))
        starts = starting_points(density.start, 0)
        check_finite(density.value_and_grad, density.points, frozen, starts)
        return density

    def refillable(self) -> Refillable | None:
        """Give a density that takes other data at the cost of a copy.

        It has those of the model as it was at construction first, and is verified with them; that
        it is finite anywhere is not looked at. None for models that call Python.
        """
        if self._core is None:
            return None
        data = self._copied(self._frozen)
        return Refillable(self._reading(self._frozen, data, (_stays_here, ())), data)

    def _variables(self, frozen: pm.Model) -> dict[str, Any]:
        observed = {rv.name: frozen.rvs_to_values[rv] for rv in frozen.observed_RVs}
        return {name: observed.get(name, frozen.named_vars[name]) for name in self._names}

    def _copied(self, frozen: pm.Model) -> dict[str, np.ndarray]:
        variables = self._variables(frozen).items()
        return {
            name: np.array(value_of(variable), dtype=dtype, order="C")
            for (name, variable), dtype in zip(variables, self._dtypes, strict=True)
        }

    def _reading(
        self, frozen: pm.Model, data: dict[str, np.ndarray], made_by: tuple[Any, ...]
    ) -> CompiledDensity:
        """Compile the function that knows where these data are, and verify it."""
        assert self._core is not None
        points, arrays = PointMap.from_model(frozen), list(data.values())
        # an address is a number to the one and a pointer to the other, which C does not tell apart
        vector, address = ctypes.POINTER(ctypes.c_double), ctypes.c_size_t
        prototype = ctypes.CFUNCTYPE(ctypes.c_double, vector, vector, *(address for _ in arrays))
        core = prototype(self._core.address)
        source = _AT_ADDRESSES.format(addresses=", ".join(str(a.ctypes.data) for a in arrays))
        names: dict[str, Any] = {"__name__": __name__, "core": core}
        exec(source, names)
        wrapper = numba.cfunc(DENSITY_SIGNATURE)(names["density_at_addresses"])
        start = points.ravel(points.initial)
        density = CompiledDensity(
            address=wrapper.address,
            dim=points.dim,
            start=start,
            points=points,
            model=frozen,
            no_gradient=self._no_gradient,
            calls_python="",
            backend="numba",
            uses_jax=False,
            _function=wrapper.ctypes,
            _keep_alive=(wrapper, core, self._core, self._function, arrays),
            _made_by=made_by,
        )
        starts = starting_points(start, 0)
        verify_density(density.value_and_grad, self._function, starts[:N_VERIFIED], arrays)
        return density


def with_observed(model: pm.Model, make: Callable[[str, Any], Any]) -> pm.Model:
    """Copy of a model that observes the variables ``make(name, old)`` instead."""
    with copies_of_gps():
        copy = clone_model(model)
    with copy:
        for rv in copy.observed_RVs:
            old = copy.rvs_to_values[rv]
            new = make(rv.name, old)
            copy.values_to_rvs.pop(old)
            copy.rvs_to_values[rv] = new
            copy.values_to_rvs[new] = rv
    return copy


def _stays_here(*_: Any) -> NoReturn:
    raise TypeError("a density whose data are written anew cannot be sent to another process")


def value_of(variable: Any) -> Any:
    """Of a constant; or of one that PyMC casts to the type of its distribution."""
    return variable.data if isinstance(variable, Constant) else variable.eval()
