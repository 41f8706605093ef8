"""Continuous tempering against exact Gaussian ladders, drawn from the exact joint density."""

import numpy as np
import pytest
from scipy.integrate import quad

from pymc_tempering.errors import DataError, OptionError, ScheduleError
from pymc_tempering.estimators.continuous import (
    bridged_log_z,
    continuous_tempering,
    log_beta_density,
    log_normaliser,
    tempered_expectation,
)

KNOTS = np.array([0.0, 0.07, 0.3, 1.0])


def tempered_positions(rng, ladder, knots, bias, n_scans):
    """Independent draws of the position: beta by inversion of its exact marginal on a fine grid."""
    grid = np.linspace(0.0, 1.0, 40_001)
    log_p = ladder.log_z(grid) - np.interp(grid, knots, bias)
    cumulative = np.concatenate([[0.0], np.cumsum(np.exp(log_p[1:] - log_p.max()))])
    beta = np.interp(rng.uniform(size=n_scans) * cumulative[-1], cumulative, grid)
    mean, sd = ladder.moments(beta)
    return mean + sd * rng.normal(size=n_scans)


@pytest.fixture(params=["one piece", "three pieces"])
def knots_and_bias(request, ladder):
    if request.param == "one piece":
        return np.array([0.0, 1.0]), np.array([0.0, ladder.log_z(1.0) + 0.7])
    bias = np.array([ladder.log_z(beta) for beta in KNOTS]) + np.array([0.4, -0.2, 0.1, 0.5])
    return KNOTS, bias


@pytest.mark.parametrize("delta", [-900.0, -3.0, 0.0, 1e-9, 2.5, 700.0])
def test_density_of_beta_integrates_to_one(delta):
    """Also with knots, slopes of both signs and one piece with slope zero."""
    bias = np.array([0.0, 0.07 * delta, -1.0, 2.0])

    def density(beta):
        return np.exp(log_beta_density([delta], KNOTS, bias, beta)[0])

    # The density may be confined to a sliver at either end, hence the points.
    slivers = [1e-4, 1e-2, *KNOTS[1:3], 0.99, 0.9999]
    total, _ = quad(density, 0.0, 1.0, points=slivers, limit=400)
    assert total == pytest.approx(1.0, rel=1e-6)


def test_density_is_equation_18():
    """One piece: Delta exp(-beta Delta) / (1 - exp(-Delta)) with Delta = log_zeta - delta."""
    delta, log_zeta, beta = 1.7, -0.4, 0.3
    rate = log_zeta - delta
    exact = np.exp(-beta * rate) * rate / (1 - np.exp(-rate))
    assert log_beta_density([delta], [0, 1], [0, log_zeta], beta)[0] == pytest.approx(np.log(exact))


def test_log_z_at_any_beta(rng, ladder, knots_and_bias):
    """20 000 draws: 6 reported errors at the target."""
    knots, bias = knots_and_bias
    z = tempered_positions(rng, ladder, knots, bias, 20_000)
    wanted = np.array([0.0, 0.1, 0.5, 1.0])
    estimate = continuous_tempering(ladder.delta(z), knots, bias, wanted)
    se = estimate.influence.std() / np.sqrt(20_000)
    assert 0.0 < se < 0.1
    exact = np.array([ladder.log_z(beta) for beta in wanted])
    assert abs(estimate.log_z[-1] - exact[-1]) < 6 * se
    np.testing.assert_allclose(estimate.log_z, exact, atol=0.25)
    assert estimate.influence.mean() == pytest.approx(0.0, abs=1e-10)


def test_reported_error_is_calibrated(rng, z_scores, ladder, knots_and_bias):
    """200 runs: sd of z has an error of 0.05, coverage one of 0.015."""
    knots, bias = knots_and_bias
    z, covered = z_scores(
        rng,
        lambda delta: continuous_tempering(delta, knots, bias),
        ladder.log_z(1.0),
        lambda generator: ladder.delta(tempered_positions(generator, ladder, knots, bias, 400)),
        n_repeats=200,
        n_chains=2,
    )
    assert abs(z.mean()) < 0.5
    assert 0.78 < z.std() < 1.22
    assert covered.mean() > 0.89


@pytest.mark.parametrize("change", [lambda d: -d, lambda d: 1.05 * d])
def test_wrong_delta_is_noticed(rng, ladder, knots_and_bias, change):
    knots, bias = knots_and_bias
    delta = change(ladder.delta(tempered_positions(rng, ladder, knots, bias, 20_000)))
    estimate = continuous_tempering(delta, knots, bias)
    se = estimate.influence.std() / np.sqrt(20_000)
    assert abs(estimate.log_z[-1] - ladder.log_z(1.0)) > 6 * se


def test_expectations_at_target_and_base(rng, ladder, knots_and_bias):
    """Equations 22 and 23: mean and second moment within 0.1 of about 5 standard errors or more."""
    knots, bias = knots_and_bias
    z = tempered_positions(rng, ladder, knots, bias, 40_000)
    powers = np.column_stack([z, z**2])
    for beta in (0.0, 0.2, 1.0):
        mean, sd = ladder.moments(beta)
        found = tempered_expectation(powers, ladder.delta(z), knots, bias, beta)
        np.testing.assert_allclose(found, [mean, mean**2 + sd**2], atol=0.12)


def test_slopes_of_any_size_are_stable():
    for delta in (-1e6, -1e-12, 0.0, 1e6):
        estimate = continuous_tempering(np.full(3, delta))
        assert estimate.log_z[-1] == pytest.approx(delta, rel=1e-9)


def test_states_outside_the_support_are_left_out(rng, ladder):
    delta = ladder.delta(rng.normal(size=50))
    with_bad = np.concatenate([[-np.inf, -np.inf], delta])
    a, b = continuous_tempering(delta), continuous_tempering(with_bad)
    assert a.log_z[-1] == b.log_z[-1]
    assert b.influence.mean() == pytest.approx(0.0, abs=1e-12)
    assert tempered_expectation(with_bad, with_bad, [0, 1], [0, 0], 1.0) > -np.inf


def test_support_mass_is_added():
    delta = np.full(4, np.log(3.0))
    estimate = continuous_tempering(delta, log_support_mass=np.log(0.5))
    assert estimate.log_z == pytest.approx([0.0, np.log(1.5)])


def test_invalid_input_is_refused():
    with pytest.raises(ScheduleError, match="knots"):
        continuous_tempering([1.0], [0.0, 0.5], [0.0, 0.0])
    with pytest.raises(DataError, match="one per knot"):
        continuous_tempering([1.0], [0.0, 1.0], [0.0])
    with pytest.raises(DataError, match="n_scans"):
        continuous_tempering([np.nan])
    with pytest.raises(OptionError, match="beta is 2"):
        log_beta_density([1.0], [0, 1], [0, 0], 2.0)
    with pytest.raises(DataError, match="one per delta"):
        tempered_expectation([1.0, 2.0], [1.0], [0, 1], [0, 0], 1.0)


def test_the_bridge_has_the_right_error_from_a_base_with_heavy_tails(seed):
    """A Cauchy below N(0, 1) and log Z = -3: the densities of beta at 0 have no variance.

    60 sets of 1000 independent draws. The mean squared z is outside of [0.5, 1.7] at a rate of
    1e-3; eq. 21 has errors three to seven times as large, and their mean squared z is 2.7 to 3.9
    (seeds 20 to 24).
    """
    knots, bias, n = np.array([0.0, 1.0]), np.zeros(2), 1000

    def delta(z):
        return 0.5 * np.log(0.5 * np.pi) - 0.5 * z**2 + np.log1p(z**2) - 3.0

    top, errors = log_normaliser(delta(np.ones(1)), knots, bias), []
    for rng in np.random.default_rng(seed).spawn(60):
        z = rng.standard_cauchy(12 * n)
        kept = np.log(rng.random(z.size)) < log_normaliser(delta(z), knots, bias) - top
        tempered, base, target = (
            delta(x) for x in (z[kept][:n], rng.standard_cauchy(n), rng.standard_normal(n))
        )
        estimate = bridged_log_z(tempered, base, knots, bias, target)
        se = estimate.influence.std() / np.sqrt(n)
        plain = continuous_tempering(tempered, knots, bias)
        errors.append([estimate.log_z[0] + 3.0, se, plain.log_z[-1] + 3.0])
    bridged, se, plain = np.transpose(errors)
    assert 0.5 < np.mean((bridged / se) ** 2) < 1.7
    assert np.mean(bridged**2) < 0.25 * np.mean(plain**2)
