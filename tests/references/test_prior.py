"""The prior as reference: its density, its draws, and log Z from it."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest
from scipy import stats

import pymc_tempering as pm_temper
from pymc_tempering.errors import BaseError
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references.prior import PriorReference

N = 4000


def kinds_of_variables():
    """Transforms of every kind, a hierarchy, dims, starts far from the prior, and likelihood."""
    with pm.Model(coords={"i": ["a", "b", "c"]}) as model:
        mu = pm.Normal("mu", 2.0, 3.0, initval=-50.0)
        tau = pm.Gamma("tau", 2.0, 3.0, initval=9.0)
        pm.Normal("a", mu, tau, dims="i")
        pm.Uniform("u", -2.0, 5.0)
        pm.Dirichlet("w", np.array([1.0, 2.0, 4.0]))
        # neither is prior, and both would move it
        pm.Normal("y", mu, 0.1, observed=7.0)
        pm.Potential("penalty", -100.0 * (tau - 5.0) ** 2)
    return model


@pytest.fixture(scope="module")
def prior():
    density = compile_density(kinds_of_variables())
    return density, PriorReference(density)


@pytest.fixture(scope="module")
def draws(prior, seed):
    density, reference = prior
    z = reference.draw(N, np.random.default_rng(seed))
    offsets = np.cumsum([0, *density.points.sizes])
    parts = {name: z[:, offsets[k] : offsets[k + 1]] for k, name in enumerate(density.points.names)}
    return z, parts


def test_density_against_scipy(prior, draws):
    _, reference = prior
    z, parts = draws
    mu, log_tau, a = parts["mu"][:, 0], parts["tau_log__"][:, 0], parts["a"]
    tau, u = np.exp(log_tau), parts["u_interval__"][:, 0]
    first = np.column_stack([parts["w_simplex__"], -parts["w_simplex__"].sum(axis=1)])
    w = np.exp(first) / np.exp(first).sum(axis=1, keepdims=True)
    expected = (
        stats.norm.logpdf(mu, 2.0, 3.0)
        + stats.gamma.logpdf(tau, 2.0, scale=1 / 3.0) + log_tau
        + stats.norm.logpdf(a, mu[:, None], tau[:, None]).sum(axis=1)
        + stats.logistic.logpdf(u)
        # the Jacobian of PyMC's simplex transform, for three parts
        + np.array([stats.dirichlet.logpdf(row / row.sum(), [1.0, 2.0, 4.0]) for row in w])
        + np.log(w).sum(axis=1) + np.log(3.0)
    )  # fmt: skip
    values = [reference._density.value_and_grad(row)[0] for row in z[:300]]
    np.testing.assert_allclose(values, expected[:300], rtol=1e-6)


@pytest.mark.statistical
def test_draws_follow_the_prior(draws):
    """Seven tests by Kolmogorov and Smirnov at 1e-4 each."""
    _, parts = draws
    mu, tau = parts["mu"], np.exp(parts["tau_log__"])
    first = np.column_stack([parts["w_simplex__"], -parts["w_simplex__"].sum(axis=1)])
    w = np.exp(first) / np.exp(first).sum(axis=1, keepdims=True)
    tests = [
        (mu[:, 0], stats.norm(2.0, 3.0)),
        (tau[:, 0], stats.gamma(2.0, scale=1 / 3.0)),
        (((parts["a"] - mu) / tau)[:, 2], stats.norm()),
        (parts["u_interval__"][:, 0], stats.logistic()),
        *((w[:, k], stats.beta(alpha, 7.0 - alpha)) for k, alpha in enumerate((1.0, 2.0, 4.0))),
    ]
    for values, law in tests:
        assert stats.kstest(values, law.cdf).pvalue > 1e-4


def test_draws_are_a_function_of_the_generator(prior):
    _, reference = prior
    first, again, other = (reference.draw(3, np.random.default_rng(s)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not (first == other).any()


def test_pickled_as_for_a_worker_process(prior, draws):
    """The prior again, not the posterior, from which any path would look perfect.

    PyMC orders these variables otherwise in a copy of the model, and otherwise again in a copy of
    the copy; fits and states of chains are flat vectors, so that a worker must not make another.
    """
    density, reference = prior
    copied_density, copied = cloudpickle.loads(cloudpickle.dumps((density, reference)))
    assert copied_density.points.names == density.points.names
    np.testing.assert_array_equal(copied_density.start, density.start)
    for z in draws[0][:3]:
        for one, other in ((density, copied_density), (reference._density, copied._density)):
            value, grad = one.value_and_grad(z)
            again, same_grad = other.value_and_grad(z)
            assert again == value
            np.testing.assert_array_equal(same_grad, grad)
    first, again = (r.draw(3, np.random.default_rng(1)) for r in (reference, copied))
    np.testing.assert_array_equal(first, again)


@pytest.mark.parametrize("kind", [pm.Flat, pm.HalfFlat])
def test_improper_priors_are_refused_by_name(kind):
    with pm.Model() as model:
        x = kind("level")
        pm.Normal("y", x, 1.0, observed=1.0)
    with pytest.raises(BaseError, match=r"\['level'\] are flat.*proper priors"):
        pm_temper.ParallelTempering(model=model, base="prior")


def test_priors_without_draws_are_refused():
    with pm.Model() as model:
        x = pm.CustomDist("x", 0.0, logp=lambda value, mu: -0.5 * (value - mu) ** 2)
        pm.Normal("y", x, 1.0, observed=1.0)
    with pytest.raises(BaseError, match=r"(?s)cannot serve as `base`.*Leave `base` away"):
        pm_temper.ParallelTempering(model=model, base="prior")


def test_an_order_that_draws_do_not_have_is_refused():
    with pm.Model() as model:
        order = pm.distributions.transforms.ordered
        pm.Normal("x", 0.0, 1.0, shape=3, transform=order, initval=[-1.0, 0.0, 1.0])
    with pytest.raises(BaseError, match="not finite at its own draws"):
        pm_temper.ParallelTempering(model=model, base="prior")
