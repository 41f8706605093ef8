"""A slab about a spike is found, and nothing is found about modes that stand alone."""

import math

import numpy as np
import pytest

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references import diffuse
from pymc_tempering.references.diffuse import find_diffuse
from pymc_tempering.references.local import assess
from pymc_tempering.references.search import find_modes
from pymc_tempering.references.survey import NEGLIGIBLE
from pymc_tempering.testing import TARGETS
from tests.references.conftest import two_gaussians

DIM, SPIKE, SLAB, OFFSET, LIGHT = 6, 0.02, 1.5, 0.05, 0.2
# 0.2 N(0, 1.5^2 I) + 0.8 N((0.05, 0, ...), 0.02^2 I)
TARGET = two_gaussians(
    np.log([LIGHT, 1.0 - LIGHT]),
    np.array([[0.0] * DIM, [OFFSET] + [0.0] * (DIM - 1)]),
    np.array([[SLAB] * DIM, [SPIKE] * DIM]),
)
CONCENTRIC = two_gaussians(
    np.log([LIGHT, 1.0 - LIGHT]), np.zeros((2, DIM)), np.array([[SLAB] * DIM, [SPIKE] * DIM])
)
WIDE_SPIKE = 0.1
STEEPER = two_gaussians(
    np.log([LIGHT, 1.0 - LIGHT]), np.zeros((2, DIM)), np.array([[SLAB] * DIM, [WIDE_SPIKE] * DIM])
)
CENTRE = np.eye(1, DIM)[0] * OFFSET

MANY, AWAY = 40, 3.5
# 0.3 N(0, I) + 0.7 N((3.5, 0, ...), 0.6^2 I)
HIDDEN = two_gaussians(
    np.log([0.3, 0.7]),
    np.array([[0.0] * MANY, [AWAY] + [0.0] * (MANY - 1)]),
    np.array([[1.0] * MANY, [0.6] * MANY]),
)


@pytest.mark.statistical
@pytest.mark.parametrize("target", [TARGET, CONCENTRIC])
def test_a_search_fits_the_slab_as_well(target, rng):
    """No start ends in its flat middle, which is no maximum; its ELBO is log 0.2 and a little.

    Of five searches the middle one counts.
    """
    searches = [find_modes(target, np.full(DIM, 0.5), rng) for _ in range(5)]
    elbos = []
    for found in searches:
        slab, spike = sorted(found.fits, key=lambda fit: fit.log_zeta)[-2:]
        assert spike.log_zeta == pytest.approx(math.log(1.0 - LIGHT), abs=0.02)
        np.testing.assert_allclose(slab.standard_deviation, SLAB, rtol=0.1)
        np.testing.assert_allclose(slab.mean, 0.0, atol=SLAB)
        elbos.append(slab.log_zeta)
    assert np.median(elbos) == pytest.approx(math.log(LIGHT), abs=0.1)
    counted = [(len(found.search.start_count), found.search.n_unfinished) for found in searches]
    assert counted.count((1, 0)) >= 3


def test_a_search_fits_a_slab_in_which_no_start_ends(rng):
    """Between the two the density falls, so that every start ends in the spike."""
    found = find_modes(STEEPER, np.full(DIM, 0.5), rng)
    slab, spike = sorted(found.fits, key=lambda fit: fit.log_zeta)
    assert len(found.search.start_count) == 1
    assert found.search.n_starts == found.search.start_count[0]
    np.testing.assert_allclose(slab.standard_deviation, SLAB, rtol=0.15)
    np.testing.assert_allclose(spike.standard_deviation, WIDE_SPIKE, rtol=0.15)


def test_a_wide_mode_without_a_maximum_is_found_beside_a_narrow_one(rng):
    """Where it is highest the narrow one is higher by 4 nats, and each start ends in that."""
    search = find_modes(HIDDEN, np.full(MANY, 0.2), rng)
    narrow, wide = sorted(search.fits, key=lambda fit: fit.mean[0], reverse=True)
    assert len(search.search.start_count) == 1
    np.testing.assert_allclose(narrow.mean[0], AWAY, atol=0.1)
    assert narrow.log_zeta == pytest.approx(math.log(0.7), abs=0.02)
    # what the wide one's draws have of the narrow one's density raises its ELBO a little
    assert wide.log_zeta == pytest.approx(math.log(0.3), abs=0.1)
    np.testing.assert_allclose(wide.mean, 0.0, atol=0.3)
    np.testing.assert_allclose(wide.standard_deviation, 1.0, rtol=0.15)


def test_what_is_explained_where_starts_are_is_no_mode(rng):
    """Neither fit is made again, and next to the narrow one alone there is nothing."""
    fits = [
        assess(HIDDEN, GaussianBase(AWAY * np.eye(1, MANY)[0], np.full(MANY, 0.6)), rng),
        assess(HIDDEN, GaussianBase(np.zeros(MANY), np.ones(MANY)), rng),
    ]
    starts = GaussianBase(np.full(MANY, 0.2), np.ones(MANY))
    assert find_diffuse(HIDDEN, fits, NEGLIGIBLE, rng, starts=starts)[0] == []
    [found], _ = find_diffuse(HIDDEN, fits[:1], NEGLIGIBLE, rng, starts=starts)
    assert abs(found.base.mean[0]) < 0.3
    assert find_diffuse(HIDDEN, fits[:1], NEGLIGIBLE, rng)[0] == []
    # a poor fit leaves some of its own mode unexplained
    poor = fits[0]._replace(variance=1.0)
    assert find_diffuse(HIDDEN, [poor], NEGLIGIBLE, rng, starts=starts)[0] == []
    far = GaussianBase(np.full(MANY, 9.0), np.ones(MANY))
    assert find_diffuse(HIDDEN, fits[:1], NEGLIGIBLE, rng, starts=far)[0] == []


def test_a_second_maximum_may_follow_a_fall_in_two_steps():
    assert diffuse._second_maximum([-21.0, -25.1, -27.6, -24.2, -24.7, -43.4]) == 3
    assert diffuse._second_maximum([-21.0, -24.0, -28.5, -23.3, -24.2, -43.4]) == 3
    assert diffuse._second_maximum([-21.0, -25.1, -27.6, -27.0, -43.4]) is None
    assert diffuse._second_maximum([-21.0, -20.5, -20.1]) is None


def test_a_halo_without_mass_is_left_out(rng):
    spike = assess(TARGET, GaussianBase(CENTRE, np.full(DIM, SPIKE)), rng)
    [diffuse_fit], n_gradients = find_diffuse(TARGET, [spike], NEGLIGIBLE, rng)
    assert diffuse_fit.start_count == 0
    assert n_gradients > 9 * 16
    assert find_diffuse(TARGET, [spike], 0.5, rng)[0] == []


def test_a_halo_that_is_known_is_not_found_again(rng):
    spike = assess(TARGET, GaussianBase(CENTRE, np.full(DIM, SPIKE)), rng)
    slab = assess(TARGET, GaussianBase(np.zeros(DIM), np.full(DIM, SLAB)), rng)
    assert find_diffuse(TARGET, [spike, slab], NEGLIGIBLE, rng)[0] == []


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_modes_that_stand_alone_have_none(name, rng):
    target = TARGETS[name]()
    found = find_modes(target, target.start, rng)
    assert len(found.fits) == sum(n > 0 for n in found.search.start_count) - found.search.n_left_out
