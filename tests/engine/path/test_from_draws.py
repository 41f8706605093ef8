"""Gaussians of draws: robust moments, and draws that are refused."""

import numpy as np
import pytest

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError, OptionError

COV = np.array([[1.0, 1.2, 0.0], [1.2, 4.0, -3.0], [0.0, -3.0, 9.0]])


def gaussian_draws(rng, n, cov=COV, mean=(5.0, 0.0, -50.0)):
    return rng.multivariate_normal(np.array(mean), cov, size=n)


def test_gaussian_draws_are_almost_unaffected(rng):
    """Entries within six standard errors plus half a percent: a false alarm in 1e7 runs."""
    n = 40_000
    base = GaussianBase.from_draws(gaussian_draws(rng, n))
    sd = np.sqrt(np.diag(COV))
    assert not base.is_diagonal
    assert np.all(np.abs(base.mean - [5.0, 0.0, -50.0]) < 6 * sd / np.sqrt(n))
    np.testing.assert_allclose(base.standard_deviation, sd, rtol=0.005 + 6 / np.sqrt(2 * n))
    corr = base.covariance / np.outer(base.standard_deviation, base.standard_deviation)
    np.testing.assert_allclose(corr, COV / np.outer(sd, sd), atol=0.01 + 6 / np.sqrt(n))


def test_cauchy_draws_have_a_stable_scale(rng):
    """Plain standard deviations of 20 such samples range over more than a factor 10."""
    scales = [GaussianBase.from_draws(rng.standard_cauchy((4000, 1))).scale[0] for _ in range(20)]
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
    assert abs(GaussianBase.from_draws(x).standard_deviation[0] / expected - 1) < 0.05


def test_full_only_with_enough_effective_draws(rng):
    draws = gaussian_draws(rng, 2000)
    assert GaussianBase.from_draws(draws, n_effective=5).is_diagonal
    assert not GaussianBase.from_draws(draws, n_effective=2000).is_diagonal
    assert GaussianBase.from_draws(draws, full=False).is_diagonal

    def correlation(base):
        return base.covariance[1, 2] / np.prod(base.standard_deviation[1:])

    full = correlation(GaussianBase.from_draws(draws, n_effective=2000))
    half = correlation(GaussianBase.from_draws(draws, n_effective=15, full=True))
    assert 0.4 < half / full < 0.51
    assert (
        0.49 < correlation(GaussianBase.from_draws(draws, shrinkage=0.5, full=True)) / full < 0.51
    )


def test_independent_coordinates_stay_diagonal(rng):
    assert GaussianBase.from_draws(rng.normal(size=(4000, 10)) * np.arange(1, 11)).is_diagonal


@pytest.mark.parametrize("n", [2, 5, 30])
def test_always_positive_definite(rng, n):
    x = rng.normal(size=(n, 1)) @ np.ones((1, 40)) + 1e-9 * rng.normal(size=(n, 40))
    x[:, 3] = 7.0
    base = GaussianBase.from_draws(x, full=True)
    assert np.linalg.eigvalsh(base.covariance)[0] > 0
    assert base.standard_deviation[3] >= 6.9e-8


def test_min_scale_is_a_lower_bound(rng):
    draws = gaussian_draws(rng, 2000)
    plain = GaussianBase.from_draws(draws)
    floor = np.array([3.0, 0.1, 4.0])
    base = GaussianBase.from_draws(draws, min_scale=floor)
    expected = np.maximum(plain.standard_deviation, floor)
    np.testing.assert_allclose(base.standard_deviation, expected, rtol=1e-10)


def test_rows_that_are_not_finite_are_left_out(rng):
    draws = gaussian_draws(rng, 500)
    dirty = np.vstack([draws, [[np.nan, 0, 0]], [[0, np.inf, 0]]])
    assert GaussianBase.from_draws(dirty) == GaussianBase.from_draws(draws)


def test_refuses_what_is_no_sample():
    with pytest.raises(BaseError, match="shape"):
        GaussianBase.from_draws(np.zeros(5))
    with pytest.raises(BaseError, match="Only 1 of 2"):
        GaussianBase.from_draws(np.array([[0.0], [np.nan]]))
    with pytest.raises(OptionError, match="shrinkage is 2"):
        GaussianBase.from_draws(np.zeros((5, 2)), shrinkage=2)
    with pytest.raises(OptionError, match="n_effective is 0"):
        GaussianBase.from_draws(np.zeros((5, 2)), n_effective=0)
