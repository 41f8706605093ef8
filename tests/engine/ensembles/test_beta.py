"""Draws of beta against exact distribution functions, whatever the slope."""

from decimal import Decimal, localcontext

import numba
import numpy as np
import pytest
from scipy import stats

from pymc_tempering.engine.ensembles.beta import (
    draw_beta,
    draw_level,
    exchange_probability,
    level_masses,
    neighbour_level,
    piece_masses,
)

N = 20_000
ALPHA = 1e-5
"""False-alarm rate of each Kolmogorov-Smirnov test; about 60 of them run."""


@numba.njit
def many_betas(delta, knots, bias, n, rng):
    masses = np.empty(knots.size - 1)
    total = piece_masses(delta, knots, bias, masses)
    out = np.empty(n)
    for i in range(n):
        out[i] = draw_beta(delta, knots, bias, masses, total, rng)
    return out


@numba.njit
def many_levels(delta, betas, weights, n, rng):
    masses = np.empty(betas.size)
    total = level_masses(delta, betas, weights, masses)
    out = np.empty(n, dtype=np.int64)
    for i in range(n):
        out[i] = draw_level(masses, total, rng)
    return out


@numba.njit
def neighbour_chain(start, delta, betas, weights, rng):
    masses = np.empty(betas.size)
    level_masses(delta, betas, weights, masses)
    out = np.empty_like(start)
    for i in range(start.size):
        out[i] = neighbour_level(start[i], masses, rng)
    return out


def truncated_exponential_cdf(x, slope):
    """On [0, 1], by formulas without cancellation, apart from the package's."""
    x = np.asarray(x)
    if abs(slope) < 1e-8:
        return x - 0.5 * slope * x * (1 - x)
    if slope < 0:
        return np.expm1(slope * x) / np.expm1(slope)
    upper = np.exp(slope * (x - 1.0)) - np.exp(-slope)
    return upper / -np.expm1(-slope)


SLOPES = [10.0**k for k in (-300, -30, -12, -8, -7, -4, -1, 0, 0.5, 1, 2, 3, 6)]


@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("slope", SLOPES)
def test_one_piece_is_a_truncated_exponential(slope, sign, rng):
    """Eq. 18 of Graham & Storkey (2017) for slopes of either sign, 300 orders of magnitude."""
    beta = many_betas(sign * slope, np.array([0.0, 1.0]), np.array([0.0, 0.0]), N, rng)
    assert beta.min() >= 0.0
    assert beta.max() <= 1.0
    # near 1 the digits of beta itself end, so the distance from the dense end is compared
    test = stats.kstest(beta, lambda x: truncated_exponential_cdf(x, sign * slope))
    if sign * slope > 1e5:
        exact = np.quantile(-np.log(rng.random(N)) / slope, [0.1, 0.5, 0.9])
        assert np.quantile(1.0 - beta, [0.1, 0.5, 0.9]) == pytest.approx(exact, rel=0.15)
    assert test.pvalue > ALPHA, test


@pytest.mark.parametrize("log_zeta", [-1e6, -3.0, 0.0, 2.0, 1e6])
def test_a_slope_of_the_bias_acts_like_minus_delta(log_zeta, seed):
    """c = beta log_zeta and delta enter as their difference only, eq. 18."""
    knots = np.array([0.0, 1.0])
    left = many_betas(
        log_zeta - 1.5, knots, np.array([0.0, log_zeta]), 100, np.random.default_rng(seed)
    )
    right = many_betas(-1.5, knots, np.zeros(2), 100, np.random.default_rng(seed))
    assert left == pytest.approx(right, abs=1e-8)


KNOTS = np.array([0.0, 1e-4, 0.03, 0.2, 0.5, 1.0])
BIAS = np.array([0.0, -3.0, 1.0, 0.5, -2.0, 2.5])


def mixture_cdf(delta, knots, bias):
    """Exact masses and distribution function of the piecewise density, to 60 digits."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 10**9, -(10**9)
        k, c = [Decimal(float(v)) for v in knots], [Decimal(float(v)) for v in bias]
        masses = []
        for j in range(len(k) - 1):
            width = k[j + 1] - k[j]
            rise = width * Decimal(delta) - (c[j + 1] - c[j])
            integral = width if rise == 0 else width * (rise.exp() - 1) / rise
            masses.append((k[j] * Decimal(delta) - c[j]).exp() * integral)
        total = sum(masses)
        shares = np.array([float(m / total) for m in masses])
        log_total = float(total.ln())
    slopes = np.diff(knots) * delta - np.diff(bias)

    def cdf(x):
        j = np.clip(np.searchsorted(knots, x, side="right") - 1, 0, len(shares) - 1)
        inside = np.array(
            [
                truncated_exponential_cdf((v - knots[i]) / (knots[i + 1] - knots[i]), slopes[i])
                for v, i in zip(np.atleast_1d(x), np.atleast_1d(j), strict=True)
            ]
        )
        return np.concatenate([[0.0], np.cumsum(shares)])[j] + shares[j] * inside

    return cdf, log_total


@pytest.mark.parametrize("delta", [-1e6, -3e3, -40.0, -2.0, 0.0, 5.0, 300.0, 1e6])
def test_a_piecewise_bias_is_a_mixture_over_pieces(delta, rng):
    cdf, log_total = mixture_cdf(delta, KNOTS, BIAS)
    masses = np.empty(KNOTS.size - 1)
    assert piece_masses(delta, KNOTS, BIAS, masses) == pytest.approx(log_total, rel=1e-13)
    beta = many_betas(delta, KNOTS, BIAS, N, rng)
    test = stats.kstest(beta, cdf)
    assert test.pvalue > ALPHA, test


def test_a_truncated_exponential_off_by_5_percent_is_found(rng):
    """Planted: the KS tests above reject a slope of 1.05 times the right one, p < 1e-5.

    At slope -10 the largest distance of the two is 0.018, 2.6 times what N draws distinguish.
    """
    beta = many_betas(-10.5, np.array([0.0, 1.0]), np.zeros(2), 5 * N, rng)
    assert stats.kstest(beta, lambda x: truncated_exponential_cdf(x, -10.0)).pvalue < ALPHA


def test_zero_density_has_no_mass():
    masses = np.empty(KNOTS.size - 1)
    assert piece_masses(-np.inf, KNOTS, BIAS, masses) == -np.inf
    assert exchange_probability(-np.inf, -np.inf, 0.0, 0.5) == 0.0
    masses = np.empty(3)
    total = level_masses(-np.inf, np.array([0.0, 0.1, 1.0]), np.array([0.5, 2.0, 3.0]), masses)
    assert total == 0.5
    assert np.exp(masses).round(3).tolist() == [1.649, 0.0, 0.0]


BETAS = np.array([0.0, 0.05, 0.3, 1.0])
WEIGHTS = np.array([0.3, 1.0, -0.5, 2.0])


@pytest.mark.parametrize("delta", [-30.0, -2.0, 0.0, 1.5])
def test_levels_have_their_conditional_probabilities(delta, rng):
    """Chi-square with false-alarm rate 1e-5; expected counts below 5 are pooled."""
    levels = many_levels(delta, BETAS, WEIGHTS, N, rng)
    p = np.exp(BETAS * delta + WEIGHTS)
    check_counts(levels, p / p.sum())


def test_levels_at_zero_density_are_the_base(rng):
    assert (many_levels(-np.inf, BETAS, WEIGHTS, 100, rng) == 0).all()


@pytest.mark.parametrize("delta", [-4.0, -1.0, 1.5])
def test_neighbour_steps_leave_the_conditional_invariant(delta, rng):
    """From exact levels to exact levels, never more than one away; false-alarm rate 1e-5."""
    p = np.exp(BETAS * delta + WEIGHTS)
    p /= p.sum()
    start = rng.choice(BETAS.size, size=N, p=p)
    end = neighbour_chain(start, delta, BETAS, WEIGHTS, rng)
    assert np.abs(end - start).max() == 1
    check_counts(end, p)
    # in equilibrium as many go up as come down between every pair
    for k in range(BETAS.size - 1):
        up = int(((start == k) & (end == k + 1)).sum())
        down = int(((start == k + 1) & (end == k)).sum())
        assert stats.binomtest(up, up + down).pvalue > ALPHA


def check_counts(levels, p):
    counts = np.bincount(levels, minlength=p.size)
    large = p * levels.size > 5
    counts = np.append(counts[large], counts[~large].sum())
    expected = np.append(p[large], p[~large].sum()) * levels.size
    if expected[-1] == 0:
        counts, expected = counts[:-1], expected[:-1]
    assert stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > ALPHA


def test_exchange_is_the_ratio_of_target_weights():
    """min(1, w(z) / w(y)), w = exp(delta - c(1)) / N; with the exponent of either sign."""
    assert exchange_probability(-1.0, 0.2, 1.0, 0.7) == pytest.approx(np.exp(-1.2 - 0.3))
    assert exchange_probability(1.0, 0.7, -1.0, 0.2) == 1.0
