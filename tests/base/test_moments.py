"""Robust moments of draws, and matched moments of mixtures."""

import numpy as np
import pytest

from pymc_tempering.base.gaussian import GaussianBase
from pymc_tempering.base.moments import match_moments, robust_gaussian, widen
from pymc_tempering.errors import BaseError, OptionError

COV = np.array([[1.0, 1.2, 0.0], [1.2, 4.0, -3.0], [0.0, -3.0, 9.0]])


def gaussian_draws(rng, n, cov=COV, mean=(5.0, 0.0, -50.0)):
    return rng.multivariate_normal(np.array(mean), cov, size=n)


def test_gaussian_draws_are_almost_unaffected(rng):
    """Entries within six standard errors plus half a percent: a false alarm in 1e7 runs."""
    n = 40_000
    base = robust_gaussian(gaussian_draws(rng, n))
    sd = np.sqrt(np.diag(COV))
    assert not base.is_diagonal
    assert np.all(np.abs(base.mean - [5.0, 0.0, -50.0]) < 6 * sd / np.sqrt(n))
    np.testing.assert_allclose(base.standard_deviation, sd, rtol=0.005 + 6 / np.sqrt(2 * n))
    corr = base.covariance / np.outer(base.standard_deviation, base.standard_deviation)
    np.testing.assert_allclose(corr, COV / np.outer(sd, sd), atol=0.01 + 6 / np.sqrt(n))


def test_cauchy_draws_have_a_stable_scale(rng):
    """Plain standard deviations of 20 such samples range over more than a factor 10."""
    scales = [robust_gaussian(rng.standard_cauchy((4000, 1))).scale[0] for _ in range(20)]
    # Exactly 8.9 in the limit; the 20th largest of 4000 draws varies by about a quarter.
    assert min(scales) > 4.0
    assert max(scales) < 20.0


def test_a_light_mode_counts(rng):
    """A tenth of the draws, 20 away, makes a standard deviation of 6.1, not 1."""
    x = rng.normal(size=(5000, 2))
    light = rng.random(5000) < 0.1
    x[light, 0] += 20.0
    share = light.mean()
    expected = np.sqrt(1 + share * (1 - share) * 400)
    assert abs(robust_gaussian(x).standard_deviation[0] / expected - 1) < 0.05


def test_full_only_with_enough_effective_draws(rng):
    draws = gaussian_draws(rng, 2000)
    assert robust_gaussian(draws, n_effective=5).is_diagonal
    assert not robust_gaussian(draws, n_effective=2000).is_diagonal
    assert robust_gaussian(draws, full=False).is_diagonal

    def correlation(base):
        return base.covariance[1, 2] / np.prod(base.standard_deviation[1:])

    full = correlation(robust_gaussian(draws, n_effective=2000))
    half = correlation(robust_gaussian(draws, n_effective=15, full=True))
    assert 0.4 < half / full < 0.51
    assert 0.49 < correlation(robust_gaussian(draws, shrinkage=0.5, full=True)) / full < 0.51


def test_independent_coordinates_stay_diagonal(rng):
    assert robust_gaussian(rng.normal(size=(4000, 10)) * np.arange(1, 11)).is_diagonal


@pytest.mark.parametrize("n", [2, 5, 30])
def test_always_positive_definite(rng, n):
    x = rng.normal(size=(n, 1)) @ np.ones((1, 40)) + 1e-9 * rng.normal(size=(n, 40))
    x[:, 3] = 7.0
    base = robust_gaussian(x, full=True)
    assert np.linalg.eigvalsh(base.covariance)[0] > 0
    assert base.standard_deviation[3] >= 6.9e-8


def test_min_scale_is_a_lower_bound(rng):
    draws = gaussian_draws(rng, 2000)
    plain = robust_gaussian(draws)
    floor = np.array([3.0, 0.1, 4.0])
    base = robust_gaussian(draws, min_scale=floor)
    expected = np.maximum(plain.standard_deviation, floor)
    np.testing.assert_allclose(base.standard_deviation, expected, rtol=1e-10)


def test_rows_that_are_not_finite_are_left_out(rng):
    draws = gaussian_draws(rng, 500)
    dirty = np.vstack([draws, [[np.nan, 0, 0]], [[0, np.inf, 0]]])
    assert robust_gaussian(dirty) == robust_gaussian(draws)


def test_refuses_what_is_no_sample():
    with pytest.raises(BaseError, match="shape"):
        robust_gaussian(np.zeros(5))
    with pytest.raises(BaseError, match="Only 1 of 2"):
        robust_gaussian(np.array([[0.0], [np.nan]]))
    with pytest.raises(OptionError, match="shrinkage is 2"):
        robust_gaussian(np.zeros((5, 2)), shrinkage=2)
    with pytest.raises(OptionError, match="n_effective is 0"):
        robust_gaussian(np.zeros((5, 2)), n_effective=0)


def test_matched_moments_are_those_of_the_mixture():
    """Against the law of total variance, written for three components by hand."""
    means = np.array([[0.0, 0.0], [4.0, 2.0], [-2.0, -6.0]])
    sds = np.array([[1.0, 2.0], [0.5, 0.5], [3.0, 1.0]])
    elbos = np.array([-10.0, -11.0, -10.5])
    bases = [GaussianBase(m, s, e) for m, s, e in zip(means, sds, elbos, strict=True)]
    base = match_moments(bases, elbos)
    w = np.exp(elbos) / np.exp(elbos).sum()
    second = sum(
        wi * (np.diag(s**2) + np.outer(m, m)) for wi, m, s in zip(w, means, sds, strict=True)
    )
    np.testing.assert_allclose(base.mean, w @ means, rtol=1e-12)
    np.testing.assert_allclose(base.covariance, second - np.outer(w @ means, w @ means), rtol=1e-8)
    assert np.isclose(base.log_zeta, np.log(np.exp(elbos).sum()))
    diagonal = match_moments(bases, elbos, max_full_dim=1)
    assert diagonal.is_diagonal
    np.testing.assert_allclose(diagonal.standard_deviation, base.standard_deviation)


def test_matched_moments_of_full_bases_and_of_one():
    full = GaussianBase.from_moments(np.zeros(3), COV)
    alone = match_moments([full], np.zeros(1))
    np.testing.assert_allclose(alone.covariance, COV, rtol=1e-10)
    assert alone.log_zeta is None
    other = GaussianBase.from_moments(np.full(3, 2.0), 2 * COV)
    both = match_moments([full, other], np.log([0.25, 0.75]))
    expected = 1.75 * COV + 0.25 * 0.75 * 4.0
    np.testing.assert_allclose(both.covariance, expected, rtol=1e-8, atol=1e-8)


def test_spread_along_an_axis_needs_no_matrix():
    bases = [GaussianBase([-3.0, 0.0], [1.0, 2.0]), GaussianBase([3.0, 0.0], [1.0, 2.0])]
    base = match_moments(bases, np.zeros(2))
    assert base.is_diagonal
    np.testing.assert_allclose(base.scale, [np.sqrt(10.0), 2.0])


@pytest.mark.parametrize("log_weights", [[0.0], [0.0, np.nan], [-np.inf, -np.inf], [0.0, np.inf]])
def test_refuses_improper_weights(log_weights):
    with pytest.raises(BaseError, match=r"[lL]og weight"):
        match_moments([GaussianBase([0.0], [1.0])] * 2, np.array(log_weights))


def test_refuses_bases_of_different_dimension():
    with pytest.raises(BaseError, match=r"dimensions \[1, 2\]"):
        match_moments([GaussianBase([0.0], [1.0]), GaussianBase([0.0] * 2, [1.0] * 2)], np.zeros(2))


def test_widen_keeps_correlations():
    base = GaussianBase.from_moments(np.zeros(3), COV, -1.0)
    wide = widen(base, np.array([2.0, 0.1, 6.0]))
    ratio = np.array([2.0, 1.0, 2.0])
    np.testing.assert_allclose(wide.covariance, COV * np.outer(ratio, ratio), rtol=1e-12)
    assert wide.log_zeta == -1.0
