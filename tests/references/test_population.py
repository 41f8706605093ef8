"""The Gaussian that draws and weights lead to, without a gradient."""

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.errors import BaseError
from pymc_tempering.references.population import fit_by_draws


def fit(target, rng, prior_points=None):
    points = np.empty((0, target.dim)) if prior_points is None else prior_points
    return fit_by_draws(target, target.start, rng, prior_points=points)


def test_moments_and_log_z_of_a_gaussian(rng):
    target = testing.correlated_gaussian()
    found = fit(target, rng).pooled
    off = np.abs(found.mean - target.draw(rng, 4000).mean(axis=0))
    assert (off < 0.5 * found.standard_deviation).all()
    assert found.log_zeta == pytest.approx(target.log_z, abs=0.2)


def test_draws_of_a_prior_lead_to_a_posterior_a_thousand_times_narrower(rng):
    target = testing.scaled_normal()
    draws = target.draw(rng, 600)
    wide = target.start + 1000.0 * (draws - draws.mean(axis=0))
    found = fit(target, rng, wide).pooled
    assert found.log_zeta == pytest.approx(target.log_z, abs=0.3)


def test_both_modes_count(rng):
    target = testing.asymmetric_bimodal()
    draws = target.draw(rng, 1000)
    found = fit(target, rng, rng.normal(0.0, 5.0, (512, 2)))
    ratio = found.pooled.standard_deviation / draws.std(axis=0)
    assert ((ratio > 0.6) & (ratio < 1.7)).all()
    assert np.isfinite([target.value_and_grad(z)[0] for z in found.modes]).all()


def test_a_hard_edge(rng):
    target = testing.hard_edge_gaussian()
    found = fit(target, rng)
    assert np.isfinite([target.value_and_grad(z)[0] for z in found.modes]).all()
    assert found.pooled.log_zeta == pytest.approx(target.log_z, abs=1.0)


def test_nowhere_any_density(rng):
    target = testing.hard_edge_gaussian()

    class Nowhere:
        address, dim = target.address, target.dim

    far = np.full(target.dim, np.nan)
    with pytest.raises(BaseError, match="initial values inside the support"):
        fit_by_draws(Nowhere(), far, rng, prior_points=np.empty((0, target.dim)))
