"""A path as an object: its coordinates, its reference, and what kernels are given."""

import numpy as np
import pytest
from laws import ExactReference

from pymc_tempering import testing
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase, base_id
from pymc_tempering.engine.path.path import GAUSSIAN
from pymc_tempering.engine.path.tempered import TemperedPath

BASE = GaussianBase(np.array([0.2, -0.4]), np.array([[1.3, 0.0], [-0.3, 0.9]]), log_zeta=0.7)
OTHER = GaussianBase(np.array([1.0, 1.0]), np.array([2.0, 0.5]))


def test_gaussian_reference_is_that_of_the_coordinates():
    target = testing.skewed_gamma()
    path = TemperedPath.from_base(target, BASE)
    assert (path.base, path.dim, path.base_id) == (BASE, 2, base_id(BASE))
    view = path.view
    assert (view.target_address, view.reference_address) == (target.address, GAUSSIAN)
    np.testing.assert_array_equal(view.mean, BASE.mean)
    np.testing.assert_array_equal(view.scale, BASE.scale)
    assert view.log_det_scale == pytest.approx(np.log(1.3 * 0.9))
    assert TemperedPath(target, Coordinates.of(BASE)).base == BASE
    moved = path.moved(OTHER)
    assert (moved.base, moved.target, moved.reference) == (OTHER, target, None)
    assert path.base == BASE
    assert moved.base_id != path.base_id


def test_kernels_are_given_writeable_copies_made_once():
    path = TemperedPath.from_base(testing.skewed_gamma(), OTHER)
    view = path.view
    assert view.mean.flags.writeable
    assert view.scale.flags.writeable
    assert path.view is view
    view.mean[:], view.scale[:] = 9.0, 9.0
    np.testing.assert_array_equal(path.base.mean, [1.0, 1.0])
    np.testing.assert_array_equal(path.moved(OTHER).view.scale, [[2.0, 0.5]])


def test_another_reference_stays_when_coordinates_move():
    reference = ExactReference(testing.banana(log_z=0.0))
    path = TemperedPath(testing.skewed_gamma(), Coordinates.of(BASE), reference)
    moved = path.moved(Coordinates.of(OTHER))
    for each in (path, moved):
        assert each.reference is reference
        assert each.view.reference_address == reference.address
    assert moved.base == OTHER


@pytest.mark.statistical
def test_draws_beforehand_are_those_of_the_reference_in_coordinates(rng):
    """Means of 20000 draws: |z| > 5 at 6e-7 each, two."""
    law = testing.banana(log_z=0.0)
    path = TemperedPath(testing.skewed_gamma(), Coordinates.of(BASE), ExactReference(law))
    u, _, _ = path.draws_and_origins(20_000, rng)
    assert u.shape == (20_000, 2)
    assert u.flags.c_contiguous
    z = BASE.from_base(u)
    error = np.sqrt(np.diag(law.cov) / 20_000)
    assert (np.abs(z.mean(axis=0) - law.mean) < 5.0 * error).all()
    assert np.corrcoef(z.T)[0, 1] == pytest.approx(
        law.cov[0, 1] / np.sqrt(law.cov[0, 0] * law.cov[1, 1]), abs=0.05
    )


def test_no_draws_beforehand_where_kernels_draw_themselves(rng):
    state = rng.bit_generator.state
    path = TemperedPath.from_base(testing.skewed_gamma(), BASE)
    draws, _, _ = path.draws_and_origins(7, rng)
    assert draws.shape == (7, 0)
    assert rng.bit_generator.state == state
