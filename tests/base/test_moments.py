"""Matched moments of mixtures."""

import numpy as np
import pytest

from pymc_tempering.base.moments import match_moments, widen
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError

COV = np.array([[1.0, 1.2, 0.0], [1.2, 4.0, -3.0], [0.0, -3.0, 9.0]])


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
