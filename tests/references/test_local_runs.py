"""Fits that are bent by short runs in their mode, and what then stands for what."""

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from tests.references.test_necks import FUNNELS

from pymc_tempering import testing
from pymc_tempering.engine.explorers.gist import Gist
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.transport import MEAN, NOTHING, Terms, TransportMap
from pymc_tempering.references import bending, local_runs
from pymc_tempering.references.coverage import Search
from pymc_tempering.references.funnels import DEEP
from pymc_tempering.references.prepared import (
    CURVED,
    GAUSSIAN_FITS,
    MAPPED,
    MAPPED_ROUGHLY,
    NEARLY_GAUSSIAN,
    Prepared,
)
from pymc_tempering.references.transport_maps import fit_maps
from tests.references.conftest import two_gaussians

BANANA = testing.banana()
PEAK = GaussianBase(BANANA.mean, np.sqrt(np.diagonal(BANANA.cov)), -3.0)


def prepared(*fits, poorly_fitted=()):
    return Prepared(fits[0], fits, Search((9,) * len(fits), 0, 0, 1000, 0.0), poorly_fitted)


@pytest.fixture
def mapped(rng):
    return fit_maps(BANANA, prepared(PEAK), rng)


@pytest.mark.statistical
def test_a_banana_is_bent(mapped, rng):
    """Log Z by 4000 draws of the mixture that a chain would have, within 5 standard errors.

    Weights of the shape alone have no bound; with the defensive component they have.
    """
    (shape,) = mapped.shapes
    assert isinstance(shape, TransportMap)
    assert mapped.kind == MAPPED
    coordinates = Coordinates.of(mapped.pooled)
    mixture = Mixture((shape,), np.ones(1))
    z, component = mixture.draw(4000, coordinates, rng)
    log_weights = BANANA.log_density(z) - mixture.log_density(z, coordinates) - BANANA.log_z
    weights = np.exp(log_weights)
    error = weights.std() / np.sqrt(weights.size)
    assert abs(weights.mean() - 1.0) < 5.0 * error
    assert error < 0.05
    # the shape's own part of the weights: a Gaussian's would be spread over tens of nats
    own = log_weights[component == 1]
    assert np.mean(np.abs(own - np.median(own)) < 1.0) > 0.8
    assert shape.log_zeta == pytest.approx(BANANA.log_z, abs=0.5)
    assert 500 < mapped.search.n_gradients - 1000 < 30_000


@pytest.mark.statistical
def test_a_run_that_finds_necks_goes_on_with_steps_of_local_sizes(rng, monkeypatch):
    """Of ten runs on it one ended with a bend before necks were seen."""
    explorers = []

    class Watched(local_runs.Ladder):
        def run(self, n_scans, rng, **options):
            explorers.append(self.settings)
            return super().run(n_scans, rng, **options)

    monkeypatch.setattr(local_runs, "Ladder", Watched)
    target = SimpleNamespace(address=FUNNELS[0].address, dim=6)
    fit = GaussianBase(np.zeros(6), np.array([1.0] * 5 + [3.0]), -3.0)
    found = fit_maps(target, prepared(fit), rng)
    assert found.search.funnel_depth >= DEEP
    assert explorers[0] == Hamiltonian()
    assert explorers[-1] == Gist()


def test_the_gaussian_of_a_bent_fit_has_its_moments(mapped, rng):
    """Of a thousand draws, to a tenth of the scale and a fifth of the variances."""
    (fit,) = mapped.fits
    assert fit is mapped.pooled
    z = mapped.shapes[0].from_base(rng.normal(size=(20_000, 2)))
    np.testing.assert_allclose(fit.mean, z.mean(axis=0), atol=0.2)
    np.testing.assert_allclose(np.diagonal(fit.covariance), z.var(axis=0), rtol=0.3)
    # where replicas start is inside, which the mean may not be
    np.testing.assert_array_equal(mapped.modes, mapped.shapes[0].from_base(np.zeros((1, 2))))


def test_what_is_a_gaussian_is_left_alone(rng):
    target = testing.correlated_gaussian()
    fit = GaussianBase.from_moments(target.mean, target.cov, target.log_z)
    found = fit_maps(target, prepared(fit), rng)
    assert found.kind == GAUSSIAN_FITS
    assert found.shapes == found.fits == (fit,)
    assert found.search.n_gradients == 1000 + 400 + 4 * target.dim


def test_what_bends_little_stays_straight(rng):
    """Two rounded marginals, and nothing that one says of the other."""
    target = testing.hard_edge_gaussian()
    fit = GaussianBase.from_moments(target.mean, target.cov, target.log_z)
    found = fit_maps(target, prepared(fit), rng)
    assert found.kind in (GAUSSIAN_FITS, NEARLY_GAUSSIAN)
    assert found.shapes == (fit,)


@pytest.mark.parametrize(
    ("most", "kind"), [(1.0, GAUSSIAN_FITS), (0.65, NEARLY_GAUSSIAN), (0.1, CURVED)]
)
@pytest.mark.statistical
def test_how_often_swaps_with_a_straight_fit_fail_says_how_good_it_is(
    most, kind, seed, monkeypatch
):
    """Three in ten do of a skewed target, here with three opinions on that.

    A bend is kept all the same in three of 25 searches; that it is in four of five is a false alarm
    in one of a thousand seeds.
    """
    monkeypatch.setattr(local_runs, "GOOD_AS_IT_IS", 0.4 if most == 1.0 else 0.0)
    monkeypatch.setattr(local_runs, "GAUSSIAN_ENOUGH", min(most, 0.65))
    monkeypatch.setattr(local_runs, "GOOD_ENOUGH", 0.0)  # no bend is
    monkeypatch.setattr(bending, "MOST_DIM_OF_THIRD_ORDER", 0)
    target = testing.skewed_gamma()
    fit = GaussianBase.from_moments(target.mean, target.cov, target.log_z)
    rngs = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(5))
    found = [fit_maps(target, prepared(fit), rng) for rng in rngs]
    assert sum((each.kind, each.shapes) == (kind, (fit,)) for each in found) >= 2


def test_a_run_ends_where_a_bend_could_hardly_gain(rng, monkeypatch):
    """Three in ten swaps with the straight fit fail on the one, seven in ten on the other."""
    monkeypatch.setattr(local_runs, "VERY_GOOD", 0.5)
    monkeypatch.setattr(bending, "MOST_DIM_OF_THIRD_ORDER", 0)
    monkeypatch.setattr(local_runs, "BUDGETS", ((0.5, 800), *local_runs.BUDGETS[1:]))
    for target in (testing.skewed_gamma(), BANANA):
        fit = GaussianBase.from_moments(target.mean, target.cov, target.log_z)
        found = fit_maps(target, prepared(fit), rng)
        assert (found.shapes == (fit,)) == (target is not BANANA)
        assert (found.search.n_gradients < 1000 + 2000) == (target is not BANANA)


@pytest.mark.parametrize(
    ("gaussian_fit", "lowest", "given", "kind"),
    [
        (0.3, 1.0, {"last"}, GAUSSIAN_FITS),
        (0.6, 0.5, {"last"}, NEARLY_GAUSSIAN),
        (0.98, 0.5, {"best", "last"}, MAPPED),
        # barriers of 1.64 and 1.15, and of 1.64 and 1.45
        (0.98, 0.85, {"last"}, MAPPED_ROUGHLY),
        (0.98, 0.96, {"last"}, CURVED),
        (0.98, 0.85, set(), CURVED),
        (1.0, 1.0, {"last"}, CURVED),
    ],
)
def test_what_levels_gain_from_a_bent_fit_says_whether_it_is_kept(
    gaussian_fit, lowest, given, kind
):
    of = {name: GaussianBase([0.0, 0.0], [1.0, 1.0]) for name in given}
    found, shape = local_runs._verdict(of.get("best"), of.get("last"), gaussian_fit, lowest)
    assert found == kind
    wanted = {MAPPED: "best", MAPPED_ROUGHLY: "last"}.get(kind)
    assert shape is (of[wanted] if wanted else None)


def test_a_run_ends_when_more_draws_would_bend_the_fit_as_they_did(rng, monkeypatch):
    """A fit that does not help, however many draws made it, is made of few times as many each."""
    target = testing.banana()
    useless = TransportMap(
        target.mean + 40.0, np.eye(2), Terms(np.array([[1, MEAN, 0, 0]]), np.array([1.0]))
    )
    sizes = []

    def map_of_draws(draws, n):
        sizes.append(n)
        return useless

    monkeypatch.setattr(local_runs, "map_of_draws", map_of_draws)
    monkeypatch.setattr(local_runs, "n_independent", lambda draws: 0.5 * len(draws))
    fit = GaussianBase(target.mean, np.array([0.2, 0.2]))
    run = local_runs.map_by_run(target, fit, rng, np.inf, False)
    assert run.kind == CURVED
    assert run.shape is None
    assert sizes[-2] <= local_runs.ENOUGH_DRAWS < sizes[-1]
    assert (np.divide(sizes[1:], sizes[:-1]) >= local_runs.MORE_DRAWS).all()


def test_fits_inside_of_a_bent_one_are_dropped(rng):
    """So are those where the density is no higher than it says; what it does not know is kept."""
    inside = GaussianBase(PEAK.mean + 0.1, 3.0 * PEAK.scale, -9.0)
    nothing = GaussianBase(PEAK.mean - np.array([0.0, 3.0]), PEAK.scale, -9.0)
    found = fit_maps(BANANA, prepared(PEAK, inside, nothing, poorly_fitted=(inside, nothing)), rng)
    assert len(found.fits) == len(found.shapes) == 1
    assert found.poorly_fitted == ()


@pytest.mark.parametrize(("log_weight", "n_kept"), [(-9.0, 1), (-4.0, 2)])
def test_straight_fits_without_mass_go_where_another_was_bent(log_weight, n_kept, rng):
    """Whether a thousandth of the bent one's mass or more is in a place that it does not know."""
    means = np.array([[0.0, 0.0], [30.0, 0.0]])
    density = two_gaussians(np.array([0.0, log_weight]), means, np.ones((2, 2)))
    target = SimpleNamespace(address=density.address, dim=2)
    gaussian_fit = GaussianBase(means[1], np.ones(2), log_weight)
    bend = Terms(np.array([[1, MEAN, 0, NOTHING]]), np.array([1e-3]))
    shape = TransportMap(means[0], np.eye(2), bend)
    known = bending._Known(target, rng)
    known.add(shape)
    fits = replace(
        prepared(GaussianBase(means[0], np.ones(2), 0.0), gaussian_fit),
        shapes=(shape, gaussian_fit),
    )
    found, n_evaluations = bending._with_shapes(target, fits, known, rng)
    assert len(found.fits) == len(found.shapes) == n_kept
    assert n_evaluations > 400


def test_few_gradients_bend_nothing(rng):
    found = prepared(PEAK)
    assert fit_maps(BANANA, found, rng, most=10_000) == replace(found)
    most = 12_000
    again = fit_maps(BANANA, found, rng, most=most)
    assert 1000 < again.search.n_gradients <= 1000 + most


def test_a_run_that_leads_nowhere_ends(rng, monkeypatch):
    """A curve that no such map straightens: chains go on trying."""
    monkeypatch.setattr(local_runs, "MOST_GRADIENTS", 3000)
    monkeypatch.setattr(local_runs, "BUDGETS", ((1.0, 3000),))
    monkeypatch.setattr(local_runs, "map_of_draws", lambda draws, n: None)
    narrow = GaussianBase(PEAK.mean, 0.02 * PEAK.scale, -9.0)
    found = fit_maps(BANANA, prepared(narrow), rng)
    assert found.kind == CURVED
    assert found.shapes == (narrow,)
    assert found.search.n_gradients < 1000 + 3000 + 5000


class Counted:
    """A target that counts its evaluations, in Python."""

    def __init__(self, target):
        self.dim, self.n = target.dim, 0
        pointer = ctypes.POINTER(ctypes.c_double)

        def density(z, grad):
            self.n += 1
            value, gradient = target.value_and_grad(np.array(z[: self.dim]))
            for i in range(self.dim):
                grad[i] = gradient[i]
            return value

        # kept, or there is nothing at the address
        self._called = ctypes.CFUNCTYPE(ctypes.c_double, pointer, pointer)(density)
        self.address = ctypes.cast(self._called, ctypes.c_void_p).value


@pytest.mark.parametrize("inside", [False, True])
def test_every_evaluation_is_counted(inside, rng):
    """Of checks, runs, and of fits that lie inside of what was bent."""
    target = Counted(BANANA)
    fits = [PEAK, GaussianBase(PEAK.mean + 0.1, 3.0 * PEAK.scale, -9.0)] if inside else [PEAK]
    found = fit_maps(target, prepared(*fits), rng)
    assert found.kind == MAPPED
    assert found.search.n_gradients - 1000 == target.n


def test_a_mode_that_a_bent_shape_does_not_know_is_kept(rng):
    """A narrow Gaussian beside the banana, of a hundredth of its mass."""
    other = GaussianBase(PEAK.mean + np.array([0.0, 60.0]), 0.1 * PEAK.scale, -9.0)

    def value_and_grad(z):
        banana, slope = BANANA.value_and_grad(z)
        beside = np.log(0.01) + BANANA.log_z + float(other.log_density(z))
        share = 1.0 / (1.0 + np.exp(np.clip(banana - beside, -700.0, 700.0)))
        push = -(z - other.mean) / other.scale**2
        return float(np.logaddexp(banana, beside)), (1.0 - share) * slope + share * push

    target = Counted(SimpleNamespace(dim=2, value_and_grad=value_and_grad))
    found = fit_maps(target, prepared(PEAK, other, poorly_fitted=(other,)), rng)
    assert isinstance(found.shapes[0], TransportMap)
    assert found.shapes[1] is found.poorly_fitted[0] is other


@pytest.mark.statistical
def test_heavy_tails_are_fitted_where_swaps_succeed_without(rng):
    """A Gaussian swaps in eight of ten scans, and hardly a draw is in the tails.

    A run keeps no shape for one seed in forty. False alarms: 1.5e-4.
    """
    target = testing.heavy_tail()
    fit = GaussianBase(target.mean, np.array([1.0, 2.2]), target.log_z)
    found = [fit_maps(target, prepared(fit), r) for r in rng.spawn(5)]
    mapped = [each for each in found if each.kind == MAPPED]
    assert len(mapped) >= 3
    for each in mapped:
        assert 1.0 <= each.shapes[0].residuals.dof.min() <= 3.0
        assert each.search.n_gradients - 1000 < 20_000
