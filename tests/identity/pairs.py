"""Pairs of models: some that differ in one thing, and some that are the same but for what is not.

Every model comes from a function without arguments, so that another process can make it again.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.op import Op

__all__ = ["CHANGED", "SAME", "Pair", "linear"]

X = np.array([0.3, -1.2, 0.7, 2.1])
Y = np.array([0.4, -1.1, 2.3, 0.9])


class Pair(NamedTuple):
    """Two models, and what a refusal has to name: nothing where they are the same."""

    first: Callable[[], pm.Model]
    second: Callable[[], pm.Model]
    named: str | tuple[str, ...] = ()


def linear(  # noqa: C901 - one model, and what may be different in it
    *, sd=1.0, shape="normal", transform=False, x=X, y=Y, scale=1.5, factor=1.0, far=0.0, edge=2.5,
    form="data", potential=True, extra=False, dims="unit", n=4, link="identity", reorder=False,
):  # fmt: skip
    """Regression with a slope, a positive scale, a potential and data in several forms."""
    x, y = np.array(x[:n]), np.array(y[:n])
    with pm.Model(coords={"unit": list("abcdef")[:n], "other": list("uvwxyz")[:n]}) as model:
        if form == "data":
            given = pm.Data("x_data", x)
        elif form == "shared":
            given = pytensor.shared(x, name="covariate")
        elif form == "unnamed":
            given = pytensor.shared(x)
        else:
            given = pt.as_tensor(x)

        def slope():
            prior = {"normal": pm.Normal, "laplace": pm.Laplace, "logistic": pm.Logistic}[shape]
            return prior("slope", 0.2, sd)

        def spread():
            chosen = {"transform": pm.distributions.transforms.log_exp_m1} if transform else {}
            return pm.HalfNormal("spread", scale, **chosen)

        if reorder:
            sigma, b = spread(), slope()
        else:
            b, sigma = slope(), spread()
        if extra:
            pm.Normal("idle", 0.0, 1.0)
        mu = factor * b * given
        if link == "tanh":
            mu = pt.tanh(mu)
        if link == "deterministic":
            mu = pm.Deterministic("mu", mu)
        shift = pm.Normal("shift", 0.0, 1.0, dims=dims)
        if potential:
            pm.Potential("far", pt.switch(b > edge, far, 0.0))
        pm.Normal("y", mu + shift, sigma, observed=y)
    return model


def exchanged(first, second):
    """Two unnamed values: the prior's location, and the scale of the data."""
    a, b = pytensor.shared(first), pytensor.shared(second)
    with pm.Model() as model:
        x = pm.Normal("x", a, 1.0)
        pm.Normal("y", x, b, observed=2.0)
    return model


def two_observed(first, second):
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 2.0)
        pm.Normal("u", x, 1.0, observed=first)
        pm.Normal("v", 2.0 * x, 3.0, observed=second)
    return model


def custom(rate, *, by="closure"):
    """Distribution whose density is a Python function that builds a graph."""
    if by == "closure":

        def logp(value, centre):
            return -rate * pt.abs(value - centre) + np.log(rate / 2.0)
    else:

        def logp(value, centre, rate=rate):
            return -rate * pt.abs(value - centre) + np.log(rate / 2.0)

    with pm.Model() as model:
        x = pm.CustomDist("x", 0.3, logp=logp)
        pm.Normal("y", x, 1.0, observed=0.8)
    return model


def custom_graph(scale):
    """Distribution that is given as a graph of random variables."""
    with pm.Model() as model:
        m = pm.Normal("m", 0.0, 1.0)
        pm.CustomDist(
            "y", m, dist=lambda m, size: pt.exp(pm.Normal.dist(m, scale, size=size)),
            observed=[0.7, 2.1],
        )  # fmt: skip
    return model


def black_box(height, *, hidden=None):
    """Potential by a Python function, which may hold a list that it writes into."""
    calls = hidden

    @pytensor.wrap_py(itypes=[pt.dscalar], otypes=[pt.dscalar])
    def step(x):
        if calls is not None:
            calls.append(1)
        return np.asarray(height if x > 1.0 else 0.0)

    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.5)
        pm.Potential("box", step(x))
    return model


class Steps(Op):
    """Op of a user's own, with an array for its state."""

    itypes = (pt.dscalar,)
    otypes = (pt.dscalar,)

    def __init__(self, ends):
        self.ends = ends

    def make_node(self, x):
        return pytensor.graph.basic.Apply(self, [pt.as_tensor(x)], [pt.dscalar()])

    def perform(self, node, inputs, outputs):
        outputs[0][0] = np.asarray(float(np.sum(inputs[0] > self.ends)))


def own_op(ends):
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.5)
        pm.Potential("steps", Steps(np.array(ends))(x))
    return model


def scanned(rate):
    """Likelihood of a recursion."""
    with pm.Model() as model:
        start = pm.Normal("start", 1.0, 1.0)
        path = pytensor.scan(
            lambda x: rate * x, outputs_info=start, n_steps=3, return_updates=False
        )
        pm.Normal("y", path, 0.5, observed=[0.6, 0.4, 0.1])
    return model


def mixture(weight, *, second="normal"):
    parts = [pm.Normal.dist(-1.0, 0.5), pm.Normal.dist(2.0, 1.0)]
    if second == "laplace":
        parts[1] = pm.Laplace.dist(2.0, 1.0)
    with pm.Model() as model:
        x = pm.Mixture("x", [weight, 1.0 - weight], parts)
        pm.Normal("y", x, 1.0, observed=0.8)
    return model


def bounded(upper, *, kind="truncated"):
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0)
        if kind == "truncated":
            pm.Truncated("y", pm.Normal.dist(x, 1.0), upper=upper, observed=0.8)
        else:
            pm.Censored("y", pm.Normal.dist(x, 1.0), lower=None, upper=upper, observed=0.8)
    return model


def walk(kind="grw", order=1):
    with pm.Model() as model:
        if kind == "grw":
            pm.GaussianRandomWalk("w", 0.1, 1.0, init_dist=pm.Normal.dist(0, 2), steps=3)
        else:
            pm.AR("w", [0.5] * order, sigma=1.0, init_dist=pm.Normal.dist(0, 2), steps=3)
        pm.Normal("y", model["w"][-1], 1.0, observed=0.8)
    return model


def interval(upper):
    with pm.Model() as model:
        x = pm.Uniform("x", 0.0, upper)
        pm.Normal("y", x, 1.0, observed=0.8)
    return model


def missing(value):
    data = np.ma.masked_invalid([0.4, np.nan, value])
    with pm.Model() as model:
        m = pm.Normal("m", 0.0, 1.0)
        pm.Normal("y", m, 1.0, observed=data)
    return model


def ordered(use):
    chosen = {"transform": pm.distributions.transforms.ordered} if use else {}
    with pm.Model() as model:
        x = pm.Normal("x", 0.0, 1.0, shape=2, initval=[-1.0, 1.0], **chosen)
        pm.Normal("y", x, 1.0, observed=[0.1, 0.8])
    return model


def _change(part, base=None, **changed):
    base = base or {}
    return Pair(lambda: linear(**base), lambda: linear(**(base | changed)), part)


THE_DATA = "the data of 'y'"
LIKELIHOOD = "the likelihood of 'y'"

CHANGED = {
    "prior scale": _change("the prior of 'slope'", sd=3.0),
    "prior scale, a little": _change("the prior of 'slope'", sd=1.0 + 1e-9),
    "prior family": _change("the prior of 'slope'", shape="laplace"),
    "other families": Pair(lambda: linear(shape="laplace"), lambda: linear(shape="logistic"),
                           "the prior of 'slope'"),
    "scale of a scale": _change("the prior of 'spread'", scale=1.6),
    "transform": _change("the transform of 'spread'", transform=True),
    "observed value": _change(THE_DATA, y=Y + np.array([0.0, 0.0, 1e-12, 0.0])),
    "observed order": _change(THE_DATA, y=Y[::-1]),
    "named data": _change("the data 'x_data'", x=X + 1.0),
    "shared value": _change("the shared value 'covariate'", x=X[::-1], base={"form": "shared"}),
    "unnamed value": _change(LIKELIHOOD, x=X[::-1], base={"form": "unnamed"}),
    "constant": _change(LIKELIHOOD, x=2.0 * X, base={"form": "constant"}),
    "number in a formula": _change(LIKELIHOOD, factor=1.1),
    "link": _change(LIKELIHOOD, link="tanh"),
    "branch": _change("the potential 'far'", far=6.0),
    "place of a branch": _change("the potential 'far'", edge=2.6),
    "no potential": _change("the potential 'far'", potential=False),
    "variable more": _change("the prior of 'idle'", extra=True),
    "dims": _change("the dims of 'shift'", dims="other"),
    "length of a dim": _change(
        ("the data 'x_data'", "the length of the dim 'unit'", "the data of 'y'"), n=3
    ),
    "values exchanged": Pair(lambda: exchanged(0.5, 3.0), lambda: exchanged(3.0, 0.5),
                             ("the prior of 'x'", LIKELIHOOD)),
    "data exchanged": Pair(lambda: two_observed(0.3, 0.9), lambda: two_observed(0.9, 0.3),
                           ("the data of 'u'", "the data of 'v'")),
    "custom density": Pair(lambda: custom(1.0), lambda: custom(1.5), "the prior of 'x'"),
    "custom default": Pair(lambda: custom(1.0, by="default"), lambda: custom(1.5, by="default"),
                           "the prior of 'x'"),
    "custom graph": Pair(lambda: custom_graph(0.5), lambda: custom_graph(0.6), LIKELIHOOD),
    "black box": Pair(lambda: black_box(0.0), lambda: black_box(2.0), "the potential 'box'"),
    "array of an Op": Pair(lambda: own_op([0.0, 1.0]), lambda: own_op([0.0, 1.1]),
                           "the potential 'steps'"),
    "recursion": Pair(lambda: scanned(0.5), lambda: scanned(0.6), LIKELIHOOD),
    "mixture weight": Pair(lambda: mixture(0.3), lambda: mixture(0.4), "the prior of 'x'"),
    "mixture part": Pair(lambda: mixture(0.3), lambda: mixture(0.3, second="laplace"),
                         "the prior of 'x'"),
    "truncation": Pair(lambda: bounded(1.5), lambda: bounded(1.6), LIKELIHOOD),
    "censored for truncated": Pair(lambda: bounded(1.5), lambda: bounded(1.5, kind="censored"),
                                   LIKELIHOOD),
    "order of a process": Pair(lambda: walk("ar"), lambda: walk("ar", 2), "the prior of 'w'"),
    "kind of a process": Pair(lambda: walk("grw"), lambda: walk("ar"), "the prior of 'w'"),
    "bound": Pair(lambda: interval(2.0), lambda: interval(3.0), "the prior of 'x'"),
    "incomplete data": Pair(lambda: missing(1.1), lambda: missing(1.2), "the data of 'y_observed'"),
    "ordered": Pair(lambda: ordered(False), lambda: ordered(True), "the transform of 'x'"),
}  # fmt: skip


def _written_otherwise():
    """The same regression from the last to the first variable, with copies of all arrays."""
    return linear(reorder=True, x=X.tolist(), y=list(Y))


def _alike(write, other=None):
    return Pair(write, other or write)


SAME: dict[str, Pair] = {
    "rebuilt": _alike(linear),
    "order of creation": _alike(linear, lambda: linear(reorder=True)),
    "lists for arrays": _alike(linear, _written_otherwise),
    "deterministic": _alike(linear, lambda: linear(link="deterministic")),
    "constant for shared": _alike(lambda: linear(form="unnamed"), lambda: linear(form="constant")),
    "named value": _alike(lambda: linear(form="unnamed"), lambda: linear(form="shared")),
    "data for constant": _alike(lambda: linear(form="constant"), lambda: linear(form="data")),
    "copy": _alike(linear, lambda: linear().copy()),
    "frozen": _alike(
        linear, lambda: pm.model.transform.optimization.freeze_dims_and_data(linear())
    ),
    "array by columns": _alike(linear, lambda: linear(x=np.array([X, X]).T.copy(order="F")[:, 0])),
    "exchanged twice": _alike(lambda: exchanged(0.5, 3.0)),
    "custom": _alike(lambda: custom(1.0)),
    "custom graph": _alike(lambda: custom_graph(0.5)),
    "black box": _alike(lambda: black_box(2.0)),
    "Op": _alike(lambda: own_op([0.0, 1.0])),
    "recursion": _alike(lambda: scanned(0.5)),
    "mixture": _alike(lambda: mixture(0.3)),
    "truncated": _alike(lambda: bounded(1.5)),
    "process": _alike(lambda: walk("ar", 2)),
    "bound": _alike(lambda: interval(2.0)),
    "incomplete data": _alike(lambda: missing(1.1)),
    "ordered": _alike(lambda: ordered(True)),
}


def digests() -> dict[str, Any]:
    """Digest of the first model of every pair that is the same, as text."""
    from pymc_tempering.model.identity import Identity

    return {name: Identity.of(pair.first()).digest for name, pair in SAME.items()}
