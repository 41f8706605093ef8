"""How good local fits are, and one Gaussian for all of them."""

import numpy as np
import pytest

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError
from pymc_tempering.references.local import (
    LocalFit,
    assess,
    combine_local_bases,
    comparable,
    holding,
    laplace_at,
    well_fitted_modes,
)
from tests.references.conftest import GAUSS_CONSTANT


def test_mass_adds_what_an_elbo_misses(gaussian, rng):
    exact = GaussianBase.from_moments(gaussian.mean, gaussian.cov)
    found = assess(gaussian, exact, rng)
    assert abs(found.mass - gaussian.log_z) < 1e-6
    narrow = assess(gaussian, GaussianBase(exact.mean, 0.9 * exact.scale), rng, 20_000)
    assert narrow.elbo < narrow.mass
    assert abs(narrow.mass - gaussian.log_z) < 0.7 * abs(narrow.elbo - gaussian.log_z)
    poor = LocalFit(GaussianBase([0.0], [1.0], -50.0), 1e6, 1)
    assert poor.mass == -40.0


def test_modes_whose_mass_is_known():
    """Good fits, and no lighter than a fiftieth of the heaviest; a poor fit tells no mass."""
    fits = [LocalFit(GaussianBase([mean], [2.0], elbo), variance, 1)
            for mean, elbo, variance in ((0.0, -1.0, 0.2), (1.0, -4.7, 0.0), (2.0, -4.8, 0.0),
                                         (3.0, -1.0, 0.3))]  # fmt: skip
    heavy, light = well_fitted_modes(fits[::-1])
    assert (heavy.mean[0], light.mean[0]) == (0.0, 1.0)
    assert (heavy.log_zeta, light.log_zeta) == (-0.9, -4.7)
    assert heavy.scale[0] == 2.0
    many = [LocalFit(GaussianBase([float(i)], [1.0], 0.1 * i), 0.0, 1) for i in range(20)]
    assert [fit.mean[0] for fit in well_fitted_modes(many)] == list(range(19, 11, -1))


def with_curvature(elbo, variance, top):
    laplace = None if top is None else GaussianBase([5.0], [0.5], top)
    return LocalFit(GaussianBase([0.0], [1.0], elbo), variance, 1, laplace)


@pytest.mark.parametrize(("elbo", "variance", "top", "stays"), [
    (-108.0, 0.0, None, True), (-111.0, 0.0, None, False), (-111.0, 4.0, None, True),
    # its curvature says as much too much as that of the best
    (-143.0, 3.0, -84.0, False), (-143.0, 3.0, -79.0, True), (-143.0, 3.0, -60.0, True),
])  # fmt: skip
def test_masses_are_compared_with_their_like(elbo, variance, top, stays):
    """What the curvature of the best says, 28 nats above its ELBO, was not looked at."""
    best, other = with_curvature(-100.0, 9.0, -72.0), with_curvature(elbo, variance, top)
    assert holding([best, other], 10.0) == ([best, other] if stays else [best])


def test_curvatures_that_stand_for_fits_have_masses_that_compare():
    """Of -79 beside -72, seven nats below the best ELBO, though that is -100."""
    best, left = with_curvature(-100.0, 9.0, -72.0), with_curvature(-143.0, 3.0, -79.0)
    known, at_top = comparable([best, left], 10.0)
    assert known is best.base
    assert (at_top.mean[0], at_top.scale[0], at_top.log_zeta) == (5.0, 0.5, -107.0)
    higher = with_curvature(-143.0, 3.0, -60.0)
    assert comparable([best, higher], 10.0)[1].log_zeta == -100.0


def test_no_fit_where_there_is_no_density(edge, rng):
    assert assess(edge, GaussianBase([-50.0, 0.0], [1.0, 1.0]), rng) is None


def test_combination_matches_moments_of_close_elbos():
    left, right = GaussianBase([-2.0], [0.5], -1.0), GaussianBase([4.0], [0.5], -2.0)
    base = combine_local_bases([left, right], min_weight=0.05)
    w = 1 / (1 + np.exp(1.0))
    assert np.isclose(base.mean[0], -2 + 6 * w)
    assert np.isclose(base.scale[0], np.sqrt(0.25 + 36 * w * (1 - w)))
    assert np.isclose(base.log_zeta, np.logaddexp(-1.0, -2.0))


def test_a_mode_with_a_lower_elbo_keeps_a_floor_weight():
    """Nine nats below: weight 0.3 / 1.3, not 1e-4."""
    base = combine_local_bases([GaussianBase([-2.0], [0.5], 0.0), GaussianBase([4.0], [0.5], -9.0)])
    w = 0.3 / 1.3
    assert np.isclose(base.mean[0], -2 + 6 * w, atol=1e-3)
    assert np.isclose(base.scale[0], np.sqrt(0.25 + 36 * w * (1 - w)), atol=1e-3)


def test_never_narrower_than_the_widest_fit():
    narrow = GaussianBase([0.0, 0.0], [0.1, 3.0], 0.0)
    wide = GaussianBase([0.3, 1.0], [7.0, 0.2], -9.5)
    base = combine_local_bases([narrow, wide])
    assert np.all(base.standard_deviation >= np.array([7.0, 3.0]) - 1e-9)


def test_combination_needs_elbos():
    for fits in ([], [GaussianBase([0.0], [1.0])]):
        with pytest.raises(BaseError, match="must have a log_zeta"):
            combine_local_bases(fits)


@pytest.mark.parametrize(("off", "is_there"), [(0.0, True), (0.3, True), (3.0, False)])
def test_a_slope_has_no_laplace_approximation(gaussian, off, is_there):
    """An ascent that halted three standard deviations away; the curvature is that of the mode."""
    root = np.linalg.cholesky(gaussian.cov)
    end = gaussian.mean + off * root[:, 2]
    value = GAUSS_CONSTANT - 0.5 * off**2
    laplace, n_gradients = laplace_at(gaussian, end, value, np.ones(3))
    assert n_gradients >= 7
    assert (laplace is not None) == is_there
    if is_there:
        assert laplace.log_zeta == pytest.approx(gaussian.log_z - 0.5 * off**2, abs=0.05)
