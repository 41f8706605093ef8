"""Starts of a search, which ends are of one mode, and which fits are."""

import numpy as np
import pytest

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError
from pymc_tempering.references.ascent import ascend
from pymc_tempering.references.basins import MOST_RUNAWAYS, Basins
from pymc_tempering.references.local import LocalFit, assess, combine_local_bases, merge
from pymc_tempering.references.starts import inside, jittered

UNIT = Coordinates.of(GaussianBase(np.zeros(2), np.ones(2)))


def test_starts_come_in_mirrored_pairs_at_every_scale(gaussian, rng):
    centre, units = np.array([1.0, 2.0, 3.0]), np.array([1.0, 1.0, 10.0])
    starts = jittered(gaussian, centre, rng, 800, units)
    jitter = starts - centre
    np.testing.assert_allclose(jitter[::2], -jitter[1::2], rtol=1e-10)
    for i, scale in enumerate((1.0, 2.0, 5.0, 10.0)):
        # 100 pairs: 7 % each, five of them a false alarm in 1e5 runs of twelve.
        sd = np.sqrt((jitter[::2][i::4] ** 2).mean(axis=0))
        np.testing.assert_allclose(sd, scale * units, rtol=0.4)
    assert len(jittered(gaussian, centre, rng, 7, units)) == 7


def test_starts_lie_inside_the_support(edge, rng):
    starts = jittered(edge, edge.start, rng, 30, np.ones(2))
    assert len(starts) == 30
    assert np.all(starts[:, 0] > 0.5)
    assert inside(edge, starts).all()
    assert jittered(edge, np.zeros(2), rng, 4, np.full(2, 1e-3)).shape == (0, 2)
    assert inside(edge, np.array([[0.6, 0.0], [0.4, 0.0]])).tolist() == [True, False]


def test_ends_of_one_mode_are_one_basin(bimodal, rng):
    basins = Basins(bimodal)
    for n in (5, 20):
        starts = np.repeat(bimodal.modes, n, axis=0) + 0.3 * rng.normal(size=(2 * n, 2))
        basins.add(starts, ascend(bimodal, starts, UNIT), UNIT)
    assert [basin.hits for basin in basins.known] == [25, 25]
    np.testing.assert_allclose([b.end for b in basins.known], bimodal.modes, atol=0.02)
    assert basins.n_lost == 0


def test_ends_apart_on_one_slope_are_one_basin(gaussian):
    """As ascents that were stopped leave them: no dip lies between."""
    basins = Basins(gaussian)
    three = Coordinates.of(GaussianBase(np.zeros(3), np.ones(3)))
    starts = gaussian.mean + np.array([[0.0, 0.0, 0.0], [0.0, 0.0, 9.0], [0.2, 1.5, 4.0]])
    basins.add(starts, ascend(gaussian, starts, three, most_gradients=1), three)
    assert [basin.hits for basin in basins.known] == [3]


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
    assert sum(basin.hits for basin in basins.known) + basins.n_lost == 9


def fit(mean, sd, elbo, hits=1):
    return LocalFit(GaussianBase(mean, sd, elbo), 0.1, hits)


def test_fits_of_one_mode_are_put_together(gaussian, bimodal):
    """Narrow fits many of their own standard deviations apart on one slope are one mode."""
    slope = [fit(gaussian.mean + s, np.full(3, 0.01), -s, 2) for s in (0.5, 0.0, 1.0)]
    (kept,) = merge(gaussian, slope)
    assert kept == slope[1]._replace(hits=6)
    modes = [fit(m, [1.0, 1.0], -i) for i, m in enumerate(bimodal.modes)]
    assert merge(bimodal, modes[::-1]) == modes
    near = fit(bimodal.modes[1] + 0.4, [1.0, 1.0], 3.0)
    assert merge(bimodal, [*modes, near])[0] == near._replace(hits=2)


def test_mass_adds_what_an_elbo_misses(gaussian, rng):
    exact = GaussianBase.from_moments(gaussian.mean, gaussian.cov)
    found = assess(gaussian, exact, 3, rng)
    assert abs(found.mass - gaussian.log_z) < 1e-6
    assert found.hits == 3
    narrow = assess(gaussian, GaussianBase(exact.mean, 0.9 * exact.scale), 3, rng, 20_000)
    assert narrow.elbo < narrow.mass
    assert abs(narrow.mass - gaussian.log_z) < 0.7 * abs(narrow.elbo - gaussian.log_z)
    poor = LocalFit(GaussianBase([0.0], [1.0], -50.0), 1e6, 1)
    assert poor.mass == -40.0


def test_no_fit_where_there_is_no_density(edge, rng):
    assert assess(edge, GaussianBase([-50.0, 0.0], [1.0, 1.0]), 1, rng) is None


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
