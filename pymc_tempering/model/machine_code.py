"""From a graph to a C function, by the backend of PyTensor that can compile it.

PyTensor compiles the graph with its numba backend. A small wrapper turns the result into a C
function that any compiled kernel can call by address. The wrapper is kept on disk, so that a second
process starts in tenths of a second, under a key of everything it depends on: the graph with its
constants, the source, the dimension, types, flags and versions. Where an Op has no machine code, or
numba refuses the graph, the C function calls Python (:mod:`pymc_tempering.model.python_density`):
what JAX compiled, if Ops are made for it, or else what PyTensor's C backend did.
"""

import ctypes
import hashlib
import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import llvmlite
import llvmlite.binding as llvm
import numba
import numpy as np
import pymc as pm
import pytensor
from llvmlite import ir
from pymc.pytensorf import compile as pymc_compile
from pytensor.compile.mode import Mode, get_mode
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.basic import graph_rewriter

from pymc_tempering.errors import ModelError, TemperingError
from pymc_tempering.model.point import PointMap
from pymc_tempering.model.python_density import (
    jax_function,
    jax_is_installed,
    made_for_jax,
    python_density,
    watch_for_python,
)
from pymc_tempering.private.of_pytensor import compile_keyed, graph_key, jitted, without_key

_DOUBLE, _INT = (numba.types.CPointer(t) for t in (numba.types.float64, numba.types.int64))
_SIGNATURE = numba.types.float64(_DOUBLE, _DOUBLE)
_SIGNATURE_OF_TABLE = numba.types.float64(_DOUBLE, _DOUBLE, _INT)

# An exception must not cross into a kernel: whatever the graph raises is a point of zero density.
_WRAPPER = """
def tempering_density(z_pointer, grad_pointer{table_pointer}):
    z = carray(z_pointer, ({dim},))
    grad = carray(grad_pointer, ({dim},))
    {table}
    try:
        value, gradient = inner({arguments})
        for i in range({dim}):
            grad[i] = gradient[i]
        return value.item()
    except Exception:
        return -np.inf
"""

_NUMBERS = itertools.count()  # of closures, whose names have to differ
_ONE_AT_A_TIME = threading.Lock()  # there must be one engine: with a second, closures of one go

_PYTHON_OPS = "parts of the model are Python code"


class MachineCode(NamedTuple):
    """A compiled graph; its address is valid as long as this object lives."""

    address: int  # of `double f(const double *z, double *grad)`
    called: Any  # the same as a ctypes function
    function: Any  # PyTensor's, from the flat vector to the log density (nats) and its gradient
    calls_python: str  # why an evaluation calls Python; empty where it does not
    backend: str  # which of `BACKENDS` computes it
    keep_alive: Any


class _Graph(NamedTuple):
    """What is compiled, for ``pytensor.function``."""

    inputs: list[Any]
    outputs: list[Any]
    points: PointMap


def machine_code(
    z: Any, log_density: Any, gradient: Any, points: PointMap, backend: str | None = None
) -> MachineCode:
    """Compile a log density (nats) of the flat vector ``z`` and its gradient to a C function.

    `backend` is the only one to be tried. By default it is numba; JAX where Ops are written for it
    that numba has no machine code of; C for what numba refuses; and JAX for what both refuse.
    ModelError if no backend can compile the graph; OptionError if JAX is asked for and not there.
    """
    # the flat vector is of doubles also where the graph is of single precision
    inputs = [pytensor.In(z, borrow=True, allow_downcast=True)]
    outputs = [pytensor.Out(log_density, borrow=True), pytensor.Out(gradient, borrow=True)]
    graph, refused = _Graph(inputs, outputs, points), dict[str, Exception]()

    def attempt(name: str, why: str) -> MachineCode | None:
        try:
            return BACKENDS[name](graph, why)
        except TemperingError:
            raise
        except Exception as error:  # noqa: BLE001  dispatch of others' Ops raises what it likes
            refused[name] = error
            return None

    if backend is not None:
        code = attempt(backend, "`backend` asks for it")
    else:
        by_numba = attempt("numba", "")
        if by_numba is not None and not by_numba.calls_python:
            return by_numba
        for_jax = made_for_jax(log_density)
        written = attempt("jax", f"{for_jax} is written for it") if for_jax else None
        code = written or by_numba
        if code is None:
            kind = type(refused["numba"]).__name__
            code = attempt("c", f"numba cannot compile the model ({kind})")
        if code is None and not for_jax and jax_is_installed():
            code = attempt("jax", "neither numba nor C can")
    if code is None:
        raise _refusal(refused, requested=backend is not None) from list(refused.values())[-1]
    return code


def _refusal(refused: dict[str, Exception], *, requested: bool) -> ModelError:
    by = " nor ".join(f"by {_LABELS[name]} ({error})" for name, error in refused.items())
    neither, remedy = ("", ", or leave `backend` away") if requested else ("neither ", "")
    return ModelError(
        f"The log density of this model cannot be compiled, {neither}{by}. Look at the Ops that "
        f"are named there{remedy}."
    )


def _by_numba(graph: _Graph, why: str) -> MachineCode:  # noqa: ARG001  it is the first choice
    # A compiler free to reorder sums does so in one way where it compiles the whole of a model, and
    # in another where it finds parts in the cache: a seed would give other draws the second time.
    with pytensor.config.change_flags(numba__fastmath=False), watch_for_python() as python_ops:
        function = pymc_compile(graph.inputs, graph.outputs, mode=numba_mode())
    inner = jitted(function)
    # An Op whose compiled code has no key was registered by others, and may call Python unsaid.
    unknown = pytensor.config.numba__cache and graph_key(inner) is None
    if python_ops or unknown:
        # compiled here and not at the first call, where the model's own exceptions are carried out
        inner.compile((numba.types.float64[::1],))
        return _through_python(inner, function, graph.points, "numba", _PYTHON_OPS)
    dim, dtype = graph.points.dim, graph.inputs[0].variable.dtype
    try:
        wrapper = wrapped(inner, dim)
    except numba.TypingError:
        if dtype == "float64":
            raise
        # products with constants of single precision take nothing else
        wrapper = wrapped(inner, dim, f"z.astype(np.{dtype})")
    return MachineCode(wrapper.address, wrapper.ctypes, function, "", "numba", wrapper)


def _by_c(graph: _Graph, why: str) -> MachineCode:
    # without a C compiler of PyTensor's the same mode runs in Python
    function = pymc_compile(graph.inputs, graph.outputs, mode="CVM")
    said = f"{_LABELS['c']} computes it: {why}"
    return _through_python(function, function, graph.points, "c", said)


def _by_jax(graph: _Graph, why: str) -> MachineCode:
    start = graph.points.ravel(graph.points.initial)
    called, function = jax_function(graph.inputs, graph.outputs, start)
    said = f"{_LABELS['jax']} computes it: {why}"
    return _through_python(called, function, graph.points, "jax", said)


BACKENDS: dict[str, Callable[[_Graph, str], MachineCode]] = {
    "numba": _by_numba,
    "c": _by_c,
    "jax": _by_jax,
}
"""What may compile a graph, by the names that ``pm.sample(backend=...)`` has for it."""

_LABELS = {"numba": "numba", "c": "PyTensor's C backend", "jax": "JAX"}


def _through_python(
    value_and_grad: Any, function: Any, points: PointMap, backend: str, why: str
) -> MachineCode:
    called = python_density(value_and_grad, points)
    address = int(ctypes.cast(called, ctypes.c_void_p).value or 0)
    return MachineCode(address, called, function, why, backend, None)


def wrapped(
    inner: Any, dim: int, arguments: str = "z", table: str = "", beside: Mapping[str, Any] = {}
) -> Any:
    """Make a C function of what numba compiled, which takes `arguments`.

    The statement `table` reads what they need from a third pointer, ``table_pointer``, with names
    `beside` its own.
    """
    pointer = ", table_pointer" if table else ""
    text = _WRAPPER.format(dim=dim, arguments=arguments, table=table, table_pointer=pointer)
    key = wrapper_key(graph_key(inner), text)
    # numba's cache imports the module that a function claims to come from
    names = {"__name__": __name__, "carray": numba.carray, "np": np, "inner": without_key(inner)}
    source = compile_keyed(text, "tempering_density", names | dict(beside), key)
    signature = _SIGNATURE_OF_TABLE if table else _SIGNATURE
    return numba.cfunc(signature, cache=key is not None)(source)


class Closure(NamedTuple):
    """A C function of a vector and its gradient; as numba's own it stays as long as the process."""

    address: int
    ctypes: Any


@cache
def _engine() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine()
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def at_addresses(core_address: int, arguments: Sequence[float]) -> Closure:
    """Make a C function of a vector and its gradient that hands on addresses and real numbers.

    Machine code at ``core_address`` takes these ``arguments`` after the two pointers. LLVM makes
    these few instructions in a few milliseconds, where numba's types alone took 70.
    """
    real, whole = ir.DoubleType(), ir.IntType(64)
    vectors = [real.as_pointer()] * 2
    # an address is a number here and a pointer there, which machine code does not tell apart
    kinds = [real if isinstance(argument, float) else whole for argument in arguments]
    module = ir.Module()
    module.triple = llvm.get_process_triple()
    name = f"density_at_addresses_{next(_NUMBERS)}"
    function = ir.Function(module, ir.FunctionType(real, vectors), name)
    builder = ir.IRBuilder(function.append_basic_block())
    core_type = ir.FunctionType(real, [*vectors, *kinds]).as_pointer()
    core = builder.inttoptr(whole(core_address), core_type)
    handed = [kind(argument) for kind, argument in zip(kinds, arguments, strict=True)]
    builder.ret(builder.call(core, [*function.args, *handed]))
    with _ONE_AT_A_TIME:
        engine = _engine()
        engine.add_module(llvm.parse_assembly(str(module)))
        engine.finalize_object()
        address = engine.get_function_address(name)
    vector = ctypes.POINTER(ctypes.c_double)
    return Closure(address, ctypes.CFUNCTYPE(ctypes.c_double, vector, vector)(address))


def wrapper_key(graph_key: str | None, source: str) -> str | None:
    """Key under which a compiled wrapper is kept on disk; None where the graph has none.

    PyTensor's key of a graph tells its Ops and constants. A graph of one vector variable is the
    same in any dimension, and numba looks at neither source nor globals of a keyed function. What
    else the machine code depends on has to be in the key; `source` has the dimension in it.
    """
    if graph_key is None:
        return None
    flags = pytensor.config
    parts = (
        graph_key,
        __name__,  # which numba imports when it loads the function
        source,
        str(_SIGNATURE),
        f"floatX={flags.floatX} fastmath={flags.numba__fastmath} opt={numba.config.OPT}",
        f"pytensor={pytensor.__version__} pymc={pm.__version__}",
        f"numba={numba.__version__} llvmlite={llvmlite.__version__} numpy={np.__version__}",
    )
    return f"tempering_{hashlib.sha256(repr(parts).encode()).hexdigest()}"


MAX_BYTES = 10**8
"""Beyond which a second copy in memory is worse than a second compilation."""


@graph_rewriter
def _by_rows(graph: Any) -> None:
    # a transposed constant is folded into one by columns, which is another type to numba
    for variable in [v for v in graph.variables if isinstance(v, Constant)]:
        data = variable.data
        small = isinstance(data, np.ndarray) and data.nbytes <= MAX_BYTES
        if small and not data.flags.c_contiguous:
            by_rows = variable.type.make_constant(np.ascontiguousarray(data))
            graph.replace(variable, by_rows, import_missing=True)


def numba_mode() -> Mode:
    """PyTensor's mode of numba, with constant arrays stored by rows.

    The gradient of a product with a matrix is one with its transpose. By rows both are the same
    compiled product, of which the compilation takes longer than that of the rest of most models.
    """
    # after all other rewrites
    return get_mode("NUMBA").register((_by_rows, 1000.0))
