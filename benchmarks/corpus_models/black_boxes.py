"""Densities that are somebody's code: Ops, potentials, custom distributions, simulators."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op
from scipy import stats

from corpus_models.entries import QUADRATURE, REFUSED, entry, grid

KIND = "black box"
READINGS = np.array([2.2, 1.9, 1.7, 2.1])


class LogDensity(Op):
    """A log likelihood in NumPy of a vector of two."""

    def make_node(self, theta):  # noqa: D102  as PyTensor asks for it
        return Apply(self, [pt.as_tensor(theta)], [pt.dscalar()])

    def perform(self, node, inputs, outputs):  # noqa: D102  as PyTensor asks for it
        (theta,) = inputs
        outputs[0][0] = np.asarray(stats.norm.logpdf(READINGS, theta[0], np.exp(theta[1])).sum())


class WithGradient(LogDensity):
    """The same with its gradient, by an Op of its own."""

    def pullback(self, inputs, outputs, cotangents):  # noqa: D102  as PyTensor asks for it
        return [cotangents[0] * Slope()(inputs[0])]


class Slope(Op):
    """Gradient of :class:`LogDensity`."""

    def make_node(self, theta):  # noqa: D102  as PyTensor asks for it
        return Apply(self, [pt.as_tensor(theta)], [pt.dvector()])

    def perform(self, node, inputs, outputs):  # noqa: D102  as PyTensor asks for it
        (theta,) = inputs
        gap = (READINGS - theta[0]) * np.exp(-theta[1])
        outputs[0][0] = np.array([gap.sum() * np.exp(-theta[1]), (gap**2 - 1.0).sum()])


def place_and_scale():
    return pt.stack([pm.Normal("place", 0.0, 3.0), pm.Normal("log_scale", -1.0, 0.7)])


@entry(KIND)
def op_without_gradient():
    pm.Potential("y", LogDensity()(place_and_scale()))
    return QUADRATURE


@entry(KIND)
def op_with_gradient():
    pm.Potential("y", WithGradient()(place_and_scale()))
    return QUADRATURE


@entry(KIND)
def python_function():
    """A detector that counts in halves: a density in steps."""

    @pytensor.wrap_py(itypes=[pt.dscalar], otypes=[pt.dscalar])
    def log_likelihood(position):
        shown = np.floor(abs(position) * 2.0) / 2.0
        return np.asarray(stats.norm.logpdf(READINGS, shown, 0.3).sum())

    pm.Potential("y", log_likelihood(pm.Normal("position", 1.5, 3.0)))
    edges = np.arange(-20.0, 20.5, 0.5)
    mass = np.diff(stats.norm(1.5, 3.0).cdf(edges))
    shown = np.floor(abs(edges[:-1] + 0.25) * 2.0) / 2.0
    logs = stats.norm.logpdf(READINGS[:, None], shown, 0.3).sum(axis=0)
    return np.log((mass * np.exp(logs)).sum())


@entry(KIND)
def custom_likelihood():
    """A Laplace density that is written by hand, with a kink."""
    mu, scale = pm.Normal("mu", 0.0, 3.0), pm.HalfNormal("scale", 1.0)

    def logp(value, mu, scale):
        return -pt.log(2 * scale) - pt.abs(value - mu) / scale

    pm.CustomDist("y", mu, scale, logp=logp, observed=READINGS)

    def log_density(m, u):
        s = np.exp(u)
        rows = sum(-np.log(2 * s) - abs(y - m) / s for y in READINGS)
        return stats.norm(0, 3).logpdf(m) + stats.halfnorm().logpdf(s) + u + rows

    return grid(log_density, (-8.0, 12.0, 4001), (-5.0, 2.0, 701))


@entry(KIND)
def custom_by_graph():
    """`pm.CustomDist` from a function of random variables, of which PyMC finds the density."""
    mu = pm.Normal("mu", 0.0, 2.0)
    pm.CustomDist(
        "y", mu, dist=lambda mu, size: pt.exp(pm.Normal.dist(mu, 0.5, size=size)),
        observed=READINGS,
    )  # fmt: skip
    cov = 0.25 * np.eye(4) + 4.0
    logs = np.log(READINGS)
    return stats.multivariate_normal(np.zeros(4), cov).logpdf(logs) - logs.sum()


@entry(KIND)
def custom_prior():
    """A prior by hand, a Gumbel, on the whole line."""
    x = pm.CustomDist("x", logp=lambda value: -value - pt.exp(-value))
    pm.Normal("y", x, 1.0, observed=READINGS)
    return QUADRATURE


@entry(KIND)
def penalty():
    """Soft constraints by a potential."""
    x = pm.Normal("x", 0.0, 1.0, shape=3)
    pm.Potential("sum", -0.5 * ((x.sum() - 2.0) / 0.1) ** 2)
    return stats.norm(0.0, np.sqrt(3.01)).logpdf(2.0) + 0.5 * np.log(2 * np.pi * 0.01)


@entry(KIND)
def simulator():
    def simulate(rng, mu, size):
        return rng.normal(mu, 1.0, size=size)

    pm.Simulator("y", simulate, pm.Normal("mu", 0.0, 2.0), epsilon=0.5, observed=READINGS)
    return REFUSED


@entry(KIND)
def minibatch():
    rows = pm.Minibatch(READINGS, batch_size=2)
    pm.Normal("y", pm.Normal("mu", 0.0, 2.0), 1.0, observed=rows, total_size=4)
    return REFUSED


@entry(KIND)
def impossible_data():
    """A negative count of a positive quantity: no density anywhere."""
    pm.Gamma("y", 2.0, pm.HalfNormal("rate", 1.0), observed=[1.0, -2.0])
    return REFUSED
