"""The prior as reference: its density, its draws, and log Z from it."""

import warnings

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
    z = draws[0][:300]
    parts = {name: of_name[:300] for name, of_name in draws[1].items()}
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
    values = [reference._density.value_and_grad(row)[0] for row in z]
    np.testing.assert_allclose(values, expected, rtol=1e-6)


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


@pytest.mark.slow
@pytest.mark.statistical
def test_draws_without_the_order_count_as_draws_beside_the_model():
    """Entries of different laws: what share is in order is not 1 / k!. Four errors: 1e-4."""
    ordered = pm.distributions.transforms.ordered
    with pm.Model() as model:
        x = pm.Normal("x", [-1.0, 0.5], [1.0, 2.0], transform=ordered, initval=[-1.0, 1.0])
        pm.Normal("y", x.sum(), 1.5, observed=0.4)
    # a = x0 + x1 and b = x1 - x0 are normal, correlated by 0.6, and b > 0 given y by a's posterior
    share = stats.norm.cdf(1.5 / 5**0.5)
    a = stats.norm(-0.5, 5**0.5)
    density = stats.norm(-0.5, (5 + 1.5**2) ** 0.5)
    variance = 1 / (1 / 5 + 1 / 1.5**2)
    mean = variance * (a.mean() / 5 + 0.4 / 1.5**2)
    b_mean, b_var = 1.5 + 0.6 * (mean + 0.5), 5 * (1 - 0.36) + 0.36 * variance
    exact = density.logpdf(0.4) + stats.norm.logcdf(b_mean / b_var**0.5)
    reference = PriorReference(compile_density(model))
    inside = np.isfinite(reference.draw(2000, np.random.default_rng(1))).all(axis=1)
    assert abs(inside.mean() - share) < 4 * (share * (1 - share) / 2000) ** 0.5
    with pytest.warns(pm_temper.errors.TemperingWarning) as warned:
        estimate = pm_temper.estimate_logz(
            model, base="prior", chains=2, cores=1, random_seed=2, progressbar=False, quiet=True
        )
    codes = {warning.message.diagnostic.code for warning in warned}
    assert codes == {"ordered_variables"}
    assert abs(estimate.log_z - exact) < 4 * estimate.se


def test_a_transform_that_no_draw_fulfils_is_refused_by_name():
    with pm.Model() as model:
        order = pm.distributions.transforms.ordered
        pm.Normal("steps", 0.0, 1.0, shape=12, transform=order, initval=np.arange(12.0))
        pm.Normal("x")
    with pytest.raises(BaseError, match=r"none of 256 draws.*\['steps_ordered__'\]"):
        PriorReference(compile_density(model))


@pytest.mark.slow
def test_draws_rounded_onto_an_edge_are_refused_by_name():
    """Half of the draws of a Beta(0.01, 0.01) are 0 or 1 to the last digit."""
    with pm.Model() as model:
        pm.VonMises("angle", 1.0, 2.0)
        pm.Beta("share", 0.01, 0.01)
    with pytest.raises(BaseError, match=r"\['share_logodds__'\].*rounded onto it"):
        PriorReference(compile_density(model))


def test_potentials_are_no_priors_of_flat_variables():
    with pm.Model() as model:
        level = pm.Flat("level")
        pm.Potential("my_prior", pm.logp(pm.Normal.dist(), level))
    with pytest.raises(BaseError, match=r"\['level'\] are flat.*\['my_prior'\].*pm.CustomDist"):
        PriorReference(compile_density(model))


def own_distribution(random):
    with pm.Model() as model:
        x = pm.CustomDist(
            "x", 0.5, logp=lambda value, mu: pm.logp(pm.Normal.dist(mu, 1.0), value), random=random
        )
        pm.Normal("y", x, 1.0, observed=1.0)
    return model


def test_a_distribution_of_ones_own_is_drawn_in_python_without_a_warning():
    model = own_distribution(lambda mu, rng=None, size=None: rng.normal(mu, 1.0, size))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reference = PriorReference(compile_density(model))
        draws = reference.draw(2000, np.random.default_rng(1))
    assert stats.kstest(draws[:, 0], stats.norm(0.5, 1.0).cdf).pvalue > 1e-4
    np.testing.assert_array_equal(draws[:9], reference.draw(9, np.random.default_rng(1)))


def test_what_drawing_raises_is_in_the_refusal():
    def random(mu, rng=None, size=None):
        raise RuntimeError("the machine is off")

    with pytest.raises(BaseError, match="drawing from it raised RuntimeError: the machine is off"):
        PriorReference(compile_density(own_distribution(random)))
