"""Where a search starts."""

import numpy as np
import pytest

from pymc_tempering.references.starts import (
    LARGEST,
    SMALLEST,
    Surroundings,
    evaluated,
    inside,
    jitter,
    pulled_inside,
)

DIM, N = 20, 6000


def test_jitter_is_in_mirrored_pairs_at_every_scale_in_few_coordinates_or_all(rng):
    units = np.resize([1.0, 10.0], DIM)
    offsets = jitter(rng, N, np.tile(units, (N, 1))) / units
    np.testing.assert_array_equal(offsets[::2], -offsets[1::2])
    n_moved = (offsets[::2] != 0.0).sum(axis=1)
    # 3000 pairs: a third in all coordinates, and sizes log uniform in the rest; 5 sigma
    assert abs((n_moved == DIM).mean() - 0.35) < 0.05
    assert abs((n_moved == 1).mean() - 2 / 3 * np.log(2) / np.log(DIM + 1)) < 0.04
    assert len(np.unique(n_moved)) == DIM
    # scales of those that move all coordinates by one number
    (together,) = np.nonzero((np.ptp(offsets, axis=1) == 0.0) & (n_moved.repeat(2) > 1))
    logs = np.log(np.abs(offsets[together, 0]))
    assert logs.min() >= np.log(SMALLEST) - 1e-9
    assert logs.max() <= np.log(LARGEST) + 1e-9
    one = offsets[::2][n_moved == 1]
    assert abs((one > 0).any(axis=1).mean() - 0.5) < 0.1
    # every coordinate is met alone, neighbours together more often than others
    assert ((one != 0).sum(axis=0) > 3).all()  # 20 on average
    pairs = offsets[::2][n_moved == 2] != 0
    neighbours = (pairs[:, 1:] & pairs[:, :-1]).any(axis=1).mean()
    assert 0.4 < neighbours < 0.7
    assert jitter(rng, 7, np.ones((7, 3))).shape == (7, 3)


def test_starts_lie_inside_the_support(edge, rng):
    centres = np.tile(edge.start, (30, 1))
    starts, n_gradients = pulled_inside(edge, centres, 5.0 * rng.standard_normal((30, 2)))
    assert len(starts.points) == 30 < n_gradients
    assert np.all(starts.points[:, 0] > 0.5)
    assert inside(edge, starts.points).all()
    again = evaluated(edge, starts.points)
    np.testing.assert_array_equal(again.values, starts.values)
    np.testing.assert_array_equal(again.grads, starts.grads)
    nowhere = pulled_inside(edge, np.zeros((4, 2)), np.full((4, 2), 1e-3))[0]
    assert nowhere.points.shape == (0, 2)
    assert inside(edge, np.array([[0.6, 0.0], [0.4, 0.0]])).tolist() == [True, False]
    assert len(evaluated(edge, np.array([[0.6, 0.0], [0.4, 0.0]])).points) == 1


def test_half_of_the_starts_are_of_the_prior_once_each_and_then_crossed(rng):
    places = np.zeros((2, DIM))
    places[1] = 1000.0
    prior = 7.0 + 0.1 * rng.standard_normal((30, DIM))
    around = Surroundings(places, np.ones((1, DIM)), prior)
    draws = [np.add(*around.draw(40, rng)) for _ in range(8)]
    assert {len(z) for z in draws} == {40}
    later = np.concatenate([z[20:] for z in draws])
    # rounding is that of the sum of a place and the way from there
    pure = (np.abs(later[:, None] - prior).max(axis=2) < 1e-9).sum(axis=0)
    assert pure.min() >= 1
    from_prior = np.abs(later - 7.0) < 2.0
    crossed = later[~from_prior.all(axis=1)]
    assert len(crossed) > 60
    rest = np.where(np.abs(crossed - 7.0) < 2.0, np.nan, crossed)
    places_left = np.nanmean(rest, axis=1)
    assert np.all((np.abs(places_left) < 1e-9) | (np.abs(places_left - 1000.0) < 1e-9))
    assert 0 < (places_left > 500).sum() < len(crossed)


@pytest.mark.parametrize("n", [1, 2, 33])
def test_as_many_starts_as_were_asked_for(n, rng):
    for prior in (None, np.ones((5, 3))):
        centres, offsets = Surroundings(np.zeros((1, 3)), np.ones((1, 3)), prior).draw(n, rng)
        assert centres.shape == offsets.shape == (n, 3)


def test_each_place_may_have_its_own_units(rng):
    """Otherwise a narrow place would have jitter of a wide one, and the other way round."""
    places, units = np.array([[0.0, 0.0], [1e6, 0.0]]), np.array([[1.0, 1.0], [1e-3, 1e-3]])
    scales = []
    for own_units in (True, False):
        around = Surroundings(places, units, None, own_units=own_units)
        centres, offsets = around.draw(N, rng)
        at_narrow = centres[:, 0] > 0.0
        assert 0.4 < at_narrow.mean() < 0.6
        scales.append(np.abs(offsets[at_narrow]).max())
    assert scales[0] < 0.1 < 1.0 < scales[1]
