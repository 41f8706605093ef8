"""Models whose density calls Python code: Ops with a gradient and without."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

# each of two coordinates: integral of N(x; 0, 1) exp(-(x - 1)^2 / 2)
LOG_Z = 2 * (-0.5 * np.log(2.0) - 0.25)


class Gradient(Op):
    def __init__(self, called):
        self.called = called

    def make_node(self, x):
        return Apply(self, [x], [pt.dvector()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = -(inputs[0] - 1.0)


class Blind(Op):
    """``-|x - 1|^2 / 2``, in Python and without a gradient."""

    def __init__(self, called):
        self.called = called

    def make_node(self, x):
        return Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def perform(self, node, inputs, outputs):
        self.called(inputs[0])
        outputs[0][0] = np.asarray(-0.5 * ((inputs[0] - 1.0) ** 2).sum())


class Quadratic(Blind):
    """The same with a gradient."""

    def pullback(self, inputs, outputs, gradients):
        return [gradients[0] * Gradient(self.called)(inputs[0])]


def black_box(called=lambda x: None, op=Quadratic):
    """Model with exact log Z, which calls ``called`` with x at every evaluation."""
    with pm.Model() as model:
        x = pm.Normal("x", shape=2)
        pm.Potential("p", op(called)(x))
    return model
