"""Log Z from one Gaussian: right where one fits, and in doubt where none does."""

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references import importance
from pymc_tempering.references.importance import (
    N_DRAWS,
    defensive_weights,
    evidence_at_mode,
    evidence_from,
    log_mean_weight,
    one_mode,
)


def quick(target, rng, dim, most=np.inf, target_se=0.02):
    start, nowhere = np.full(dim, 0.1), np.empty((0, dim))
    mode = one_mode(target, start, nowhere, rng, 16, most - N_DRAWS)
    return evidence_at_mode(target, mode, rng, target_se=target_se, most=most)


def test_defensive_draws_know_the_mass_of_another_gaussian(rng):
    target = testing.correlated_gaussian()
    wrong = GaussianBase(target.mean + 0.1, np.linalg.cholesky(0.9 * target.cov))
    log_z, se = log_mean_weight(defensive_weights(target, wrong, rng, 20_000)[1])
    assert abs(log_z - target.log_z) < 4.5 * se
    assert se < 0.01


def test_weights_are_bounded_by_the_wider_gaussian(rng):
    """Of a target as wide as that, where those of the Gaussian alone have no bound."""
    narrow, wider = GaussianBase(np.zeros(4), np.ones(4)), 1.75
    target = testing.scaled_normal(dim=4, sd=wider, log_z=0.0)
    assert defensive_weights(target, narrow, rng, 10_000)[1].max() <= np.log(5.0) + 1e-9


def test_the_target_is_reached(rng):
    found = quick(testing.correlated_gaussian(), rng, 3, target_se=0.002)
    assert not found.doubt
    assert found.se <= 0.002
    assert abs(found.log_z - testing.correlated_gaussian().log_z) < 4.5 * found.se


def test_draws_do_not_end_where_they_happen_to_vary_little(rng, monkeypatch):
    """Of weights with the tail index 1/3 and mean one the log of the mean is hardly too low.

    By a twentieth of the target, standard error .0003, where it is .0034 if the variance of all
    draws says how many there are. The bound is 3.5 and more standard errors from either.
    """

    def tailed(_density, _base, rng, n):
        log_weights = rng.exponential(1 / 3, n) - np.log(1.5)
        return np.zeros((n, 1)), log_weights, log_weights

    monkeypatch.setattr(importance, "defensive_weights", tailed)
    found = [evidence_from(None, None, rng, target_se=0.02).log_z for _ in range(4000)]
    assert np.mean(found) > -0.0021


def test_two_modes_are_in_doubt(rng):
    target = testing.asymmetric_bimodal()
    found = quick(target, rng, target.dim)
    assert found.doubt


@pytest.mark.parametrize("most", [0, 300, 1000, 2000])
def test_a_bound_on_gradients_is_kept(rng, most):
    found = quick(testing.correlated_gaussian(), rng, 3, most=most)
    assert found.n_gradients <= most
    assert bool(found.doubt) == (most < 2000)
