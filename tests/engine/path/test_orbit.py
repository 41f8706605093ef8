"""Images of places and of fits under exchanges of labels."""

import numpy as np
import pytest

from pymc_tempering.engine.path.components import log_mixture
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.transport import MEAN, Terms, TransportMap
from pymc_tempering.engine.state import from_plain, to_plain

SUMS = np.array([[0.0, 0.0, 0.0, -1.0, -1.0]])
THREE = Orbit(
    # three means, and shares of which the last is minus the sum of the others
    np.array([
        [*p, *(3 + np.array(p))]
        for p in ([0, 1, 2], [1, 0, 2], [2, 1, 0], [0, 2, 1], [1, 2, 0], [2, 0, 1])
    ]),
    SUMS,
)  # fmt: skip
WIDE = Coordinates.of(GaussianBase(np.zeros(5), np.full(5, 3.0)))


def fits(rng):
    """A Gaussian and a bent one, of no symmetry."""
    factor = np.tril(0.2 * rng.standard_normal((5, 5)), -1) + np.diag([0.5, 0.8, 0.3, 0.6, 0.4])
    bend = Terms(np.array([[1, MEAN, 0, 0]]), np.array([0.7]))
    root = np.linalg.inv(factor)
    return (
        GaussianBase(rng.standard_normal(5), factor),
        TransportMap(rng.standard_normal(5), root, bend),
    )


def test_images_exchange_shares_as_they_do_means(rng):
    z = rng.standard_normal(5)
    shares = np.append(z[3:], -z[3:].sum())
    for order, image in zip(THREE.order, THREE.images(z), strict=True):
        np.testing.assert_allclose(image[:3], z[order[:3]])
        np.testing.assert_allclose(np.append(image[3:], -image[3:].sum()), shares[order[:3]])
    np.testing.assert_allclose(np.abs(np.linalg.det(THREE.matrices)), 1.0)


def test_moved_and_nearest_are_images(rng):
    z = rng.standard_normal((50, 5))
    which = rng.integers(6, size=50)
    moved = THREE.moved(z, which)
    np.testing.assert_allclose(moved, THREE.images(z)[which, np.arange(50)])
    back, _ = THREE.nearest(moved, z[:1])
    np.testing.assert_allclose(back[0], z[0])
    distances = np.linalg.norm(THREE.images(z) - z[0], axis=-1).min(axis=0)
    np.testing.assert_allclose(np.linalg.norm(back - z[0], axis=-1), distances, atol=1e-12)


@pytest.mark.parametrize("number", [0, 1])
def test_density_of_an_image_is_that_of_the_place_it_comes_from(number, rng):
    fit, z = fits(rng)[number], rng.standard_normal((20, 5))
    for image, there in zip(THREE.of_fit(fit), THREE.images(z), strict=True):
        np.testing.assert_allclose(image.log_density(there), fit.log_density(z))


def test_mixture_is_that_of_all_images(rng):
    both, weights = fits(rng), np.array([0.3, 0.7])
    few = Mixture(both, weights, orbit=THREE)
    images = tuple(image for fit in both for image in THREE.of_fit(fit))
    all_of_them = Mixture(images, np.repeat(weights / 6.0, 6))
    z = 2.0 * rng.standard_normal((40, 5))
    np.testing.assert_allclose(few.log_density(z, WIDE), all_of_them.log_density(z, WIDE))
    for kind in (few, all_of_them):
        compiled = log_mixture(
            kind.in_coordinates(WIDE), WIDE.to_base(z[0]), np.empty(5), np.empty((2, 5))
        )
        exact = few.log_density(z[:1], WIDE)[0] + WIDE.base.log_det_scale
        assert compiled == pytest.approx(exact, abs=1e-10)
    assert few.digest not in (all_of_them.digest, Mixture(both, weights).digest)
    again = from_plain(to_plain(few))
    assert again.digest == few.digest


def test_home_is_where_the_fits_are(rng):
    fit = fits(rng)[0]
    mixture = Mixture((fit,), np.ones(1), orbit=THREE)
    z = fit.draw(rng, 100)
    home = mixture.at_home(THREE.shuffled(z, rng))
    highest = np.max([fit.log_density(image) for image in THREE.images(z)], axis=0)
    np.testing.assert_allclose(fit.log_density(home), highest)
    assert mixture.at_image(z, rng).shape == z.shape


@pytest.mark.statistical
def test_draws_are_of_the_density(rng):
    """Shares of the components are those of their responsibilities. False alarms: 1e-4."""
    mixture = Mixture(fits(rng), np.array([0.3, 0.7]), orbit=THREE)
    z, component = mixture.draw(20_000, WIDE, rng)
    mean = mixture.responsibilities(z, WIDE).mean(axis=0)
    error = np.sqrt(mixture.shares * (1.0 - mixture.shares) / len(z))
    assert (np.abs(mean - mixture.shares) < 4.2 * error).all()
    # any of the three means is the largest as often, of either fit
    for k in (1, 2):
        largest = np.bincount(z[component == k][:, :3].argmax(axis=1), minlength=3)
        n = largest.sum()
        assert (np.abs(largest - n / 3) < 4.5 * np.sqrt(n * 2 / 9)).all()
