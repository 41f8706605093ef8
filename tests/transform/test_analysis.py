"""Log Z of tempered draws and draws of the base."""

import numpy as np
import pytest

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.estimators.continuous import bridged_log_z, continuous_tempering
from pymc_tempering.testing import correlated_gaussian, hard_edge_gaussian
from pymc_tempering.transform.bias import Bias

BIAS = Bias([0.0, 0.1, 1.0], [0.0, 0.5, 1.8])


def over(target, factor=1.5):
    return GaussianBase(target.mean, factor * np.sqrt(np.diag(target.cov)))


def estimates(target, draw_exactly, bias=BIAS):
    base = over(target)
    tree = draw_exactly(target, base, bias, n_chains=1, n_draws=2000)
    delta = tree["posterior"]["tempering_delta"].values[0]
    delta_base = tree["constant_data"]["tempering_base_delta"].values
    return delta, delta_base


@pytest.mark.statistical
@pytest.mark.parametrize(
    "factory", [correlated_gaussian, pytest.param(hard_edge_gaussian, marks=pytest.mark.slow)]
)
def test_recovers_log_z_within_its_error(factory, draw_exactly):
    """False alarm below 1e-4: 4 standard errors of independent draws."""
    target = factory()
    delta, delta_base = estimates(target, draw_exactly)
    estimate = bridged_log_z(delta, delta_base, *BIAS.piecewise_linear())
    se = estimate.influence.std() / np.sqrt(delta.size)
    # the spread of the base's draws over the series leaves neighbours nearly independent
    assert se < 0.15
    assert abs(estimate.log_z[0] - target.log_z) < 4 * se


def test_influence_is_the_derivative_of_the_estimate_in_a_draws_weight(draw_exactly):
    delta, delta_base = estimates(correlated_gaussian(), draw_exactly)
    delta = delta[:40]
    arguments = BIAS.piecewise_linear()
    estimate = bridged_log_z(delta, delta_base[:40], *arguments)
    assert abs(estimate.influence.mean()) < 1e-9
    one_left_out = bridged_log_z(delta[1:], delta_base[1:40], *arguments).log_z[0]
    assert estimate.log_z[0] - one_left_out == pytest.approx(
        estimate.influence[0] / 40, abs=0.3 * np.abs(estimate.influence).max() / 40
    )


def test_is_more_precise_than_eq_21(draw_exactly):
    delta, delta_base = estimates(correlated_gaussian(), draw_exactly)
    arguments = BIAS.piecewise_linear()
    bridged = bridged_log_z(delta, delta_base, *arguments).influence
    plain = continuous_tempering(delta, *arguments).influence
    assert bridged.std() < plain.std()


def test_constant_delta_is_exact():
    estimate = bridged_log_z(np.full(9, 3.3), np.full(4, 3.3), *BIAS.piecewise_linear())
    assert estimate.log_z[0] == pytest.approx(3.3)
    np.testing.assert_allclose(estimate.influence, 0.0, atol=1e-9)


def test_base_outside_the_support_throughout_gives_no_finite_estimate():
    estimate = bridged_log_z(np.zeros(9), np.full(4, -np.inf), *BIAS.piecewise_linear())
    assert not np.isfinite(estimate.log_z[0])
