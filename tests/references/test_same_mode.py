"""Which ends of ascents are of one mode, and which fits are."""

from types import SimpleNamespace

import numpy as np
import pytest

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.basins import MOST_RUNAWAYS, Basins
from pymc_tempering.references.local import LocalFit, assess
from pymc_tempering.references.quality import GOOD
from pymc_tempering.references.same_mode import (
    MAX_DIP,
    along,
    dip,
    geodesic,
    hides_one,
    joined,
    merge,
    n_places,
    one_place,
    owner,
    unexplained,
)
from tests.references.conftest import two_gaussians

UNIT = Coordinates.of(GaussianBase(np.zeros(2), np.ones(2)))


def test_ends_of_one_mode_are_one_basin(bimodal, rng):
    basins = Basins(bimodal)
    for n in (5, 20):
        starts = np.repeat(bimodal.modes, n, axis=0) + 0.3 * rng.normal(size=(2 * n, 2))
        basins.add(starts, ascend(bimodal, starts, UNIT), UNIT)
    assert [basin.start_count for basin in basins.known] == [25, 25]
    # an ascent ends where a step promises 1e-4 nats; of 2000 seeds the furthest end was 0.036 off
    np.testing.assert_allclose([b.end for b in basins.known], bimodal.modes, atol=0.05)
    assert basins.n_lost == 0


def test_ends_apart_on_one_slope_are_one_basin(gaussian):
    """As ascents that were stopped leave them: no dip lies between."""
    basins = Basins(gaussian)
    three = Coordinates.of(GaussianBase(np.zeros(3), np.ones(3)))
    starts = gaussian.mean + np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 9.0], [0.2, 1.5, 4.0]])
    basins.add(starts, ascend(gaussian, starts, three, most_gradients=1), three)
    assert [basin.start_count for basin in basins.known] == [3]


def test_a_mode_takes_the_place_of_an_ascent_that_was_stopped(gaussian):
    """Or it would be taken for a slope without end. The fit of what was passed by may be the only
    one: centred probabilities of groups rise on to where their density is rounding noise.
    """
    basins = Basins(gaussian)
    three = Coordinates.of(GaussianBase(np.zeros(3), np.ones(3)))
    starts = gaussian.mean[None] + [0.1, 0.1, 1.0]
    stopped = ascend(gaussian, starts, three, most_gradients=1)
    basins.add(starts, stopped, three)
    fit = LocalFit(GaussianBase(gaussian.mean, np.ones(3), -1.0), 9.0, 1)
    basins.known[0].measured, basins.known[0].fit = True, fit
    basins.add(starts, ascend(gaussian, starts, three), three)
    (mode,) = basins.known
    assert mode.fit is fit
    assert not stopped.converged.any()
    assert (mode.converged, mode.measured, mode.start_count) == (True, False, 2)
    np.testing.assert_allclose(mode.end, gaussian.mean, atol=0.05)
    # what stops later changes nothing
    basins.add(starts, stopped, three)
    assert (mode.converged, mode.start_count) == (True, 3)


def test_starts_without_density_and_too_many_runaways_are_lost(bimodal, edge):
    basins = Basins(edge)
    starts = np.array([[1.0, 0.0], [-4.0, 0.0]])
    basins.add(starts, ascend(edge, starts, UNIT), UNIT)
    assert (len(basins.known), basins.n_lost) == (1, 1)
    basins = Basins(bimodal)
    around = 40.0 * np.array([[np.cos(t), np.sin(t)] for t in np.arange(9) * 0.7])
    found = ascend(bimodal, bimodal.modes[0] + around, UNIT, most_gradients=1)
    basins.add(around, found, UNIT)
    assert len(basins.known) <= MOST_RUNAWAYS
    assert sum(basin.start_count for basin in basins.known) + basins.n_lost == 9


def test_a_spike_in_a_flank_is_a_basin_of_its_own(rng):
    """Between the modes nothing dips: the spike begins where the wide one has lost 0.7 nats."""
    dim = len(CENTRES[0])
    target = SimpleNamespace(address=flank.address, dim=dim)
    unit = Coordinates.of(GaussianBase(np.zeros(dim), np.ones(dim)))
    assert dip(along(target, *CENTRES)) < MAX_DIP
    basins = Basins(target)
    basins.add(CENTRES[:1], ascend(target, CENTRES[:1], unit), unit)
    basins.known[0].curvature = LocalFit(GaussianBase(CENTRES[0], np.ones(dim), 0.0), 0.1, 0)
    basins.add(CENTRES, ascend(target, CENTRES, unit), unit)
    assert [basin.start_count for basin in basins.known] == [2, 1]
    fits = [
        assess(target, GaussianBase(c, np.full(dim, sd)), np.random.default_rng(1))
        for c, sd in zip(CENTRES, (1.0, SPIKE), strict=True)
    ]
    assert max(fit.variance for fit in fits) < GOOD
    assert merge(target, fits, rng) == (fits[::-1] if fits[1].elbo > fits[0].elbo else fits, 0)
    # poor fits would be of one mode, did not the mass fall between them
    poor = [fits[0], fits[1]._replace(variance=1.0)]
    kept, n_evaluations = merge(target, poor, rng)
    assert (len(kept), n_evaluations) == (2, 19 + 5 * 16)


CENTRES = np.zeros((2, 30))
CENTRES[1, 0] = 2.0
SPIKE = 0.1


# N(0, I) and a tenth as wide one of equal mass, two away in 30 dimensions
flank = two_gaussians(np.zeros(2), CENTRES, np.repeat([[1.0], [SPIKE]], 30, axis=1))


def fit(mean, sd, elbo, start_count=1):
    return LocalFit(GaussianBase(mean, sd, elbo), 1.0, start_count)


def test_fits_of_one_mode_are_put_together(gaussian, bimodal, rng):
    """Narrow fits many of their own standard deviations apart on one slope are one mode."""
    slope = [fit(gaussian.mean + s, np.full(3, 0.01), -s, 2) for s in (0.5, 0.0, 1.0)]
    (kept,), _ = merge(gaussian, slope, rng)
    assert kept == slope[1]._replace(start_count=6)
    modes = [fit(m, [1.0, 1.0], -i) for i, m in enumerate(bimodal.modes)]
    assert merge(bimodal, modes[::-1], rng)[0] == modes
    near = fit(bimodal.modes[1] + 0.4, [1.0, 1.0], 3.0)
    assert merge(bimodal, [*modes, near], rng)[0][0] == near._replace(start_count=2)


@pytest.mark.parametrize("turned", [1.0, -1.0])
def test_two_ridges_side_by_side_are_two_modes(turned, gaussian, rng):
    """|x + y| is known to be 2: in x and in y their centres are half of a deviation apart."""
    across = np.array([1.0, turned]) / np.sqrt(2.0)
    along = np.array([turned, -1.0]) / np.sqrt(2.0)
    covariance = 3.0**2 * np.outer(along, along) + 0.07**2 * np.outer(across, across)
    root = np.linalg.cholesky(covariance)
    ridges = [
        LocalFit(GaussianBase(side * across * np.sqrt(2.0), root, -1.0), 1e-20, start_count)
        for side, start_count in ((1.0, 4), (-1.0, 3))
    ]
    assert merge(gaussian, ridges, rng) == (ridges, 0)
    assert n_places([ridge.base for ridge in ridges]) == 2
    beside = ridges[0]._replace(base=GaussianBase(ridges[0].base.mean + 2.0 * along, root, -1.1))
    assert merge(gaussian, [ridges[0], beside], rng)[0] == [ridges[0]._replace(start_count=8)]


@pytest.mark.parametrize("full", [True, False])
def test_a_spike_in_the_middle_of_a_slab_is_a_mode_of_its_own(full, gaussian, rng):
    slab = GaussianBase(np.zeros(3), np.linalg.cholesky(gaussian.cov) if full else np.ones(3), -0.5)
    mean = 0.1 * slab.standard_deviation
    spike, wider = (GaussianBase(mean, ratio * slab.scale, -1.0) for ratio in (0.05, 1.1))
    fits = [
        LocalFit(base, 1e-6, start_count)
        for base, start_count in ((slab, 5), (spike, 2), (wider, 3))
    ]
    assert merge(gaussian, fits, rng) == ([fits[0]._replace(start_count=8), fits[1]], 0)
    # of a poor fit it is not known that its mode has its shape
    poor = fits[1]._replace(variance=1.0)
    assert merge(gaussian, [fits[0], poor], rng) == ([fits[0]._replace(start_count=7)], 0)


def test_parts_of_one_mode_are_put_together(gaussian, rng):
    """Poor fits of its ends, of unlike shapes, ten of their scales apart."""
    root = np.linalg.cholesky(gaussian.cov)
    away = 1.5 * root[:, 0]
    parts = [
        LocalFit(GaussianBase(gaussian.mean - away, 0.3 * root, -3.0), 1.0, 1),
        LocalFit(GaussianBase(gaussian.mean + away, 0.2 * np.diagonal(root), -4.0), 1.0, 1),
    ]
    (kept,), n_evaluations = merge(gaussian, parts, rng)
    assert kept == parts[0]._replace(start_count=2)
    assert n_evaluations == 19 + 5 * 16


@pytest.mark.parametrize(("variance", "n_kept"), [(1.0, 2), (2.5, 1)])
def test_a_fit_that_left_its_own_mode_for_two_stays_beside_the_other(
    bimodal, rng, variance, n_kept
):
    """From between the modes the density rises to the one, and falls on the way from its own."""
    one, own = bimodal.modes
    first = fit(one, [1.0, 1.0], 0.0)
    left = fit(one + 0.3 * (own - one), [1.0, 1.0], -0.5)._replace(variance=variance)
    assert len(merge(bimodal, [first, left], rng)[0]) == 1
    left = left._replace(laplace=GaussianBase(own, [1.0, 1.0], -1.0))
    assert len(merge(bimodal, [first, left], rng)[0]) == n_kept


@pytest.mark.parametrize("spread", [1.0, 7.0])
def test_gaussians_between_two_have_scales_in_between(spread, rng):
    """Also where one coordinate is a million times as wide as another."""
    dim = 5
    dense = GaussianBase(np.zeros(dim), np.linalg.cholesky(np.cov(rng.normal(size=(dim, 50)))))
    unlike = GaussianBase(np.ones(dim), np.exp(np.linspace(-spread, spread, dim)))
    for a, b in (
        (dense, unlike),
        (unlike, dense),
        (unlike, GaussianBase(-unlike.mean, np.ones(5))),
    ):
        first, *inside, last = geodesic(a, b, np.linspace(0.0, 1.0, 5))
        for end, given in ((first, a), (last, b)):
            one = np.linalg.solve(given.matrix, end.matrix)
            np.testing.assert_allclose(one, np.eye(dim), atol=1e-6)
        log_dets = [base.log_det_scale for base in (first, *inside, last)]
        np.testing.assert_allclose(np.diff(log_dets, 2), 0.0, atol=1e-8)


def test_gaussians_between_two_have_scales_however_narrow():
    """As where a scale of a model falls to nothing, and coordinates know one another."""
    root = np.array([[1.0, 0.0], [1.0, 1e-200]])
    thin, other = GaussianBase(np.zeros(2), root), GaussianBase(np.ones(2), np.array([1e-9, 1e9]))
    for a, b in ((thin, other), (other, thin)):
        assert len(list(geodesic(a, b, np.linspace(0.0, 1.0, 5)))) == 5


def test_the_dip_between_two_points(bimodal, gaussian, edge):
    """Seventeen points between modes 7.6 apart meet the dip of 13.5 nats within 2."""
    t = np.linspace(0, 1, 2001)[:, None]
    line = (1 - t) * bimodal.modes[0] + t * bimodal.modes[1]
    logp = [
        np.log(w) - np.log(s).sum() - 0.5 * (((line - m) / s) ** 2).sum(1)
        for w, m, s in zip([0.9, 0.1], bimodal.modes, bimodal.sds, strict=True)
    ]
    exact = np.logaddexp(*logp)
    exact_dip = min(exact[0], exact[-1]) - exact.min()
    assert exact_dip - 2 < dip(along(bimodal, *bimodal.modes)) <= exact_dip
    assert dip(along(gaussian, gaussian.mean, gaussian.mean + 3.0)) == 0.0
    outside = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
    assert dip(along(edge, *outside)) == np.inf
    assert not joined(edge, *outside)
    assert joined(gaussian, gaussian.mean, gaussian.mean + 3.0)


def test_fits_of_one_place():
    spike, slab = (GaussianBase(np.zeros(2), np.full(2, width)) for width in (0.1, 2.0))
    beside = GaussianBase(np.full(2, 2.1), np.full(2, 0.1))
    assert one_place([spike])
    assert one_place([spike, slab])
    assert not one_place([spike, beside])
    assert not one_place([slab, beside])


@pytest.mark.parametrize(
    ("away", "dim", "hidden"), [(3.0, 60, True), (9.0, 60, False), (3.0, 9, False)]
)
def test_a_narrower_mode_hides_a_wide_one_in_many_dimensions(away, dim, hidden):
    wide = GaussianBase(np.zeros(dim), np.ones(dim), np.log(0.3))
    narrow = GaussianBase(away * np.eye(1, dim)[0], np.full(dim, 0.6), np.log(0.7))
    assert hides_one([wide, narrow]) == hides_one([narrow, wide]) == hidden
    assert not hides_one([wide])


def test_what_explains_a_point_and_what_is_left(gaussian, bimodal, rng):
    """Draws have their component as owner, and exact components leave nothing unexplained.

    One of a thousand draws has none. False alarm: once in 10,000 seeds (20 of them, or 4 to 42).
    """
    one = GaussianBase(gaussian.mean, np.linalg.cholesky(gaussian.cov), gaussian.log_z)
    z = one.draw(rng, 20_000)
    assert 4 <= (owner([one], z) == -1).sum() <= 42
    np.testing.assert_allclose(unexplained(gaussian, [one], z), 0.0, atol=1e-9)
    shares = np.log([bimodal.weight, 1.0 - bimodal.weight]) + bimodal.log_z
    fits = [GaussianBase(*of) for of in zip(bimodal.modes, bimodal.sds, shares, strict=True)]
    for k, fit in enumerate(fits):
        own = fit.draw(rng, 200)
        assert (owner(fits, own) == k).mean() > 0.98
        np.testing.assert_allclose(unexplained(bimodal, fits, own), 0.0, atol=1e-9)
        assert unexplained(bimodal, [fits[1 - k]], own).min() > 1.0
