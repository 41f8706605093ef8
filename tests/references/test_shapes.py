"""Which modes keep a search going, and which places are worth a variational fit."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.ascent_paths import N_PATHS
from pymc_tempering.references.basins import Basin
from pymc_tempering.references.local import LocalFit
from pymc_tempering.references.shapes import Shapes
from pymc_tempering.references.watch import unwatched
from pymc_tempering.testing import trimodal_1d

NEGLIGIBLE = 10.0
UNITS = np.ones(2)
UNIT = Coordinates.of(GaussianBase(np.zeros(2), UNITS))


def known(density, *modes):
    """Shapes and basins of modes that are given by place, log mass, starts, and spread."""
    shapes, basins = Shapes(density, np.random.default_rng(1), 10_000), []
    for i, (x, log_mass, start_count, sd) in enumerate(modes):
        place = np.array([x, 0.0])
        base = GaussianBase(place, np.full(2, sd), log_mass)
        height = log_mass - base.log_det_scale - np.log(2.0 * np.pi)
        basins.append(Basin(place, place, height, converged=True, start_count=start_count))
        shapes.fits[i] = LocalFit(base, 0.1, start_count)
        shapes.curvatures[i] = base, 0.1
    return shapes, basins


@pytest.mark.parametrize(
    ("others", "n"),
    [
        ([], 1),
        ([(9.0, -9.0, 5, 1.0)], 2),
        ([(9.0, -11.0, 5, 1.0)], 1),
        # low and wide: what counts is the mass
        ([(90.0, -9.0, 5, 50.0)], 2),
        # within a standard deviation: two fits of one mode
        ([(0.5, -1.0, 5, 1.0)], 1),
        # so many starts lead to what holds nothing that what holds most may be missed
        ([(9.0, -11.0, 70, 1.0)], 2),
        ([(9.0, -11.0, 20, 1.0), (5.0, -12.0, 20, 1.0), (7.0, -1.0, 5, 1.0)], 2),
    ],
)
def test_modes_that_hold_nothing_do_not_matter_unless_they_are_many(bimodal, others, n):
    shapes, basins = known(bimodal, (0.0, 0.0, 100, 1.0), *others)
    assert shapes.n_that_matter(basins, NEGLIGIBLE) == n


def test_what_was_not_looked_at_may_matter(bimodal):
    shapes, basins = known(bimodal, (0.0, 0.0, 100, 1.0), (9.0, -50.0, 3, 1.0))
    shapes.drop(1)
    assert shapes.n_that_matter(basins, NEGLIGIBLE) == 2
    basins[1].is_saddle = True
    assert shapes.n_that_matter(basins, NEGLIGIBLE) == 1


@pytest.mark.parametrize(("fall", "is_fitted"), [(20.0, True), (30.0, False)])
def test_no_fit_of_a_place_that_is_too_low_to_hold_anything(bimodal, fall, is_fitted):
    """23.8 nats: negligible even if it were a thousand times as wide each way."""
    shapes, basins = known(bimodal, (bimodal.modes[0, 0], 0.0, 100, 1.0))
    place = bimodal.modes[1] + [0.3, 0.2]
    basins.append(Basin(place, place, basins[0].value - fall, converged=False))
    shapes.complete(basins, UNIT, UNITS, NEGLIGIBLE, unwatched)
    assert (1 in shapes.fits) == is_fitted
    assert (shapes.n_gradients > 0) == is_fitted


def test_the_mode_of_most_mass_by_its_height_is_fitted_first(bimodal, monkeypatch):
    """Under the curvature of a poor one, a mirror image of the first, there was next to nothing."""
    modes = [(x, log_mass, 5, 1.0) for x, log_mass in ((0.0, 0.0), (4.0, -6.0), (8.0, -1.0))]
    shapes, basins = known(bimodal, *modes)
    under_curvature = {1: -30.0, 2: -90.0}
    for i, elbo in under_curvature.items():
        base = GaussianBase(shapes.fits[i].base.mean, UNITS, elbo)
        shapes.fits[i] = LocalFit(base, 1e4, 5)
    for basin in basins:
        basin.measured = True
    improved = []
    monkeypatch.setattr(shapes, "improve", lambda i, *_: improved.append(i))
    shapes.complete(basins, UNIT, UNITS, NEGLIGIBLE, unwatched)
    assert improved == [2, 1]


@pytest.mark.parametrize(
    ("variance", "better", "stays"),
    [
        # more mass, less well: of another mode as well
        (0.4, (1.0, 0.9), True),
        # nor is it any, if the mode has no fair fit
        (1.1, (1.0, 2.0), False),
        (0.4, (1.0, 0.3), False),
        (0.4, (-1.0, 0.3), True),
    ],
)
def test_a_fair_fit_is_not_given_up_for_one_that_left(
    bimodal, monkeypatch, variance, better, stays
):
    """By the variances of log weights, and the other's ELBO in place of 0."""
    shapes, basins = known(bimodal, (0.0, 0.0, 100, 1.0))
    shapes.fits[0] = first = shapes.fits[0]._replace(variance=variance)
    other = LocalFit(GaussianBase(np.ones(2), UNITS, better[0]), better[1], 0)
    monkeypatch.setattr("pymc_tempering.references.shapes.refine", lambda *_: (other, 1000))
    shapes.improve(0, basins[0], UNIT, UNITS)
    assert shapes.fits[0] == (first if stays else other._replace(start_count=100))


class Around:
    """Starts of a search that are asked for."""

    n_requested = 0

    def fresh(self, n, rng):
        self.n_requested += n
        return np.zeros((n, 2)), rng.normal(size=(n, 2))


@pytest.mark.parametrize(
    ("end", "fall", "is_gaussian", "looks"),
    [
        (2.5, 0.0, False, True),
        (1.5, 0.0, False, False),
        (2.5, 0.0, True, False),
        # a place that holds nothing
        (2.5, 12.0, False, False),
    ],
)
def test_ways_are_looked_at_where_ascents_end_outside_of_what_matters(
    bimodal, monkeypatch, end, fall, is_gaussian, looks
):
    """One way leads by the place itself, two by another that is known, three by a new one."""
    shapes, basins = known(bimodal, (0.0, -fall, 70, 1.0), (9.0, 0.0, 30, 1.0))
    basins[0].end, basins[0].is_gaussian = np.array([end, 0.0]), is_gaussian
    basins[1].end = np.array([9.0, 0.0])
    new = LocalFit(GaussianBase(np.full(2, 5.0), UNITS, -1.0), 0.5, 0)

    def on_ways(density, fits, starts, coordinates, units, rng, most):
        assert fits == list(shapes.fits.values())
        assert len(starts) == N_PATHS
        assert most == 20_000
        return [new], [1, 2, 3], 1000

    monkeypatch.setattr("pymc_tempering.references.shapes.masses_on_paths", on_ways)
    around = Around()
    shapes.look_on_paths(basins, around, UNIT, UNITS, NEGLIGIBLE)
    start_count = [fit.start_count for fit in shapes.every]
    if not looks:
        assert (around.n_requested, start_count, shapes.n_gradients) == (0, [70, 30], 0)
        return
    assert around.n_requested == N_PATHS
    # a seventh of the starts to the place for each way
    assert start_count == [70 - 5 * 10, 30 + 2 * 10, 3 * 10]
    assert shapes.every[-1] == new._replace(start_count=30)
    assert shapes.n_gradients == 1000 + N_PATHS


def test_on_a_line_no_ascent_goes_by_a_mode():
    target = SimpleNamespace(address=trimodal_1d().address, dim=1)
    shapes = Shapes(target, np.random.default_rng(1), 10_000)
    place, base = np.array([0.0]), GaussianBase(np.zeros(1), np.ones(1), 0.0)
    shapes.fits[0] = LocalFit(base, 0.5, 70)
    basin = Basin(place, place + 3.0, 0.0, converged=True, start_count=70)
    around = Around()
    shapes.look_on_paths([basin], around, Coordinates.of(base), np.ones(1), NEGLIGIBLE)
    assert (around.n_requested, shapes.n_gradients) == (0, 0)
