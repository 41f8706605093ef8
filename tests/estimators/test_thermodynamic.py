"""Thermodynamic integration: exact for polynomials, and right on fine ladders."""

import numpy as np
import pytest

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.rts import rts
from pymc_tempering.estimators.thermodynamic import (
    thermodynamic_integration,
    thermodynamic_integration_rb,
)

FINE = np.linspace(0.0, 1.0, 40) ** 3


def test_gaussian_delta_is_integrated_exactly():
    """log z cubic in beta: means quadratic, variances linear; the correction is then exact."""
    betas = np.array([0.0, 0.2, 0.7, 1.0])
    # log z = a beta + b beta^2 / 2 + c beta^3 / 6, so the mean is a + b beta + c beta^2 / 2.
    mean, variance = -3.0 + 2.0 * betas + 0.5 * betas**2, 2.0 + betas
    delta = mean + np.sqrt(variance) * np.array([[-1.0], [1.0]])
    exact = -3.0 * betas + betas**2 + betas**3 / 6
    np.testing.assert_allclose(thermodynamic_integration(delta, betas).log_z, exact, atol=1e-12)
    plain = thermodynamic_integration(delta, betas, corrected=False).log_z
    assert abs(plain[-1] - exact[-1]) > 0.01


def test_plain_rule_is_right_on_a_fine_ladder(rng, ladder):
    """5000 scans x 40 levels: 6 reported errors, beside a discretisation error of about 0.02."""
    estimate = thermodynamic_integration(ladder.draw(rng, 5000, FINE), FINE, False)
    se = estimate.influence.std() / np.sqrt(5000)
    assert 0.0 < se < 0.02
    assert abs(estimate.log_z[-1] - ladder.log_z(1.0)) < 6 * se + 0.03


def test_correction_reduces_the_discretisation_error(rng, ladder, betas, exact):
    delta = ladder.draw(rng, 40_000, betas)
    errors = [
        abs(thermodynamic_integration(delta, betas, corrected).log_z[-1] - exact[-1])
        for corrected in (True, False)
    ]
    assert errors[0] < 0.6 * errors[1]


def test_rao_blackwellised_means(rng, ladder):
    """Independent tempered draws with flat levels: near the truth and nearer to RTS (eq. 22)."""
    exact = np.array([ladder.log_z(beta) for beta in FINE])
    means, sds = ladder.moments(FINE)
    level = rng.integers(FINE.size, size=20_000)
    delta = ladder.delta(means[level] + sds[level] * rng.normal(size=20_000))
    estimate = thermodynamic_integration_rb(delta, FINE, -exact)
    se = estimate.influence.std() / np.sqrt(20_000)
    assert 0.0 < se < 0.06
    assert abs(estimate.log_z[-1] - exact[-1]) < 6 * se
    by_rts = rts(delta, FINE, -exact)
    assert abs(estimate.log_z[-1] - by_rts.log_z[-1]) < 0.3 * se
    np.testing.assert_allclose(
        np.corrcoef(estimate.influence, by_rts.influence)[0, 1], 1, atol=0.01
    )


def test_infinite_deltas_are_refused():
    with pytest.raises(DataError, match="1 deltas are -inf"):
        thermodynamic_integration([[-np.inf, 1.0], [0.0, 1.0]], [0.0, 1.0])
    with pytest.raises(DataError, match="Use MBAR"):
        thermodynamic_integration_rb([-np.inf, 1.0], [0.0, 1.0], [0.0, 0.0])
