"""Gaussians by moments: combined, and widened."""

import numpy as np
import pytest

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError
from pymc_tempering.references import fit
from pymc_tempering.references.fit import expand_to_draws, match_moments, widen

COV = np.array([[1.0, 1.2, 0.0], [1.2, 4.0, -3.0], [0.0, -3.0, 9.0]])


def test_matched_moments_are_those_of_the_mixture(monkeypatch):
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
    monkeypatch.setattr(fit, "MAX_FULL_RANK_DIM", 1)
    diagonal = match_moments(bases, elbos)
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


def test_refuses_bases_of_different_dimension():
    with pytest.raises(BaseError, match=r"dimensions \[1, 2\]"):
        match_moments([GaussianBase([0.0], [1.0]), GaussianBase([0.0] * 2, [1.0] * 2)], np.zeros(2))


def test_widen_keeps_correlations():
    base = GaussianBase.from_moments(np.zeros(3), COV, -1.0)
    wide = widen(base, np.array([2.0, 0.1, 6.0]))
    ratio = np.array([2.0, 1.0, 2.0])
    np.testing.assert_allclose(wide.covariance, COV * np.outer(ratio, ratio), rtol=1e-12)
    assert wide.log_zeta == -1.0


SCALE = np.array([[1.0, 0.0, 0.0], [0.6, 0.5, 0.0], [0.0, -1.0, 2.0]])


@pytest.mark.statistical
def test_wide_direction_is_widened_and_the_others_are_kept(rng):
    base = GaussianBase(np.array([1.0, 2.0, 3.0]), SCALE, log_zeta=0.5)
    u = rng.standard_normal((4000, 3))
    along = np.array([0.6, 0.8, 0.0])
    u += np.outer(3.0 * (u @ along) + 2.0, along)  # four times as wide, and moved by two
    wider = expand_to_draws(base, base.from_base(u), 4000)
    assert wider.log_zeta == base.log_zeta
    inner = np.linalg.solve(SCALE, np.linalg.solve(SCALE, wider.covariance).T)
    assert along @ inner @ along == pytest.approx(16.0, rel=0.15)
    across = np.array([[0.8, -0.6, 0.0], [0.0, 0.0, 1.0]])
    np.testing.assert_allclose(across @ inner @ across.T, np.eye(2), atol=0.05)
    np.testing.assert_allclose(np.linalg.solve(SCALE, wider.mean - base.mean), 2 * along, atol=0.4)


@pytest.mark.statistical
def test_noise_leaves_the_base_alone(rng):
    """Of as many draws as are told one sample in a thousand would widen it; three of 200 do not.

    The edge of Marchenko and Pastur alone would in a tenth: within five standard errors of it.
    """
    for n, dim in ((50, 2), (640, 4), (200, 10)):
        base = GaussianBase(np.zeros(dim), np.full(dim, 2.0))
        samples = [base.draw(rng, n) for _ in range(200)]
        kept = [expand_to_draws(base, draws, n_effective=n) is base for draws in samples]
        assert sum(kept) >= 197
        largest = np.array([np.linalg.eigvalsh(np.cov(draws.T))[-1] for draws in samples]) / 4.0
        beyond = np.mean(largest > (1.0 + np.sqrt(dim / n)) ** 2)
        assert 0.0 < beyond < 0.21


def test_narrow_draws_never_narrow(rng):
    base = GaussianBase(np.zeros(3), SCALE)
    draws = base.from_base(0.2 * rng.standard_normal((1000, 3)))
    assert expand_to_draws(base, draws, 1000) is base


def test_no_variance_and_no_number(rng):
    """Winsorised, so that Cauchy draws have a finite scale; draws that are not finite are left."""
    base = GaussianBase(np.zeros(2), np.ones(2))
    draws = np.stack([rng.standard_cauchy(4000), rng.standard_normal(4000)], axis=1)
    draws[:3] = np.nan
    wide = expand_to_draws(base, draws, 4000)
    assert 3.0 < wide.standard_deviation[0] < 100.0
    assert wide.standard_deviation[1] == pytest.approx(1.0, abs=0.3)


def test_one_dimension(rng):
    base = GaussianBase(np.zeros(1), np.ones(1))
    wide = expand_to_draws(base, 5.0 * rng.standard_normal((1000, 1)), 1000)
    assert wide.standard_deviation[0] == pytest.approx(5.0, rel=0.15)


def test_scales_that_a_covariance_cannot_hold(rng):
    """Twelve digits between the widest direction and the others."""
    base = GaussianBase(np.zeros(3), SCALE)
    u = rng.standard_normal((400, 3))
    u += 1e12 * np.outer(u[:, 0], [0.6, 0.48, 0.64])
    wide = expand_to_draws(base, base.from_base(u), 400)
    widths = np.linalg.svd(np.linalg.solve(SCALE, wide.scale), compute_uv=False)
    assert widths[0] == pytest.approx(1e12, rel=0.2)
    np.testing.assert_allclose(widths[1:], 1.0, atol=0.01)
