"""Logs of probabilities that are nearly 0 or 1, where rounding would end them.

A probability is the sigmoid of an unconstrained value. Beyond 37 it is 1 in double precision: the
log of one minus it is minus infinity and its gradient is no number, where both are known from the
value itself. PyTensor replaces ``log1p(-sigmoid(x))`` by ``-softplus(x)``, but not after it has
written the minus as a product with -1, nor where an index or an axis lies between.
"""

from typing import Any

import pytensor.tensor as pt
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.graph.rewriting.utils import rewrite_graph
from pytensor.tensor.basic import Alloc, get_underlying_scalar_constant_value
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.exceptions import NotScalarConstantError
from pytensor.tensor.shape import Reshape, SpecifyShape
from pytensor.tensor.subtensor import AdvancedSubtensor, Subtensor

__all__ = ["with_stable_logs"]

_REARRANGE = (AdvancedSubtensor, Alloc, DimShuffle, Reshape, SpecifyShape,
              Subtensor)  # fmt: skip
"""Operations whose result holds values of their first input, each as it is."""


def with_stable_logs(log_density: Any) -> Any:
    """Replace logs of sigmoids, and of one minus a sigmoid, by what does not round.

    Examples
    --------
    >>> x = pt.vector("x")
    >>> stable = with_stable_logs(pt.log1p(-1.0 * pt.sigmoid(x)[0]))
    >>> float(stable.eval({x: [50.0]}))
    -50.0
    """
    return rewrite_graph(log_density, include=(), custom_rewrite=in2out(_log_of_sigmoid))


@node_rewriter([pt.log, pt.log1p])
def _log_of_sigmoid(_graph: Any, node: Any) -> list[Any] | None:
    inner, steps, is_minus = node.inputs[0], list[Any](), False
    while inner.owner is not None and inner.owner.op != pt.sigmoid:
        op, (first, *others) = inner.owner.op, inner.owner.inputs
        if isinstance(op, _REARRANGE):
            steps.append((op, others))
            inner = first
        elif op == pt.neg:
            is_minus, inner = not is_minus, first
        elif op == pt.mul and len(others) == 1 and _is_minus_one(first):
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


def _is_minus_one(x: Any) -> bool:
    """Whether a variable is a single -1, which PyTensor writes before what it multiplies."""
    if not all(x.type.broadcastable):
        return False
    try:
        return bool(get_underlying_scalar_constant_value(x) == -1)
    except NotScalarConstantError:
        return False
