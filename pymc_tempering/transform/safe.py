"""A gradient that is never nan, also where the density is zero."""

from typing import Any

import pytensor.tensor as pt
from pytensor.compile.ops import TypeCastingOp
from pytensor.graph.basic import Apply

__all__ = ["FiniteGradient", "finite_gradient"]


class FiniteGradient(TypeCastingOp):
    """Identity whose gradient has 0 in place of anything that is not finite.

    A switch on the output alone is not enough: the backward pass multiplies its 0 with the inf or
    nan of the branch that was not taken. A switch on the input as well would evaluate the model
    twice.
    """

    # not a ViewOp: PyMC's rewrites before the gradient remove those
    __props__ = ()

    def make_node(self, x: Any) -> Apply:
        """Return a node with an output of the input's type."""
        x = pt.as_tensor_variable(x)
        return Apply(self, [x], [x.type()])

    def infer_shape(self, node: Any, input_shapes: Any) -> Any:
        """Return the input's shape."""
        return input_shapes

    def pullback(self, inputs: Any, outputs: Any, output_gradients: Any) -> list[Any]:
        """Replace entries that are not finite."""
        return [
            pt.switch(pt.or_(pt.isnan(g), pt.isinf(g)), pt.zeros_like(g), g)
            for g in output_gradients
        ]


def finite_gradient(x: Any) -> Any:
    """Return ``x``, through which gradients flow back without nan or infinite entries.

    A leapfrog step stays reversible and volume-preserving with any deterministic field in place of
    the gradient, so that exactness is not at stake. Under JAX, which differentiates by itself, this
    is a plain identity; its NUTS counts a nan as a divergence.

    Examples
    --------
    >>> import pytensor
    >>> x = pt.dscalar("x")
    >>> y = pt.switch(x > 0, pt.sqrt(finite_gradient(x)), 0.0)
    >>> pytensor.grad(y, x).eval({x: 0.0}).item()
    0.0
    """
    return FiniteGradient()(x)
