"""One compiled log density for many data sets of one model.

Elsewhere data are constants of the graph, so that the compiler can compute with them; each data set
then takes as long to compile as the first. Here observed values are read from memory. One C
function takes them by address, and a function of two lines for each data set knows the addresses.
"""

import ctypes
from typing import Any

import numba
import numpy as np
import pymc as pm
import pytensor
from pymc.pytensorf import compile as pymc_compile
from pytensor.graph.basic import Constant

from pymc_tempering.model.compile import N_VERIFIED, CompiledDensity, compile_frozen
from pymc_tempering.model.freeze import check_finite, freeze, starting_points
from pymc_tempering.model.graph import density_graph
from pymc_tempering.model.machine_code import DENSITY_SIGNATURE, numba_mode, wrapper_key
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.python_density import watch_for_python
from pymc_tempering.model.verify import verify_density
from pymc_tempering.private import compile_keyed, graph_key, jitted, without_key

__all__ = ["OpenDensity"]

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


class OpenDensity:
    """The log density of a model as a function of its observed values too.

    Nothing but the observed values may change, and these in neither shape nor type. Models that
    call Python code are compiled anew for each data set.
    """

    def __init__(self, model: pm.Model) -> None:
        frozen = freeze(model)
        points = PointMap.from_model(frozen)
        observed = _observed(frozen)
        inputs = {value: value.type(f"data {name}") for name, value in observed.items()}
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
        self._names = list(observed)
        self._dtypes = [v.type.dtype for v in observed.values()]
        keyed = jitted(self._function)
        in_python = python_ops.found or (pytensor.config.numba__cache and graph_key(keyed) is None)
        self._core = None if in_python or not observed else self._compile(keyed, points, observed)

    def _compile(self, keyed: Any, points: PointMap, observed: dict[str, Any]) -> Any:
        shapes = [np.shape(_value(v)) for v in observed.values()]
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
        """Give the density with the observed values that the model of construction has now.

        The values are copied: the density stays as it is when those of the model change.
        """
        frozen = freeze(model)
        if self._core is None:
            return compile_frozen(frozen)
        points = PointMap.from_model(frozen)
        observed = _observed(frozen)
        data = [
            np.array(_value(observed[name]), dtype=dtype, order="C")
            for name, dtype in zip(self._names, self._dtypes, strict=True)
        ]
        # an address is a number to the one and a pointer to the other, which C does not tell apart
        vector, address = ctypes.POINTER(ctypes.c_double), ctypes.c_size_t
        prototype = ctypes.CFUNCTYPE(ctypes.c_double, vector, vector, *(address for _ in data))
        core = prototype(self._core.address)
        source = _AT_ADDRESSES.format(addresses=", ".join(str(a.ctypes.data) for a in data))
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
            _keep_alive=(wrapper, core, self._core, self._function, data),
            _made_by=(compile_frozen, (frozen, 0)),
        )
        starts = starting_points(start, 0)
        verify_density(density.value_and_grad, self._function, starts[:N_VERIFIED], data)
        check_finite(density.value_and_grad, points, frozen, starts)
        return density


def _observed(frozen: pm.Model) -> dict[str, Any]:
    return {rv.name: frozen.rvs_to_values[rv] for rv in frozen.observed_RVs}


def _value(variable: Any) -> Any:
    """Of a constant; or of one that PyMC casts to the type of its distribution."""
    return variable.data if isinstance(variable, Constant) else variable.eval()
