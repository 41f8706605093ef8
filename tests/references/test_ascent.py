"""Ascents: they end at the maximum uphill of their start, whatever the units."""

import math

import numpy as np
import pytest
from densities import toy

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.ascent import MOST_GRADIENTS, ascend
from pymc_tempering.references.starts import evaluated


def unit(dim):
    return Coordinates.of(GaussianBase(np.zeros(dim), np.ones(dim)))


@toy(2)
def rising_density(z, grad):
    grad[0], grad[1] = 0.7, -z[1]
    return 0.7 * z[0] - 0.5 * z[1] ** 2


@toy(2)
def kinked_density(z, grad):
    grad[0], grad[1] = -np.sign(z[0] - 1.0), -3.0 * np.sign(z[1] + 2.0)
    return -abs(z[0] - 1.0) - 3.0 * abs(z[1] + 2.0)


def test_ends_at_the_maximum_in_few_steps(gaussian, rng):
    starts = gaussian.mean + 5.0 * rng.standard_normal((50, 3))
    found = ascend(gaussian, starts, unit(3))
    sd = np.sqrt(np.diag(gaussian.cov))
    # a hundredth of a nat is 0.14 standard deviations
    assert np.abs((found.ends - gaussian.mean) / sd).max() < 0.15
    laplace = gaussian.log_z - 1.5 * np.log(2 * np.pi) - 0.5 * np.linalg.slogdet(gaussian.cov)[1]
    np.testing.assert_allclose(found.values, laplace, atol=1e-2)
    assert found.converged.all()
    assert found.n_gradients < 50 * 40
    # in coordinates of the target itself the second step is exact
    own = Coordinates.of(GaussianBase.from_moments(gaussian.mean, gaussian.cov))
    quick = ascend(gaussian, starts, own)
    np.testing.assert_allclose(quick.ends, np.tile(gaussian.mean, (50, 1)), atol=0.1)
    assert quick.n_gradients < 0.5 * found.n_gradients


def test_each_start_goes_to_its_side(bimodal):
    starts = np.concatenate([bimodal.modes - 0.4, bimodal.modes + 0.3])
    found = ascend(bimodal, starts, unit(2))
    np.testing.assert_allclose(found.ends, np.concatenate([bimodal.modes] * 2), atol=0.02)


def test_narrow_modes_far_away(far):
    """5000 and 30,000 standard deviations; what is flat in these coordinates is left to others."""
    found = ascend(far, np.zeros((1, 3)), unit(3))
    assert found.converged.all()
    np.testing.assert_allclose((found.ends[0] - far.mean)[:2] / far.sd[:2], 0.0, atol=0.05)


def test_edges_and_kinks_end_an_ascent(edge):
    found = ascend(edge, np.array([[2.0, 1.0], [-3.0, 0.0]]), unit(2))
    # it stops where it meets the edge, and does not follow it to the maximum
    np.testing.assert_allclose(found.ends[0, 0], 0.5, atol=0.01)
    assert 0.0 <= found.ends[0, 1] < 1.0
    assert found.values[1] == -np.inf
    assert not found.converged[1]
    kinked = kinked_density
    found = ascend(kinked, np.array([[7.0, 5.0]]), unit(2))
    np.testing.assert_allclose(found.ends, [[1.0, -2.0]], atol=0.05)


def test_what_rises_without_end_is_not_called_converged():
    rising = rising_density
    found = ascend(rising, np.array([[0.3, 4.0]]), unit(2))
    assert not found.converged[0]
    assert MOST_GRADIENTS <= found.n_gradients < MOST_GRADIENTS + 30
    assert found.ends[0, 0] > 100.0


def test_path_leads_from_start_to_end_uphill(bimodal):
    start = bimodal.modes[:1] + 1.5
    found = ascend(bimodal, start, unit(2), n_path=40)
    assert found.path.shape == (1, 40, 2)
    np.testing.assert_allclose(found.path[0, 0], start[0])
    np.testing.assert_allclose(found.path[0, -1], found.ends[0])
    heights = evaluated(bimodal, found.path[0]).values
    np.testing.assert_allclose(found.heights[0], heights)
    assert (np.diff(heights) >= 0.0).all()
    short = ascend(bimodal, start, unit(2), n_path=2)
    np.testing.assert_array_equal(short.ends, found.ends)
    np.testing.assert_array_equal(short.path, found.path[:, :2])


def test_one_dimension_and_a_flat_density():
    found = ascend(flat, np.array([[3.0]]), unit(1))
    assert found.ends.tolist() == [[3.0]]
    assert math.isclose(found.values[0], -1.5)
    assert found.n_gradients == 1


@toy(1)
def flat(z, grad):
    grad[0] = 0.0
    return -1.5


@pytest.mark.parametrize("n", [0, 3])
def test_shapes(gaussian, n):
    found = ascend(gaussian, np.zeros((n, 3)), unit(3))
    assert found.ends.shape == (n, 3)
    assert found.values.shape == found.converged.shape == (n,)


def test_an_ascent_ends_where_it_comes_inside_a_known_mode(bimodal, rng):
    """With fewer gradients and the same ends; those of the other mode go their own way."""
    mode = bimodal.modes[0]
    own = Coordinates.of(GaussianBase(mode, bimodal.sds[0]))
    starts = np.concatenate([bimodal.modes] * 30) + 0.7 * rng.standard_normal((60, 2))
    whole = ascend(bimodal, starts, own)
    top = ascend(bimodal, mode[None], own)
    known = top.ends[0], float(top.values[0])
    quick = ascend(bimodal, starts, own, known=known)
    np.testing.assert_allclose(quick.ends, whole.ends, atol=0.02)
    assert quick.converged.all()
    assert quick.n_gradients < whole.n_gradients - 10
    at_mode = np.linalg.norm(whole.ends - mode, axis=1) < 0.5
    assert 20 < at_mode.sum() < 40
    np.testing.assert_allclose(quick.ends[at_mode], np.tile(known[0], (at_mode.sum(), 1)))
    # what does not look like it is another mode, however near
    other = ascend(bimodal, starts, own, known=(known[0], known[1] + 2.0))
    assert other.n_gradients == whole.n_gradients


def test_what_is_known_at_the_starts_is_not_evaluated_again(bimodal, rng):
    at = evaluated(bimodal, bimodal.modes[[0, 1] * 5] + 0.5 * rng.standard_normal((10, 2)))
    whole = ascend(bimodal, at.points, unit(2))
    again = ascend(bimodal, at.points, unit(2), first=(at.values, at.grads))
    np.testing.assert_array_equal(again.ends, whole.ends)
    assert again.n_gradients == whole.n_gradients - 10


def test_an_end_is_judged_in_its_own_scale(gaussian):
    """In coordinates a millionth as wide half the squared gradient is 1e-9 everywhere."""
    narrow = Coordinates.of(GaussianBase(np.zeros(3), np.full(3, 1e-6)))
    sd = np.sqrt(np.diag(gaussian.cov))
    starts = gaussian.mean + sd * np.array([[3.0, 0.0, 0.0], [-5.0, 4.0, 1.0], [0.5, 0.1, -0.4]])
    found = ascend(gaussian, starts, narrow)
    assert found.converged.all()
    assert np.abs((found.ends - gaussian.mean) / sd).max() < 0.15
    # where it is at an end there is nothing to look for: a line or two
    assert ascend(gaussian, gaussian.mean[None], narrow).n_gradients <= 2


@toy(1)
def narrow_density(z, grad):
    # the first term leaves a slope at 0.7 itself
    grad[0] = -z[0] - (z[0] - 0.7) / 1e-9 / 1e-9
    return -0.5 * z[0] ** 2 - 0.5 * ((z[0] - 0.7) / 1e-9) ** 2


@pytest.mark.parametrize("size", [1.0, 100.0, 1e4])
def test_ends_in_a_mode_whose_curvature_is_beyond_rounding(size):
    """A last digit of 0.7 is a slope of 100 there, which no step can lower."""
    target = narrow_density
    coordinates = Coordinates.of(GaussianBase(np.zeros(1), np.full(1, size)))
    found = ascend(target, np.array([[0.0], [-13.0], [250.0]]), coordinates)
    assert found.converged.all()
    assert np.abs(found.ends - 0.7).max() < 0.1 * 1e-9
    assert found.n_gradients < 3 * 60
