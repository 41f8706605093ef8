"""Stepping stone in both directions against exact ladders, and where each of them fails."""

import numpy as np
import pytest

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.stepping_stone import (
    stepping_stone,
    stepping_stone_reverse,
    support_mass,
)


def test_pareto_k_tells_which_direction_fails(rng, ladder):
    """Target narrower than the base: reverse weights exp(-delta) have infinite variance."""
    delta = ladder.draw(rng, 5000, [0.0, 1.0])
    assert stepping_stone(delta, [0.0, 1.0]).pareto_k[0] < 0.4
    assert stepping_stone_reverse(delta, [0.0, 1.0]).pareto_k[0] > 0.6


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
