"""Modes are found, counted and fitted, whatever the target does elsewhere."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from densities import toy

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.path import density_at
from pymc_tempering.errors import BaseError
from pymc_tempering.references import search, sources, survey
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.basins import Basin, Basins
from pymc_tempering.references.search import SEARCHES, Effort, _dividing_out, find_modes
from pymc_tempering.references.sources import SOURCES
from pymc_tempering.references.survey import MOST_REFINED, Proposal
from pymc_tempering.testing import compiled, trimodal_1d
from tests.references.conftest import LOG_2PI, two_gaussians
from tests.references.test_full_rank import WIDE_DIM, funnel_density, wide_density

DIM, FAR, NARROW, LIGHT_WEIGHT = 4, 6.0, 0.3, 0.4
wide_and_narrow = two_gaussians(
    np.log([1.0 - LIGHT_WEIGHT, LIGHT_WEIGHT]),
    np.array([[0.0] * DIM, [FAR] + [0.0] * (DIM - 1)]),
    np.array([[1.0] * DIM, [NARROW] * DIM]),
)


SPIKE_SD, TAILS, PEAK_SD, PEAK_AT, N_TAILED = 2e-3, 5.0, 0.35, 6.5, 4

THREE_WEIGHTS, THREE_SDS = np.array([0.3, 0.2, 0.5]), np.array([SPIKE_SD, 1.0, 20.0])
THREE_MEANS = np.array([[0.0, 0.0, 0.0], [2.0, -1.0, 1.0], [-50.0, 0.0, 30.0]])
TAILS_CONSTANT = (
    math.lgamma(0.5 * (TAILS + N_TAILED)) - math.lgamma(0.5 * TAILS)
    - 0.5 * N_TAILED * math.log(TAILS * math.pi)
)  # fmt: skip


N_EXPERTS = 36
EXPERTS = np.random.default_rng(1).normal(size=(N_EXPERTS, N_EXPERTS)) / 6.0 + np.eye(N_EXPERTS)


@toy(N_EXPERTS)
def laplace_experts(z, grad):
    """Minus the sum of abs(EXPERTS @ z): a cusp, 900 times as long as wide; log Z is 28.3."""
    value = 0.0
    grad[:] = 0.0
    for i in range(N_EXPERTS):
        u = 0.0
        for j in range(N_EXPERTS):
            u += EXPERTS[i, j] * z[j]
        value -= abs(u)
        for j in range(N_EXPERTS):
            grad[j] -= EXPERTS[i, j] * np.sign(u)
    return value


@toy(3)
def three_scales(z, grad):
    """.3 N(0, .002^2 I) + .2 N((2, -1, 1), I) + .5 N((-50, 0, 30), 20^2 I)."""
    logs, top = np.empty(3), -np.inf
    for k in range(3):
        logs[k] = math.log(THREE_WEIGHTS[k]) - 3.0 * math.log(THREE_SDS[k]) - 2.756815599614018
        for i in range(3):
            logs[k] -= 0.5 * ((z[i] - THREE_MEANS[k, i]) / THREE_SDS[k]) ** 2
        top = max(top, logs[k])
    total = 0.0
    for k in range(3):
        total += math.exp(logs[k] - top)
    for i in range(3):
        grad[i] = 0.0
        for k in range(3):
            share = math.exp(logs[k] - top) / total
            grad[i] -= share * (z[i] - THREE_MEANS[k, i]) / THREE_SDS[k] ** 2
    return top + math.log(total)


@toy(N_TAILED)
def narrow_beside_tails(z, grad):
    """.6 of Student's t, round, and .4 of a narrow normal at (6.5, 0, 0, 0)."""
    squares, away = 0.0, 0.0
    for i in range(N_TAILED):
        squares += z[i] ** 2
        away += (z[i] - (PEAK_AT if i == 0 else 0.0)) ** 2
    power = 0.5 * (TAILS + N_TAILED)
    wide = math.log(0.6) + TAILS_CONSTANT - power * math.log1p(squares / TAILS)
    narrow = math.log(0.4) - N_TAILED * (0.5 * LOG_2PI + math.log(PEAK_SD))
    narrow -= 0.5 * away / PEAK_SD**2
    top = max(wide, narrow)
    total = top + math.log(math.exp(wide - top) + math.exp(narrow - top))
    a, b = math.exp(wide - total), math.exp(narrow - total)
    for i in range(N_TAILED):
        grad[i] = -a * 2.0 * power * z[i] / (TAILS + squares)
        grad[i] -= b * (z[i] - (PEAK_AT if i == 0 else 0.0)) / PEAK_SD**2
    return total


@toy(2)
def waves(z, grad):
    """A hundred modes and more, 1.5 apart, of weights that fall slowly."""
    total = 0.0
    for i in range(2):
        phase = 2.0 * math.pi * z[i] / 1.5
        total += 8.0 * math.cos(phase) - 0.5 * (z[i] / 6.0) ** 2
        grad[i] = -8.0 * math.sin(phase) * 2.0 * math.pi / 1.5 - z[i] / 36.0
    return total


SMALL, LARGE, SPREAD, N_IN_GROUP = -5.0, 3.0, 0.7, 8


@toy(1 + N_IN_GROUP)
def two_scales(z, grad):
    """A group whose log variance is 0.4 N(-5, 0.7^2) + 0.6 N(3, 0.7^2); centred, log Z = 0."""
    small, large = (z[0] - SMALL) / SPREAD, (z[0] - LARGE) / SPREAD
    a, b = math.log(0.4) - 0.5 * small**2, math.log(0.6) - 0.5 * large**2
    top = max(a, b)
    of_scale = top + math.log(math.exp(a - top) + math.exp(b - top))
    precision = math.exp(-z[0])
    squares = 0.0
    for i in range(1, 1 + N_IN_GROUP):
        squares += z[i] ** 2
        grad[i] = -z[i] * precision
    grad[0] = -math.exp(a - of_scale) * small / SPREAD - math.exp(b - of_scale) * large / SPREAD
    grad[0] += 0.5 * (squares * precision - N_IN_GROUP)
    constant = math.log(SPREAD) + 0.5 * (1 + N_IN_GROUP) * math.log(2.0 * math.pi)
    return of_scale - 0.5 * (squares * precision + N_IN_GROUP * z[0]) - constant


@pytest.mark.statistical
def test_two_scales_of_a_group_are_two_modes(rng):
    """From the large to the small one the density rises, and the mass falls in between."""
    target = two_scales
    log_variances = np.where(rng.random(100) < 0.4, SMALL, LARGE) + rng.normal(0, SPREAD, 100)
    group = rng.normal(size=(100, N_IN_GROUP)) * np.exp(0.5 * log_variances[:, None])
    prior_points = np.column_stack([log_variances, group])
    found = find_modes(target, np.zeros(1 + N_IN_GROUP), rng, prior_points=prior_points)
    small, large = sorted(found.fits, key=lambda fit: fit.mean[0])
    np.testing.assert_allclose([small.mean[0], large.mean[0]], [SMALL, LARGE], atol=0.3)
    # of poor fits: a funnel's
    np.testing.assert_allclose([small.log_zeta, large.log_zeta], np.log([0.4, 0.6]), atol=1.0)


@pytest.mark.statistical
def test_a_narrow_mode_beside_a_wide_one(rng):
    """A hundred of 50,000 starts lead there on average."""
    target = wide_and_narrow
    found = find_modes(target, np.zeros(DIM), rng)
    wide, narrow = sorted(found.fits, key=lambda fit: fit.mean[0])
    np.testing.assert_allclose(narrow.mean, [FAR, 0, 0, 0], atol=0.05)
    np.testing.assert_allclose(narrow.standard_deviation, NARROW, rtol=0.05)
    np.testing.assert_allclose(wide.covariance, np.eye(DIM), atol=0.02)
    assert abs(wide.log_zeta - math.log(1 - LIGHT_WEIGHT)) < 0.05
    assert abs(narrow.log_zeta - math.log(LIGHT_WEIGHT)) < 0.05
    assert found.pooled.standard_deviation[0] > 2.0
    assert found.search.start_count[0] > 20 * found.search.start_count[1] > 0
    assert found.search.n_starts > 30_000
    assert found.search.n_gradients < 60_000
    assert found.search.mass_once <= 0.5
    assert abs(found.search.log_mass) < 5 * found.search.log_mass_se + 1e-3 < 0.05


def test_a_spike_at_the_start_hides_no_mode(seed):
    """Its scales are those of all later ascents, and no measure of where these may end.

    Of 30 searches of three such targets all found all three modes.
    """
    target = three_scales
    found = find_modes(target, np.zeros(3), np.random.default_rng(seed))
    assert len(found.fits) == 3
    order = np.argsort([fit.standard_deviation[0] for fit in found.fits])
    for i, mean, sd, weight in zip(order, THREE_MEANS, THREE_SDS, THREE_WEIGHTS, strict=True):
        np.testing.assert_allclose(found.fits[i].mean, mean, atol=0.2 * sd)
        np.testing.assert_allclose(found.fits[i].standard_deviation, sd, rtol=0.2)
        assert found.fits[i].log_zeta == pytest.approx(math.log(weight), abs=0.3)


@pytest.mark.statistical
def test_a_narrow_mode_beside_heavy_tails(seed):
    """A start in the tails costs one gradient as one of a Gaussian does; ascents took seven.

    All of 40 searches find it.
    """
    target = narrow_beside_tails
    found, n_starts = 0, []
    for child in np.random.SeedSequence(seed).spawn(3):
        result = find_modes(target, np.zeros(N_TAILED), np.random.default_rng(child))
        found += bool(np.abs(result.modes - PEAK_AT * np.eye(1, N_TAILED)).max(1).min() < 0.1)
        n_starts.append(result.search.n_starts / result.search.n_gradients)
    assert found >= 2
    assert np.median(n_starts) > 0.5


@pytest.mark.statistical
def test_a_mode_whose_fit_would_cover_its_neighbour_is_kept(seed):
    """Three on a line; a Gaussian over two of them has the better ELBO than one over the third.

    Twelve searches: one in six lost it, and fits that left for both were put with the other. Now
    none of 500 has: with 95 % certainty this fails once in 14 seeds at most.
    """
    target = trimodal_1d()
    for i in range(12):
        found = find_modes(target, target.start, np.random.default_rng([seed, i]))
        for place in (-4.0, 0.5, 3.5):
            distances = [abs(fit.to_base(np.array([[place]]))[0, 0]) for fit in found.fits]
            assert min(distances) < 1.5


@toy(1)
def edge_of_a_plateau(z, grad):
    """Log of a normal of standard deviation 1000 times a sigmoid; log Z is that of half of it."""
    slope = 1.0 / (1.0 + math.exp(min(z[0], 700.0)))
    grad[0] = slope - 1e-6 * z[0]
    return -0.5e-6 * z[0] ** 2 + min(z[0], 0.0) - math.log1p(math.exp(-abs(z[0])))


@pytest.mark.statistical
def test_the_end_of_a_plateau_does_not_stand_for_it(seed):
    """The curvature there is a thousandth as wide, and misses five nats; V of it is a half.

    Of 12 searches at the edge five kept it. Of the fits that they have now, the worst of 400 misses
    3.1 nats: with 95 % certainty this fails once in eleven seeds at most.
    """
    log_z = np.log(1000.0) + 0.5 * LOG_2PI - np.log(2.0)
    for i in range(12):
        found = find_modes(edge_of_a_plateau, np.zeros(1), np.random.default_rng([seed, i]))
        assert max(fit.log_zeta for fit in found.fits) > log_z - 4.0


LIGHT = 3e-4
light_beside = two_gaussians(
    np.log([1.0 - LIGHT, LIGHT]), np.array([[0.0] * DIM, [9.0, 1.0, 0.0, 0.0]]), np.ones((2, DIM))
)


@pytest.mark.parametrize(("negligible", "n_kept"), [(10.0, 2), (-np.log(1e-3), 1), (9.0, 2)])
def test_what_is_negligible_is_left_out(negligible, n_kept, rng):
    """Of a mode with .0003 of the mass, 8.1 nats below, starts at its place say where it is."""
    points = rng.normal(size=(64, DIM)) + np.array([9.0, 1.0, 0.0, 0.0])
    found = find_modes(light_beside, np.zeros(DIM), rng, prior_points=points, negligible=negligible)
    assert len(found.fits) == n_kept
    assert found.search.n_left_out == 2 - n_kept
    assert found.one_holds_all


def test_no_mode_of_two_holds_all(bimodal, rng):
    assert not find_modes(bimodal, np.zeros(2), rng).one_holds_all


FLAT_DIM, FLAT_LESS = 12, 12.0


@toy(FLAT_DIM)
def two_flat(z, grad):
    """Two modes 8 apart along each value, whose curvatures are of five times their widths."""
    near = far = 0.0
    for i in range(FLAT_DIM):
        near -= 0.05 * z[i] ** 2 + z[i] ** 4
        far -= 0.05 * (z[i] - 8.0) ** 2 + (z[i] - 8.0) ** 4
    far -= FLAT_LESS
    top = max(near, far)
    total = top + math.log(math.exp(near - top) + math.exp(far - top))
    a, b = math.exp(near - total), math.exp(far - total)
    for i in range(FLAT_DIM):
        grad[i] = -a * (0.1 * z[i] + 4.0 * z[i] ** 3)
        grad[i] -= b * (0.1 * (z[i] - 8.0) + 4.0 * (z[i] - 8.0) ** 3)
    return total


@pytest.mark.parametrize("seed", [0, 1])
def test_curvatures_too_large_by_as_much_keep_no_mode(seed):
    """Of 12 nats less mass; by its curvature it has 6 more than the fit of the other."""
    found = find_modes(two_flat, np.full(FLAT_DIM, 0.1), np.random.default_rng(seed),
                       prior_points=np.full((20, FLAT_DIM), 8.2))  # fmt: skip
    assert len(found.fits) == found.search.n_left_out == 1
    assert np.abs(found.fits[0].mean).max() < 0.5


def test_of_a_mode_that_is_known_there_is_no_other_fit(rng):
    """The curvature takes two gradients for each coordinate, and a fit hundreds."""
    known = GaussianBase(np.array([0.2, 0.0, -0.1, 0.0]), np.array([1.1, 0.9, 1.0, 1.2]))
    effort = Effort(1, 5000)
    found = find_modes(light_beside, np.zeros(DIM), rng, effort=effort, known=known)
    again = find_modes(light_beside, np.zeros(DIM), rng, effort=effort)
    assert np.array_equal(found.fits[0].mean, known.mean)
    assert np.array_equal(found.fits[0].scale, known.scale)
    assert not np.array_equal(again.fits[0].mean, known.mean)
    # V of the fit that is known is measured at 400 draws
    assert found.search.n_gradients - 400 < again.search.n_gradients


@toy(DIM)
def holed(z, grad):
    """A standard normal, but for 0.4 % of it, as the tail of a good map may be."""
    square = 0.0
    for i in range(DIM):
        grad[i] = -z[i]
        square += z[i] * z[i]
    hole = 1e7 if z[0] > 2.65 else 0.0
    return -0.5 * square - 0.5 * DIM * LOG_2PI - hole


def test_a_hole_in_the_tail_says_nothing_of_a_known_mode(rng):
    """Of 400 draws 1.6 are in it, and nine or more once in 10,000 seeds."""
    known = GaussianBase(np.zeros(DIM), np.ones(DIM))
    found = find_modes(holed, np.zeros(DIM), rng, effort=Effort(1, 5000), known=known)
    assert -0.1 < found.fits[0].log_zeta < 0.0


@pytest.mark.parametrize("is_known", [True, False])
def test_beside_a_mode_that_is_known_no_fits_are_made(monkeypatch, rng, is_known):
    known = GaussianBase(np.zeros(DIM), np.ones(DIM)) if is_known else None
    # so that every fit is a poor one
    monkeypatch.setattr(survey, "GOOD", -1.0)
    improved = []
    monkeypatch.setattr(survey.Survey, "improve", lambda _, basin: improved.append(basin))
    found = find_modes(light_beside, np.zeros(DIM), rng, known=known)
    assert len(found.fits) > 1
    assert bool(improved) != is_known


@pytest.mark.parametrize(("known_to", "n_found"), [(0b0000, 1), (0b1010, 3)])
def test_searches_that_came_back_before_have_found_what_is_known(known_to, n_found):
    known, effort = GaussianBase(np.zeros(DIM), np.ones(DIM)), Effort(1, 5000)
    found = find_modes(
        light_beside, np.zeros(DIM), np.random.default_rng(5), effort=effort,
        known=known, known_to=known_to,
    )  # fmt: skip
    # the ascent from the start is of the first search
    assert found.search.found_by[0] == n_found


def test_the_mass_of_one_mode_is_not_weighted(far, rng):
    assert find_modes(far, np.zeros(3), rng).search.log_mass == -np.inf


@pytest.mark.slow
@pytest.mark.statistical
def test_a_narrow_mode_beside_one_that_is_not_the_first(seed):
    """Around the wide first one alone half of these searches meet it not once."""
    places = ((0.0,) * DIM, (14.0, 0.0, 0.0, 0.0), (14.0, 3.5, 0.0, 0.0))
    sds, weights = np.array([2.5, 1.0, 0.12]), np.array([0.4, 0.35, 0.25])
    log_constants = np.log(weights) - DIM * np.log(sds) - 0.5 * DIM * math.log(2.0 * math.pi)
    precisions = tuple(tuple(map(tuple, np.eye(DIM) / sd**2)) for sd in sds)
    density = compiled.mixture(tuple(log_constants.tolist()), places, precisions)
    target = SimpleNamespace(address=density.address, dim=DIM)
    n_found = 0
    for rng in np.random.default_rng(seed).spawn(10):
        found = find_modes(target, np.zeros(DIM), rng)
        ends = np.array([fit.mean for fit in found.fits])
        n_found += all(np.linalg.norm(ends - place, axis=1).min() < 0.1 for place in places)
        # starts around the second mode, which was found before, say nothing of how seldom it is
        assert found.search.start_count[1] < 0.05 * found.search.n_starts
    assert n_found >= 9


@toy(DIM)
def round_and_flat(z, grad):
    """A wide Gaussian, and beside it a mode of 4 dimensions that is flat at the top."""
    wide = flat = 0.0
    for i in range(DIM):
        off = z[i] - 14.0 if i == 0 else z[i]
        wide -= 0.5 * (z[i] / 2.5) ** 2
        flat -= off**4
    top = max(wide, flat)
    total = top + math.log(math.exp(wide - top) + math.exp(flat - top))
    share = math.exp(flat - total)
    for i in range(DIM):
        off = z[i] - 14.0 if i == 0 else z[i]
        grad[i] = -(1.0 - share) * z[i] / 2.5**2 - share * 4.0 * off**3
    return total


def test_starts_around_modes_that_are_no_gaussians_take_a_fifth_at_most(rng, monkeypatch):
    """Each takes an ascent, where most of the others take one gradient: .19 with 24 seeds."""
    spent = []
    around = sources.around_known_modes()

    def starts(survey, n):
        before = survey.n_looked
        yield from around(survey, n)
        spent.append(survey.n_looked - before)

    monkeypatch.setattr(search, "around_known_modes", lambda: starts)
    found = find_modes(round_and_flat, np.zeros(DIM), rng)
    assert len(found.fits) == 2
    assert 0.15 < sum(spent) / found.search.n_gradients < 0.2


def test_a_search_goes_on_where_the_highest_modes_were_hardly_hit(rng, monkeypatch):
    """Or where more of the mass was found once than is allowed; else not."""
    target = waves
    effort = Effort(50_000, 2000, n_for_seldom=20_000)
    starts = []
    for seldom, once in ((1, 0.0), (1000, 0.0), (1, 0.06)):
        monkeypatch.setattr(survey, "SELDOM", seldom)
        monkeypatch.setattr(survey, "mass_once", lambda *_, once=once: once)
        found = find_modes(target, np.zeros(2), rng, effort=effort).search
        starts.append(found.n_starts)
        assert found.n_gradients < 60_000
    assert min(starts[1:]) > 4 * starts[0]
    assert effort.within(2000).n_for_seldom == 1000
    assert effort.end(2, n_modes=3, seldom=True) == 20_000
    # hundreds of them were not looked at, and are no places where the mass might have no end
    assert found.rise_along == -1


def test_start_on_a_saddle_is_between_modes_and_no_mode(rng):
    """The only start; both modes of a symmetric density are uphill of it."""
    target = twins
    found = find_modes(target, np.zeros(2), rng, effort=SEARCHES["none"])
    (fit,) = found.fits
    np.testing.assert_allclose(np.abs(fit.mean), [3.0, 0.0], atol=0.05)
    np.testing.assert_allclose(fit.standard_deviation, [0.5, 2.0], rtol=0.02)
    assert found.search.n_starts == 1
    both = find_modes(target, np.zeros(2), rng)
    assert sorted(np.sign(both.modes[:, 0])) == [-1.0, 1.0]
    assert min(both.search.start_count) > 1000


@toy(2)
def twins(z, grad):
    """Equal modes at (3, 0) and (-3, 0) with standard deviations 0.5 and 2."""
    x = z[0] / 0.25
    away = abs(3.0 * x)
    grad[0] = -x + 12.0 * math.tanh(3.0 * x)
    grad[1] = -z[1] / 4.0
    fall = 0.5 * (z[0] ** 2 / 0.25 + 36.0 + z[1] ** 2 / 4.0)
    return away + math.log1p(math.exp(-2.0 * away)) - fall


def test_what_is_uphill_of_a_saddle_takes_its_place():
    """Otherwise ends of the other mode count for the saddle, from which nothing dips to them."""
    target = twins
    basins, unit = Basins(target), Coordinates.of(GaussianBase(np.zeros(2), np.ones(2)))
    for x in (0.0, 3.0, -3.0, 3.0):
        found = ascend(target, np.array([[x, 0.0]]), unit)
        assert found.converged.all()
        basins.add(np.array([[x, 0.0]]), found, unit)
    assert [(round(basin.end[0]), basin.start_count) for basin in basins.known] == [(3, 3), (-3, 1)]


@pytest.mark.parametrize("seed", range(4))
def test_a_saddle_at_the_start_hides_no_mode(seed):
    target = twins
    found = find_modes(target, np.zeros(2), np.random.default_rng(seed))
    assert sorted(np.sign(found.modes[:, 0])) == [-1.0, 1.0]


@toy(6)
def corner(z, grad):
    """Rises ever faster up to an edge in each of six coordinates."""
    total = 0.0
    for i in range(6):
        rate = 10.0 + 2.0 * i
        total += rate * math.exp(z[i]) - 0.5 * (z[i] / 3.0) ** 2 if z[i] <= 0.0 else -np.inf
        grad[i] = rate * math.exp(z[i]) - z[i] / 9.0
    return total


@pytest.mark.parametrize("child", [3, 4])
def test_where_all_places_look_like_saddles_the_best_is_kept(child):
    """Two of 24 searches, which ended in an error: none of the fits had succeeded."""
    rng = np.random.default_rng(np.random.SeedSequence(303).spawn(5)[child])
    assert find_modes(corner, np.full(6, -0.3), rng).fits


@pytest.mark.statistical
def test_an_edge_with_nothing_on_either_side_is_no_saddle(seed):
    """What is learnt there must not cost the only fit.

    Its ELBO is of the few draws within the edge: of 12 searches one was 3 nats above log Z, the
    others 2 to 8 below. Of five searches the middle one counts: false alarms 0.6 %.
    """
    target = corner
    searches = [
        find_modes(target, np.full(6, -0.3), np.random.default_rng(child))
        for child in np.random.SeedSequence(seed).spawn(5)
    ]
    rates = 10.0 + 2.0 * np.arange(6)
    z = np.linspace(-12.0, 0.0, 100_001)
    logs = rates[:, None] * np.exp(z) - 0.5 * (z / 3.0) ** 2
    log_z = np.log(np.trapezoid(np.exp(logs), z)).sum()
    assert -10.0 < np.median([found.fits[0].log_zeta for found in searches]) - log_z < 0.2


def test_many_modes_are_counted_and_the_unseen_estimated(rng):
    """The share of starts whose mode is new, in a second search, is what the first one said."""
    target = waves
    effort = Effort(400, 40_000)
    found = find_modes(target, np.zeros(2), rng, effort=effort)
    # a start in a mode's flank counts for the mode, and again for what it led to beyond
    assert 400 <= found.search.n_starts < 410
    assert len(found.search.start_count) > 60
    assert 0 < found.search.start_count.count(1) < 200
    assert len(found.fits) > 30
    # no more than these are fitted variationally, and some of those cover many modes
    narrow = np.array([fit.mean for fit in found.fits if fit.standard_deviation.max() < 0.5])
    assert len(narrow) >= len(found.fits) - MOST_REFINED
    np.testing.assert_allclose(narrow, 1.5 * np.round(narrow / 1.5), atol=0.1)
    # every mode has the same shape, so mass and rank follow from the distance alone: those next to
    # the centre have 0.97 of its mass, which estimates may exchange, the next but one 0.88
    assert np.linalg.norm(found.modes[0]) < 2.2


def test_a_maximum_without_mass_is_passed_by(rng):
    """Of the funnel: every ascent goes on to v = -22.5, where the density is highest."""
    funnel = funnel_density
    found = find_modes(funnel, np.zeros(6), rng)
    assert -2.0 < found.fits[0].log_zeta < -1.4
    assert -3.0 < found.pooled.mean[0] < 3.0
    assert len(found.fits) == 1


def test_scales_are_learned_before_anything_else(far, rng):
    """Ten million standard deviations from jitter of size one; a tenth of a nat is 0.4 of them."""
    found = find_modes(far, np.zeros(3), rng)
    (fit,) = found.fits
    np.testing.assert_allclose((fit.mean - far.mean) / far.sd, 0.0, atol=0.05)
    np.testing.assert_allclose(fit.standard_deviation, far.sd, rtol=0.02)
    assert abs(fit.log_zeta - far.log_z) < 0.01


def test_bounded_support_and_a_start_beyond_it(edge, rng):
    found = find_modes(edge, np.array([0.5, 0.0]), rng)
    (fit,) = found.fits
    assert 0.5 < fit.mean[0] < 1.6
    # the mean may be the edge itself: of 200 searches the lowest was -1.30 off, the highest 0.06
    assert -2.0 < fit.log_zeta - edge.log_z < 0.1
    with pytest.raises(BaseError, match="not finite at the start of the search, nor around"):
        find_modes(edge, np.array([-1e7, 0.0]), rng)


def test_high_dimension(rng):
    target = wide_density
    found = find_modes(target, np.zeros(WIDE_DIM), rng, effort=Effort(20, 10_000))
    (fit,) = found.fits
    assert fit.is_diagonal
    assert abs(fit.log_zeta) < 0.01


def test_nothing_to_climb(rng):
    """A constant density on the line is improper; what comes back is finite, and wide."""
    target = flat
    found = find_modes(target, np.zeros(2), rng, effort=Effort(10, 1000))
    assert len(found.fits) == 1
    assert np.all(found.pooled.standard_deviation > 10.0)


@toy(2)
def flat(z, grad):
    grad[0] = grad[1] = 0.0
    return 0.3


def test_prior_draws_lead_where_jitter_does_not(bimodal, rng):
    """From a start between far modes, with so few starts that jitter alone may miss one."""
    points = bimodal.modes[[1] * 8] + 0.2 * rng.standard_normal((8, 2))
    found = find_modes(bimodal, bimodal.modes[0], rng, prior_points=points, effort=Effort(9, 9000))
    # more where a start in a flank led beyond, which counts again
    assert sum(found.search.start_count) >= 9
    np.testing.assert_allclose(sorted(found.modes[:, 0]), sorted(bimodal.modes[:, 0]), atol=0.1)


def test_a_search_with_one_mode_ends_early_unless_it_is_thorough(gaussian, bimodal, rng):
    def gradients(target, effort):
        return find_modes(target, target.mean, rng, effort=effort).search.n_gradients

    one, two = gaussian, SimpleNamespace(**vars(bimodal), mean=bimodal.modes[0])
    most = 10_000
    assert 2000 < gradients(one, Effort(most, most, 2000)) < 3500
    assert gradients(two, Effort(most, most, 2000)) > most
    assert gradients(one, Effort(most, most)) > most - 1000
    assert SEARCHES["thorough"].n_for_one_mode > SEARCHES["thorough"].n_gradients
    assert SEARCHES["default"].n_for_one_mode < SEARCHES["default"].n_gradients


def test_what_globals_took_is_not_spent_again_on_their_one_mode():
    found = {n: SEARCHES["default"].for_one_mode(n) for n in (0, 6000, 40_000)}
    assert [effort.n_gradients for effort in found.values()] == [15_000, 9000, 5000]
    assert all(effort.most == 2 * effort.n_gradients for effort in found.values())
    assert SEARCHES["default"].within(4000).for_one_mode(0).n_gradients == 2000


HOLDS_NOTHING = 30.0
lonely = two_gaussians(
    np.array([0.0, -HOLDS_NOTHING]), np.array([[0.0] * 2, [9.0, 6.0]]), np.array([[1.0] * 2] * 2)
)


def test_a_mode_that_holds_nothing_does_not_prolong_a_search(rng):
    target = lonely
    found = find_modes(target, np.zeros(2), rng)
    assert found.search.n_left_out == 1
    assert found.search.start_count[1] > 5
    assert found.search.n_gradients < SEARCHES["default"].end(2, n_modes=1) + 1500


def test_same_seed_same_search(bimodal):
    first, again, other = (
        find_modes(bimodal, np.zeros(2), np.random.default_rng(s)) for s in (3, 3, 4)
    )
    assert first.fits == again.fits
    assert first.search == again.search
    assert first.search != other.search


@pytest.mark.parametrize("source", SOURCES)
def test_each_source_can_be_left_out(bimodal, rng, source):
    """Without any of them both modes of an easy target are found."""
    kept = [name for name in SOURCES if name != source]
    points = rng.normal(size=(64, 2)) * 5.0
    found = find_modes(bimodal, np.zeros(2), rng, prior_points=points, sources=kept)
    assert len(found.fits) == 2
    assert np.logaddexp(*(fit.log_zeta for fit in found.fits)) == pytest.approx(-2.0, abs=0.1)


@pytest.mark.parametrize("seed", range(2))
def test_a_curvature_replaces_no_better_fit(seed):
    """Of a cusp, whose curvature says nothing of the mass, and is taken after the fit."""
    exact = N_EXPERTS * np.log(2.0) - np.linalg.slogdet(EXPERTS)[1]
    found = find_modes(laplace_experts, np.zeros(N_EXPERTS), np.random.default_rng(seed))
    # the best Gaussian misses 2.1; the curvature of a cusp 55
    assert exact - 5.0 < found.fits[0].log_zeta < exact


EXCHANGE = Orbit(np.array([[0, 1], [1, 0]]), np.empty((0, 2)))
MIDDLE = two_gaussians(
    np.log([0.05, 0.475, 0.475]),
    np.array([[0.0, 0.0], [7.0, -3.0], [-3.0, 7.0]]),
    np.array([[1.0, 1.0], [1.0, 0.5], [0.5, 1.0]]),
)
"""A mode and its image, and in the middle one that is its own."""


def test_copies_are_divided_out_though_the_first_mode_is_its_own(rng):
    """Mass of a mode and its image is 19 times that of the mode where a search begins."""
    given = []

    def exchanges(density, z):
        given.append(z)
        return EXCHANGE

    found = find_modes(MIDDLE, np.zeros(2), rng, exchanges=exchanges)
    assert found.orbit is EXCHANGE
    assert len(found.fits) == 2
    assert len(given) == 2
    # with one of them there is nothing to divide out
    alone = two_gaussians(np.zeros(1), np.zeros((1, 2)), np.ones((1, 2)))
    assert find_modes(alone, np.zeros(2), rng, exchanges=exchanges).orbit is None


def test_copies_are_divided_out_between_what_one_source_proposes(rng, monkeypatch):
    """Lines are all of one batch, and would find six copies of each mode of three labels."""
    orbits = []

    def proposes(survey, _):
        yield Proposal.at(np.array([[6.0, -3.0]]))
        orbits.append(survey.orbit)

    monkeypatch.setattr(search, "along_lines", lambda _: proposes)
    points = np.zeros((4, 2))
    find_modes(MIDDLE, points[0], rng, prior_points=points, exchanges=lambda *_: EXCHANGE)
    assert orbits[0] is EXCHANGE


@pytest.mark.parametrize(
    ("dim", "end", "mean", "divided"),
    [
        (2, [1.1, 0.0], [1.1, 0.0], True),
        (2, [0.9, 0.0], [0.9, 0.0], False),
        (2, [0.0, 0.0], [3.0, 0.0], False),
        (512, 3.0, 3.0, False),
    ],
    ids=["moved", "hardly moved", "its own image with a poor fit", "too many numbers"],
)
def test_maxima_tell_whether_copies_are_divided_out(dim, end, mean, divided):
    order = np.arange(dim)
    exchange = Orbit(np.array([order, order[::-1]]), np.empty((0, dim)))
    place, centre = (np.append(x, np.zeros(dim - np.size(x))) for x in (end, mean))
    fit = SimpleNamespace(mass=0.0, base=GaussianBase(centre, np.ones(dim)))
    known = Basin(place, place, value=0.0, converged=True, fit=fit)
    looked = SimpleNamespace(orbit=None, basins=SimpleNamespace(modes=[known]), density=None)
    _dividing_out(lambda *_: exchange)(looked)
    assert (looked.orbit is exchange) == divided


def test_exchanges_are_those_of_the_mode_that_they_move(rng):
    """A wide mode looks alike under an exchange that leads the other to where nothing is."""
    exchange = Orbit(np.array([[0, 1], [1, 0]]), np.empty((0, 2)))
    target = two_gaussians(
        np.log([0.3, 0.7]), np.array([[0.0, 0.0], [9.0, -4.0]]), np.array([[1.0] * 2, [0.3] * 2])
    )
    asked = []

    def exchanges(density, z):
        asked.append(z.mean(axis=0))
        there = density_at(density.address, exchange.images(z)[1])[0]
        return exchange if np.allclose(density_at(density.address, z)[0], there) else None

    found = find_modes(target, np.zeros(2), rng, exchanges=exchanges)
    assert found.orbit is None
    assert len(found.fits) == 2
    # of each mode that was the best one, once
    assert len(asked) == 2
    np.testing.assert_allclose(asked, [[0.0, 0.0], [9.0, -4.0]], atol=3.0)
