"""Starts that belong to known modes are told by one gradient, and others are not."""

import numpy as np
import pytest

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.curvature import curvature_at
from pymc_tempering.references.known import KnownModes
from pymc_tempering.references.search import find_modes
from pymc_tempering.references.starts import evaluated
from tests.references.test_search import DIM, FAR, wide_and_narrow

NARROW_PLACE = np.array([FAR, 0.0, 0.0, 0.0])


def known_at(density, *places, variance=0.0):
    known = KnownModes(density)
    for number, place in enumerate(places, start=5):
        known.add(number, curvature_at(density, place, np.ones(density.dim)).base, variance)
    return known


def test_a_mode_explains_its_basin_and_no_other(rng):
    """As ascents have it, of starts everywhere."""
    known = known_at(wide_and_narrow, np.full(DIM, 0.01))
    z = np.concatenate([3.0 * rng.normal(size=(400, DIM)),
                        NARROW_PLACE + 0.8 * rng.normal(size=(400, DIM))])  # fmt: skip
    starts = evaluated(wide_and_narrow, z)
    owners = known.owners(starts)
    unit = Coordinates.of(GaussianBase(np.zeros(DIM), np.ones(DIM)))
    ends = ascend(wide_and_narrow, z, unit).ends
    at_wide = np.linalg.norm(ends, axis=1) < 0.5
    assert 15 < at_wide[400:].sum() < 350  # 47 on average
    explained = owners.number == 5
    # from behind the narrow mode the way to the wide one leads over it; alone there, for one or
    # none of some 200, density and gradient are those of the wide one all the same
    behind = z[:, 0] > FAR
    assert not explained[~at_wide & ~behind].any()
    assert explained[~at_wide & behind].sum() <= 2
    assert explained[:400][at_wide[:400]].mean() > 0.95
    both = known_at(wide_and_narrow, np.zeros(DIM), NARROW_PLACE)
    assert set(both.owners(starts).number[~at_wide]) <= {6, -1}


def test_what_exact_modes_leave_over_leads_beyond_them(rng):
    """From seven narrow standard deviations away and more, outside of the narrow mode's basin.

    A few draws in the flank of another mode make a variance of 1e-4.
    """
    known = known_at(wide_and_narrow, np.full(DIM, 0.01), variance=1e-4)
    z = NARROW_PLACE + np.array([[0.0, 2.6, 0.0, 0.0], [-2.1, 0.0, 0.0, 0.0], [-9.0, 0, 0, 0]])
    starts = evaluated(wide_and_narrow, z)
    owners = known.owners(starts)
    assert owners.number.tolist() == [5, 5, 5]
    assert np.all((owners.residual[:2] > 0.0) & (owners.residual[:2] < 0.01))
    assert np.isnan(owners.residual[2])
    beyond = known.follow_residual(starts.at(np.array([0, 1])))
    assert len(beyond) == 2
    assert np.all(np.linalg.norm(beyond - NARROW_PLACE, axis=1) < 0.8)
    # once the narrow mode is known, such starts are its
    both = known_at(wide_and_narrow, np.zeros(DIM), NARROW_PLACE).owners(starts)
    assert both.number.tolist() == [6, 6, 5]
    assert np.isnan(both.residual).all()


def test_the_rest_of_a_mode_that_is_no_gaussian_is_not_followed(rng):
    known = known_at(wide_and_narrow, np.zeros(DIM), variance=1e-2)
    place = NARROW_PLACE + np.array([[0.0, 2.6, 0.0, 0.0]])
    owners = known.owners(evaluated(wide_and_narrow, place))
    assert owners.number.tolist() == [5]
    assert np.isnan(owners.residual).all()


def test_heavy_tails_are_not_taken_for_a_known_mode(cauchy, rng):
    known = known_at(cauchy, np.array([5.0, 0.0]), variance=1.0)
    around = np.array([5.0, 0.0]) + 9.0 * rng.normal(size=(50, 2))
    owners = known.owners(evaluated(cauchy, around))
    assert (owners.number == -1).mean() > 0.9


def test_starts_beyond_all_numbers_belong_to_no_mode(gaussian):
    starts = evaluated(gaussian, gaussian.mean + np.array([[1e150, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    starts.values[:], starts.grads[:] = -1e300, -1e200
    owners = known_at(gaussian, gaussian.mean).owners(starts)
    assert owners.number.tolist() == [-1] * len(starts.points)


def test_nothing_is_known_at_first(gaussian):
    known = KnownModes(gaussian)
    owners = known.owners(evaluated(gaussian, gaussian.mean[None]))
    assert owners.number.tolist() == [-1]
    assert np.isnan(owners.residual).all()
    none = evaluated(gaussian, np.empty((0, 3)))
    assert known_at(gaussian, gaussian.mean).owners(none).number.shape == (0,)


@pytest.mark.statistical
def test_a_start_of_a_known_mode_costs_one_gradient(gaussian, rng):
    """An ascent takes three and more."""
    found = find_modes(gaussian, gaussian.mean + 1.0, rng)
    assert found.search.n_starts > 0.9 * found.search.n_gradients
