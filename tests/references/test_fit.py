"""Gaussians from a model, from draws and from other Gaussians; draws that are independent."""

import numpy as np
import pymc as pm
import pytest
from arviz_stats.base import array_stats

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError, ModelError, OptionError
from pymc_tempering.model.compile import compile_density
from pymc_tempering.references import fit as fit_module
from pymc_tempering.references.fit import (
    base_from_draws,
    effective_sizes,
    expand_to_draws,
    match_moments,
    n_independent,
    widen,
)
from pymc_tempering.references.prepare import fit_base, prepare
from tests.chains import autoregressive_chains


@pytest.fixture(scope="module")
def two_modes():
    """Modes at -4 (weight 0.7) and 3, one further coordinate; log Z = 0."""
    with pm.Model() as model:
        w = np.array([0.7, 0.3])
        parts = [pm.Normal.dist(-4.0, 0.5), pm.Normal.dist(3.0, 1.0)]
        pm.Mixture("x", w, parts)
        pm.Normal("y", 10.0, 2.0)
    return model


def test_anchor_covers_both_modes(bimodal, rng):
    """Weights: those of the ELBOs, the smaller of which counts as 0.3 before they add up to 1."""
    found = prepare(bimodal, np.zeros(2), rng)
    np.testing.assert_allclose(found.modes, bimodal.modes, atol=0.2)
    w = bimodal.weight / (bimodal.weight + 0.3)
    exact = np.sqrt(
        [w * 0.25 + (1 - w) + 49 * w * (1 - w), w * 0.64 + (1 - w) * 0.16 + 9 * w * (1 - w)]
    )
    np.testing.assert_allclose(found.pooled.standard_deviation, exact, rtol=0.05)
    assert not found.pooled.is_diagonal
    assert abs(found.pooled.log_zeta - bimodal.log_z) < 0.1


def test_one_start_finds_one_mode(bimodal, rng):
    (fit,) = prepare(bimodal, bimodal.modes[1], rng, search="none").fits
    np.testing.assert_allclose(fit.mean, bimodal.modes[1], atol=0.02)
    np.testing.assert_allclose(fit.standard_deviation, bimodal.sds[1], rtol=0.05)


def test_fit_base_of_a_model(two_modes, seed):
    base = fit_base(two_modes, random_seed=seed)
    with two_modes:
        again = fit_base(random_seed=seed)
    assert base == again
    order = compile_density(two_modes).points.names
    x, y = order.index("x"), order.index("y")
    exact = np.sqrt(0.7 * 0.25 + 0.3 + 49 * 0.21)
    np.testing.assert_allclose(base.standard_deviation[[x, y]], [exact, 2.0], rtol=0.15)
    np.testing.assert_allclose(base.mean[[x, y]], [-1.9, 10.0], atol=0.5)
    assert abs(base.log_zeta) < 0.1


def test_refuses_unknown_options(two_modes):
    with pytest.raises(OptionError, match=r"given \['method'\].*leave `method` away"):
        fit_base(two_modes, method="advi")
    with pytest.raises(OptionError, match=r"Unknown search 'wide'.*'thorough'"):
        fit_base(two_modes, search="wide")


def test_refuses_discrete_models():
    with pm.Model() as model:
        pm.Poisson("k", 3.0)
    with pytest.raises(ModelError):
        fit_base(model)


def test_base_from_draws_counts_effective_draws(rng):
    """Draws that repeat 200 times are 20 draws, too few for a matrix in 30 dimensions."""
    cov = 0.8 * np.ones((30, 30)) + 0.2 * np.eye(30)
    independent = rng.multivariate_normal(np.zeros(30), cov, size=4000)
    assert not base_from_draws(independent).is_diagonal
    sticky = np.repeat(independent[:20], 200, axis=0)
    assert base_from_draws(sticky).is_diagonal


def test_base_from_draws_takes_chains_and_bounds(rng):
    draws = rng.normal([1.0, -2.0], [0.5, 4.0], size=(4, 2000, 2))
    base = base_from_draws(draws, min_scale=1.0)
    np.testing.assert_allclose(base.mean, [1.0, -2.0], atol=0.4)
    np.testing.assert_allclose(base.standard_deviation, [1.0, 4.0], rtol=0.1)
    assert base.log_zeta is None
    with pytest.raises(BaseError, match="shape"):
        base_from_draws(np.zeros(3))


def test_base_from_few_or_constant_draws(rng):
    assert base_from_draws(rng.normal(size=(5, 2))).dim == 2
    assert base_from_draws(np.ones((50, 2))).scale.min() > 0


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
    monkeypatch.setattr(fit_module, "MAX_FULL_RANK_DIM", 1)
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


@pytest.mark.parametrize("n", [4, 5, 7, 10, 13, 20, 57, 400])
@pytest.mark.parametrize("correlation", [-0.4, 0.0, 0.5, 0.95])
def test_sizes_are_those_of_arviz(n, correlation, rng):
    columns = autoregressive_chains(rng, (1, n, 12), correlation)[0]
    columns[:, 3] = 1.5
    columns[:, 4] = np.round(columns[:, 4])
    wanted = [float(array_stats.ess(column[None], method="mean")) for column in columns.T]
    np.testing.assert_allclose(effective_sizes(columns), wanted, rtol=1e-9)


def test_draws_count_as_the_least_of_coordinates_and_squares(rng):
    n = 3000
    slow = autoregressive_chains(rng, (1, n, 1), 0.95)[0, :, 0]
    # of independent signs, and sizes that are not
    signs = rng.choice([-1.0, 1.0], n) * np.exp(slow)
    assert n_independent(signs[:, None]) < 0.3 * effective_sizes(signs[:, None])[0]
    columns = np.column_stack([slow, rng.normal(size=(n, 2))])
    assert n_independent(columns) > 0.8 * n
    assert n_independent(columns[:, [0, 0, 1]]) < 0.1 * n


def test_too_few_draws_and_infinite_ones_count_as_none(rng):
    draws = rng.normal(size=(50, 2))
    assert n_independent(draws[:3]) == 0.0
    draws[7] = np.nan
    assert n_independent(draws) == 0.0
