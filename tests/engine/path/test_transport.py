"""A transport map: its density, gradient, draws and state; scans from it, right and wrong."""

from types import SimpleNamespace

import cloudpickle
import numpy as np
import pytest
from laws import ExactPath, check_mixture, ladder_statistics
from loops import ladder_kernel
from planted import with_planted
from scipy import stats

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder_scans import ladder_scans
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.engine.path.transport import (
    MEAN,
    NOTHING,
    SCALE,
    SKEW,
    TAIL,
    Terms,
    TransportMap,
    log_map,
)
from pymc_tempering.engine.state import from_plain, to_plain
from pymc_tempering.errors import BaseError

TARGET = testing.banana()
# in the order of the terms the second coordinate comes first
ROOT = np.array([[0.3, 1.1], [0.9, -0.2]])
TERMS = Terms(
    np.array([
        [0, SCALE, NOTHING, NOTHING],
        [1, MEAN, NOTHING, NOTHING],
        [1, MEAN, 0, 0],
        [1, SCALE, 0, NOTHING],
    ]),
    np.array([0.2, -0.3, 0.4, 0.35]),
)  # fmt: skip
SHAPE = TransportMap(TARGET.mean + np.array([0.2, -0.4]), ROOT, TERMS, -1.5)
GAUSSIAN_FITS = GaussianBase(TARGET.mean + np.array([1.0, 0.5]), np.array([[0.6, 0.0], [0.5, 0.9]]))
WIDE = Coordinates.of(GaussianBase(TARGET.mean, np.linalg.cholesky(2.0 * TARGET.cov)))
MIXTURE = Mixture((GAUSSIAN_FITS, SHAPE), np.array([0.3, 0.7]))
BETAS = np.array([0.0, 0.4, 1.0])
SETTINGS = Hamiltonian(max_steps=8)


def by_hand(z):
    """The density of SHAPE by SciPy, one coordinate after the other."""
    x = (z - SHAPE.mean) @ ROOT.T
    first = stats.norm(0.0, np.exp(0.2)).logpdf(x[:, 0])
    mapped = stats.norm(-0.3 + 0.4 * x[:, 0] ** 2, np.exp(0.35 * x[:, 0])).logpdf(x[:, 1])
    return first + mapped + np.log(abs(np.linalg.det(ROOT)))


def test_density_draws_and_their_inverse(rng):
    y = rng.normal(size=(50, 2))
    z = SHAPE.from_base(y)
    np.testing.assert_allclose(SHAPE.log_density(z), by_hand(z), rtol=1e-12)
    np.testing.assert_allclose(SHAPE.to_base(z), y, atol=1e-12)
    # the law of what comes first, and of the other given it
    x = (z - SHAPE.mean) @ ROOT.T
    np.testing.assert_allclose(x[:, 0], np.exp(0.2) * y[:, 0])
    np.testing.assert_allclose(
        x[:, 1], -0.3 + 0.4 * x[:, 0] ** 2 + np.exp(0.35 * x[:, 0]) * y[:, 1]
    )


def test_the_density_is_normalised():
    """On a grid of 400 by 400 cells that holds all but 1e-6 of the mass."""
    edges = np.linspace(-12.0, 14.0, 401)
    middle = 0.5 * (edges[1:] + edges[:-1])
    x = np.stack(np.meshgrid(middle, middle, indexing="ij"), axis=-1).reshape(-1, 2)
    z = SHAPE.mean + np.linalg.solve(ROOT, x.T).T
    cell = (edges[1] - edges[0]) ** 2 / abs(np.linalg.det(ROOT))
    assert np.exp(SHAPE.log_density(z)).sum() * cell == pytest.approx(1.0, abs=2e-3)


def test_compiled_density_and_gradient_in_a_mixture(rng):
    z, _ = MIXTURE.draw(30, WIDE, rng)
    check_mixture(MIXTURE, WIDE, TARGET, z)
    parts = np.stack([
        np.log(0.15) + stats.multivariate_t(TARGET.mean, 2.0 * TARGET.cov, df=1.0).logpdf(z),
        np.log(0.85 * 0.3) + GAUSSIAN_FITS.log_density(z),
        np.log(0.85 * 0.7) + by_hand(z),
    ])  # fmt: skip
    np.testing.assert_allclose(MIXTURE.log_density(z, WIDE), np.logaddexp.reduce(parts), rtol=1e-9)


def test_a_scale_is_bounded_and_flat_beyond(rng):
    """In a funnel's mouth, where nothing else would be finite."""
    terms = Terms(np.array([[1, SCALE, 0, NOTHING]]), np.array([3.0]))
    funnel = TransportMap(np.zeros(2), np.eye(2), terms)
    z = np.array([[-900.0, 1.0], [900.0, 1e4], [0.0, 0.0]])
    assert np.isfinite(funnel.log_density(z)).all()
    gradient = np.empty(2)
    log_map(terms.what, terms.coefficients, 0, 1, z[1], gradient)
    assert gradient[0] == -900.0


def test_it_is_kept_and_sent_as_it_is():
    for copy in (cloudpickle.loads(cloudpickle.dumps(SHAPE)), from_plain(to_plain(SHAPE))):
        assert (copy.digest, copy.log_zeta) == (SHAPE.digest, -1.5)
        assert not copy.root.flags.writeable
    again = from_plain(to_plain(MIXTURE))
    assert (again.digest, again.has_map) == (MIXTURE.digest, True)
    other = TransportMap(SHAPE.mean, ROOT, Terms(TERMS.what, 1.1 * TERMS.coefficients))
    assert other.digest != SHAPE.digest
    assert not Mixture((GAUSSIAN_FITS,), np.ones(1)).has_map


@pytest.mark.parametrize(
    "what",
    [
        [[1, MEAN, 1, NOTHING]],
        [[0, MEAN, 0, NOTHING]],
        [[2, MEAN, 0, NOTHING]],
        [[1, MEAN, 0, 0], [0, MEAN, NOTHING, NOTHING]],
        [[1, 9, 0, NOTHING]],
        np.empty((0, 4)),
    ],
)
def test_terms_depend_on_what_comes_before(what):
    with pytest.raises(BaseError, match="terms"):
        TransportMap(np.zeros(2), np.eye(2), Terms(np.array(what), np.ones(len(what))))


@pytest.mark.parametrize(
    ("what", "parameters"),
    [
        ([[1, TAIL, 0, NOTHING]], [3.0]),
        ([[1, TAIL, NOTHING, NOTHING]], [0.0]),
        ([[1, SKEW, 0, NOTHING]], [0.5]),
        ([[1, SKEW, NOTHING, NOTHING]], [0.0]),
        ([[1, SKEW, NOTHING, NOTHING]], [-4.0]),
        ([[1, SKEW, NOTHING, NOTHING], [1, TAIL, NOTHING, NOTHING]], [0.5, 3.0]),
    ],
)
def test_a_residual_has_one_parameter_of_its_own(what, parameters):
    with pytest.raises(BaseError, match="degrees of freedom"):
        TransportMap(np.zeros(2), np.eye(2), Terms(np.array(what), np.array(parameters)))


SKEWED = TransportMap(
    SHAPE.mean, ROOT,
    Terms(
        np.vstack([TERMS.what[:1], [0, SKEW, NOTHING, NOTHING], TERMS.what[1:],
                   [1, SKEW, NOTHING, NOTHING]]),
        np.concatenate([TERMS.coefficients[:1], [0.7], TERMS.coefficients[1:], [-1.1]]),
    ),
)  # fmt: skip


HEAVY = TransportMap(
    SHAPE.mean, ROOT,
    Terms(
        np.vstack([TERMS.what[:1], [0, TAIL, NOTHING, NOTHING], TERMS.what[1:],
                   [1, TAIL, NOTHING, NOTHING]]),
        np.concatenate([TERMS.coefficients[:1], [1.5], TERMS.coefficients[1:], [4.0]]),
    ),
)  # fmt: skip


def test_heavy_tails_against_scipy(rng):
    """Density, quantiles and their inverse, far out as well."""
    y = np.vstack([rng.normal(size=(50, 2)), [[6.0, -7.0], [-5.0, 0.1]]])
    z = HEAVY.from_base(y)
    x = (z - HEAVY.mean) @ ROOT.T
    first = stats.t(1.5, 0.0, np.exp(0.2))
    near = np.abs(x[:, 0]) < 50.0
    before = np.where(near, x[:, 0], 0.0)
    second = stats.t(4.0, -0.3 + 0.4 * before**2, np.exp(0.35 * before))
    by_scipy = first.logpdf(x[:, 0]) + second.logpdf(x[:, 1]) + np.log(abs(np.linalg.det(ROOT)))
    np.testing.assert_allclose(HEAVY.log_density(z)[near], by_scipy[near], rtol=1e-8)
    np.testing.assert_allclose(first.cdf(x[near, 0]), stats.norm.cdf(y[near, 0]), rtol=1e-8)
    np.testing.assert_allclose(HEAVY.to_base(z)[near], y[near], rtol=1e-5, atol=1e-8)
    assert near.sum() > 40


@pytest.mark.parametrize("first", ["heavy", "skewed"])
def test_compiled_residuals_and_their_gradient(first, rng):
    mixture = Mixture(({"heavy": HEAVY, "skewed": SKEWED}[first], SHAPE), np.array([0.6, 0.4]))
    z = mixture.draw(40, WIDE, rng)[0]
    z = z[np.abs(z - TARGET.mean).max(axis=1) < 30.0]
    check_mixture(mixture, WIDE, TARGET, z, slopes=1e-4)


def test_skewed_draws_and_their_density(rng):
    """The density is that of the draws: each residual by SciPy's log-gamma law."""
    y = rng.normal(size=(200, 2))
    z = SKEWED.from_base(y)
    np.testing.assert_allclose(SKEWED.to_base(z), y, atol=1e-9)
    x = (z - SKEWED.mean) @ ROOT.T
    total = np.full(200, np.log(abs(np.linalg.det(ROOT))))
    mean = np.column_stack([np.zeros(200), -0.3 + 0.4 * x[:, 0] ** 2])
    scale = np.exp(np.column_stack([np.full(200, 0.2), 0.35 * x[:, 0]]))
    for i, k in enumerate((0.7, -1.1)):
        r, a = (x[:, i] - mean[:, i]) / scale[:, i], 1.0 / k**2
        total += stats.loggamma(a).logpdf(k * r + np.log(a)) + np.log(abs(k) / scale[:, i])
        np.testing.assert_allclose(r, SKEWED.residuals.from_normal(y)[:, i], atol=1e-9)
    np.testing.assert_allclose(SKEWED.log_density(z), total, rtol=1e-9)


@pytest.mark.parametrize("shape", [SHAPE, HEAVY, SKEWED])
def test_gradients_pulled_back_to_residuals(shape, rng):
    """By differences, each residual moved alone; zero where the target is the shape itself."""
    z = shape.from_base(rng.normal(size=(20, 2)))
    z = z[np.abs(z - TARGET.mean).max(axis=1) < 30.0]

    def slopes(log_density, at, step):
        moved = ((log_density(at + h) - log_density(at - h)) / (2 * step) for h in step * np.eye(2))
        return np.column_stack(list(moved))

    def log_weights(r):
        at = shape.from_base(shape.residuals.to_normal(r))
        return TARGET.log_density(at) - shape.log_density(at)

    r, found = shape.pulled_back(z, slopes(TARGET.log_density, z, 1e-6))
    np.testing.assert_allclose(shape.residuals.from_normal(shape.to_base(z)), r, atol=1e-7)
    np.testing.assert_allclose(found, slopes(log_weights, r, 1e-5), rtol=1e-3, atol=1e-3)
    of_itself = shape.pulled_back(z, slopes(shape.log_density, z, 1e-6))[1]
    np.testing.assert_allclose(of_itself, 0.0, atol=1e-3)


def test_the_root_has_an_inverse():
    for root in (np.ones((2, 2)), np.eye(3), np.array([[1.0, np.nan], [0.0, 1.0]])):
        with pytest.raises(BaseError, match="inverse"):
            TransportMap(np.zeros(2), root, TERMS)


LAW = SimpleNamespace(
    log_density=lambda z: MIXTURE.log_density(z, WIDE),
    draw=lambda n, rng: MIXTURE.draw(n, WIDE, rng)[0],
)
EXACT = ExactPath(TARGET, LAW)
STATISTICS = ladder_statistics(EXACT, BETAS.size, lambda z: np.arctan(z - TARGET.mean))


def forgets_the_determinant(what, coefficients, first, last, x, gradient):
    """Density without the sum of the logarithms of the scales."""
    value = log_map(what, coefficients, first, last, x, gradient)
    for t in range(first, last):
        if what[t, 1] == 1:
            factor = 1.0 if what[t, 2] < 0 else x[what[t, 2]]
            value += coefficients[t] * factor
    return value


@pytest.mark.statistical
@pytest.mark.parametrize(
    "wrong", [None, pytest.param(forgets_the_determinant, marks=pytest.mark.slow)]
)
def test_scans_from_it_leave_every_level_invariant(wrong, rng):
    """False alarm 1e-3; a density without its determinant is found."""
    scans = with_planted(ladder_scans, {} if wrong is None else {log_map: wrong})
    path = TemperedPath(TARGET, WIDE, MIXTURE)
    kernel = ladder_kernel(
        path, BETAS, np.array([1.0, 0.2, 0.2]), settings=SETTINGS, n_scans=3, scans=scans
    )
    result = testing.invariance_test(
        kernel, lambda rng, n: EXACT.draw_levels(rng, n, BETAS), STATISTICS, n=50_000,
        rng=rng, vectorized=True,
    )  # fmt: skip
    assert result.rejected == (wrong is not None), result
