"""Variational fits by regression: exact on Gaussians, near the best ELBO elsewhere."""

import math

import numpy as np
import pytest
from densities import toy

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.full_rank import MAX_FULL_RANK_DIM, _divergence, fit_gaussian
from pymc_tempering.references.quality import evaluate_elbo

WIDE_DIM = MAX_FULL_RANK_DIM + 50


@toy(WIDE_DIM)
def wide_density(z, grad):
    """Independent normals with means i / 10 and standard deviations 1 + i / 100."""
    total = 0.0
    for i in range(WIDE_DIM):
        sd = 1.0 + 0.01 * i
        u = (z[i] - 0.1 * i) / sd
        grad[i] = -u / sd
        total += -0.5 * u * u - math.log(sd) - 0.5 * math.log(2.0 * math.pi)
    return total


@toy(6)
def funnel_density(z, grad):
    """v ~ N(0, 3), five x ~ N(0, exp(v / 2)); the maximum is at v = -22.5."""
    v = z[0]
    total = -0.5 * (v / 3.0) ** 2 - math.log(3.0) - 3.0 * math.log(2.0 * math.pi) - 2.5 * v
    grad[0] = -v / 9.0 - 2.5
    for i in range(1, 6):
        grad[i] = -z[i] * math.exp(-v)
        total += 0.5 * z[i] * grad[i]
        grad[0] -= 0.5 * z[i] * grad[i]
    return total


@pytest.fixture
def funnel():
    return funnel_density


def test_elbo_is_log_z_on_a_correlated_gaussian(rng):
    """The regression is exact for a quadratic target, so no noise is left."""
    target = testing.correlated_gaussian()
    start = GaussianBase(target.mean + 0.7, np.full(3, 0.2))
    base, n_gradients = fit_gaussian(target, start, rng)
    assert evaluate_elbo(target, base, rng).value == pytest.approx(target.log_z, abs=1e-6)
    np.testing.assert_allclose(base.mean, target.mean, atol=1e-5)
    np.testing.assert_allclose(base.covariance, target.cov, atol=1e-5)
    assert n_gradients < 3000


def test_a_perfect_start_takes_two_iterations(gaussian, rng):
    start = GaussianBase.from_moments(gaussian.mean, gaussian.cov)
    base, n_gradients = fit_gaussian(gaussian, start, rng)
    np.testing.assert_allclose(base.covariance, gaussian.cov, rtol=1e-6, atol=1e-8)
    assert n_gradients < 100


def test_elbo_improves_where_the_target_is_curved(rng):
    target = testing.banana()
    start = GaussianBase(target.mean, np.full(2, 0.1))
    base, _ = fit_gaussian(target, start, rng)
    before, after = (evaluate_elbo(target, b, rng).value for b in (start, base))
    assert before + 0.5 < after <= target.log_z + 0.1


def test_funnel_is_left_by_its_mass_and_not_its_maximum(funnel, rng):
    """With v ~ N(0, s^2) in q and the best scale of x, the ELBO is
    1/2 + log(s / 3) - s^2 (1 / 18 + 5 / 4): -1.58 at the best s.
    """
    base, _ = fit_gaussian(funnel, GaussianBase(np.zeros(6), np.full(6, 0.1)), rng)
    assert -3.0 < base.mean[0] < 3.0
    assert -1.8 < evaluate_elbo(funnel, base, rng).value < -1.4


def test_diagonal_in_high_dimension(rng):
    wide = wide_density
    base, _ = fit_gaussian(wide, GaussianBase(np.zeros(WIDE_DIM), np.full(WIDE_DIM, 0.5)), rng)
    assert base.is_diagonal
    np.testing.assert_allclose(base.mean, 0.1 * np.arange(WIDE_DIM), atol=0.5)
    assert -2.0 < evaluate_elbo(wide, base, rng).value < 0.0


def test_a_dense_start_in_high_dimension_is_taken_by_its_diagonal():
    wide = wide_density
    dense = GaussianBase(np.zeros(WIDE_DIM), 0.5 * np.eye(WIDE_DIM))
    diagonal = GaussianBase(dense.mean, dense.standard_deviation)
    fits = [fit_gaussian(wide, start, np.random.default_rng(0)) for start in (dense, diagonal)]
    assert fits[0] == fits[1]


def test_draws_outside_the_support_push_back_into_it(edge, rng):
    """Half of the first draws are beyond the edge. The bound is near tight for all bases between
    N(0, I), two thirds of which is outside, and one well inside.
    """
    base, _ = fit_gaussian(edge, GaussianBase([0.5, 0.0], [1.0, 1.0]), rng)
    assert -0.5 < evaluate_elbo(edge, base, rng, 20_000).value - edge.log_z < 0.05
    np.testing.assert_allclose(base.standard_deviation[1], 1.0, rtol=0.2)


def test_start_is_returned_where_nothing_is_inside(edge, rng):
    beyond = GaussianBase([-20.0, 0.0], [1.0, 1.0])
    assert fit_gaussian(edge, beyond, rng)[0] is beyond


def test_same_seed_same_fit(bimodal):
    start = GaussianBase(bimodal.modes[0] + 0.3, [0.2, 0.2])
    fits = [fit_gaussian(bimodal, start, np.random.default_rng(s))[0] for s in (3, 3, 4)]
    assert fits[0] == fits[1]
    assert fits[0] != fits[2]


def test_one_dimension_is_diagonal(rng):
    """A matrix of one entry and a vector of one are different bases of the same density."""
    line = testing.trimodal_1d()
    base, _ = fit_gaussian(line, GaussianBase(line.start, np.full(1, 0.3)), rng)
    assert base.is_diagonal


@toy(2)
def pole(z, grad):
    grad[:] = -1e305
    return 0.0


def test_a_fit_at_a_pole_stays_where_it_was(rng):
    """As of data that are all the same: gradients are finite, and no product of them is."""
    start = GaussianBase(np.zeros(2), np.full(2, 1e4))
    target = pole
    with np.errstate(over="ignore"):
        base, n_gradients = fit_gaussian(target, start, rng)
    assert base is start
    assert n_gradients > 0


def test_a_fit_that_comes_to_one_that_is_known_ends_there(funnel, rng):
    start = GaussianBase(np.zeros(6), np.full(6, 0.3))
    known, n_alone = fit_gaussian(funnel, start, rng)
    beside = GaussianBase(known.mean + 9.0, known.scale)
    found, n_gradients = fit_gaussian(funnel, start, rng, known=(beside, known))
    assert found is known
    assert n_gradients < 0.7 * n_alone
    # another width around the same place is another fit
    narrow = GaussianBase(known.mean, 0.05 * known.scale)
    found, _ = fit_gaussian(funnel, start, rng, known=(narrow,))
    assert found is not narrow


def test_the_divergence_of_gaussians_is_that_of_the_formula(rng):
    """Of diagonal ones without their matrices, and of others."""
    mean, other = rng.normal(size=(2, 4))
    a, b = rng.uniform(0.5, 2.0, (2, 4))
    exact = 0.5 * ((a / b) ** 2 + ((mean - other) / b) ** 2 - 1.0 - 2.0 * np.log(a / b)).sum()
    for of, to in ((a, b), (np.diag(a), b), (a, np.diag(b)), (np.diag(a), np.diag(b))):
        found = _divergence(GaussianBase(mean, of), GaussianBase(other, to))
        assert found == pytest.approx(exact)
