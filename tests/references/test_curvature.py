"""A Gaussian from curvature: exact for Gaussians of any scales, and at edges and saddles."""

import math

import numpy as np
import pytest
from densities import toy

from pymc_tempering.references.curvature import MOST_DIM, curvature_at
from pymc_tempering.references.full_rank import MAX_FULL_RANK_DIM

MANY = MAX_FULL_RANK_DIM + 20


def chain_of(correlation, dim=MANY):
    """Density of a chain of many normals of unequal scale whose neighbours are correlated."""
    left = 1.0 - correlation**2

    @toy(dim)
    def density(z, grad):
        total, before = 0.0, 0.0
        for i in range(dim):
            grad[i] = 0.0
        for i in range(dim):
            sd = 1.0 + 0.1 * i
            x = z[i] / sd
            step, variance = (x - correlation * before, left) if i else (x, 1.0)
            total -= 0.5 * step * step / variance + math.log(sd)
            grad[i] -= step / variance / sd
            if i:
                grad[i - 1] += correlation * step / variance / (1.0 + 0.1 * (i - 1))
            before = x
        return total

    return density


@pytest.mark.parametrize("units", [1e-3, 1.0, 1e4])
def test_exact_for_a_gaussian(gaussian, units):
    base, is_maximum, newton_decrement, n_gradients = curvature_at(
        gaussian, gaussian.mean, np.full(3, units)
    )
    np.testing.assert_allclose(base.covariance, gaussian.cov, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(base.mean, gaussian.mean)
    assert is_maximum
    assert newton_decrement < 1e-12
    assert 7 <= n_gradients <= 1 + 6 * 12


def test_scales_eight_orders_apart(far):
    base, *_ = curvature_at(far, far.mean, np.ones(3))
    np.testing.assert_allclose(base.standard_deviation, far.sd, rtol=1e-3)


def test_one_side_of_an_edge_is_enough(edge):
    base, is_maximum, *_ = curvature_at(edge, np.array([0.5 + 1e-9, 0.0]), np.ones(2))
    np.testing.assert_allclose(base.standard_deviation, 1.0, rtol=1e-3)
    assert is_maximum


def test_one_side_of_an_edge_above_is_enough_too():
    @toy(2)
    def below(z, grad):
        if not z[0] < -0.5:
            return -math.inf
        grad[0], grad[1] = -z[0], -z[1]
        return -0.5 * (z[0] ** 2 + z[1] ** 2)

    base, is_maximum, *_ = curvature_at(below, np.array([-0.5 - 1e-9, 0.0]), np.ones(2))
    np.testing.assert_allclose(base.standard_deviation, 1.0, rtol=1e-3)
    assert is_maximum


@pytest.mark.parametrize("beyond", [0.0, 1e-9])
def test_a_point_beyond_an_edge_has_a_scale(edge, beyond):
    """Where rounding puts the end of an ascent: no density there, and some on one side."""
    base, *_ = curvature_at(edge, np.array([0.5 - beyond, 0.3]), np.ones(2))
    assert np.isfinite(base.scale).all()
    assert (base.standard_deviation > 0.0).all()


def test_saddle_is_none_and_has_a_scale(bimodal):
    """On the line between the modes, where it is lowest."""
    t = np.linspace(0, 1, 20_001)[:, None]
    line = (1 - t) * bimodal.modes[0] + t * bimodal.modes[1]
    first, second = (
        np.log(w) - np.log(s).sum() - 0.5 * (((line - m) / s) ** 2).sum(1)
        for w, m, s in zip([0.9, 0.1], bimodal.modes, bimodal.sds, strict=True)
    )
    lowest = line[np.argmin(np.logaddexp(first, second))]
    base, is_maximum, *_ = curvature_at(bimodal, lowest, np.ones(2))
    assert not is_maximum
    assert np.isfinite(base.scale).all()
    assert curvature_at(bimodal, bimodal.modes[1], np.ones(2)).is_maximum


def test_gain_is_how_far_below_the_maximum_a_slope_is(gaussian):
    beside = gaussian.mean + np.array([0.4, -1.0, 3.0])
    below = 0.5 * (beside - gaussian.mean) @ np.linalg.solve(gaussian.cov, beside - gaussian.mean)
    assert np.isclose(curvature_at(gaussian, beside, np.ones(3)).newton_decrement, below, rtol=1e-4)


@pytest.mark.parametrize("correlation", [0.6, 0.05])
def test_in_many_dimensions_dense_where_much_is_gained(correlation):
    """A diagonal fit leaves (D - 1) log(1 + r^2) / 2 nats or so: 34, and a quarter of one."""
    density = chain_of(correlation)
    base, is_maximum, *_ = curvature_at(density, np.zeros(MANY), np.ones(MANY))
    i, sd = np.arange(MANY), 1.0 + 0.1 * np.arange(MANY)
    cov = np.outer(sd, sd) * correlation ** np.abs(i[:, None] - i)
    assert is_maximum
    assert base.is_diagonal == (correlation < 0.1)
    if base.is_diagonal:
        np.testing.assert_allclose(base.scale, np.linalg.inv(cov).diagonal() ** -0.5, rtol=1e-3)
    else:
        np.testing.assert_allclose(base.covariance, cov, rtol=1e-3, atol=1e-3)


def test_in_more_dimensions_still_the_diagonal_alone():
    dim = MOST_DIM + 1
    base, is_maximum, _, n_gradients = curvature_at(chain_of(0.6, dim), np.zeros(dim), np.ones(dim))
    # of all but the two ends, by the neighbours on both sides
    precisions = np.full(dim, (1.0 + 0.6**2) / (1.0 - 0.6**2))
    precisions[[0, -1]] = 1.0 / (1.0 - 0.6**2)
    assert is_maximum
    assert base.is_diagonal
    expected = (1.0 + 0.1 * np.arange(dim)) / np.sqrt(precisions)
    np.testing.assert_allclose(base.scale, expected, rtol=1e-3)
    assert n_gradients >= 2 * dim
