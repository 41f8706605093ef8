"""Which fits get another shape, from gradients or from a short run, and which stay."""

import ctypes
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.explorers.gist import Gist
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.transport import MEAN, NOTHING, SKEW, Terms, TransportMap
from pymc_tempering.references import local_runs, transport_maps
from pymc_tempering.references.local import Shape
from pymc_tempering.references.local_runs import DEEP
from pymc_tempering.references.prepared import Prepared, Search
from pymc_tempering.references.quality import COARSE, EXACT, GOOD, evaluate_elbo
from pymc_tempering.references.transport_maps import fit_maps
from tests.references.conftest import two_gaussians
from tests.references.test_funnels import FUNNELS
from tests.references.test_third_order import AT_MAXIMUM, REGRESSION, gamma_density

BANANA = testing.banana()
PEAK = GaussianBase(BANANA.mean, np.sqrt(np.diagonal(BANANA.cov)), -3.0)


def prepared(*fits, poorly_fitted=()):
    search = Search(start_count=(9,) * len(fits), n_gradients=1000)
    return Prepared(fits[0], fits, search, poorly_fitted)


def has_map(found):
    return isinstance(found.shapes[0], TransportMap)


@pytest.fixture
def mapped(rng):
    return fit_maps(BANANA, prepared(PEAK), rng)


@pytest.mark.statistical
def test_a_banana_has_a_map(mapped, rng):
    """Log Z by 4000 draws of the mixture that a chain would have, within 5 standard errors.

    Weights of the shape alone have no bound; with the defensive component they have.
    """
    (shape,) = mapped.shapes
    assert isinstance(shape, TransportMap)
    assert not mapped.needs_levels
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
def test_a_run_that_finds_funnels_goes_on_with_steps_of_local_sizes(rng, monkeypatch):
    """Of ten runs on it one ended with a bend before funnels were seen."""
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


@pytest.mark.statistical
def test_scales_of_heavy_tails_are_no_funnel(rng):
    """As a run in a funnel shows that is told of heavy tails: its explorer and depth stay."""
    target = SimpleNamespace(address=FUNNELS[0].address, dim=6)
    fit = GaussianBase(np.zeros(6), np.array([1.0] * 5 + [3.0]))
    narrow, heavy = (
        local_runs.map_by_run(target, fit, np.random.default_rng(1), np.inf, is_heavy=is_heavy)
        for is_heavy in (False, True)
    )
    assert narrow.funnel_depth >= DEEP
    assert heavy.funnel_depth == 0.0


def test_the_gaussian_of_a_map_has_its_moments(mapped, rng):
    """Of a thousand draws, to a tenth of the scale and a fifth of the variances."""
    (fit,) = mapped.fits
    assert fit is mapped.pooled
    z = mapped.shapes[0].from_base(rng.normal(size=(20_000, 2)))
    np.testing.assert_allclose(fit.mean, z.mean(axis=0), atol=0.2)
    np.testing.assert_allclose(np.diagonal(fit.covariance), z.var(axis=0), rtol=0.3)
    # where replicas start is inside, which the mean may not be
    np.testing.assert_array_equal(mapped.modes, mapped.shapes[0].from_base(np.zeros((1, 2))))


def test_the_gaussian_of_a_map_is_of_draws_that_have_a_density(rng, monkeypatch):
    """Of a centred hierarchy some were at 1e45, and so was the Gaussian that chains began with."""
    monkeypatch.setattr(transport_maps, "inside", lambda _, z: z[:, 0] > 0.3)
    (fit,) = fit_maps(BANANA, prepared(PEAK), rng).fits
    assert fit.mean[0] > 0.3
    assert fit.mean[0] - 0.3 > 0.5 * fit.standard_deviation[0]


def test_what_is_a_gaussian_is_left_alone(rng):
    target = testing.correlated_gaussian()
    fit = GaussianBase.from_moments(target.mean, target.cov, target.log_z)
    found = fit_maps(target, prepared(fit), rng)
    assert not found.needs_levels
    assert found.shapes == found.fits == (fit,)
    assert found.search.n_gradients == 1000 + 400 + 4 * target.dim


def test_what_maps_little_stays_straight(rng):
    """Two rounded marginals, and nothing that one says of the other."""
    target = testing.hard_edge_gaussian()
    fit = GaussianBase.from_moments(target.mean, target.cov, target.log_z)
    found = fit_maps(target, prepared(fit), rng)
    assert found.shapes == (fit,)


@pytest.mark.statistical
def test_swaps_say_whether_a_gaussian_needs_levels(seed, monkeypatch):
    """Three in ten fail of a skewed target, nine in ten of a banana; no map is good enough here."""
    monkeypatch.setattr(transport_maps, "MOST_DIM_OF_THIRD_ORDER", 0)
    monkeypatch.setattr(local_runs, "map_of_draws", lambda *_: None)
    monkeypatch.setattr(local_runs, "MOST_GRADIENTS", 3000)
    for target, needs_levels in ((testing.skewed_gamma(), False), (BANANA, True)):
        fit = GaussianBase.from_moments(target.mean, target.cov, target.log_z)
        rngs = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(5))
        found = [fit_maps(target, prepared(fit), rng) for rng in rngs]
        assert sum(each.needs_levels == needs_levels for each in found) >= 4
        assert all(each.shapes == (fit,) for each in found)


def test_a_run_ends_when_more_draws_would_fit_the_map_as_they_did(rng, monkeypatch):
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
    run = local_runs.map_by_run(target, fit, rng, np.inf, is_heavy=False)
    assert run.needs_levels
    assert run.shape is None
    assert run.variance > COARSE
    assert sizes[-2] <= local_runs.ENOUGH_DRAWS < sizes[-1]
    assert (np.divide(sizes[1:], sizes[:-1]) >= local_runs.MORE_DRAWS).all()


def test_fits_inside_of_a_map_are_dropped(rng):
    """So are those where the density is no higher than it says; what it does not know is kept."""
    inside = GaussianBase(PEAK.mean + 0.1, 3.0 * PEAK.scale, -9.0)
    nothing = GaussianBase(PEAK.mean - np.array([0.0, 3.0]), PEAK.scale, -9.0)
    found = fit_maps(BANANA, prepared(PEAK, inside, nothing, poorly_fitted=(inside, nothing)), rng)
    assert len(found.fits) == len(found.shapes) == 1
    assert found.poorly_fitted == ()


@pytest.mark.parametrize(("log_weight", "n_kept"), [(-9.0, 1), (-4.0, 2)])
def test_gaussian_fits_without_mass_go_where_another_has_a_map(
    log_weight, n_kept, rng, monkeypatch
):
    """Whether a thousandth of the map's mass or more is in a place that it does not explain."""
    means = np.array([[0.0, 0.0], [30.0, 0.0]])
    density = two_gaussians(np.array([0.0, log_weight]), means, np.ones((2, 2)))
    target = SimpleNamespace(address=density.address, dim=2)
    bend = Terms(np.array([[1, MEAN, 0, NOTHING]]), np.array([1e-3]))
    shape = TransportMap(means[0], np.eye(2), bend)
    of_first = iter([Shape(shape, 0.0, 0), Shape(None, 0.0, 0)])
    monkeypatch.setattr(transport_maps, "_shape_of", lambda *_, **__: next(of_first))
    weights = 0.0, log_weight
    bases = [GaussianBase(m, np.ones(2), w) for m, w in zip(means, weights, strict=True)]
    found = fit_maps(target, prepared(*bases), rng)
    assert len(found.fits) == len(found.shapes) == n_kept
    assert found.search.n_gradients > 1000 + 400


def test_few_gradients_map_nothing(rng):
    found = prepared(PEAK)
    assert fit_maps(BANANA, found, rng, most=10_000) == found
    most = 12_000
    again = fit_maps(BANANA, found, rng, most=most)
    assert 1000 < again.search.n_gradients <= 1000 + most


def test_a_run_that_leads_nowhere_ends(rng, monkeypatch):
    """A curve that no such map straightens: chains go on trying."""
    monkeypatch.setattr(local_runs, "MOST_GRADIENTS", 3000)
    monkeypatch.setattr(local_runs, "BUDGETS", ((np.inf, 3000),))
    monkeypatch.setattr(local_runs, "map_of_draws", lambda draws, n: None)
    narrow = GaussianBase(PEAK.mean, 0.02 * PEAK.scale, -9.0)
    found = fit_maps(BANANA, prepared(narrow), rng)
    assert found.needs_levels
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
    assert has_map(found)
    assert found.search.n_gradients - 1000 == target.n


def test_a_mode_that_a_map_does_not_know_is_kept(rng):
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
    mapped = [each for each in found if has_map(each)]
    assert len(mapped) >= 3
    for each in mapped:
        assert 1.0 <= each.shapes[0].residuals.dof.min() <= 3.0
        assert each.search.n_gradients - 1000 < 20_000


@pytest.fixture
def no_runs(monkeypatch):
    """Raise where a short run would begin."""

    def run(*args, **options):
        raise AssertionError("a short run")

    monkeypatch.setattr(transport_maps, "map_by_run", run)


def test_gradients_save_a_run(no_runs, rng):
    found = fit_maps(REGRESSION, prepared(AT_MAXIMUM), rng)
    (shape,) = found.shapes
    assert has_map(found)
    assert SKEW in shape.terms.what[:, 1]
    assert shape.log_zeta == pytest.approx(0.8, abs=0.01)
    # of all rounds, of what is checked before and after
    assert 1000 + 5 * 500 < found.search.n_gradients < 1000 + 10 * 500 + 2000


def test_one_dimension(no_runs, rng):
    target = SimpleNamespace(address=gamma_density.address, dim=1)
    found = fit_maps(target, prepared(GaussianBase(np.log([4.0]), np.array([0.5]), 0.0)), rng)
    assert has_map(found)
    np.testing.assert_allclose(found.shapes[0].residuals.skew, [0.5], atol=0.1)


def test_a_gaussian_that_is_off_is_mended(gaussian, no_runs, rng):
    off = GaussianBase(gaussian.mean + 0.2, 0.9 * np.sqrt(np.diag(gaussian.cov)), 0.0)
    found = fit_maps(gaussian, prepared(off), rng)
    (shape,) = found.shapes
    assert not found.needs_levels
    assert found.fits == found.shapes
    assert shape.log_zeta == pytest.approx(gaussian.log_z, abs=2e-3)
    assert evaluate_elbo(gaussian, shape, rng).variance < EXACT


@pytest.mark.parametrize(
    ("share", "k", "kept"), [(0.9, 0.4, True), (0.9, 0.6, False), (1.1, 0.4, False),
                             (0.9 * EXACT / GOOD, 0.6, True)]
)  # fmt: skip
def test_a_shape_is_kept_where_its_weights_are_good(share, k, kept, rng, monkeypatch):
    """By its V, as a share of what is good, and the tail of its weights."""
    fit = GaussianBase.from_moments(BANANA.mean, BANANA.cov, BANANA.log_z)
    shape = fit_maps(REGRESSION, prepared(AT_MAXIMUM), rng).shapes[0]
    runs = []
    mended = Shape(shape, share * GOOD, 500)
    monkeypatch.setattr(transport_maps, "third_order_fit", lambda *_: mended)
    monkeypatch.setattr(transport_maps, "log_weights", lambda *_: None)
    monkeypatch.setattr(transport_maps, "pareto_k", lambda _: k)
    monkeypatch.setattr(
        transport_maps, "map_by_run", lambda *_, **__: runs.append(1) or Shape(None, 9.0, 0)
    )
    found = transport_maps._shape_of(BANANA, fit, rng, np.inf, may_run=True)
    assert (found.shape is shape) == kept
    assert len(runs) == (not kept)


def test_heavy_tails_are_left_to_draws(rng, monkeypatch):
    """Gradients at a fit's own draws do not see them.

    A run keeps no shape for one seed in forty. False alarms: 1.5e-4.
    """

    def third_order_fit(*args):
        raise AssertionError("a fit of third order")

    monkeypatch.setattr(transport_maps, "third_order_fit", third_order_fit)
    target = testing.heavy_tail()
    fit = GaussianBase(target.mean, np.array([1.0, 2.2]), target.log_z)
    found = [transport_maps._shape_of(target, fit, r, np.inf, may_run=True) for r in rng.spawn(5)]
    assert sum(isinstance(run.shape, TransportMap) for run in found) >= 3


def test_the_other_modes_are_mended_and_have_no_runs(no_runs, rng, monkeypatch):
    """Beyond the fits that may have a run, as long as the search took enough more."""
    monkeypatch.setattr(transport_maps, "MOST_FITS", 0)
    shape = fit_maps(REGRESSION, prepared(AT_MAXIMUM), rng).shapes[0]
    assert isinstance(shape, TransportMap)
    target = testing.banana()
    fit = GaussianBase.from_moments(target.mean, target.cov, target.log_z)
    free = replace(prepared(AT_MAXIMUM), search=Search(n_gradients=-1))
    assert fit_maps(REGRESSION, free, rng).shapes == (AT_MAXIMUM,)
    # where gradients make no shape, as of most draws of this one
    monkeypatch.setattr(transport_maps, "third_order_fit", lambda *_: Shape(None, 9.0, 500))
    assert fit_maps(target, prepared(fit), rng).shapes == (fit,)
