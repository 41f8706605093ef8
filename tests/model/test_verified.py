"""Checking compiled code against the graph: right densities pass, of whatever they are made.

The table's distributions stand together in a few models, since compiling is what costs; those of
the model with counts are checked with every change.
"""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from pytensor.graph.fg import FunctionGraph

from pymc_tempering.errors import ModelError
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.graph import CannotInterpretError, interpret
from pymc_tempering.model.verify import _computes_in_single, verify_density

ON_THE_LINE = {
    "Normal": lambda name: pm.Normal(name, 0.3, 1.7),
    "StudentT": lambda name: pm.StudentT(name, 3.5, mu=0.2, sigma=1.3),
    "Cauchy": lambda name: pm.Cauchy(name, 0.4, 1.2),
    "Laplace": lambda name: pm.Laplace(name, 0.1, 0.8),
    "Logistic": lambda name: pm.Logistic(name, 0.2, 0.7),
    "SkewNormal": lambda name: pm.SkewNormal(name, mu=0.2, sigma=1.1, alpha=2.0),
    "Gumbel": lambda name: pm.Gumbel(name, 0.3, 1.4),
    "AsymmetricLaplace": lambda name: pm.AsymmetricLaplace(name, b=1.1, kappa=2.0, mu=0.3),
    "ExGaussian": lambda name: pm.ExGaussian(name, 0.2, 0.9, nu=1.3),
    "NormalMixture": lambda name: pm.NormalMixture(name, [0.3, 0.7], [-2.0, 1.0], [0.5, 1.5]),
    "Potential": lambda name: pm.Potential(name, -pt.exp(pm.Flat(f"{name}_of") ** 2 / 4.0)),
}
BOUNDED = {
    "HalfNormal": lambda name: pm.HalfNormal(name, 1.6),
    "HalfCauchy": lambda name: pm.HalfCauchy(name, 1.4),
    "Exponential": lambda name: pm.Exponential(name, 0.7),
    "Gamma": lambda name: pm.Gamma(name, 2.5, 1.2),
    "InverseGamma": lambda name: pm.InverseGamma(name, 3.1, 2.2),
    "LogNormal": lambda name: pm.LogNormal(name, 0.2, 0.8),
    "Weibull": lambda name: pm.Weibull(name, 1.5, 2.0),
    "Beta": lambda name: pm.Beta(name, 2.0, 3.5),
    "Kumaraswamy": lambda name: pm.Kumaraswamy(name, 2.0, 3.0),
    "Uniform": lambda name: pm.Uniform(name, -1.0, 2.5),
    "TruncatedNormal": lambda name: pm.TruncatedNormal(name, 0.5, 1.2, lower=-1.0, upper=2.0),
    "Pareto": lambda name: pm.Pareto(name, 2.5, 1.2),
}
OF_VECTORS = {
    "Dirichlet": lambda name: pm.Dirichlet(name, np.array([1.0, 2.0, 3.5])),
    "MvNormal": lambda name: pm.MvNormal(name, [0.1, -0.4], cov=[[1.5, 0.6], [0.6, 0.9]]),
    "ZeroSumNormal": lambda name: pm.ZeroSumNormal(name, 1.3, shape=4),
    "ordered": lambda name: pm.Normal(
        name, [-1.0, 0.0, 1.5], 1.2, initval=[-1.0, 0.2, 1.0],
        transform=pm.distributions.transforms.ordered,
    ),
    "GaussianRandomWalk": lambda name: pm.GaussianRandomWalk(
        name, 0.1, 0.7, init_dist=pm.Normal.dist(0.0, 1.0), shape=4
    ),
    "Poisson counts": lambda name: pm.Poisson(
        name, pt.exp(pm.Normal(f"{name}_of", 0.3, 0.5)), observed=[0, 2, 1]
    ),
    "Binomial counts": lambda name: pm.Binomial(
        name, 5, pm.math.invlogit(pm.Normal(f"{name}_of", 0.1, 1.0)), observed=[1, 4]
    ),
    "Censored": lambda name: pm.Censored(
        name, pm.Normal.dist(pm.Normal(f"{name}_of", 0.0, 1.0), 1.1), lower=None, upper=1.0,
        observed=[0.2, 1.0],
    ),
}  # fmt: skip
GROUPS = {"line": ON_THE_LINE, "bounded": BOUNDED, "vectors": OF_VECTORS}


@pytest.fixture(
    scope="module",
    params=[
        "vectors",
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("line", "bounded")),
    ],
)
def compiled(request):
    """The density of all kinds of a group, the function it was made of, and points."""
    with pm.Model() as model:
        for name, kind in GROUPS[request.param].items():
            kind(name.replace(" ", "_"))
    density = compile_density(model)
    function = density._keep_alive.function
    points = density.start + np.random.default_rng(4).normal(0.0, 0.6, (12, density.dim))
    return density, function, points


def test_right_densities_are_not_refused(compiled):
    """And not because nothing was compared: Python has a value at every point, far closer."""
    density, function, points = compiled
    verify_density(density.value_and_grad, function, points)
    for z in points:
        value, grad = interpret(function.maker.fgraph, [z.copy()])
        found, found_grad = density.value_and_grad(z)
        assert float(value) == pytest.approx(found, rel=1e-9)
        np.testing.assert_allclose(grad, found_grad, rtol=1e-7, atol=1e-9)


def test_the_density_of_any_other_model_is_refused(compiled):
    """For every entry: as if its distribution were elsewhere by a hundredth, or not there."""
    density, function, points = compiled
    for i in range(density.dim):
        step = 0.01 * np.eye(density.dim)[i]

        def elsewhere(z, step=step):
            return density.value_and_grad(z + step)

        def left_out(z, i=i):
            value, grad = density.value_and_grad(z)
            grad[i] = 0.0
            return value, grad

        for wrong in (elsewhere, left_out):
            with pytest.raises(ModelError, match="not that of this model"):
                verify_density(wrong, function, points)


@pytest.mark.parametrize("off", [1e-4, -1e-4])
def test_constants_and_signs_are_compared(compiled, off):
    density, function, points = compiled

    def shifted(z):
        value, grad = density.value_and_grad(z)
        return value + off * (1.0 + abs(value)), grad

    def upside_down(z):
        value, grad = density.value_and_grad(z)
        return value, -grad

    for wrong in (shifted, upside_down):
        with pytest.raises(ModelError, match="not that of this model"):
            verify_density(wrong, function, points)


def test_constants_of_single_precision_do_not_loosen_the_check():
    """Nor what is shaped of them: both evaluations read the same numbers."""
    z, two = pt.dvector("z"), pt.constant(np.float32(2.0))
    shaped = FunctionGraph([z], [(z * pt.expand_dims(two, 0)).sum()], clone=False)
    assert not _computes_in_single(shaped)
    z = pt.dvector("z")
    computed = FunctionGraph([z], [(2.0 * z.astype("float32")).sum()], clone=False)
    assert _computes_in_single(computed)


def test_values_that_are_not_finite_say_nothing(compiled):
    density, function, points = compiled
    verify_density(lambda z: (-np.inf, np.zeros(density.dim)), function, points)


@pytest.mark.slow
def test_loops_are_compared_with_compiled_code_instead(compiled, monkeypatch):
    """Where the graph cannot be interpreted, a wrong density is refused all the same."""
    density, function, points = compiled

    def cannot(graph, inputs):
        raise CannotInterpretError

    monkeypatch.setattr("pymc_tempering.model.verify.interpret", cannot)
    verify_density(density.value_and_grad, function, points)
    with pytest.raises(ModelError, match="not that of this model"):
        verify_density(lambda z: density.value_and_grad(z + 0.01), function, points)


def test_compiled_code_that_divides_by_zero_says_nothing_of_that_place(monkeypatch):
    """As the slope of a correlation to the power of 0, where it is 0: large graphs end here."""
    with pm.Model() as model:
        rho = pm.Uniform("rho", -1.0, 1.0)
        pm.Normal("y", (rho ** np.arange(3)).sum(), 1.0, observed=0.3)
    density = compile_density(model)
    function, zero, aside = density._keep_alive.function, np.zeros(1), np.full(1, 0.4)
    with pytest.raises(ZeroDivisionError):
        function(zero)

    def cannot(graph, inputs):
        raise CannotInterpretError

    monkeypatch.setattr("pymc_tempering.model.verify.interpret", cannot)
    verify_density(density.value_and_grad, function, [zero, aside])
    with pytest.raises(ModelError, match="not that of this model"):
        verify_density(lambda z: density.value_and_grad(z + 0.01), function, [zero, aside])
