"""Modes that are images of others are found without a start, and counted with them."""

import math
from types import SimpleNamespace

import numba
import numpy as np
import pytest

from pymc_tempering.references.search import Effort, find_modes
from tests.references.conftest import SIGNATURE, two_gaussians

MODES = np.array([[9.0, -1.0], [-1.0, 9.0]])
SCALES = np.array([[0.3, 0.5], [0.5, 0.3]])
FEW = Effort(2, 4000)
"""One start more than the first: around it, so that the other mode is out of its reach."""

alike = two_gaussians(np.log([0.5, 0.5]), MODES, SCALES)
unlike = two_gaussians(np.log([0.5, 0.5]), np.add(MODES, [[0.0], [3.0]]), SCALES)
unequal = two_gaussians(np.log([0.7, 0.3]), MODES, SCALES)


def exchanged(z):
    return z[None, ::-1]


def search(density, rng, effort=FEW, **options):
    target = SimpleNamespace(address=density.address, dim=2)
    return find_modes(target, MODES[0], rng, effort=effort, **options)


def test_the_image_of_a_mode_is_found_and_fitted(rng):
    without, found = search(alike, rng), search(alike, rng, images=exchanged)
    assert len(without.fits) == 1
    assert without.search.n_images == 0
    first, second = sorted(found.fits, key=lambda fit: -fit.mean[0])
    np.testing.assert_allclose([first.mean, second.mean], MODES, atol=0.01)
    np.testing.assert_allclose(second.standard_deviation, SCALES[1], rtol=0.05)
    assert found.search.hits == (2,)
    assert found.search.n_images == 1
    assert found.search.mass_once == 0.0


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
    np.testing.assert_allclose(np.abs(found.modes), [[4.0, 6.0]] * 4, atol=0.01)
    assert len(np.unique(np.sign(found.modes), axis=0)) == 4
    assert found.search.n_images == 3


def test_where_there_is_no_symmetry_it_takes_one_evaluation(rng):
    without, found = (
        search(unlike, np.random.default_rng(7), images=images)
        for images in (lambda z: np.empty((0, 2)), exchanged)
    )
    assert found.fits == without.fits
    assert found.search.n_gradients == without.search.n_gradients + 1
    assert found.search.n_images == 0


def test_starts_of_images_count_together_unless_they_are_of_another_height(rng):
    effort = Effort(200, 20_000)
    alone, together = (
        search(alike, np.random.default_rng(7), effort, **options)
        for options in ({}, {"images": exchanged})
    )
    assert len(alone.search.hits) == 2
    (hits,) = together.search.hits
    # what follows the flank of a mode uphill has nothing to follow where both are known
    assert hits == pytest.approx(sum(alone.search.hits), abs=3)
    assert together.search.n_images == 1
    assert len(search(unequal, rng, effort, images=exchanged).search.hits) == 2


@pytest.mark.parametrize("most", [500, 2000])
def test_few_evaluations_are_kept_to(rng, most):
    def very_many(z):
        return np.tile(z[::-1], (1000, 1))

    found = search(alike, rng, Effort(2, 4000).within(most), images=very_many)
    assert found.search.n_gradients < most + 600
    assert len(found.fits) == 1
