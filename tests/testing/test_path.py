"""log z(beta) and exact path draws, each against another way to get it."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError, OptionError
from pymc_tempering.testing import TARGETS, exact

BETAS = np.array([0.0, 0.1, 0.35, 0.8, 1.0])


def wide_base(target):
    sd = np.sqrt(np.where(np.isfinite(np.diag(target.cov)), np.diag(target.cov), 4.0))
    factor = np.diag(sd * np.linspace(1.3, 2.0, target.dim))
    factor[np.tril_indices(target.dim, -1)] = 0.3
    return SimpleNamespace(mean=target.mean + 0.4 * sd, scale=factor)


@pytest.fixture(params=sorted(TARGETS))
def target(request):
    return TARGETS[request.param]()


def test_base_log_density_for_both_kinds_of_scale(rng):
    z = rng.normal(size=(4, 5, 3))
    mean, sd = np.array([0.5, -1.0, 2.0]), np.array([0.3, 2.0, 1.1])
    factor = np.array([[0.3, 0.0, 0.0], [0.5, 2.0, 0.0], [-0.4, 0.7, 1.1]])
    for scale, cov in ((sd, np.diag(sd**2)), (factor, factor @ factor.T)):
        expected = stats.multivariate_normal(mean, cov).logpdf(z)
        got = exact.base_log_density(z, SimpleNamespace(mean=mean, scale=scale))
        np.testing.assert_allclose(got, expected)
        np.testing.assert_allclose(
            exact.base_log_density(z[0, 0], GaussianBase(mean, scale)), expected[0, 0]
        )


def test_log_z_path_against_importance_sampling(target, rng):
    """z(beta) = E_base exp(beta delta); 3 values at 5 standard errors: false alarm 2e-6."""
    base = wide_base(target)
    log_z = target.log_z_path(BETAS, base)
    assert log_z[0] == pytest.approx(0.0, abs=1e-7)
    assert log_z[-1] == pytest.approx(target.log_z, abs=1e-6)
    z = target.draw_path(rng, 300_000, 0.0, base)
    for beta, known in zip(BETAS[1:-1], log_z[1:-1], strict=True):
        if target.name == "heavy_tail" and beta > 0.5:
            continue  # such weights have no variance: that is what this target is for
        ratio = np.exp(beta * target.delta(z, base) - known)
        assert abs(ratio.mean() - 1.0) < 5.0 * ratio.std() / np.sqrt(len(z)), beta


def test_draws_along_the_path_have_the_slope_of_log_z(target, rng):
    """d log z / d beta = E delta (thermodynamic integration); 5 errors: 6e-7 per target."""
    base = wide_base(target)
    beta, h = 0.35, 1e-3
    lower, upper = target.log_z_path([beta - h, beta + h], base)
    delta = target.delta(target.draw_path(rng, 100_000, beta, base), base)
    error = delta.mean() - (upper - lower) / (2 * h)
    assert abs(error) < 5.0 * delta.std() / np.sqrt(len(delta))


def test_draws_along_a_gaussian_path_are_those_of_its_gaussian(rng):
    """KS test per coordinate, 3 at 1e-5: false alarm 3e-5."""
    target = testing.correlated_gaussian()
    base = wide_base(target)
    for beta in (0.2, 0.9):
        _, mean, cov = exact.path_gaussian(target, beta, base)
        z = target.draw_path(rng, 50_000, beta, base)
        for i in range(3):
            law = stats.norm(mean[i], np.sqrt(cov[i, i]))
            assert stats.kstest(z[:, i], law.cdf).pvalue > 1e-5


def test_levels_of_an_ensemble_are_drawn_in_order(rng):
    target = testing.scaled_normal(dim=2, sd=0.5)
    base = SimpleNamespace(mean=np.zeros(2), scale=np.full(2, 3.0))
    states = target.draw_levels(rng, 4_000, [0.0, 0.2, 1.0], base)
    assert states.shape == (4_000, 3, 2)
    precision = np.array([1 / 9, 0.8 / 9 + 0.2 * 4, 4.0])
    np.testing.assert_allclose(states.std(axis=(0, 2)), precision**-0.5, rtol=0.05)


def test_hard_edge_path_jumps_at_the_base_and_is_the_base_at_zero(rng):
    target = testing.hard_edge_gaussian()
    base = SimpleNamespace(mean=np.zeros(3), scale=np.array([1.0, 2.0, 1.5]))
    at_zero, just_above = target.log_z_path([0.0, 1e-12], base)
    assert at_zero == 0.0
    assert just_above == pytest.approx(stats.norm.logsf(0.8), abs=1e-6)
    outside = np.array([0.0, 0.0, 0.0])
    assert np.isfinite(target.log_path(outside, 0.0, base))
    assert target.log_path(outside, 0.5, base) == -np.inf
    assert np.mean(target.draw_path(rng, 2_000, 0.0, base)[:, 0] < 0.8) > 0.5
    assert np.all(target.draw_path(rng, 2_000, 1e-3, base)[:, 0] > 0.8)


def test_three_dimensions_have_no_quadrature():
    three = testing.heavy_tail(dof=(2.0, 3.0, 4.0), loc=(0.0, 1.0, 2.0), scale=(1.0, 2.0, 3.0))
    with pytest.raises(OptionError, match="one or two"):
        three.log_z_path([0.5], SimpleNamespace(mean=np.zeros(3), scale=np.ones(3)))


def test_hopeless_bases_are_refused(rng):
    target = testing.trimodal_1d()
    with pytest.raises(OptionError, match="quadrature misses"):
        target.log_z_path([0.5], SimpleNamespace(mean=np.zeros(1), scale=np.full(1, 1e-9)))
    with pytest.raises(BaseError, match="shape"):
        target.log_z_path([0.5], SimpleNamespace(mean=np.zeros(2), scale=np.ones(2)))
    with pytest.raises(OptionError, match="beta"):
        target.draw_path(rng, 3, 1.2, SimpleNamespace(mean=np.zeros(1), scale=np.ones(1)))
