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


def indexing(node: Any) -> tuple[Any, Any, list[Any]]:
    """Op that reads the entries that a node reads or sets, of which array, and the indices.

    None where the node has no indices.
    """
    from pytensor.tensor import subtensor as of

    if isinstance(node.op, of.Subtensor | of.AdvancedSubtensor):
        return node.op, node.inputs[0], node.inputs[1:]
    if isinstance(node.op, of.IncSubtensor | of.AdvancedIncSubtensor):
        is_slice = isinstance(node.op, of.IncSubtensor)
        reads = of.Subtensor if is_slice else of.AdvancedSubtensor
        return reads(node.op.idx_list), node.inputs[0], node.inputs[2:]
    return None, None, []


def nodes_in_order(ends: list[Any]) -> list[Any]:
    """Give the nodes that variables are made by, each after those that it needs."""
    from pytensor.graph.traversal import io_toposort

    return list(io_toposort([], ends))


def with_types_of(ends: list[Any], replace: dict[Any, Any]) -> list[Any]:
    """Replace variables by those of other types, and make all anew that depend on them."""
    from pytensor.graph.replace import clone_replace

    return list(clone_replace(ends, replace, rebuild_strict=False))


def is_cast(variable: Any) -> bool:
    """Whether a variable is another one in another type; the class of the operation is private."""
    from pytensor.scalar.basic import Cast

    op = variable.owner and variable.owner.op
    return isinstance(getattr(op, "scalar_op", None), Cast)


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


def with_stable_logs(log_density: Any) -> Any:  # noqa: C901 - a walk, with what it needs inside
    """Replace logs of sigmoids, and of one minus a sigmoid, by what does not round.

    A probability is the sigmoid of an unconstrained value. Beyond 37 it is 1 in double precision:
    the log of one minus it is minus infinity and its gradient is no number, where both are known
    from the value itself. PyTensor's own rewrite of ``log1p(-sigmoid(x))`` does not see it once the
    minus is a product with -1, nor where an index or an axis lies between.

    Examples
    --------
    >>> import pytensor.tensor as pt
    >>> x = pt.vector("x")
    >>> stable = with_stable_logs(pt.log1p(-1.0 * pt.sigmoid(x)[0]))
    >>> float(stable.eval({x: [50.0]}))
    -50.0
    """
    import pytensor.tensor as pt
    from pytensor.graph.rewriting.basic import in2out, node_rewriter
    from pytensor.graph.rewriting.utils import rewrite_graph
    from pytensor.tensor.basic import Alloc, get_underlying_scalar_constant_value
    from pytensor.tensor.elemwise import DimShuffle
    from pytensor.tensor.exceptions import NotScalarConstantError
    from pytensor.tensor.shape import Reshape, SpecifyShape
    from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

    # the result holds values of the first input, each as it is
    rearranges = AdvancedSubtensor, Alloc, DimShuffle, Reshape, SpecifyShape, Subtensor

    def is_minus_one(x: Any) -> bool:
        if not all(x.type.broadcastable):
            return False
        try:
            return bool(get_underlying_scalar_constant_value(x) == -1)
        except NotScalarConstantError:
            return False

    @node_rewriter([pt.log, pt.log1p])
    def log_of_sigmoid(_graph: Any, node: Any) -> list[Any] | None:
        inner, steps, is_minus = node.inputs[0], list[Any](), False
        while inner.owner is not None and inner.owner.op != pt.sigmoid:
            op, (first, *others) = inner.owner.op, inner.owner.inputs
            if isinstance(op, rearranges):
                steps.append((op, others))
                inner = first
            elif op == pt.neg:
                is_minus, inner = not is_minus, first
            elif op == pt.mul and len(others) == 1 and is_minus_one(first):
                is_minus, inner = not is_minus, others[0]
            else:
                return None
        if inner.owner is None or is_minus != (node.op == pt.log1p):
            return None
        x = inner.owner.inputs[0]
        for op, others in reversed(steps):
            x = op(x, *others)
        stable = -pt.softplus(x if is_minus else -x)
        return [stable] if stable.type == node.outputs[0].type else None

    return rewrite_graph(log_density, include=(), custom_rewrite=in2out(log_of_sigmoid))
