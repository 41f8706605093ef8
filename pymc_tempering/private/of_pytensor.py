"""Hooks into parts of PyTensor."""

import sys
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

JAX_DISPATCH = "pytensor.link.jax.dispatch"
"""Module that is loaded where anything was registered for JAX."""


def never_merge(constants: Iterable[Any]) -> None:
    """Let no graph take another constant of the same value for one of these, nor these for it.

    PyTensor merges equal constants. What is to be replaced would be lost, or another one with it.
    """
    for constant in constants:
        constant.merge_signature = partial(_signature, id(constant))


def _signature(number: int) -> tuple[str, int]:
    return "kept apart", number


class GraphClasses(NamedTuple):
    """Classes of PyTensor by what they do in a graph.

    `view` Ops give their input by another name, `shape` Ops look at lengths alone, `loop` Ops
    evaluate an inner graph again and again. Variables of type `generator` are random generators.
    """

    view: tuple[type, ...]
    shape: tuple[type, ...]
    loop: tuple[type, ...]
    generator: tuple[type, ...]


def graph_classes() -> GraphClasses:
    """Give the classes that a reader of graphs has to know; none is in PyTensor's documentation."""
    from pytensor.compile.ops import ViewOp
    from pytensor.scan.op import Scan
    from pytensor.tensor.random.type import RandomGeneratorType
    from pytensor.tensor.shape import Shape, Shape_i

    return GraphClasses((ViewOp,), (Shape, Shape_i), (Scan,), (RandomGeneratorType,))


def runs_compiled_code(op: Any) -> bool:
    """Whether an Op evaluates a graph of its own through a compiled function, as ``Scan`` does.

    Scalar composites hold a graph too, and evaluate it in Python.
    """
    from pytensor.graph.op import HasMultipleInnerGraph
    from pytensor.scalar.basic import ScalarOp

    return isinstance(op, HasMultipleInnerGraph) and not isinstance(op, ScalarOp)


def is_step(variable: Any) -> bool:
    """Whether a variable is a step function of what it is made from: a comparison, or rounding.

    Only entry by entry: other operations with whole numbers as results draw them at random, as do
    the parts of a mixture. Classes of scalar operations are not public.
    """
    from pytensor.scalar import basic
    from pytensor.tensor.elemwise import Elemwise

    op = variable.owner.op
    rounds = (basic.Ceil, basic.Floor, basic.RoundHalfAwayFromZero, basic.RoundHalfToEven,
              basic.Sign, basic.Trunc)  # fmt: skip
    return isinstance(op, Elemwise) and (
        isinstance(op.scalar_op, rounds) or not variable.dtype.startswith(("float", "complex"))
    )


def is_for_jax(op: Any) -> bool:
    """Whether an Op was written for JAX: by ``pytensor.wrap_jax``, or registered by its author."""
    from pytensor.link.jax.ops import JAXOp

    if isinstance(op, JAXOp):
        return True
    own = type(op).__module__.partition(".")[0] not in ("pytensor", "pymc")
    # without it, nothing was registered
    return own and JAX_DISPATCH in sys.modules and type(op) in jax_dispatch().registry


def jax_dispatch() -> Any:
    """Give the function that looks up by the class of an Op how JAX computes it."""
    from pytensor.link.jax.dispatch import jax_funcify

    return jax_funcify


def jitted(function: Any) -> Any:
    """Give the compiled function inside a PyTensor function of mode "NUMBA" or "JAX"."""
    return function.vm.jit_fn


def graph_key(compiled: Any) -> str | None:
    """Key under which PyTensor keeps a graph's machine code on disk; None where it has none."""
    from pytensor.link.numba.cache import CACHED_SRC_FUNCTIONS

    return CACHED_SRC_FUNCTIONS.get(compiled.py_func)


def without_key(compiled: Any) -> Any:
    """Give what a graph's compiled function calls, which is all that it does if it has a key.

    PyTensor keeps the code of a graph on disk as that of a function around it. What is kept there
    itself need not contain the second one, in which numba optimises the whole graph once more.
    """
    return compiled.py_func.__globals__.get("jitable_func", compiled)


def compile_keyed(source: str, name: str, names: dict[str, Any], key: str | None) -> Any:
    """Python function of a source text, whose machine code is kept on disk under a key.

    numba itself keeps only functions that stand in a file. `name` is what `source` defines, `names`
    its globals. `key` has to contain all that the machine code depends on; None keeps nothing.
    """
    from pytensor.link.numba.cache import compile_numba_function_src

    return compile_numba_function_src(source, name, global_env=names, cache_key=key)
