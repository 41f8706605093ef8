"""The ELBO of a given base against its closed form."""

import numpy as np

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.elbo import evaluate_elbo


def test_exact_base_gives_log_z_without_error(gaussian, rng):
    base = GaussianBase.from_moments(gaussian.mean, gaussian.cov)
    elbo, se, _ = evaluate_elbo(gaussian, base, rng)
    np.testing.assert_allclose(elbo, gaussian.log_z, rtol=1e-10)
    assert se < 1e-10


def test_wrong_base_loses_its_divergence(gaussian, rng):
    """KL of Gaussians in closed form; 5.5 standard errors: a false alarm in 2e7 runs."""
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
    elbo, se, _ = evaluate_elbo(gaussian, GaussianBase(mean, sd), rng, 20_000)
    assert abs(elbo - (gaussian.log_z - kl)) < 5.5 * se
    assert se < 0.1


def test_standard_error_is_the_spread_over_repeats(edge, rng):
    """40 repeats: the ratio has a standard deviation of 11 %; 5 of them, a false alarm in 1e6."""
    base = GaussianBase([1.0, 0.0], [0.6, 1.1])
    elbos, ses, _ = np.transpose([evaluate_elbo(edge, base, rng, 4000) for _ in range(40)])
    assert 0.45 < np.std(elbos, ddof=1) / np.mean(ses) < 1.55


def test_bound_holds_with_a_bounded_support(edge, rng):
    """Half of a base centred on the edge is outside, and costs log 2."""
    base = GaussianBase([0.5, 0.0], [0.8, 1.0])
    elbo, se, _ = evaluate_elbo(edge, base, rng, 20_000)
    # E[log target - log base | inside] by hand: for z0 = 0.5 + 0.8 |eps|.
    inside = -0.5 * (0.25 + 0.8 * np.sqrt(2 / np.pi) + 0.64) + 0.5 + np.log(0.8)
    assert abs(elbo - (inside + np.log(0.5))) < 5.5 * se
    assert elbo < edge.log_z


def test_no_draw_inside_the_support(edge, rng):
    elbo, se, _ = evaluate_elbo(edge, GaussianBase([-50.0, 0.0], [1.0, 1.0]), rng)
    assert elbo == -np.inf
    assert np.isnan(se)


def test_variance_is_twice_what_the_bound_misses_where_that_is_little(gaussian, rng):
    """A base narrower by 3 %: to second order in what is wrong; 4000 draws give it within 10 %."""
    exact = GaussianBase.from_moments(gaussian.mean, gaussian.cov)
    narrow = GaussianBase(exact.mean, 0.97 * exact.scale)
    bound = evaluate_elbo(gaussian, narrow, rng, 400_000)
    # the lowest 2 % of the draws do not count, which costs a chi-square a good part
    assert 0.4 < 0.5 * bound.variance / (gaussian.log_z - bound.value) < 1.1
    assert evaluate_elbo(gaussian, exact, rng).variance < 1e-12
