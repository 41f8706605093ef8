"""Log densities as functions of JAX, with data as arguments; skipped where JAX is missing."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.scan.utils import until
from scipy import stats

from pymc_tempering.errors import ModelError
from pymc_tempering.model import jax_density as module
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.jax_density import JaxDensity, jax_density
from tests.black_box import Blind, black_box

jax = pytest.importorskip("jax", reason="JAX is not installed: pip install jax")
X = np.array([[0.3, -1.2], [1.5, 0.4], [-0.7, 2.1]])
Y = np.array([2, 0, 1])


@pytest.fixture(scope="module")
def for_jax():
    with pm.Model() as model:
        x = pm.Data("x", X)
        b = pm.Normal("b", 0.5, 2.0, shape=2)
        pm.Poisson("y", pm.math.exp(x @ b), observed=pm.Data("counts", Y))
    return jax_density(compile_density(model))


def exact(z, x, y):
    return stats.norm(0.5, 2.0).logpdf(z).sum() + stats.poisson(np.exp(x @ z)).logpmf(y).sum()


def test_data_are_arguments(for_jax):
    """Other data give the density that a model of them has, along an axis of data sets too."""
    assert set(for_jax.data) == {"x", "y"}
    z, rng = np.array([0.4, -0.3]), np.random.default_rng(1)
    x, y = rng.normal(size=(4, 3, 2)), rng.integers(5, size=(4, 3))
    given = [{"x": x, "y": y}[name] for name in for_jax.data]
    with jax.enable_x64(True):
        alone = for_jax.log_density(jax.numpy.asarray(z), *for_jax.data.values())
        many = jax.vmap(for_jax.log_density, in_axes=(None, 0, 0))(jax.numpy.asarray(z), *given)
        slope = jax.grad(for_jax.log_density)(jax.numpy.asarray(z), *for_jax.data.values())
    assert float(alone) == pytest.approx(exact(z, X, Y), rel=1e-8)
    np.testing.assert_allclose(many, [exact(z, *data) for data in zip(x, y, strict=True)])
    np.testing.assert_allclose(slope, -(z - 0.5) / 4.0 + X.T @ (Y - np.exp(X @ z)), rtol=1e-10)


def test_double_precision_is_local(for_jax):
    with jax.enable_x64(False):
        with jax.enable_x64(True):
            value = for_jax.log_density(jax.numpy.asarray([0.4, -0.3]), *for_jax.data.values())
            assert value.dtype == "float64"
        assert not jax.config.jax_enable_x64


def test_outside_the_support_the_density_is_zero():
    """Checks of parameters, which JAX alone would leave out."""
    with pm.Model() as model:
        s = pm.Normal("s", initval=1.0)
        pm.Normal("y", 0.0, s, observed=[0.5, -1.0])
    density = jax_density(compile_density(model))
    with jax.enable_x64(True):
        value = density.log_density(jax.numpy.asarray([-1.0]), *density.data.values())
    assert float(value) == -np.inf


def looping():
    with pm.Model() as model:
        x = pm.Normal("x")
        start = pt.as_tensor(np.array(0.0))
        found = pytensor.scan(
            lambda a, x: (a * 0.5 + x, until(a > 3)), outputs_info=[start], non_sequences=[x],
            n_steps=10, return_updates=False,
        )  # fmt: skip
        pm.Potential("p", -(found[-1] ** 2))
    return model


def slicing():
    with pm.Model() as model:
        x = pm.HalfNormal("x", shape=3, initval=np.ones(3))
        n = pt.clip(pt.floor(x[0] + 1), 1, 3).astype("int64")
        pm.Potential("p", -pt.cumsum(x[:n])[-1])
    return model


@pytest.mark.parametrize(
    ("build", "named"),
    [
        (black_box, "Quadratic"),
        (looping, "While Scan"),
        (slicing, "Op Subtensor{:stop} raises IndexError"),
        (lambda: black_box(op=Blind), "no gradient .*Blind"),
    ],
)
def test_what_jax_cannot_compute_is_named(build, named):
    density = compile_density(build())
    with pytest.raises(ModelError, match=rf"JAX cannot compute .*{named}.* `backend` at 'numba'"):
        jax_density(density)


def test_a_density_that_differs_is_refused(for_jax, monkeypatch):
    with pm.Model() as model:
        pm.Normal("x", 1.0, 2.0)
    density = compile_density(model)
    graph = module.density_graph

    def wrong(*given):
        found = graph(*given)
        return found._replace(log_density=found.log_density + 1e-3)

    monkeypatch.setattr(module, "density_graph", wrong)
    with pytest.raises(ModelError, match="not that of this model"):
        jax_density(density)
    assert isinstance(for_jax, JaxDensity)
