"""What log weights of draws say: the ELBO, and importance-sampled evidence."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.references.quality import (
    UNKNOWN,
    evaluate_elbo,
    importance_evidence,
    trimmed_variance,
)
from tests.references.conftest import two_gaussians


def test_exact_base_gives_log_z_without_error(gaussian, rng):
    base = GaussianBase.from_moments(gaussian.mean, gaussian.cov)
    elbo, variance = evaluate_elbo(gaussian, base, rng)
    np.testing.assert_allclose(elbo, gaussian.log_z, rtol=1e-10)
    assert variance < 1e-12


def test_wrong_base_loses_its_divergence(gaussian, rng):
    """KL of Gaussians in closed form; within 5.5 standard errors."""
    mean = gaussian.mean + np.array([0.3, -0.5, 2.0])
    sd = np.array([1.0, 0.7, 5.0])
    precision = np.linalg.inv(gaussian.cov)
    shift = gaussian.mean - mean
    kl = 0.5 * (
        np.diag(precision) @ sd**2
        + shift @ precision @ shift
        - 3
        + np.linalg.slogdet(gaussian.cov)[1]
        - 2 * np.log(sd).sum()
    )
    elbo, _ = evaluate_elbo(gaussian, GaussianBase(mean, sd), rng, 20_000)
    assert abs(elbo - (gaussian.log_z - kl)) < 0.055


def test_bound_holds_with_a_bounded_support(edge, rng):
    """Half of a base centred on the edge is outside, and costs log 2."""
    base = GaussianBase([0.5, 0.0], [0.8, 1.0])
    elbo, _ = evaluate_elbo(edge, base, rng, 20_000)
    # E[log target - log base | inside] by hand: for z0 = 0.5 + 0.8 |eps|.
    inside = -0.5 * (0.25 + 0.8 * np.sqrt(2 / np.pi) + 0.64) + 0.5 + np.log(0.8)
    assert abs(elbo - (inside + np.log(0.5))) < 0.005
    assert elbo < edge.log_z


def test_no_draw_inside_the_support(edge, rng):
    bound = evaluate_elbo(edge, GaussianBase([-50.0, 0.0], [1.0, 1.0]), rng)
    assert bound == (-np.inf, np.inf)


def test_weights_of_no_draw_vary_without_bound():
    """With no warning of NumPy's, which users saw where all draws of a map were beyond numbers."""
    assert trimmed_variance(np.empty(0)) == np.inf


def test_bound_of_a_part_of_the_support(gaussian, rng):
    """Without the fifth of lowest weights of an exact base nothing but that fifth is lost."""
    base = GaussianBase.from_moments(gaussian.mean, gaussian.cov)
    bound, variance = evaluate_elbo(gaussian, base, rng, 1000, trimmed=0.2)
    np.testing.assert_allclose(bound, gaussian.log_z + np.log(0.8), rtol=1e-10)
    assert variance < 1e-12


def test_variance_is_twice_what_the_bound_misses_where_that_is_little(gaussian, rng):
    """A base narrower by 3 %: to second order in what is wrong; 4000 draws give it within 10 %."""
    exact = GaussianBase.from_moments(gaussian.mean, gaussian.cov)
    narrow = GaussianBase(exact.mean, 0.97 * exact.scale)
    bound = evaluate_elbo(gaussian, narrow, rng, 400_000)
    # the lowest 2 % of the draws do not count, which costs a chi-square a good part
    assert 0.4 < 0.5 * bound.variance / (gaussian.log_z - bound.value) < 1.1
    assert evaluate_elbo(gaussian, exact, rng).variance < 1e-12


@pytest.fixture(scope="module")
def target():
    """Two Gaussians with 0.3 and 0.7 of the mass."""
    return testing.asymmetric_bimodal(weights=(0.3, 0.7))


def fits(target, rng, widen=1.0):
    """Of both modes, from exact draws; the lighter first."""
    draws = target.draw(rng, 40_000)
    upper = draws[:, 0] > target.mean[0]
    groups = sorted([draws[upper], draws[~upper]], key=len)
    return [GaussianBase(x.mean(axis=0), widen * np.linalg.cholesky(np.cov(x.T))) for x in groups]


@pytest.mark.statistical
@pytest.mark.parametrize("widen", [1.0, 1.3])
def test_is_log_z_where_all_modes_are_known_however_often(target, widen, rng):
    """With an error that is true: of 400 estimates, four of its errors at 1e-4."""
    light, heavy = fits(target, rng, widen)
    for modes in ([light, heavy], [light, heavy, heavy, light, heavy]):
        found = [importance_evidence(target, modes, rng) for _ in range(400)]
        ratio = np.exp([one.value - target.log_z for one in found])
        assert abs(ratio.mean() - 1.0) < 4.0 * ratio.std() / 20.0
        se = np.sqrt(np.mean([one.se**2 for one in found]))
        assert ratio.std() == pytest.approx(se, rel=4.0 / np.sqrt(2 * 400) + 0.1)
        assert found[0].n_gradients == 128 * len(modes)


def test_is_the_share_of_the_modes_that_are_known(rng):
    """Of two that do not overlap."""
    means, sds = np.array([[-9.0, 0.0], [9.0, 1.0]]), np.array([[1.0, 0.5], [0.7, 2.0]])
    density = two_gaussians(np.log([0.3, 0.7]) - 2.0, means, sds)
    target = SimpleNamespace(address=density.address, dim=2)
    for i, share in enumerate((0.3, 0.7)):
        found = importance_evidence(target, [GaussianBase(means[i], sds[i])], rng)
        assert found.value == pytest.approx(np.log(share) - 2.0, abs=1e-9)


def test_a_fit_stands_for_its_images(rng):
    """Two modes that exchange their coordinates, of which one is fitted: the mass is of both."""
    places, log_z = np.array([[3.0, -1.0], [-1.0, 3.0]]), 0.7
    sds = np.array([[0.5, 0.2], [0.2, 0.5]])
    target = two_gaussians(np.log([0.5, 0.5]) + log_z, places, sds)
    exchange = Orbit(np.array([[0, 1], [1, 0]]), np.empty((0, 2)))
    found = importance_evidence(target, [GaussianBase(places[0], sds[0])], rng, orbit=exchange)
    assert found.value == pytest.approx(log_z, abs=1e-9)


def test_nothing_is_known_without_modes_or_beyond_the_support(rng):
    assert importance_evidence(testing.hard_edge_gaussian(), [], rng) == UNKNOWN
    beyond = GaussianBase(np.array([-50.0, 0.0]), np.ones(2))
    found = importance_evidence(testing.hard_edge_gaussian(), [beyond], rng)
    assert found == UNKNOWN._replace(n_gradients=128)
