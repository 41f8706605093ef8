"""The invariance test accepts exact kernels and finds wrong ones, at its stated rates."""

from types import SimpleNamespace

import numba
import numpy as np
import pytest
from laws import delta_statistics
from scipy import stats

from pymc_tempering import testing
from pymc_tempering.errors import OptionError
from pymc_tempering.testing import (
    default_statistics,
    invariance_test,
)

N = 50_000


def metropolis(target, scale, accept_shift=0.0, drift=0.0, log_jacobian=None):
    """Random walk; wrong with an acceptance bonus, or a drift that is left uncorrected."""

    def kernel(x, rng):
        proposal = x + drift + scale * rng.normal(size=x.shape)
        log_ratio = target.log_density(proposal) - target.log_density(x)
        if log_jacobian is not None:
            log_ratio += log_jacobian(proposal) - log_jacobian(x)
        accept = rng.random(len(x)) < np.exp(np.minimum(log_ratio, 0.0)) + accept_shift
        return np.where(accept[:, None], proposal, x)

    return kernel


def hmc(target, step_size, n_leapfrog, correct=True):
    def gradient(x):
        return np.array([target.value_and_grad(row)[1] for row in x])

    def kernel(x, rng):
        p = rng.normal(size=x.shape)
        before = target.log_density(x) - 0.5 * (p**2).sum(1)
        y, g = x, gradient(x)
        for _ in range(n_leapfrog):
            p = p + 0.5 * step_size * g
            y = y + step_size * p
            g = gradient(y)
            p = p + 0.5 * step_size * g
        after = target.log_density(y) - 0.5 * (p**2).sum(1)
        accept = np.log1p(-rng.random(len(x))) < after - before
        return np.where(accept[:, None] | (not correct), y, x)

    return kernel


@pytest.mark.parametrize("name", sorted(testing.TARGETS))
def test_exact_metropolis_is_accepted_on_every_target(name, rng):
    """False alarm 1e-3 per target."""
    target = testing.TARGETS[name]()
    kernel = metropolis(target, scale=0.8)
    result = invariance_test(kernel, target.draw, n=N, rng=rng, n_steps=3, vectorized=True)
    assert not result.rejected, result


def test_exact_hmc_is_accepted_and_without_metropolis_rejected(rng):
    """False alarm 1e-3; the power of the second half is 0.99 and more."""
    target = testing.correlated_gaussian()
    right = hmc(target, 0.6, 3)
    assert not invariance_test(right, target.draw, n=4_000, rng=rng, vectorized=True).rejected
    wrong = hmc(target, 0.6, 3, correct=False)
    result = invariance_test(wrong, target.draw, n=4_000, rng=rng, vectorized=True)
    assert result.rejected, result


WRONG = {
    "missing Jacobian": (
        testing.skewed_gamma(),
        {"scale": 1.0, "log_jacobian": lambda z: -z.sum(axis=1)},
    ),
    "acceptance 5 % too high": (
        testing.correlated_gaussian(),
        {"scale": 1.0, "accept_shift": 0.05},
    ),
    "acceptance 5 % too high, bimodal": (
        testing.asymmetric_bimodal(),
        {"scale": 1.0, "accept_shift": 0.05},
    ),
    "biased proposal": (testing.trimodal_1d(), {"scale": 1.0, "drift": 0.1}),
    "biased proposal, heavy tail": (testing.heavy_tail(), {"scale": 1.0, "drift": 0.1}),
}


@pytest.mark.parametrize("wrong", list(WRONG))
def test_wrong_kernels_are_rejected_with_power(wrong, seed):
    """Each alone with power 0.99 at least: all of 10 in a row, and with p-values far below."""
    target, errors = WRONG[wrong]
    kernel = metropolis(target, **errors)
    for stream in np.random.default_rng(seed).spawn(10):
        result = invariance_test(kernel, target.draw, n=N, rng=stream, vectorized=True)
        assert result.rejected, result
        # 2.33 standard errors beyond the critical value give power 0.99; here it is far more
        assert result.p_value < 1e-5, result


def test_false_alarm_rate_is_the_stated_one(seed):
    """400 correct runs at alpha = 0.05: more than 38 alarms has probability 6e-5."""
    target = testing.trimodal_1d()
    kernel = metropolis(target, scale=2.0)
    streams = np.random.default_rng(seed).spawn(400)
    alarms = [
        invariance_test(
            kernel, target.draw, n=300, rng=stream, alpha=0.05, vectorized=True
        ).rejected
        for stream in streams
    ]
    assert sum(alarms) <= stats.binom.isf(1e-4, 400, 0.05)


def test_stated_power_is_reached_where_the_docstring_says(seed):
    """An independence kernel shifted by exactly the detectable amount: 99 % of 200 runs.

    Holm's method and the other statistics only add power, so fewer than 190 has probability 1e-4.
    """

    def draw(rng, n):
        return rng.normal(size=(n, 1))

    def shifted(x, rng):
        return rng.normal(size=x.shape) + shift

    identity = {"x": lambda x: x[:, 0]}
    n = 2_000
    shift = (stats.norm.isf(0.5e-3 / 2) + stats.norm.ppf(0.99)) * np.sqrt(2.0 / n)
    found = [
        invariance_test(shifted, draw, identity, n=n, rng=stream, vectorized=True).rejected
        for stream in np.random.default_rng(seed).spawn(200)
    ]
    assert sum(found) >= stats.binom.ppf(1e-4, 200, 0.99)
    shift = shift / 2
    found = [
        invariance_test(shifted, draw, identity, n=n, rng=stream, vectorized=True).rejected
        for stream in np.random.default_rng(seed).spawn(200)
    ]
    assert sum(found) < 150


def test_result_says_what_it_found(rng):
    target = testing.trimodal_1d()
    kernel = metropolis(target, 1.0, drift=0.3)
    result = invariance_test(kernel, target.draw, n=N, rng=rng, vectorized=True)
    assert "REJECTED" in repr(result)
    assert list(result.table.columns) == [
        "statistic", "test", "before", "after", "shift", "detectable", "p_value", "p_holm",
    ]  # fmt: skip
    means = result.table[result.table["test"] == "mean"].set_index("statistic")
    assert means.loc["x[0]", "shift"] > means.loc["x[0]", "detectable"] > 0
    assert result.table["p_holm"].is_monotonic_increasing
    assert result.table["p_holm"].iloc[0] == result.p_value
    assert "not rejected" in repr(
        invariance_test(lambda x, rng: x, target.draw, n=200, rng=rng, alpha=1e-9)
    )


def test_result_depends_on_the_generator_alone(seed):
    target = testing.banana()
    kernel = metropolis(target, 1.0)
    first, second, other = (
        invariance_test(
            kernel, target.draw, n=500, rng=np.random.default_rng(s), vectorized=True
        ).table
        for s in (seed, seed, seed + 1)
    )
    assert first.equals(second)
    assert not first.equals(other)


def test_single_state_and_compiled_kernels_are_accepted_too(rng):
    """False alarm 2e-3."""

    def one(x, rng):
        return -x if rng.random() < 0.5 else x

    def draw(rng, n):
        return rng.standard_t(3, size=(n, 2, 2))

    assert not invariance_test(one, draw, n=2_000, rng=rng).rejected

    @numba.njit
    def many(x, rng):
        for i in range(x.shape[0]):
            x[i, 0, 0] = -x[i, 0, 0]
        return x

    assert not invariance_test(many, draw, n=2_000, rng=rng, vectorized=True).rejected


def test_state_that_is_not_finite_rejects(rng):
    def broken(x, rng):
        x[0] = np.nan
        return x

    result = invariance_test(broken, testing.banana().draw, n=200, rng=rng, vectorized=True)
    assert result.rejected
    assert result.table["statistic"].tolist() == ["all finite"]


def test_default_statistics_of_long_states_stay_few(rng):
    assert len(default_statistics(rng.normal(size=(50, 3)))) == 4 * 3 + 3
    assert len(default_statistics(rng.normal(size=(50, 10, 6)))) < 8 * 60


def test_wrong_arguments_are_refused(rng):
    draw = testing.banana().draw
    with pytest.raises(OptionError, match="n >= 100"):
        invariance_test(lambda x, rng: x, draw, n=10, rng=rng)
    with pytest.raises(OptionError, match="same shape"):
        invariance_test(lambda x, rng: x[:, :1], draw, n=200, rng=rng, vectorized=True)
    with pytest.raises(OptionError, match="statistic 'all'"):
        invariance_test(lambda x, rng: x, draw, {"all": lambda x: x}, n=200, rng=rng)
    with pytest.raises(OptionError, match="draw_exact"):
        invariance_test(lambda x, rng: x, lambda rng, n: draw(rng, n) + np.nan, n=200, rng=rng)


def scan(target, base, betas, swap_sign=1.0, weight_of_level=lambda beta: beta):
    """One parallel tempering scan on (n, levels, D): Metropolis at every level, then swaps."""

    def kernel(states, rng):
        n = len(states)
        for k, beta in enumerate(betas):
            x = states[:, k]
            y = x + 0.8 * rng.normal(size=x.shape)
            b = weight_of_level(beta)
            log_ratio = target.log_path(y, b, base) - target.log_path(x, b, base)
            states[:, k] = np.where((np.log1p(-rng.random(n)) < log_ratio)[:, None], y, x)
        for parity in (0, 1):
            for k in range(parity, len(betas) - 1, 2):
                low, high = states[:, k].copy(), states[:, k + 1].copy()
                gain = target.delta(high, base) - target.delta(low, base)
                log_ratio = -swap_sign * (betas[k + 1] - betas[k]) * gain
                swap = (np.log1p(-rng.random(n)) < log_ratio)[:, None]
                states[:, k], states[:, k + 1] = (
                    np.where(swap, high, low),
                    np.where(swap, low, high),
                )
        return states

    return kernel


@pytest.mark.parametrize("name", ["asymmetric_bimodal", "skewed_gamma", "hard_edge_gaussian"])
def test_parallel_tempering_scan_as_one_kernel(name, rng):
    """The joint state of all levels: false alarm 2e-3; wrong swaps and levels found, power 0.99."""
    target = testing.TARGETS[name]()
    base = SimpleNamespace(mean=target.mean, scale=1.5 * np.sqrt(np.diag(target.cov)))
    betas = [0.0, 0.4, 1.0]
    deltas = delta_statistics(target, base, len(betas))

    def draw(rng, n):
        return target.draw_levels(rng, n, betas, base)

    if name == "hard_edge_gaussian":
        # the base draws from beyond the edge too, and such replicas must never be swapped up
        assert np.any(target.delta(draw(rng, 100)[:, 0], base) == -np.inf)

    def test(kernel, statistics, n_steps=1):
        return invariance_test(
            kernel, draw, statistics, n=20_000, rng=rng, n_steps=n_steps, vectorized=True
        )

    right = scan(target, base, betas)
    for statistics in (None, deltas):
        result = test(right, statistics)
        assert not result.rejected, result
    for wrong, n_steps in (
        (scan(target, base, betas, swap_sign=0.8), 1),
        (scan(target, base, betas, swap_sign=-1.0), 1),
        (scan(target, base, betas, weight_of_level=lambda beta: beta**2.5), 4),
    ):
        result = test(wrong, deltas, n_steps)
        assert result.p_value < 1e-5, result
