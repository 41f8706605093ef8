"""Stepping stone in both directions against exact ladders, and where each of them fails."""

import numpy as np
import pytest

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.stepping_stone import (
    stepping_stone,
    stepping_stone_reverse,
    support_mass,
)

FINE = np.linspace(0.0, 1.0, 12) ** 3


@pytest.mark.parametrize("estimator", [stepping_stone, stepping_stone_reverse])
def test_every_level_is_right(rng, ladder, estimator):
    """20 000 scans on a fine ladder: 6 reported errors at the end, one seed in 10^8."""
    exact = np.array([ladder.log_z(beta) for beta in FINE])
    estimate = estimator(ladder.draw(rng, 20_000, FINE), FINE)
    se = estimate.influence.std() / np.sqrt(20_000)
    assert 0.0 < se < 0.05
    assert abs(estimate.log_z[-1] - exact[-1]) < 6 * se
    np.testing.assert_allclose(estimate.log_z, exact, atol=0.2)
    assert estimate.influence.mean() == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("estimator", [stepping_stone, stepping_stone_reverse])
def test_wrong_delta_at_one_level_is_noticed(rng, ladder, estimator):
    exact = ladder.log_z(1.0)
    for factor in (-1.0, 1.05):
        delta = ladder.draw(rng, 100_000, FINE)
        delta[:, 8] *= factor
        estimate = estimator(delta, FINE)
        se = estimate.influence.std() / np.sqrt(100_000)
        assert abs(estimate.log_z[-1] - exact) > 6 * se


@pytest.mark.parametrize("estimator", [stepping_stone, stepping_stone_reverse])
def test_reported_error_is_calibrated(rng, z_scores, ladder, estimator, monkeypatch):
    """200 runs of 4 x 400 scans: sd of z has an error of 0.05; weights are skewed, hence 1.3."""
    # nine tenths of the time, for what neither log z nor its error depends on
    monkeypatch.setattr("pymc_tempering.estimators.stepping_stone.pareto_k", lambda column: 0.0)
    z, covered = z_scores(
        rng,
        lambda delta: estimator(delta, FINE),
        ladder.log_z(1.0),
        lambda generator: ladder.draw(generator, 400, FINE, phi=0.5, shared=0.5),
        n_repeats=200,
        n_chains=4,
    )
    assert 0.75 < z.std() < 1.3
    assert covered.mean() > 0.88


def test_pareto_k_tells_which_direction_fails(rng, ladder):
    """Target narrower than the base: reverse weights exp(-delta) have infinite variance."""
    delta = ladder.draw(rng, 5000, [0.0, 1.0])
    assert stepping_stone(delta, [0.0, 1.0]).pareto_k[0] < 0.4
    assert stepping_stone_reverse(delta, [0.0, 1.0]).pareto_k[0] > 0.6


def test_support_smaller_than_the_base(rng):
    """log Z = log 1.5; both directions within 6 reported errors, reverse needs log b."""
    delta = np.where(rng.normal(size=(20_000, 3)) > 0, np.log(3.0), -np.inf)
    delta[:, 1:] = np.log(3.0)
    for estimator in (stepping_stone, stepping_stone_reverse):
        estimate = estimator(delta, [0.0, 0.4, 1.0])
        se = estimate.influence.std() / np.sqrt(20_000)
        assert se == pytest.approx(1 / np.sqrt(20_000), rel=0.05)
        assert abs(estimate.log_z[-1] - np.log(1.5)) < 6 * se


def test_support_mass_limits(rng):
    delta = np.where(rng.uniform(size=4000) < 0.2, 1.0, -np.inf)
    mass = support_mass(delta)
    assert abs(mass.log_mass - np.log(0.2)) < 6 * mass.se
    assert mass.se == pytest.approx(mass.influence.std() / np.sqrt(4000))
    assert support_mass(np.zeros(5))[:2] == (0.0, 0.0)
    assert support_mass([-np.inf]).log_mass == -np.inf
    assert np.isnan(support_mass([-np.inf]).se)
    with pytest.raises(DataError, match="1 of them nan"):
        support_mass([np.nan, 1.0])


def test_base_outside_the_support_throughout():
    delta = np.column_stack([np.full(50, -np.inf), np.zeros(50)])
    assert stepping_stone(delta, [0.0, 1.0]).log_z[-1] == -np.inf
    assert np.isnan(stepping_stone(delta, [0.0, 1.0]).influence).all()
    assert np.isnan(stepping_stone_reverse(delta, [0.0, 1.0]).influence).all()
