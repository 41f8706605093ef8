"""Laws of residuals: against SciPy, their quantiles far out, and compiled as in Python."""

import numpy as np
import pytest
from scipy import stats

from pymc_tempering.engine.path.residuals import (
    LEAST_SKEW,
    MOST_SKEW,
    SKEW,
    TAIL,
    Residuals,
    log_residual,
)

SKEWS = (LEAST_SKEW, 0.2, -0.7, 1.5, -MOST_SKEW)
Y = np.array([-30.0, -9.0, -7.0, -5.0, -2.0, -0.1, 0.0, 0.3, 3.0, 5.0, 7.0, 9.0, 30.0])[:, None]


def skewed(k):
    return Residuals(np.array([np.inf]), np.array([k]))


@pytest.mark.parametrize("k", SKEWS)
def test_skewed_ones_against_scipy(k):
    """r = log(G / a) / k; SciPy's constant loses four digits where a is a million."""
    r, a = skewed(k).from_normal(Y), 1.0 / k**2
    by_scipy = stats.loggamma(a).logpdf(k * r + np.log(a)) + np.log(abs(k))
    np.testing.assert_allclose(skewed(k).log_density(r), by_scipy[:, 0], rtol=1e-9, atol=1e-8)
    # by the side where the probability is small
    low = stats.loggamma(a).cdf(k * r + np.log(a))
    below = low if k > 0.0 else stats.loggamma(a).sf(k * r + np.log(a))
    left = Y < 0.0
    np.testing.assert_allclose(below[left], stats.norm.cdf(Y[left]), rtol=1e-6)


@pytest.mark.parametrize("k", SKEWS)
def test_quantiles_and_their_inverse(k):
    r = skewed(k).from_normal(Y)
    assert (np.diff(r[:, 0]) > 0.0).all()
    np.testing.assert_allclose(skewed(k).to_normal(r), Y, atol=1e-9)


def test_nothing_overflows():
    far = np.array([[-1e4], [1e4]])
    for k in SKEWS:
        laws = skewed(k)
        for values in (laws.log_density(far), laws.fall(far), laws.to_normal(far)):
            assert np.isfinite(values).all()
        assert np.isfinite([log_residual(SKEW, k, r) for r in far[:, 0]]).all()
        assert np.isfinite(laws.from_normal(np.array([[-40.0], [40.0]]))).all()


def test_all_laws_together(rng):
    """Each coordinate has its own; constants and derivatives belong to the density."""
    laws = Residuals(np.array([np.inf, 2.5, np.inf]), np.array([-0.8, 0.0, 0.0]))
    r = laws.from_normal(rng.normal(size=(40, 3)))
    parts = skewed(-0.8).log_density(r[:, :1]) + stats.t(2.5).logpdf(r[:, 1])
    np.testing.assert_allclose(laws.log_density(r), parts + stats.norm.logpdf(r[:, 2]), rtol=1e-9)
    for i in range(3):
        h = 1e-6 * np.eye(3)[i]
        slope = (laws.log_density(r + h) - laws.log_density(r - h)) / 2e-6
        np.testing.assert_allclose(-laws.fall(r)[:, i], slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "parameter"), [(SKEW, 0.6), (SKEW, -1.4), (TAIL, 3.0), (0, 0.0)])
def test_compiled_as_in_python(kind, parameter, rng):
    laws = Residuals(
        np.array([parameter if kind == TAIL else np.inf]),
        np.array([parameter if kind == SKEW else 0.0]),
    )
    r = laws.from_normal(rng.normal(size=(30, 1)))
    compiled = np.array([log_residual(kind, parameter, each) for each in r[:, 0]])
    np.testing.assert_allclose(compiled[:, 0] + laws.log_constant, laws.log_density(r), atol=1e-9)
    np.testing.assert_allclose(compiled[:, 1], laws.fall(r)[:, 0], rtol=1e-9)
