"""Full-rank fits by regression: exact on Gaussians, and never worse than their start."""

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.advi import run_advi
from pymc_tempering.references.full_rank import MAX_FULL_RANK_DIM, fit_full_rank


def mean_field(target, rng):
    return run_advi(target, target.start, rng).base


def test_elbo_is_log_z_on_a_correlated_gaussian(rng):
    """The regression is exact for a quadratic target, so no noise is left."""
    target = testing.correlated_gaussian()
    start = mean_field(target, rng)
    assert start.log_zeta < target.log_z - 0.1
    base, n_gradients = fit_full_rank(target, start, rng)
    assert base.log_zeta == pytest.approx(target.log_z, abs=1e-6)
    np.testing.assert_allclose(base.mean, target.mean, atol=1e-5)
    np.testing.assert_allclose(base.covariance, target.cov, atol=1e-5)
    assert n_gradients > 1000


def test_elbo_improves_where_the_target_is_curved(rng):
    target = testing.banana()
    start = mean_field(target, rng)
    base, _ = fit_full_rank(target, start, rng)
    assert start.log_zeta <= base.log_zeta <= target.log_z + 0.1


def test_start_is_returned_where_a_fit_is_impossible(rng):
    line = testing.trimodal_1d()
    start = GaussianBase(np.zeros(1), np.ones(1), log_zeta=-5.0)
    assert fit_full_rank(line, start, rng) == (start, 0)
    edge = testing.hard_edge_gaussian()
    beyond = GaussianBase(edge.start - 1.0, np.ones(3), log_zeta=-5.0)
    base, n_gradients = fit_full_rank(edge, beyond, rng)
    assert base is beyond
    assert n_gradients > 0
    wide = GaussianBase(np.zeros(MAX_FULL_RANK_DIM + 1), np.ones(MAX_FULL_RANK_DIM + 1))
    assert fit_full_rank(line, wide, rng) == (wide, 0)


def test_better_start_is_kept(rng):
    target = testing.banana()
    praised = GaussianBase(target.mean, np.ones(2), log_zeta=target.log_z + 10.0)
    assert fit_full_rank(target, praised, rng)[0] is praised
