"""numerics.py against 60-digit decimal arithmetic and exact limits."""

import math
from decimal import Decimal, localcontext

import numba
import numpy as np
import pytest

from pymc_tempering import numerics as num

SLOPES = [0.0] + [
    sign * size
    for size in (5e-324, 1e-300, 1e-17, 1e-9, 2e-8, 1e-4, 0.03, 0.7, 1.3, 9.0, 600.0, 1e6, 1e12)
    for sign in (1.0, -1.0)
]
UNIFORMS = [0.0, 1e-300, 1e-12, 0.003, 0.25, 0.5, 0.501, 0.9, 1.0 - 1e-9, 1.0 - 2.0**-53, 1.0]


def exact_icdf(uniform, slope):
    if slope == 0.0:
        return uniform
    with localcontext() as context:
        context.prec = 450
        # e^-1e6 needs 434293 digits beside 1; below e^-1000 the smaller end is invisible in [0, 1].
        s, u = Decimal(slope), Decimal(uniform)
        if abs(s) < Decimal("1e-200"):
            return float(u + s * u * (1 - u) / 2)
        e = (-abs(s)).exp() if abs(s) < 2000 else Decimal(0)
        inside = u + (1 - u) * e if slope > 0 else (1 - u) + u * e
        if inside == 0:
            return 0.0 if slope > 0 else 1.0
        x = 1 + inside.ln() / s if slope > 0 else inside.ln() / s
        return float(min(max(x, Decimal(0)), Decimal(1)))


@pytest.mark.parametrize("slope", SLOPES)
def test_icdf_matches_high_precision(slope):
    for u in UNIFORMS:
        assert num.truncated_exponential_icdf(u, slope) == pytest.approx(
            exact_icdf(u, slope), abs=1e-13
        ), (u, slope)


@pytest.mark.parametrize("slope", SLOPES)
def test_icdf_is_monotone_inside_the_unit_interval_and_hits_its_ends(slope):
    u = np.linspace(0.0, 1.0, 3001)
    x = np.array([num.truncated_exponential_icdf(v, slope) for v in u])
    assert np.all((x >= 0.0) & (x <= 1.0))
    assert np.all(np.diff(x) >= -4e-16)
    assert x[0] == pytest.approx(0.0, abs=1e-15)
    assert x[-1] == pytest.approx(1.0, abs=1e-15)


def test_icdf_is_symmetric_and_handles_infinite_slopes():
    for slope in (0.3, 7.0, 400.0):
        for u in (0.1, 0.37, 0.8):
            mirrored = 1.0 - num.truncated_exponential_icdf(1.0 - u, -slope)
            assert num.truncated_exponential_icdf(u, slope) == pytest.approx(mirrored, abs=1e-14)
    assert num.truncated_exponential_icdf(0.3, -np.inf) == 0.0
    assert num.truncated_exponential_icdf(0.3, np.inf) == 1.0


def exact_log_exprel(x):
    if x == 0.0:
        return 0.0
    with localcontext() as context:
        context.prec = 400
        d = Decimal(x)
        if abs(d) < Decimal("1e-150"):
            return float(d / 2)
        if d > 10_000:
            return float(d - d.ln())
        if d < -10_000:
            return float(-((-d).ln()))
        return float(((d.exp() - 1) / d).ln())


@pytest.mark.parametrize(
    "size", [0.0, 1e-300, 1e-12, 1e-3, 0.0999, 0.1001, 2.0, 40.0, 745.0, 1e300]
)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_log_exprel_matches_high_precision(size, sign):
    x = sign * size
    assert num.log_exprel(x) == pytest.approx(exact_log_exprel(x), rel=2e-14, abs=0.0)


def test_log_exprel_at_infinity():
    assert num.log_exprel(np.inf) == np.inf
    assert num.log_exprel(-np.inf) == -np.inf


def test_scalar_functions_run_inside_compiled_code():
    @numba.njit
    def use_all(x):
        terms = np.array([x, -np.inf, x])
        return num.log_sum_exp(terms) + num.log_exprel(x) + num.truncated_exponential_icdf(0.5, x)

    assert use_all(1.5) == pytest.approx(use_all.py_func(1.5))


def test_log_sum_exp_limits():
    assert num.log_sum_exp(np.array([])) == -np.inf
    assert num.log_sum_exp(np.array([-np.inf, -np.inf])) == -np.inf
    assert num.log_sum_exp(np.array([np.inf, 0.0])) == np.inf
    assert math.isnan(num.log_sum_exp(np.array([np.nan, 0.0])))
    assert num.log_sum_exp(np.array([-1e5, -1e5 + 1.0])) == pytest.approx(-1e5 + math.log1p(math.e))


def test_log_mean_exp_counts_zero_terms_and_averages_one_axis():
    terms = np.array([[0.0, -np.inf], [2.0, 4.0]])
    assert num.log_mean_exp(terms) == pytest.approx(math.log((1 + math.e**2 + math.e**4) / 4))
    np.testing.assert_allclose(
        num.log_mean_exp(terms, axis=1), [-math.log(2), math.log((math.e**2 + math.e**4) / 2)]
    )


def test_weight_ess_limits():
    assert num.weight_ess(np.full(7, -1e4)) == pytest.approx(7.0)
    assert num.weight_ess([0.0, -800.0, -np.inf]) == pytest.approx(1.0)
    assert num.weight_ess([-np.inf]) == 0.0
    assert num.weight_ess([math.log(3.0), 0.0]) == pytest.approx(16.0 / 10.0)
    assert math.isnan(num.weight_ess([np.nan, 0.0]))


@pytest.mark.parametrize("k", [0.3, 0.9])
def test_pareto_k_recovers_the_index_of_pareto_weights(k):
    # Sd of the fit with 3 sqrt(n) tail weights is about (1 + k) / sqrt(950) = 0.06: 5 sds.
    log_weights = k * np.random.default_rng(11).exponential(size=100_000)
    assert num.pareto_k(log_weights - 1e4) == pytest.approx(k, abs=0.3)


def test_pareto_k_of_degenerate_weights():
    assert num.pareto_k(np.zeros(100)) == -np.inf
    assert math.isnan(num.pareto_k(np.zeros(10)))
    assert math.isnan(num.pareto_k(np.full(100, -np.inf)))
    assert math.isnan(num.pareto_k(np.full(100, np.nan)))
    log_weights = np.random.default_rng(5).normal(size=1000)
    before = log_weights.copy()
    with_zeros = np.concatenate([log_weights, np.full(10, -np.inf)])
    assert np.isfinite(num.pareto_k(with_zeros))
    num.pareto_k(log_weights)
    np.testing.assert_array_equal(log_weights, before)


@pytest.mark.parametrize("n", [1, 7, 1000])
def test_systematic_indices_have_their_shares(n, rng):
    weights = rng.exponential(size=9) * (np.arange(9) % 4 != 3)
    shares = n * weights / weights.sum()
    for _ in range(200):
        index = num.systematic_indices(weights, n, rng)
        counts = np.bincount(index, minlength=9)
        assert index.size == n
        assert (np.diff(index) >= 0).all()
        assert (np.abs(counts - shares) < 1.0 + 1e-9).all()
        assert not counts[weights == 0.0].any()


def test_systematic_indices_end_with_a_weight_above_zero():
    class Last:
        """The largest number that a generator draws."""

        def uniform(self):
            return np.nextafter(1.0, 0.0)

    for n in range(1, 300):
        assert num.systematic_indices(np.array([0.1, 0.7, 0.0]), n, Last())[-1] == 1
