"""The whole scan of continuous tempering leaves (z, beta, y) invariant, and wrong ones do not."""

from itertools import pairwise
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from pymc_tempering.kernels.beta import draw_beta, exchange_probability, piece_masses
from pymc_tempering.kernels.continuous import continuous_scans
from pymc_tempering.kernels.coupled import N_COUNTS
from pymc_tempering.kernels.density import TargetInBase, evaluate
from pymc_tempering.kernels.hmc import log_base

from pymc_tempering import testing
from pymc_tempering.testing import default_statistics, invariance_test

N = 40_000
KNOTS = np.array([0.0, 0.05, 0.3, 1.0])
GRID = np.array([0.0, 0.1, 1.0])
STEPS = np.array([1.5, 0.9, 0.35])


def driver(scans):
    """Apply one scan to each of many states (z, beta, y)."""

    @numba.njit
    def apply(states, address, mean, sd, knots, bias, rng):
        n, dim = states.shape[0], mean.size
        target = TargetInBase(address, mean, sd.reshape(1, dim), np.log(sd).sum())
        u, grad, work = np.zeros((3, dim)), np.zeros((3, dim)), np.zeros((5, dim))
        log_target, delta = np.zeros(3), np.zeros(3)
        beta, sums = np.zeros(1), np.zeros(4)
        out = np.zeros((3, 1))
        counts = np.zeros(8, dtype=np.int64)
        none = np.zeros((0, 4))
        for i in range(n):
            holder, last_end = np.arange(3), np.zeros(3, dtype=np.int64)
            for row in range(2):
                start = row * (dim + 1)
                u[row] = (states[i, start : start + dim] - mean) / sd
                log_target[row] = evaluate(target, u[row], grad[row], work)
                delta[row] = log_target[row] - log_base(u[row])
            beta[0] = states[i, dim]
            scans(
                target, knots, bias, GRID, STEPS.copy(), 1.5, 3,
                u, grad, log_target, delta, beta, holder, last_end, work,
                out[0], out[1], out[2], sums, counts, none, 0.8, rng,
            )  # fmt: skip
            states[i, :dim] = mean + sd * u[holder[0]]
            states[i, dim] = beta[0]
            states[i, dim + 1 :] = mean + sd * u[holder[1]]
        return counts

    return apply


def setting(name):
    target = testing.TARGETS[name]()
    sd = 1.5 * np.sqrt(np.diag(target.cov))
    base = SimpleNamespace(mean=target.mean + 0.3 * sd, scale=sd)
    # not log z: an error that a perfect bias would hide has to show
    bias = np.array([0.0, -0.3, 0.2, target.log_z + 0.8])
    return target, base, bias


def check(scans, name, joint, rng, n=N, n_steps=1, statistics=None, width=None):
    target, base, bias = setting(name)
    knots = KNOTS
    if width is not None:
        base = SimpleNamespace(mean=base.mean, scale=width * base.scale)
        knots, bias = np.array([0.0, 1.0]), np.array([0.0, target.log_z - 2.0])
    apply = driver(scans)

    def kernel(states, rng):
        apply(states, target.address, base.mean, base.scale, knots, bias, rng)
        return states

    def draw(rng, n):
        return joint.draws(target, base, knots, bias, rng, n, levels=False)

    if statistics is None:
        statistics = joint.statistics(target, base)
    elif statistics == "default":
        statistics = default_statistics(draw(rng, 4096))
    elif callable(statistics):
        function = statistics
        statistics = {"law": lambda states: function(states, base, bias[-1])}
    return invariance_test(kernel, draw, statistics, n=n, rng=rng, n_steps=n_steps, vectorized=True)


@pytest.mark.parametrize(
    ("name", "statistics"),
    [("asymmetric_bimodal", None), ("hard_edge_gaussian", None), ("trimodal_1d", "default")],
)
def test_scan_leaves_the_joint_density_invariant(name, statistics, joint, rng):
    """False alarm 1e-3 per test."""
    result = check(continuous_scans, name, joint, rng, n=4 * N, statistics=statistics)
    assert not result.rejected, result


def test_several_scans_are_invariant_too(joint, rng):
    """A small bias would grow with the number of scans; false alarm 1e-3."""
    result = check(continuous_scans, "asymmetric_bimodal", joint, rng, n_steps=10)
    assert not result.rejected, result


EXCHANGE = """        target_total = piece_masses(delta[y], knots, bias, log_masses)
        total = piece_masses(delta[z], knots, bias, log_masses)
        probability = exchange_probability(delta[z], total, delta[y], target_total)
        sums[2] += probability
        if rng.random() < probability:
            exchange(holder, last_end, counts)
            total = target_total
"""
DRAW = "beta[0] = draw_beta(delta[z], knots, bias, log_masses, total, rng)"
TOTAL = "        total = piece_masses(delta[z], knots, bias, log_masses)\n"
LAST = "        z = holder[0]\n" + TOTAL
ACCEPTED = """            total = target_total
            accepted = True
        else:
            accepted = False
"""

PLANTED = {
    "exchange between the beta draw and the z move": [
        (EXCHANGE, TOTAL),
        ("        delta_out[scan]", EXCHANGE + "        delta_out[scan]"),
    ],
    "beta drawn only if the exchange is accepted": [
        ("            total = target_total\n", ACCEPTED),
        (DRAW, "if accepted:\n            " + DRAW),
    ],
    "exchange by delta alone": [
        ("exchange_probability(delta[z], total, delta[y], target_total)",
         "exchange_probability(delta[z], 0.0, delta[y], 0.0)"),
    ],
    "exchange the other way round": [
        ("exchange_probability(delta[z], total, delta[y], target_total)",
         "exchange_probability(delta[y], target_total, delta[z], total)"),
    ],
    "sign of the bias": [
        (LAST, LAST.replace("bias", "-bias")),
        (DRAW, DRAW.replace("bias", "-bias")),
    ],
    "draw from the base always accepted": [
        ("probability = 1.0 if log_ratio >= 0.0 else np.exp(log_ratio)", "probability = 1.0"),
    ],
    "y moves at the beta of z": [
        ("target, 1.0, step_sizes[last]", "target, beta[0], step_sizes[last]"),
    ],
}  # fmt: skip


ALWAYS = {"exchange between the beta draw and the z move", "sign of the bias"}


@pytest.mark.parametrize(
    "error", [e if e in ALWAYS else pytest.param(e, marks=pytest.mark.slow) for e in PLANTED]
)
def test_planted_errors_are_found(error, joint, planted, rng):
    scans = planted("kernels.continuous", *PLANTED[error]).continuous_scans
    result = check(scans, "asymmetric_bimodal", joint, rng, n_steps=2)
    assert result.p_value < 1e-6, result


def test_a_truncated_exponential_off_by_5_percent_is_found(joint, planted, rng):
    """By the distribution function of beta given z, with one slope and a wide base.

    The bimodal statistics of the other tests do not see it: 5 % of a slope moves beta by 0.02 of
    its standard deviation.
    """
    target, _, _ = setting("asymmetric_bimodal")
    dim = target.dim

    def position_in_law(states, base, log_zeta):
        slope = target.delta(states[:, :dim], base) - log_zeta
        slope = np.where(np.abs(slope) < 1e-6, 1e-6, np.clip(slope, -600.0, 600.0))
        return np.sign(slope) * np.expm1(slope * states[:, dim]) / np.expm1(slope)

    wrong = [DRAW, DRAW.replace("delta[z]", "1.05 * delta[z] - 0.05 * bias[1]")]
    for scans, found in (
        (planted("kernels.continuous", wrong).continuous_scans, True),
        (continuous_scans, False),
    ):
        result = check(
            scans, "asymmetric_bimodal", joint, rng, n=8 * N, width=6.0, statistics=position_in_law
        )
        assert (result.p_value < 1e-5) == found, result


def test_beta_draw_and_exchange_alone_are_invariant(joint, rng):
    """Each move without the others; false alarm 2e-3."""
    target, base, bias = setting("asymmetric_bimodal")
    dim = target.dim

    @numba.njit
    def redraw(delta, rng):
        out, masses = np.empty(delta.size), np.empty(KNOTS.size - 1)
        for i in range(delta.size):
            total = piece_masses(delta[i], KNOTS, bias, masses)
            out[i] = draw_beta(delta[i], KNOTS, bias, masses, total, rng)
        return out

    @numba.njit
    def exchanged(delta, target_delta, rng):
        out, masses = np.zeros(delta.size, dtype=np.bool_), np.empty(KNOTS.size - 1)
        for i in range(delta.size):
            total = piece_masses(delta[i], KNOTS, bias, masses)
            other = piece_masses(target_delta[i], KNOTS, bias, masses)
            p = exchange_probability(delta[i], total, target_delta[i], other)
            out[i] = rng.random() < p
        return out

    def draw(rng, n):
        return joint.draws(target, base, KNOTS, bias, rng, n, levels=False)

    def beta_kernel(states, rng):
        states[:, dim] = redraw(target.delta(states[:, :dim], base), rng)
        return states

    def exchange_kernel(states, rng):
        z, y = states[:, :dim].copy(), states[:, dim + 1 :].copy()
        swap = exchanged(target.delta(z, base), target.delta(y, base), rng)[:, None]
        states[:, :dim], states[:, dim + 1 :] = np.where(swap, y, z), np.where(swap, z, y)
        return beta_kernel(states, rng)

    statistics = joint.statistics(target, base)
    for kernel in (beta_kernel, exchange_kernel):
        result = invariance_test(kernel, draw, statistics, n=4 * N, rng=rng, vectorized=True)
        assert not result.rejected, result


def test_exact_draws_have_the_exact_marginal_of_beta(joint, rng):
    """p(beta) proportional to z(beta) exp(-c(beta)), from quadrature; false alarm 1e-4 each."""
    target, base, bias = setting("asymmetric_bimodal")
    states = joint.draws(target, base, KNOTS, bias, rng, N, levels=False)
    grid = np.unique(np.concatenate([np.linspace(lo, hi, 41) for lo, hi in pairwise(KNOTS)]))
    density = np.exp(target.log_z_path(grid, base) - np.interp(grid, KNOTS, bias))
    cdf = np.concatenate([[0], np.cumsum(0.5 * np.diff(grid) * (density[1:] + density[:-1]))])
    exact = np.interp([0.05, 0.3], grid, cdf / cdf[-1])
    share = [(states[:, target.dim] < k).mean() for k in (0.05, 0.3)]
    assert share == pytest.approx(exact, abs=4.0 * 0.5 / np.sqrt(N) + 1e-3)


def test_trips_and_base_draws_are_counted(rng):
    """One draw from the base per scan; a restart needs a visit of the base since the last one."""
    target, base, bias = setting("hard_edge_gaussian")
    states = np.tile(np.concatenate([target.start, [1.0], target.start]), (2_000, 1))
    counts = driver(continuous_scans)(
        states, target.address, base.mean, base.scale, KNOTS, bias, rng
    )
    assert counts.size == N_COUNTS
    assert counts[6] == 2_000
    inside = np.isfinite(target.delta(base.mean + base.scale * rng.standard_normal(
        (20_000, target.dim)), base)).mean()  # fmt: skip
    assert counts[7] / counts[6] == pytest.approx(inside, abs=4.5 * 0.5 / np.sqrt(2_000))
    # histories start afresh in every state, so that no position comes from the base when exchanged
    assert counts[0] == counts[1] == 0
