"""Modes on ascent paths, in which none ends, and images of modes, to which no start led."""

import ctypes
import math
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from densities import toy
from scipy import integrate, stats

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.ascent import Ascents
from pymc_tempering.references.basins import Basin, Basins
from pymc_tempering.references.local import LocalFit
from pymc_tempering.references.prepared import unwatched
from pymc_tempering.references.search import Effort, find_modes
from pymc_tempering.references.sources import (
    N_PATHS,
    along_lines,
    images_of_modes,
    on_ascent_paths,
)
from pymc_tempering.references.starts import evaluated
from pymc_tempering.references.survey import Survey
from pymc_tempering.testing import trimodal_1d
from tests.references.conftest import LOG_2PI, two_gaussians

N_GROUPS, N_RIDGES = 12, 8
LOG_SCALES, SPREADS = np.log([0.04, 1.2]), np.array([0.4, 0.3])
Y = 0.6 * np.array([1.9, -0.7, 1.2, -1.4, 0.3, -0.2, 1.6, -1.1, 0.8, -1.7, 0.5, -1.0])


@toy(N_GROUPS + 1)
def pooled(z, grad):
    """Group means with unit noise around zero; their log scale comes first, and has two modes."""
    terms = np.empty(2)
    slopes = np.empty(2)
    for k in range(2):
        u = (z[0] - LOG_SCALES[k]) / SPREADS[k]
        terms[k] = math.log(0.5) - 0.5 * (u * u + LOG_2PI) - math.log(SPREADS[k])
        slopes[k] = -u / SPREADS[k]
    top = max(terms[0], terms[1])
    total = top + math.log(math.exp(terms[0] - top) + math.exp(terms[1] - top))
    grad[0] = math.exp(terms[0] - total) * slopes[0] + math.exp(terms[1] - total) * slopes[1]
    precision = math.exp(-2.0 * z[0])
    for i in range(N_GROUPS):
        mean = z[i + 1]
        off = Y[i] - mean
        total -= 0.5 * (mean * mean * precision + off * off) + z[0] + LOG_2PI
        grad[0] += mean * mean * precision - 1.0
        grad[i + 1] = off - mean * precision
    return total


TARGET = pooled


def log_masses():
    """Of either half of the log scales, by quadrature, all else integrated out."""

    def density(log_scale):
        prior = stats.norm.pdf(log_scale, LOG_SCALES, SPREADS).mean()
        return prior * stats.norm.pdf(Y, 0.0, math.hypot(1.0, math.exp(log_scale))).prod()

    middle = LOG_SCALES.mean()
    halves = ((middle - 5.0, middle), (middle, middle + 5.0))
    return np.log([integrate.quad(density, *half, epsabs=0.0)[0] for half in halves])


def prior_draws(rng, n):
    log_scale = rng.normal(LOG_SCALES[which := rng.integers(2, size=n)], SPREADS[which])
    means = np.exp(log_scale)[:, None] * rng.normal(size=(n, N_GROUPS))
    return np.column_stack([log_scale, means])


@pytest.mark.statistical
def test_a_mode_that_every_ascent_goes_by_has_a_fit_of_its_own(rng):
    """Two in a hundred searches look at six paths in the same half: of twelve three do in 1e-3."""
    n_found = 0
    for _ in range(12):
        draws = prior_draws(rng, 128)
        found = find_modes(TARGET, np.zeros(N_GROUPS + 1), rng, prior_points=draws)
        search = found.search
        assert search.n_images == 0
        if len(found.fits) == 1:
            continue
        n_found += 1
        narrow, wide = sorted(found.fits, key=lambda fit: fit.mean[0])
        np.testing.assert_allclose([narrow.mean[0], wide.mean[0]], LOG_SCALES, atol=1.0)
        # an ELBO is below, by half of the variance that it misses
        for fit, log_mass in zip((narrow, wide), log_masses(), strict=True):
            assert log_mass - 1.5 < fit.log_zeta < log_mass + 0.1
        assert min(search.start_count[:2]) > 0
        assert search.mass_once < 0.01
    assert n_found >= 10


def fits_on_paths(target, starts, rng, most=np.inf):
    """Fits from starts that are given, where all ascents end outside of the one fit."""
    dim = starts.shape[1]
    survey = Survey(target, rng, Effort(1000, 50_000, most=4.0 * most), unwatched)
    end = np.concatenate([[-9.0], np.zeros(dim - 1)])
    place = Basin(end, end, 0.0, True, 70, searches=5)
    place.fit = LocalFit(GaussianBase(np.full(dim, 1e3), np.ones(dim), 0.0), 2.0, 0)
    survey.basins.known.append(place)
    around = SimpleNamespace(fresh=lambda n, _: (np.zeros((n, dim)), starts[:n]))
    return list(on_ascent_paths(survey, [], around)), survey.spent["fits"]


def test_gradients_are_those_left(rng):
    """As many paths are fitted as that is enough for."""
    starts = prior_draws(rng, N_PATHS)
    spent = []
    for most in (3e3, 5e3, np.inf):
        passed, n_gradients = fits_on_paths(TARGET, starts, rng, most)
        assert n_gradients <= most + 1000
        spent.append(n_gradients)
    assert spent == sorted(spent)
    assert 4 <= len(passed) <= N_PATHS
    assert len({fit.elbo for fit in passed}) <= 3
    assert all((fit.start_count, fit.searches) == (1, 5) for fit in passed)
    draws = prior_draws(rng, 64)
    effort = Effort(200, 3000, most=6000.0)
    found = find_modes(TARGET, np.zeros(N_GROUPS + 1), rng, prior_points=draws, effort=effort)
    assert found.search.n_gradients <= effort.most


def test_on_a_line_no_ascent_passes_by_a_mode(rng):
    target = SimpleNamespace(address=trimodal_1d().address, dim=1)
    assert fits_on_paths(target, np.zeros((6, 1)), rng) == ([], 0)


@toy(2 * N_RIDGES)
def ridges(z, grad):
    """Normals of scale 10, and tenths of their squares with scales of 0.3."""
    total = 0.0
    for i in range(0, 2 * N_RIDGES, 2):
        off = (z[i + 1] - 0.1 * z[i] * z[i]) / 0.3
        grad[i] = off / 0.3 * 0.2 * z[i] - 0.01 * z[i]
        grad[i + 1] = -off / 0.3
        total -= 0.5 * (off * off + 0.01 * z[i] * z[i])
    return total


def test_pieces_of_ridges_are_no_modes_on_a_path(rng):
    """Each path has a piece of its own, of which there is no end."""
    target = ridges
    starts = rng.normal(size=(N_PATHS, N_RIDGES, 2)) * np.array([10.0, 20.0])
    passed, n_gradients = fits_on_paths(target, starts.reshape(N_PATHS, -1), rng)
    assert passed == []
    assert n_gradients > 1000


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
    target = density
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


@toy(2)
def four(z, grad):
    """Unit Gaussians at the four points (4, 6) with any signs."""
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

    target = four
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
    target = alike
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
    assert [basin.start_count for basin in known.known] == [0, 15, 9]


def test_modes_are_linked_through_others(known):
    known.known[2].value = 0.0
    known.link(0, 1)
    known.link(2, 1)
    assert [basin.start_count for basin in known.known] == [0, 0, 21]
    assert [basin.image_of for basin in known.known] == [2, 2, None]


def test_ascents_from_images_are_not_counted(known):
    found = Ascents(MODES[::-1], np.zeros(2), 9, np.ones(2, dtype=np.bool_), *[MODES[:0]] * 2)
    unit = Coordinates.of(GaussianBase(np.zeros(2), np.ones(2)))
    assert known.add(MODES, found, unit, counted=False) == [0, 1]
    assert [basin.start_count for basin in known.known] == [5, 7, 9]


def test_images_that_belong_to_known_modes_are_not_ascended_from(known):
    def nearly_exchanged(z):
        return exchanged(z) + 0.05

    target = alike
    survey = Survey(target, np.random.default_rng(1), Effort(1000, 50_000), unwatched)
    del known.known[2]
    survey.basins = known
    for i, basin in enumerate(known.known):
        basin.measured = True
        survey.known.add(i, GaussianBase(MODES[i], SCALES[i]), 0.1)
    for _ in range(2):
        for proposal in images_of_modes(nearly_exchanged)(survey, 16):
            survey.follow(proposal)
        # each was looked at
        assert survey.spent["images"] == 2
    assert [basin.start_count for basin in known.known] == [12, 0]


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


def test_a_search_counts_what_looks_for_rounding_noise_take(rng):
    """At 90 these are 30 places on the way from zero, of which one was counted."""
    pointer, calls = ctypes.POINTER(ctypes.c_double), []
    kind = ctypes.CFUNCTYPE(ctypes.c_double, pointer, pointer)
    inner = kind(apart.address)
    spied = kind(lambda z, grad: calls.append(1) or inner(z, grad))
    address = ctypes.cast(spied, ctypes.c_void_p).value
    found = find_modes(SimpleNamespace(address=address, dim=2), FAR[0], rng, effort=FEW)
    assert 0 <= len(calls) - found.search.n_gradients <= 1


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


def test_on_a_line_through_a_mode_another_stands_out():
    """A needle on the line along the first coordinate; the mode itself is not proposed again."""
    needle = two_gaussians(
        np.log([0.7, 0.3]), np.array([[0.0, 0.0], [3.0, 0.2]]), np.array([[1.0, 0.5], [0.02, 0.5]])
    )
    survey = with_one_mode(needle, np.array([1.0, 0.5]))
    starts = along_lines(np.tile(np.linspace(-5.0, 5.0, 512)[:, None], 2))
    # not before five times as much is spent on other starts
    assert not list(starts(survey, 1))
    survey.n_looked = 5 * 1024
    (proposal,) = starts(survey, 1)
    np.testing.assert_allclose(proposal.centres[-1], [3.0, 0.2], atol=0.01)
    assert (proposal.centres[:, 0] > 2.5).all()
    assert not proposal.counted
    # both lines, the mode's own place on each, and some between values around the needle
    assert 1026 < survey.spent["ascents"] < 1100
    assert not list(starts(survey, 1))


def with_one_mode(density, scale):
    """What a search knows that has found one mode at zero, from five starts."""
    start = np.zeros(scale.size)
    height = float(evaluated(density, start[None]).values[0])
    mode = Basin(start, start, height, converged=True, start_count=5, measured=True)
    mode.curvature = LocalFit(GaussianBase(start, scale, 0.0), 0.0)
    basins = SimpleNamespace(known=[mode], modes=[mode], highest=height)
    return SimpleNamespace(
        density=density, basins=basins, spent=Counter(), n_modes=2, n_looked=0,
        effort=Effort(1, 1),
    )  # fmt: skip


TIMES = np.random.default_rng(0).uniform(-30.0, 30.0, 50)


@toy(2)
def sinusoid(z, grad):
    """A frequency of thousands in a prior of scale 10, and an amplitude; the right one is 23.1."""
    total = -0.5 * (z[0] * z[0] / 100.0 + z[1] * z[1])
    grad[0], grad[1] = -z[0] / 100.0, -z[1]
    for t in TIMES:
        wave = math.cos(z[0] * t)
        off = (math.cos(23.1 * t) - z[1] * wave) / 0.3
        total -= 0.5 * off * off
        grad[0] -= off * z[1] * math.sin(z[0] * t) * t / 0.3
        grad[1] += off * wave / 0.3
    return total


def test_what_gradients_promise_finds_a_frequency_between_the_values_of_a_line():
    """From next to no amplitude, where no frequency is high; ascents move little along the line."""
    survey = with_one_mode(sinusoid, np.array([10.0, 1.0]))
    survey.basins.known[0].end = np.array([0.5, 0.02])
    survey.n_looked = 10_000
    values = np.linspace(-30.0, 30.0, 301)
    first, *_ = along_lines(np.tile(values[:, None], 2))(survey, 1)
    # each of the values is a tenth off, and a peak a thirtieth wide
    assert np.abs(np.abs(first.centres[:, 0]) - 23.1).min() < 0.03
    assert first.coordinates.base.scale[0] < 0.2


@toy(2)
def traps(z, grad):
    """Narrow places at 1 to 20, steep and low, and a wide one at 21; the first mode is at zero."""
    place = min(max(round(z[0]), 0), 21)
    centre, scale, low = (0.0, 1.0, 0.0) if place == 0 else (1.0, 0.1, 5.0)
    if place == 21:
        centre, scale, low = 10.0, 1.0, 0.0
    x, y = (z[0] - place) / 0.2, (z[1] - centre) / scale
    grad[0], grad[1] = -x / 0.2, -y / scale
    return -0.5 * (x * x + y * y) - low


def test_what_promises_most_on_a_line_is_told_by_a_few_steps_uphill():
    """A gradient in the narrow ones promises a hundred times what their own width allows."""
    survey = with_one_mode(traps, np.array([0.2, 1.0]))
    survey.n_looked = 10_000
    values = np.linspace(-0.5, 21.5, 441)
    first, *_ = along_lines(np.tile(values[:, None], 2))(survey, 1)
    assert len(first.centres) <= 8
    np.testing.assert_allclose(first.centres[0], [21.0, 10.0], atol=0.1)


def test_lines_are_through_the_highest_mode_and_in_turn_through_what_starts_led_to():
    """All that lines lead to may be one family: two planets that nearly cancel, at any period."""
    survey, order = with_one_mode(traps, np.ones(2)), list[float]()
    survey.basins.known = survey.basins.modes = [
        Basin(np.zeros(2), np.zeros(2), value, converged=True, start_count=n)
        for value, n in ((1.0, 0), (5.0, 0), (4.0, 0), (0.0, 3), (3.0, 2))
    ]
    survey.basins.highest, survey.n_looked, survey.effort = 5.0, 10**6, Effort(1, 10**7)
    survey.measure = lambda mode: order.append(mode.value)
    assert not list(along_lines(np.zeros((1, 2)))(survey, 1))
    assert order == [5.0, 3.0, 4.0, 0.0, 1.0]
