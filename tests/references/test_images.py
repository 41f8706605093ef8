"""Modes that are images of others are found without a start, and counted with them."""

import math
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.ascent import Ascents
from pymc_tempering.references.basins import Basin, Basins
from pymc_tempering.references.images import add_images
from pymc_tempering.references.known import KnownModes
from pymc_tempering.references.search import Effort, find_modes
from tests.references.conftest import SIGNATURE, two_gaussians

MODES = np.array([[9.0, -1.0], [-1.0, 9.0]])
SCALES = np.array([[0.3, 0.5], [0.5, 0.3]])
FAR = 10.0 * MODES
FEW = Effort(2, 4000)
"""One start more than the first: around it, out of reach of the other of two modes far apart.

To that one's side of the middle it takes five standard deviations of the widest jitter.
"""

alike = two_gaussians(np.log([0.5, 0.5]), MODES, SCALES)
apart = two_gaussians(np.log([0.5, 0.5]), FAR, SCALES)
unlike = two_gaussians(np.log([0.5, 0.5]), np.add(MODES, [[0.0], [3.0]]), SCALES)
unequal = two_gaussians(np.log([0.7, 0.3]), MODES, SCALES)


def exchanged(z):
    return z[None, ::-1]


def search(density, rng, effort=FEW, **options):
    target = SimpleNamespace(address=density.address, dim=2)
    start = FAR[0] if density is apart else MODES[0]
    return find_modes(target, start, rng, effort=effort, **options)


def test_the_image_of_a_mode_is_found_and_fitted(rng):
    without, found = search(apart, rng), search(apart, rng, images=exchanged)
    assert len(without.fits) == 1
    assert without.search.n_images == 0
    first, second = sorted(found.fits, key=lambda fit: -fit.mean[0])
    np.testing.assert_allclose([first.mean, second.mean], FAR, atol=0.01)
    np.testing.assert_allclose(second.standard_deviation, SCALES[1], rtol=0.05)
    assert found.search.start_count == (2,)
    assert found.search.n_images == 1
    assert found.search.found_by == (1,)


@numba.cfunc(SIGNATURE)
def four(z_pointer, grad_pointer):
    """Unit Gaussians at the four points (4, 6) with any signs."""
    z, grad = numba.carray(z_pointer, 2), numba.carray(grad_pointer, 2)
    total = 0.0
    for i in range(2):
        at = 4.0 + 2.0 * i
        total += math.log(math.cosh(at * z[i])) - 0.5 * (z[i] ** 2 + at**2)
        grad[i] = at * math.tanh(at * z[i]) - z[i]
    return total


def test_images_of_images_are_found_too(rng):
    """Neither sign alone takes (4, 6) to (-4, -6)."""

    def turned(z):
        return z * [[-1.0, 1.0], [1.0, -1.0]]

    target = SimpleNamespace(address=four.address, dim=2)
    found = find_modes(target, np.array([4.0, 6.0]), rng, images=turned, effort=FEW)
    # an ascent ends where a step promises 1e-4 nats; of 1000 seeds the furthest end was 0.013 off
    np.testing.assert_allclose(np.abs(found.modes), [[4.0, 6.0]] * 4, atol=0.03)
    assert len(np.unique(np.sign(found.modes), axis=0)) == 4
    assert found.search.n_images == 3


def test_where_there_is_no_symmetry_it_takes_one_evaluation_for_each_mode():
    without, found = (
        search(unlike, np.random.default_rng(7), Effort(200, 20_000), **options)
        for options in ({}, {"images": exchanged})
    )
    assert len(found.fits) == 2
    assert found.fits == without.fits
    assert found.search.n_gradients == without.search.n_gradients + 2
    assert found.search.n_images == 0


@pytest.fixture
def known():
    """Two modes of one height with 5 and 7 starts, one lower with 9, and how to add to them."""
    target = SimpleNamespace(address=alike.address, dim=2)
    basins = Basins(target)
    for end, value, start_count in ((MODES[0], 0.0, 5), (MODES[1], 0.0, 7), ([0.0, 0.0], -3.0, 9)):
        basins.known.append(Basin(MODES[0], np.array(end), value, True, start_count))
    return basins


def test_starts_of_linked_modes_are_those_of_the_first(known):
    known.link(1, 2)
    assert [basin.start_count for basin in known.known] == [5, 7, 9]
    known.link(1, 0)
    known.link(0, 1)
    assert [basin.start_count for basin in known.known] == [0, 12, 9]
    known.count_starts(0, 3)
    assert (known.start_count(0), known.start_count(1), known.known[0].start_count) == (15, 15, 0)


def test_modes_are_linked_through_others(known):
    known.known[2].value = 0.0
    known.link(0, 1)
    known.link(2, 1)
    assert [known.start_count(i) for i in range(3)] == [21, 21, 21]


def test_ascents_from_images_are_no_hits(known):
    found = Ascents(MODES[::-1], np.zeros(2), 9, np.ones(2, dtype=np.bool_), *[MODES[:0]] * 2)
    known.add_images(0, MODES, found, Coordinates.of(GaussianBase(np.zeros(2), np.ones(2))))
    assert [basin.start_count for basin in known.known] == [12, 0, 9]
    assert [basin.image_of for basin in known.known] == [None, 0, None]


def test_images_that_belong_to_known_modes_are_not_ascended_from(known):

    def nearly_exchanged(z):
        return exchanged(z) + 0.05

    target = SimpleNamespace(address=alike.address, dim=2)
    owners = KnownModes(target)
    for i in range(2):
        owners.add(i, GaussianBase(MODES[i], SCALES[i]), 0.1)
    del known.known[2]
    coordinates = Coordinates.of(GaussianBase(np.zeros(2), np.ones(2)))
    options = {"density": target, "negligible": 10.0, "most": 1000.0}
    assert add_images(nearly_exchanged, known, owners, coordinates, **options) == 2
    assert [basin.start_count for basin in known.known] == [12, 0]
    # each was looked at
    assert add_images(nearly_exchanged, known, owners, coordinates, **options) == 0


def test_starts_of_images_count_together_unless_they_are_of_another_height(rng):
    effort = Effort(200, 20_000)
    alone, together = (
        search(alike, np.random.default_rng(7), effort, **options)
        for options in ({}, {"images": exchanged})
    )
    assert len(alone.search.start_count) == 2
    (start_count,) = together.search.start_count
    # what follows the flank of a mode uphill has nothing to follow where both are known
    assert start_count == pytest.approx(sum(alone.search.start_count), abs=3)
    assert together.search.n_images == 1
    assert len(search(unequal, rng, effort, images=exchanged).search.start_count) == 2


@pytest.mark.parametrize("most", [500, 2000])
def test_few_evaluations_are_kept_to(rng, most):
    def very_many(z):
        return np.tile(z[::-1], (1000, 1))

    found = search(apart, rng, FEW.within(most), images=very_many)
    assert found.search.n_gradients < most + 600
    assert len(found.fits) == 1


def test_images_of_all_modes_together_keep_to_their_share():
    """An eighth of 4000 evaluations, of which the images of either mode take 300."""

    def many(z):
        return np.tile(z[::-1], (300, 1))

    effort = Effort(200, 20_000, most=4000)
    without, found = (
        search(unlike, np.random.default_rng(7), effort, **options)
        for options in ({}, {"images": many})
    )
    assert len(found.fits) == 2
    assert found.search.n_gradients - without.search.n_gradients == 300
