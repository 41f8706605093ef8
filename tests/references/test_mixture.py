"""Weights and shapes of a mixture of local fits, and how well it overlaps with a target."""

import numpy as np
import pytest
from scipy import stats

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.mixture import (
    first_mixture,
    refined_mixture,
    swap_rejection,
    with_fit_of_uncovered,
)

FITS = [GaussianBase([-3.0, 1.0], [0.5, 1.0], -4.0), GaussianBase([3.0, 0.0], [1.0, 0.4], -14.0)]
WIDE = Coordinates.of(GaussianBase([0.0, 0.5], [4.0, 1.5]))


def draws(rng, n_left, n_right, width=1.0):
    sizes = (n_left, n_right)
    return np.vstack([
        f.mean + width * (f.draw(rng, n) - f.mean) for f, n in zip(FITS, sizes, strict=True)
    ])  # fmt: skip


def test_an_elbo_far_below_leaves_a_share():
    """Of 10 nats, which say nothing between a curved and a round mode."""
    weights = first_mixture(FITS).weights
    assert weights[1] == pytest.approx(0.25, abs=0.01)
    none = first_mixture([GaussianBase([0.0], [1.0]), GaussianBase([1.0], [1.0])])
    assert none.weights.tolist() == [0.5, 0.5]


def test_weights_follow_the_draws_and_no_mode_is_left_out(rng):
    first = first_mixture(FITS)
    weights = [
        refined_mixture(first, WIDE, draws(rng, 40, 160), n_effective).weights[0]
        for n_effective in (2, 20, 200, 1e6)
    ]
    assert weights[0] > weights[1] > weights[2] > weights[3]
    assert weights[0] == pytest.approx(0.45, abs=0.02)
    assert weights[3] == pytest.approx(0.9 * 0.2 + 0.05, abs=0.02)
    alone = refined_mixture(first, WIDE, draws(rng, 200, 0), 200).weights
    assert alone[1] > 0.05
    assert refined_mixture(first, WIDE, np.full((3, 2), np.nan), 3).weights.tolist() == [0.5, 0.5]


def test_shapes_are_widened_where_draws_spread_further_and_only_there(rng):
    first = first_mixture(FITS)
    wider = refined_mixture(first, WIDE, draws(rng, 4000, 4000, width=2.0), 8000)
    for fit, was in zip(wider.fits, FITS, strict=True):
        assert (fit.standard_deviation > 1.15 * was.standard_deviation).all()
    same = refined_mixture(first, WIDE, draws(rng, 4000, 4000, width=0.9), 8000)
    few = refined_mixture(first, WIDE, draws(rng, 15, 15, width=2.0), 30)
    for mixture in (same, few):
        assert [fit.digest for fit in mixture.fits] == [fit.digest for fit in FITS]
    # afresh from the fits, so that nothing compounds
    assert first.fits[0].digest == FITS[0].digest


@pytest.mark.statistical
def test_rejection_of_two_gaussians(rng):
    """N(0, 1) and N(a, 1) reject 1 - 2 Phi(-a / sqrt 2); the mean of 10^6 pairs, |z| > 5."""
    a = 1.3
    x, y = rng.normal(size=(2, 1000))
    rejection = swap_rejection(a * x - 0.5 * a**2 + 3.0, a * (y + a) - 0.5 * a**2 + 3.0)
    exact = 1.0 - 2.0 * stats.norm.cdf(-a / np.sqrt(2.0))
    assert rejection == pytest.approx(exact, abs=0.06)
    assert swap_rejection(np.full(3, 2.0), np.full(5, 2.0)) == 0.0
    assert swap_rejection(np.full(3, -np.inf), np.zeros(5)) == 1.0


def test_draws_that_no_fit_explains_have_one_of_their_own(rng):
    """A wide mode around a narrow one, and too few draws of it to say where it is."""
    narrow = first_mixture([GaussianBase([1.0, -1.0], [0.1, 0.1])])
    wide = stats.multivariate_normal([1.2, -1.0], [[1.0, 0.3], [0.3, 2.0]])
    inside = narrow.fits[0].draw(rng, 300)
    found = with_fit_of_uncovered(narrow, np.vstack([inside, wide.rvs(40, random_state=rng)]))
    assert found.fits[0] is narrow.fits[0]
    assert found.weights.tolist() == [0.5, 0.5]
    # widened, from 40 draws of which the innermost count as the narrow mode's
    assert (found.fits[1].standard_deviation / np.sqrt([1.0, 2.0]) > 0.7).all()
    assert (found.fits[1].standard_deviation / np.sqrt([1.0, 2.0]) < 2.0).all()
    # fewer than ten, and a smaller share
    for n_wide, n_inside in ((6, 40), (12, 600)):
        some = np.vstack([np.resize(inside, (n_inside, 2)), wide.rvs(n_wide, random_state=rng)])
        assert with_fit_of_uncovered(narrow, some) is narrow
