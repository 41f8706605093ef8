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


@pytest.mark.parametrize("corrected", [True, False])
def test_fine_ladder_is_right(rng, ladder, corrected):
    """5000 scans x 40 levels: 6 reported errors; discretisation of the plain rule is about 0.02."""
    estimate = thermodynamic_integration(ladder.draw(rng, 5000, FINE), FINE, corrected)
    se = estimate.influence.std() / np.sqrt(5000)
    assert 0.0 < se < 0.02
    bias = 0.0 if corrected else 0.03
    assert abs(estimate.log_z[-1] - ladder.log_z(1.0)) < 6 * se + bias


def test_influence_is_the_derivative_of_the_estimate(rng, ladder, betas):
    """Replacing one scan by another moves the estimate by the difference of influences over n."""
    delta = ladder.draw(rng, 4000, betas)
    estimate = thermodynamic_integration(delta, betas)
    best, worst = np.argmax(estimate.influence), np.argmin(estimate.influence)
    changed = delta.copy()
    changed[worst] = delta[best]
    moved = thermodynamic_integration(changed, betas).log_z[-1] - estimate.log_z[-1]
    assert moved == pytest.approx(np.ptp(estimate.influence) / 4000, rel=0.05)


def test_correction_reduces_the_discretisation_error(rng, ladder, betas, exact):
    delta = ladder.draw(rng, 40_000, betas)
    errors = [
        abs(thermodynamic_integration(delta, betas, corrected).log_z[-1] - exact[-1])
        for corrected in (True, False)
    ]
    assert errors[0] < 0.6 * errors[1]


def test_reported_error_is_calibrated(rng, z_scores, ladder):
    """300 runs of 4 x 200 autocorrelated scans: sd of z has an error of 0.045."""
    z, covered = z_scores(
        rng,
        lambda delta: thermodynamic_integration(delta, FINE),
        ladder.log_z(1.0),
        lambda generator: ladder.draw(generator, 200, FINE, phi=0.6, shared=0.5),
        n_repeats=300,
        n_chains=4,
    )
    assert abs(z.mean()) < 0.5
    assert 0.8 < z.std() < 1.2
    assert covered.mean() > 0.9


@pytest.mark.parametrize("factor", [-1.0, 1.05])
def test_wrong_delta_at_one_level_is_noticed(rng, ladder, factor):
    delta = ladder.draw(rng, 40_000, FINE)
    delta[:, -2] *= factor
    estimate = thermodynamic_integration(delta, FINE)
    se = estimate.influence.std() / np.sqrt(40_000)
    assert abs(estimate.log_z[-1] - ladder.log_z(1.0)) > 6 * se


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
