"""Gaussians fitted to draws, with images of each."""

import numpy as np
import pytest

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.mixture import Mixture
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.references.mixture import mixture_of_draws, with_known

EXCHANGED = Orbit(np.array([[0, 1], [1, 0]]), np.empty((0, 2)))
FITS = (GaussianBase([-3.0, 1.0], [0.4, 1.5]), GaussianBase([-1.0, 4.0], [[0.8, 0.0], [0.6, 0.3]]))
TRUE = Mixture(FITS, np.array([0.3, 0.7]), orbit=EXCHANGED)
START = Mixture((GaussianBase([-2.0, 3.0], [1.0, 1.0]),), np.ones(1), orbit=EXCHANGED)
WIDE = Coordinates.of(GaussianBase(np.zeros(2), np.full(2, 4.0)))


def draws(n, rng):
    """Draws of the true mixture, any image as likely."""
    z, component = TRUE.draw(2 * n, WIDE, rng)
    return z[component > 0][:n]


@pytest.mark.statistical
@pytest.mark.parametrize("n", [300, 1500])
def test_fit_is_near_the_density_of_the_draws(n, rng):
    """Mean log density of other draws. False alarms: fewer than 1e-3, in 200 seeds none."""
    found = mixture_of_draws(START, draws(n, rng), n)
    assert len(found.fits) >= 2
    assert found.orbit is EXCHANGED
    z = draws(4000, rng)
    lost = TRUE.log_fits(z) - found.log_fits(z)
    assert lost.mean() < 60.0 / n


def test_few_draws_make_no_fit(rng):
    assert mixture_of_draws(START, draws(4, rng), 1.0) is None


def test_what_is_known_and_not_seen_stays(rng):
    seen = mixture_of_draws(START, FITS[0].draw(rng, 500), 500.0)
    kept = with_known(seen, TRUE)
    assert len(kept.fits) == len(seen.fits) + 1
    assert kept.fits[-1] is FITS[1]
    assert kept.weights.sum() == pytest.approx(1.0)
    # an image of what is seen is seen
    image = Mixture(tuple(EXCHANGED.of_gaussian(FITS[0])[1:]), np.ones(1), orbit=EXCHANGED)
    assert len(with_known(seen, image).fits) == len(seen.fits)
