"""Bennett's ratio against exact Gaussian ratios, its own equation, and planted errors."""

from functools import partial

import numpy as np
import pytest
from scipy.special import expit

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.bar import bar, neighbour_overlap

bar_of = bar


def test_unequal_sample_sizes_are_weighted(rng, ladder):
    """Forward 40 000 and reverse 2000 independent samples: 5 standard errors, 1 seed in 10^6."""
    forward = ladder.delta(rng.normal(size=40_000)) * 0.35
    mean, sd = ladder.moments(0.35)
    reverse = -0.35 * ladder.delta(mean + sd * rng.normal(size=2000))
    estimate = bar(forward, reverse)
    se = np.hypot(
        estimate.forward_influence.std() / np.sqrt(40_000),
        estimate.reverse_influence.std() / np.sqrt(2000),
    )
    assert 0.0 < se < 0.05
    assert abs(estimate.log_ratio - ladder.log_z(0.35)) < 5 * se


def test_estimate_solves_bennetts_equation(rng):
    forward, reverse = rng.normal(3.0, 2.0, size=300), rng.normal(-4.0, 1.0, size=100)
    estimate = bar(forward, reverse)
    shift = np.log(100 / 300) - estimate.log_ratio
    left, right = expit(forward + shift).sum(), expit(reverse - shift).sum()
    assert left == pytest.approx(right, rel=1e-10)
    swapped = bar(reverse, forward)
    assert swapped.log_ratio == pytest.approx(-estimate.log_ratio, abs=1e-10)
    assert swapped.overlap == pytest.approx(estimate.overlap)


@pytest.mark.parametrize("n_effective", [(300.0, 100.0), (300.0, 7.0), (20.0, 100.0)])
def test_effective_numbers_weigh_the_densities(rng, n_effective):
    """Meng and Wong's fixed point: both means of the bridge function with these weights."""
    forward, reverse = rng.normal(3.0, 2.0, size=300), rng.normal(-4.0, 1.0, size=100)
    estimate = bar(forward, reverse, n_effective=n_effective)
    share = np.array(n_effective) / sum(n_effective)
    ratio = np.exp(estimate.log_ratio)
    weights, back = np.exp(forward), np.exp(-reverse)
    numerator = (weights / (share[1] * weights + share[0] * ratio)).mean()
    denominator = (1.0 / (share[1] * back + share[0] * ratio)).mean()
    assert numerator / denominator == pytest.approx(ratio, rel=1e-9)
    if n_effective == (300.0, 100.0):
        assert estimate.log_ratio == bar(forward, reverse).log_ratio


@pytest.mark.parametrize("n_effective", [None, (400.0, 30.0)])
def test_influence_is_the_derivative_of_the_estimate(rng, n_effective):
    """Giving one sample twice moves the estimate by its influence over n."""
    forward, reverse = rng.normal(1.0, 1.0, size=400), rng.normal(-1.0, 1.5, size=400)
    bar = partial(bar_of, n_effective=n_effective)
    estimate = bar(forward, reverse)
    i, j = int(np.argmax(forward)), int(np.argmax(reverse))
    # Replacing sample a by b changes the mean of the influence by (b - a) / n.
    a = int(np.argmin(forward))
    changed = forward.copy()
    changed[a] = forward[i]
    expected = (estimate.forward_influence[i] - estimate.forward_influence[a]) / 400
    assert bar(changed, reverse).log_ratio - estimate.log_ratio == pytest.approx(expected, rel=0.05)
    b = int(np.argmin(reverse))
    changed = reverse.copy()
    changed[b] = reverse[j]
    expected = (estimate.reverse_influence[j] - estimate.reverse_influence[b]) / 400
    assert bar(forward, changed).log_ratio - estimate.log_ratio == pytest.approx(expected, rel=0.05)


def test_partly_and_wholly_disjoint_supports():
    finite = bar([-np.inf, 0.0], [0.0, 0.0])
    # expit(-x) = 2 expit(x) has the solution 1/2 for z_upper / z_lower.
    assert finite.log_ratio == pytest.approx(-np.log(2))
    assert bar([-np.inf], [1.0]).log_ratio == -np.inf
    assert bar([1.0], [-np.inf]).log_ratio == np.inf
    assert np.isnan(bar([-np.inf], [-np.inf]).log_ratio)
    assert bar([-np.inf], [1.0]).overlap == 0.0


def test_far_apart_densities_stay_finite():
    estimate = bar(np.full(10, -5000.0), np.full(10, -5000.0))
    assert estimate.log_ratio == pytest.approx(0.0, abs=1e-9)
    assert estimate.overlap == 0.0


@pytest.mark.parametrize("bad", [[], [np.nan], [np.inf]])
def test_invalid_values_are_refused(bad):
    with pytest.raises(DataError, match="forward"):
        bar(bad, [0.0])
    with pytest.raises(DataError, match="reverse"):
        bar([0.0], bad)


def test_overlap_orders_pairs(rng, ladder, betas):
    overlap = neighbour_overlap(ladder.draw(rng, 5000, betas), betas)
    assert overlap.shape == (4,)
    assert np.all((overlap > 0) & (overlap < 1))
    assert neighbour_overlap(ladder.draw(rng, 5000, [0.0, 1.0]), [0.0, 1.0]) < overlap.min()
