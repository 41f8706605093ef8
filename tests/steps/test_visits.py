"""A mode that the search found, and that no draw comes from, is named."""

import numpy as np
import pytest
from densities import toy

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.curvature import curvature_at
from pymc_tempering.references.local import LocalFit, poorly_fitted_modes
from pymc_tempering.references.prepared import NO_SEARCH, Prepared
from pymc_tempering.references.search import find_modes
from pymc_tempering.steps.reference import ReferenceChoice
from pymc_tempering.steps.visits import MOST_GRADIENTS, N_LOOKED_AT, Visits, not_visited

PAIRS = 6
DIM = 2 * PAIRS
TOP = np.repeat([3.0, -2.0], PAIRS)
LIGHT = np.full(DIM, -3.0)


@toy(DIM)
def map_and_round(z, grad):
    """0.9 of six curved pairs with their top at (3, -2), 0.1 of N(-3, I)."""
    mapped, light = np.log(0.9) - PAIRS * np.log(0.3), np.log(0.1)
    for i in range(DIM):
        light -= 0.5 * (z[i] + 3.0) ** 2
    for i in range(PAIRS):
        x, y = z[i] - 3.0, z[PAIRS + i]
        mapped -= 0.5 * x**2 + 0.5 * ((y - 2.0 * (x**2 - 1.0)) / 0.3) ** 2
    top = max(mapped, light)
    total = top + np.log(np.exp(mapped - top) + np.exp(light - top))
    a, b = np.exp(mapped - total), np.exp(light - total)
    for i in range(PAIRS):
        x, y = z[i] - 3.0, z[PAIRS + i]
        off = (y - 2.0 * (x**2 - 1.0)) / 0.09
        grad[i] = a * (4.0 * x * off - x) - b * (z[i] + 3.0)
        grad[PAIRS + i] = -a * off - b * (y + 3.0)
    return total


TARGET = map_and_round


def draws(rng, n_mapped, n_light):
    x = rng.normal(size=(n_mapped, PAIRS))
    y = 2.0 * (x**2 - 1.0) + 0.3 * rng.normal(size=(n_mapped, PAIRS))
    return np.concatenate([np.hstack([x + 3.0, y]), LIGHT + rng.normal(size=(n_light, DIM))])


@pytest.fixture(scope="module")
def mapped():
    return curvature_at(TARGET, TOP, np.ones(DIM), 1e-3).base


def test_the_search_keeps_a_bent_mode_and_is_unsure_of_its_mass(rng):
    """Its fit has a hundredth of the mass of the light mode."""
    found = find_modes(TARGET, TOP, rng)
    light, *mapped = found.fits
    np.testing.assert_allclose(light.mean, LIGHT, atol=0.1)
    assert max(fit.log_zeta for fit in mapped) < light.log_zeta - 3.0
    [laplace] = found.poorly_fitted
    np.testing.assert_allclose(laplace.mean, TOP, atol=0.2)
    # up to the constant of both, the exact mass; a Gaussian inside has next to none of it
    constant = 0.5 * DIM * np.log(2.0 * np.pi)
    assert abs(laplace.log_zeta - constant - np.log(0.9)) < 0.5


@pytest.mark.statistical
def test_draws_in_a_mode_are_seen_however_it_is_bent(mapped, rng):
    """A third of the draws is its own: none of 32 ascents ends there once in 4e5 times."""
    assert not_visited(TARGET, draws(rng, 200, 400)[rng.permutation(600)], [mapped])[0] == [False]
    missed, n_gradients = not_visited(TARGET, draws(rng, 0, 600), [mapped])
    assert missed == [True]
    assert N_LOOKED_AT < n_gradients < 200 * N_LOOKED_AT


def test_a_missed_mode_keeps_the_mixture_away(mapped, rng):
    fits = [mapped, GaussianBase(LIGHT, np.ones(DIM))]
    found = Prepared(mapped, tuple(fits), NO_SEARCH, poorly_fitted=(mapped,))
    choice = ReferenceChoice(found)
    choice.look(TARGET, draws(rng, 0, 50))
    assert choice.n_missed == 0  # so short a round says nothing
    choice.look(TARGET, draws(rng, 0, 400))
    assert choice.n_missed == 1
    assert choice.counted() > N_LOOKED_AT
    restored = ReferenceChoice.restored(choice.state())
    assert restored.n_missed == 1
    assert restored.poorly_fitted == [mapped]
    restored.look(TARGET, draws(rng, 400, 0))
    assert restored.n_missed == 0


def test_only_poor_fits_that_may_hold_much_are_in_doubt(mapped):
    def fit(mean, mass, laplace):
        base = GaussianBase(np.full(DIM, mean), np.ones(DIM), mass)
        tops = None if laplace is None else GaussianBase(base.mean, base.scale, laplace)
        return LocalFit(base, 0.0, 1, tops)

    heavy, good = fit(0.0, 0.0, 3.0), fit(1.0, -0.5, None)
    light, diagnosticful = fit(2.0, -20.0, -9.0), fit(3.0, -20.0, 2.6)
    assert poorly_fitted_modes([heavy]) == ()
    assert poorly_fitted_modes([heavy, good, light, diagnosticful]) == (diagnosticful.laplace,)


def spread(sd, weight, mean=0.0):
    return GaussianBase(np.full(DIM, mean), np.full(DIM, sd), np.log(weight))


def note(modes, positions):
    visits = Visits(modes)
    for position in positions:
        visits.note(position)
    return visits.visited.tolist()


@pytest.mark.statistical
def test_each_of_the_modes_is_visited_by_its_own_draws(rng):
    """Of ten draws of each all but one in a thousand lie inside of its ellipsoid."""
    slab, spike = spread(3.0, 0.7), spread(0.1, 0.3, 1.0)
    other = spread(1.0, 0.1, 20.0)
    modes = [slab, spike, other]
    for i, mode in enumerate(modes):
        assert note(modes, mode.draw(rng, 10)) == [i == k for k in range(3)]
    # of a mode that was fitted twice both are
    assert note([slab, spread(3.0, 0.1), spike], slab.draw(rng, 10)) == [True, True, False]
    assert note([slab, spread(3.0, 0.01)], slab.draw(rng, 10)) == [True, False]


def test_a_draw_beyond_all_fits_is_of_none_of_them():
    """Nearest to the lighter one, as a tail may be."""
    modes = [spread(1.0, 0.9), spread(1.0, 0.1, 6.0)]
    assert note(modes, [np.full(DIM, 12.0)]) == [False, False]


def test_the_modes_without_a_draw():
    modes = [spread(1.0, 0.2), spread(1.0, 0.5, 9.0), spread(1.0, 0.3, -9.0)]
    masses = np.log([0.2, 0.5, 0.3])
    visits = Visits(modes)
    np.testing.assert_allclose(visits.log_mass_unvisited, masses)
    visits.note(np.full(DIM, 9.0))
    left = [masses[0], np.nan, masses[2]]
    np.testing.assert_allclose(visits.log_mass_unvisited, left)
    visits = Visits().set_state(visits.state())
    np.testing.assert_allclose(visits.log_mass_unvisited, left)
    visits.note(np.full(DIM, -9.0))
    visits.note(np.zeros(DIM))
    assert np.isnan(visits.log_mass_unvisited).all()
    assert Visits().log_mass_unvisited.size == 0


def test_it_is_looked_for_draws_of_unsure_modes_while_there_are_none(mapped, rng):
    """First in 32 draws, and in twice as many each time; as by a chain that goes on in between."""
    visits, looked = Visits((), [mapped]), []
    for i, position in enumerate(np.vstack([draws(rng, 0, 100), draws(rng, 100, 0)]), 1):
        visits.note(position)
        if visits.look(TARGET):
            looked.append((i, visits.n_missed))
        visits = Visits().set_state(visits.state())
    # half of the 128 that are looked at last come before the other mode's
    assert looked == [(32, 1), (64, 1), (128, 0)]
    assert visits.poorly_fitted == []


def test_it_is_not_looked_without_the_gradients_for_it(mapped, rng):
    visits = Visits((), [mapped])
    for position in draws(rng, 0, 40):
        visits.note(position)
    assert visits.look(TARGET, MOST_GRADIENTS - 1) == 0
    assert visits.n_missed == 0
    n_gradients = visits.look(TARGET, MOST_GRADIENTS)
    assert N_LOOKED_AT < n_gradients <= MOST_GRADIENTS
    assert visits.n_missed == 1


def test_what_is_kept_of_many_draws_is_spread_evenly(mapped):
    visits = Visits((), [mapped])
    for i in range(1000):
        visits.note(np.full(DIM, float(i)))
    kept = np.array([position[0] for position in visits.kept])
    assert N_LOOKED_AT <= len(kept) < 2 * N_LOOKED_AT
    assert kept[0] == 0
    assert set(np.diff(kept)) == {16.0}
    assert Visits([mapped]).kept == []
