"""Packed Cholesky factors by standard deviations and partial correlations: exact densities."""

import numpy as np
import pymc as pm
import pytest
from scipy import integrate, special, stats

import pymc_tempering as pm_temper
from pymc_tempering.evidence.same_model import draws_of_model
from pymc_tempering.model.at_draws import constrained_draws
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.correlations import PartialCorrelations
from pymc_tempering.references.hierarchy import Hierarchy

ETA = 1.7
RATES = np.array([0.5, 1.0, 3.0])
TILT = 1.5
"""Of the first correlation, in nats for each unit."""


@pytest.fixture(scope="module")
def two_factors():
    """Factors of three and of two dimensions, with other values before and between."""
    with pm.Model() as model:
        pm.Normal("x", 0.0, 1.0, shape=2)
        sizes = pm.Exponential.dist(RATES)
        chol, _, _ = pm.LKJCholeskyCov("three", n=3, eta=ETA, sd_dist=sizes)
        pm.Normal("y", 0.0, 1.0)
        pm.LKJCholeskyCov("two", n=2, eta=0.8, sd_dist=pm.HalfNormal.dist(1.0))
        first = chol[1, 0] / pm.math.sqrt((chol[1] ** 2).sum())
        pm.Potential("tilt", TILT * first)
    return model


def of_correlation(x, exponent):
    """Log density of x = arctanh r, where r has a beta law of (1 - r^2)^(exponent - 1)."""
    norm = (2 * exponent - 1) * np.log(2) + special.betaln(exponent, exponent)
    return -2 * exponent * np.log(np.cosh(x)) - norm


def test_values_and_coordinates_are_inverse(two_factors, rng):
    own = compile_density(two_factors).points.correlations
    assert own.index.size == 9
    z = 3.0 * rng.normal(size=(50, 12))
    values = own.from_line(z)
    np.testing.assert_allclose(own.to_line(values), z, atol=1e-9)
    others = np.setdiff1d(np.arange(12), own.index)
    np.testing.assert_array_equal(values[:, others], z[:, others])


def test_coordinates_are_standard_deviations_and_correlations(rng):
    """Partial correlations of the third with the second given the first, by its formula."""
    root = np.tril(rng.normal(size=(3, 3)))
    root[np.diag_indices(3)] = np.exp(rng.normal(size=3))
    packed = np.array(root[np.tril_indices(3)])
    ends = [0, 2, 5]
    packed[ends] = np.log(packed[ends])
    first, last = np.array([0, 1, 1, 3, 3, 3]), np.array([0, 2, 2, 5, 5, 5])
    z = PartialCorrelations(np.arange(6), first, last).to_line(packed)
    covariance = root @ root.T
    sizes = np.sqrt(np.diag(covariance))
    r = covariance / np.outer(sizes, sizes)
    rest = np.sqrt((1 - r[1, 0] ** 2) * (1 - r[2, 0] ** 2))
    partial = (r[2, 1] - r[1, 0] * r[2, 0]) / rest
    np.testing.assert_allclose(z[ends], np.log(sizes))
    np.testing.assert_allclose(np.tanh(z[[1, 3, 4]]), [r[1, 0], r[2, 0], partial])


def test_coordinates_far_out_are_inverse():
    own = PartialCorrelations(np.arange(6), np.array([0, 1, 1, 3, 3, 3]),
                              np.array([0, 2, 2, 5, 5, 5]))  # fmt: skip
    z = np.array([-300.0, 15.0, -200.0, -12.0, 12.0, 30.0])
    np.testing.assert_allclose(own.to_line(own.from_line(z)), z, rtol=1e-9)
    # a row of which the diagonal alone is not 0
    np.testing.assert_array_equal(own.to_line(np.zeros(6)), np.zeros(6))


def test_density_is_a_product_of_laws_of_its_coordinates(two_factors, rng):
    """Under the LKJ prior all of them are independent; its exponents are those of vines."""
    density = compile_density(two_factors)
    points = density.points
    for z in 1.5 * rng.normal(size=(10, density.dim)):
        at = dict(zip(points.names, np.split(z, np.cumsum(points.sizes)[:-1]), strict=True))
        three, two = (at[f"{name}_cholesky-cov-packed__"] for name in ("three", "two"))
        sizes, halves = three[[0, 2, 5]], two[[0, 2]]
        expected = (
            stats.norm.logpdf(at["x"]).sum() + stats.norm.logpdf(at["y"]).sum()
            + (np.log(RATES) + sizes - RATES * np.exp(sizes)).sum()
            + of_correlation(three[[1, 3]], ETA + 0.5).sum() + of_correlation(three[4], ETA)
            + (stats.halfnorm.logpdf(np.exp(halves)) + halves).sum()
            + of_correlation(two[1], 0.8) + TILT * np.tanh(three[1])
        )  # fmt: skip
        assert density.value_and_grad(z)[0] == pytest.approx(expected, abs=1e-9)
        of_model = two_factors.compile_logp(mode="FAST_COMPILE")(points.unravel(z))
        assert of_model + points.log_jacobian(z[None])[0] == pytest.approx(expected, abs=1e-9)


def test_jacobian_is_that_of_the_values(two_factors, rng):
    own = compile_density(two_factors).points.correlations
    for z in rng.normal(size=(5, 12)):
        steps = 1e-5 * np.eye(12)
        slopes = (own.from_line(z + steps) - own.from_line(z - steps)) / 2e-5
        assert own.log_jacobian(z) == pytest.approx(np.linalg.slogdet(slopes)[1], abs=1e-7)


def test_variables_at_draws_are_those_of_the_model(two_factors, rng):
    """The first entry of a factor is its standard deviation, and the first correlation a tanh."""
    density = compile_density(two_factors)
    points, z = density.points, rng.normal(size=(7, density.dim))
    begin = sum(points.sizes[: points.names.index("three_cholesky-cov-packed__")])
    three = z[:, begin : begin + 6]
    found = constrained_draws(two_factors, ["three_stds", "three_corr"], points)(z)
    np.testing.assert_allclose(found["three_stds"], np.exp(three[:, [0, 2, 5]]))
    np.testing.assert_allclose(found["three_corr"][:, 1, 0], np.tanh(three[:, 1]))


def test_evidence_of_a_tilted_correlation(two_factors):
    """Draws are in PyMC's own space, their `lp` too. Each comparison fails once in 10^5 seeds."""
    estimate = pm_temper.estimate_logz(
        two_factors, draws=200, tune=150, chains=2, cores=1, random_seed=1, progressbar=False,
        quiet=True,
    )  # fmt: skip
    law = stats.beta(ETA + 0.5, ETA + 0.5, loc=-1, scale=2)
    z, mean = (
        integrate.quad(lambda r, k=k: r**k * np.exp(TILT * r) * law.pdf(r), -1, 1)[0]
        for k in (0, 1)
    )
    assert abs(estimate.log_z - np.log(z)) < 4.5 * estimate.se < 0.2
    r = estimate.idata["posterior"]["three_corr"].values[..., 1, 0]
    assert abs(r.mean() - mean / z) < 0.15
    # no other model, although the engine's density is in other coordinates
    z = draws_of_model(estimate.idata, compile_density(two_factors), two_factors, max_draws=50)
    assert np.isfinite(z).all()


def test_a_map_holds_where_a_slope_does_not_vary(rng):
    """In PyMC's coordinates, where the density has a pole, maps of three of four were refused."""
    group, x = np.repeat(np.arange(20), 6), rng.normal(size=(120, 2))
    design = np.column_stack([np.ones(120), x])
    slopes = np.array([1.0, 0.5, -0.3]) + rng.normal(size=(20, 3)) * [0.8, 0.3, 0.0]
    y = (design * slopes[group]).sum(axis=1) + 0.7 * rng.normal(size=120)
    with pm.Model() as model:
        chol, _, _ = pm.LKJCholeskyCov("chol", n=3, eta=2.0, sd_dist=pm.Exponential.dist(1.0))
        mean = pm.Normal("mean", 0.0, 2.0, shape=3)
        own = mean + pm.Normal("own", 0.0, 1.0, shape=(20, 3)) @ chol.T
        pm.Normal("y", (design * own[group]).sum(axis=1), pm.HalfNormal("sd", 1.0), observed=y)
    hierarchy, n_gradients = Hierarchy.of(compile_density(model))
    assert hierarchy is not None
    assert hierarchy.variance < 2.0
    assert n_gradients < 40_000
