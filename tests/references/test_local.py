"""Local fits: dispersed starts, duplicates, combination."""

import numpy as np
import pytest

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import BaseError
from pymc_tempering.references.advi import AdviFit
from pymc_tempering.references.local import (
    combine_local_bases,
    dispersed_starts,
    drop_duplicates,
    fit_each,
    select_fits,
)


def test_starts_come_in_mirrored_pairs_at_every_scale(gaussian, rng):
    centre = np.array([1.0, 2.0, 3.0])
    starts = dispersed_starts(gaussian, centre, rng, 600, units=np.array([1.0, 1.0, 10.0]))
    jitter = starts - centre
    np.testing.assert_allclose(jitter[::2], -jitter[1::2], rtol=1e-10)
    for i, scale in enumerate((1.0, 2.0, 5.0)):
        # 100 pairs: 7 % each, five of them a false alarm in 1e5 runs of nine.
        sd = np.sqrt((jitter[::2][i::3] ** 2).mean(axis=0))
        np.testing.assert_allclose(sd, scale * np.array([1.0, 1.0, 10.0]), rtol=0.4)
    assert len(dispersed_starts(gaussian, centre, rng, 7)) == 7


def test_starts_lie_inside_the_support(edge, rng):
    starts = dispersed_starts(edge, edge.start, rng, 30)
    assert len(starts) == 30
    assert np.all(starts[:, 0] > 0.5)
    assert dispersed_starts(edge, np.zeros(2), rng, 4, (0.001,)).shape == (0, 2)


def test_both_modes_once_each(bimodal, rng):
    starts = np.repeat(bimodal.modes, 3, axis=0) + 0.3 * rng.normal(size=(6, 2))
    fits = fit_each(bimodal, starts, rng)
    bases = select_fits(bimodal, fits)
    assert len(bases) == 2
    np.testing.assert_allclose([b.mean for b in bases], bimodal.modes, atol=0.2)
    assert bases[0].log_zeta > bases[1].log_zeta
    assert sum(fit.n_gradients for fit in fits) >= 6 * 7001


def test_one_failing_start_is_left_out_and_all_failing_raise(edge, rng):
    assert len(fit_each(edge, [np.zeros(2), edge.start], rng)) == 1
    with pytest.raises(BaseError, match=r"None of 2 local fits succeeded. .*not finite"):
        fit_each(edge, np.zeros((2, 2)), rng)


def test_duplicates_by_distance():
    near = GaussianBase([0.5, 0.0], [1.0, 1.0], -2.0)
    best = GaussianBase([0.0, 0.0], [1.0, 1.0], -1.0)
    far = GaussianBase([0.0, 3.0], [1.0, 1.0], -3.0)
    assert drop_duplicates([near, far, best]) == [best, far]
    assert drop_duplicates([near, far, best], 0.1) == [best, near, far]


def test_duplicates_on_one_ridge_and_across_a_barrier(gaussian, bimodal):
    """Narrow fits many of their own standard deviations apart on one slope are one mode."""
    fits = [GaussianBase(gaussian.mean + s, np.full(3, 0.01), -s) for s in (0.0, 0.5, 1.0)]
    assert drop_duplicates(fits) == fits
    assert drop_duplicates(fits, density=gaussian) == fits[:1]
    modes = [GaussianBase(m, [1.0, 1.0], 0.0) for m in bimodal.modes]
    assert drop_duplicates(modes, density=bimodal) == modes


def test_fits_that_still_move_are_dropped_unless_best(bimodal):
    good, bad = (GaussianBase(m, [0.5, 0.5], -2.0 - 3 * i) for i, m in enumerate(bimodal.modes))
    fits = [AdviFit(good, 1, True), AdviFit(bad, 1, False)]
    assert select_fits(bimodal, fits) == [good]
    fits = [AdviFit(good, 1, False), AdviFit(bad, 1, True)]
    assert select_fits(bimodal, fits) == [good, bad]


def test_combination_matches_moments_of_close_elbos():
    left, right = GaussianBase([-2.0], [0.5], -1.0), GaussianBase([4.0], [0.5], -2.0)
    base = combine_local_bases([left, right])
    w = 1 / (1 + np.exp(1.0))
    assert np.isclose(base.mean[0], -2 + 6 * w)
    assert np.isclose(base.scale[0], np.sqrt(0.25 + 36 * w * (1 - w)))
    assert np.isclose(base.log_zeta, np.logaddexp(-1.0, -2.0))


def test_a_mode_with_a_lower_elbo_keeps_a_floor_weight():
    """9 nats below: weight 0.05 / 1.05, not 1e-4; 11 below: none."""
    left = GaussianBase([-2.0], [0.5], 0.0)
    floor = combine_local_bases([left, GaussianBase([4.0], [0.5], -9.0)])
    w = 0.05 / 1.05
    assert np.isclose(floor.mean[0], -2 + 6 * w, atol=1e-3)
    assert np.isclose(floor.scale[0], np.sqrt(0.25 + 36 * w * (1 - w)), atol=1e-3)
    assert combine_local_bases([left, GaussianBase([4.0], [0.5], -11.0)]) == left


def test_never_narrower_than_the_widest_fit():
    narrow = GaussianBase([0.0, 0.0], [0.1, 3.0], 0.0)
    wide = GaussianBase([0.3, 1.0], [7.0, 0.2], -9.5)
    base = combine_local_bases([narrow, wide])
    assert np.all(base.standard_deviation >= np.array([7.0, 3.0]) - 1e-9)


def test_combination_needs_elbos():
    with pytest.raises(BaseError, match="no log_zeta"):
        combine_local_bases([GaussianBase([0.0], [1.0])])
    with pytest.raises(BaseError, match="no local fits"):
        combine_local_bases([])
