"""The whole scan of continuous tempering leaves (z, beta, y) invariant, and wrong ones do not."""

from itertools import pairwise

import numba
import numpy as np
import pytest
from laws import ASKEW, MAPPED, ExactPath, GaussianLaw, pair_statistics
from loops import pair_kernel
from planted import with_planted

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.beta import draw_beta, exchange_probability, piece_masses
from pymc_tempering.engine.ensembles.pair_scans import (
    Bias,
    PairScans,
    continuous_scans,
    exchange_marginally,
    move,
    move_target,
    redraw_beta,
    try_reference,
)
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.replicas import draw_from_reference
from pymc_tempering.engine.tally import (
    COUNTERS,
    REFERENCE_DRAWS,
    RESTARTS,
    ROUND_TRIPS,
    SUPPORTED_DRAWS,
)
from pymc_tempering.testing import default_statistics, invariance_test

N = 40_000
KNOTS = np.array([0.0, 0.05, 0.3, 1.0])
GRID = np.array([0.0, 0.1, 1.0])
STEPS = np.array([1.5, 0.9, 0.35])
SETTINGS = Hamiltonian(max_steps=3)


def setting(name, width=1.0):
    """Exact path from a base that is off in place and width, and a bias.

    The bias is not log z: an error that a perfect one would hide has to show.
    """
    target = testing.TARGETS[name]()
    sd = 1.5 * np.sqrt(np.diag(target.cov))
    base = GaussianBase(target.mean + 0.3 * sd, width * sd)
    return ExactPath(target, GaussianLaw(base)), np.array([0.0, -0.3, 0.2, target.log_z + 0.8])


def kernel_of(scans, path, knots, bias):
    coordinates = path.reference.base if isinstance(path.reference, GaussianLaw) else ASKEW
    return pair_kernel(
        scans, path.in_coordinates(coordinates), Bias(knots, bias, GRID), STEPS, settings=SETTINGS
    )


def check(scans, name, rng, n=N, n_steps=1, statistics=None, width=None):
    path, bias = setting(name, width or 1.0)
    knots = KNOTS
    if width is not None:
        knots, bias = np.array([0.0, 1.0]), np.array([0.0, path.target.log_z - 2.0])

    def draw(rng, n):
        return path.draw_joint(rng, n, knots, bias, levels=False)

    if statistics is None:
        statistics = pair_statistics(path)
    elif statistics == "default":
        statistics = default_statistics(draw(rng, 4096))
    elif callable(statistics):
        function = statistics
        statistics = {"law": lambda states: function(states, path, bias[-1])}
    kernel = kernel_of(scans, path, knots, bias)
    return invariance_test(kernel, draw, statistics, n=n, rng=rng, n_steps=n_steps, vectorized=True)


@pytest.mark.parametrize(
    ("name", "statistics"),
    [("asymmetric_bimodal", None), ("hard_edge_gaussian", None), ("trimodal_1d", "default")],
)
def test_scan_leaves_the_joint_density_invariant(name, statistics, rng):
    """False alarm 1e-3 per test."""
    result = check(continuous_scans, name, rng, n=4 * N, statistics=statistics)
    assert not result.rejected, result


def test_several_scans_are_invariant_too(rng):
    """A small bias would grow with the number of scans; false alarm 1e-3."""
    result = check(continuous_scans, "asymmetric_bimodal", rng, n_steps=10)
    assert not result.rejected, result


def no_exchange(s, log_masses, rng):
    pass


def redraw_and_exchange(s, log_masses, rng):
    redraw_beta(s, log_masses, rng)
    exchange_marginally(s, log_masses, rng)


def exchange_that_tells(s, log_masses, rng):
    z = s.pair.holder[0]
    exchange_marginally(s, log_masses, rng)
    # not used in continuous tempering
    s.pair.level[0] = s.pair.holder[0] != z


def redraw_after_acceptance(s, log_masses, rng):
    if s.pair.level[0] == 1:
        redraw_beta(s, log_masses, rng)


def exchange_by_delta(delta, total, target_delta, target_total):
    return exchange_probability(delta, 0.0, target_delta, 0.0)


def exchange_reversed(delta, total, target_delta, target_total):
    return exchange_probability(target_delta, target_total, delta, total)


def redraw_with_wrong_sign(s, log_masses, rng):
    wrong = Bias(s.bias.betas, -s.bias.bias, s.bias.grid)
    redraw_beta(
        PairScans(s.path, s.explorer, wrong, s.pair, s.replicas, s.adaptation, s.log), log_masses,
        rng,
    )  # fmt: skip


def always_the_reference(s, draw, log_masses, rng):
    holder = s.pair.holder
    draw_from_reference(s.path, s.replicas, holder[2], draw, rng)
    holder[0], holder[2] = holder[2], holder[0]
    return 0.0


def move_target_at_beta(s, rng):
    last = s.adaptation.scales.shape[0] - 1
    move(s, (s.pair.beta[0], s.adaptation.scales[last], last), s.pair.holder[1], rng)


PLANTED = {
    "exchange between the beta draw and the z move": {
        exchange_marginally: no_exchange, redraw_beta: redraw_and_exchange,
    },
    "beta drawn only if the exchange is accepted": {
        exchange_marginally: exchange_that_tells, redraw_beta: redraw_after_acceptance,
    },
    "exchange by delta alone": {exchange_probability: exchange_by_delta},
    "exchange the other way round": {exchange_probability: exchange_reversed},
    "sign of the bias": {redraw_beta: redraw_with_wrong_sign},
    "draw from the base always accepted": {try_reference: always_the_reference},
    "y moves at the beta of z": {move_target: move_target_at_beta},
}  # fmt: skip


ALWAYS = {"exchange between the beta draw and the z move", "sign of the bias"}


@pytest.mark.parametrize(
    "error", [e if e in ALWAYS else pytest.param(e, marks=pytest.mark.slow) for e in PLANTED]
)
def test_planted_errors_are_found(error, rng):
    scans = with_planted(continuous_scans, PLANTED[error])
    result = check(scans, "asymmetric_bimodal", rng, n_steps=2)
    assert result.p_value < 1e-6, result


def too_steep(delta, knots, bias, log_masses, log_total, rng):
    return draw_beta(1.05 * delta - 0.05 * bias[1], knots, bias, log_masses, log_total, rng)


@pytest.mark.slow
@pytest.mark.parametrize("wrong", [False, True])
def test_a_truncated_exponential_off_by_5_percent_is_found(wrong, rng):
    """By the distribution function of beta given z, with one slope and a wide base.

    The bimodal statistics of the other tests do not see it: 5 % of a slope moves beta by 0.02 of
    its standard deviation.
    """

    def position_in_law(states, path, log_zeta):
        slope = path.delta(states[:, : path.target.dim]) - log_zeta
        slope = np.where(np.abs(slope) < 1e-6, 1e-6, np.clip(slope, -600.0, 600.0))
        beta = states[:, path.target.dim]
        return np.sign(slope) * np.expm1(slope * beta) / np.expm1(slope)

    scans = with_planted(continuous_scans, {draw_beta: too_steep}) if wrong else continuous_scans
    result = check(scans, "asymmetric_bimodal", rng, n=8 * N, width=6.0, statistics=position_in_law)
    assert (result.p_value < 1e-5) == wrong, result


@numba.njit
def redrawn(delta, knots, bias, rng):
    out, masses = np.empty(delta.size), np.empty(knots.size - 1)
    for i in range(delta.size):
        total = piece_masses(delta[i], knots, bias, masses)
        out[i] = draw_beta(delta[i], knots, bias, masses, total, rng)
    return out


@numba.njit
def exchanged(delta, target_delta, knots, bias, rng):
    out, masses = np.zeros(delta.size, dtype=np.bool_), np.empty(knots.size - 1)
    for i in range(delta.size):
        total = piece_masses(delta[i], knots, bias, masses)
        other = piece_masses(target_delta[i], knots, bias, masses)
        p = exchange_probability(delta[i], total, target_delta[i], other)
        out[i] = rng.random() < p
    return out


@pytest.mark.slow
def test_beta_draw_and_exchange_alone_are_invariant(rng):
    """Each move without the others; false alarm 2e-3."""
    path, bias = setting("asymmetric_bimodal")
    dim = path.target.dim

    def draw(rng, n):
        return path.draw_joint(rng, n, KNOTS, bias, levels=False)

    def beta_kernel(states, rng):
        states[:, dim] = redrawn(path.delta(states[:, :dim]), KNOTS, bias, rng)
        return states

    def exchange_kernel(states, rng):
        z, y = states[:, :dim].copy(), states[:, dim + 1 :].copy()
        swap = exchanged(path.delta(z), path.delta(y), KNOTS, bias, rng)[:, None]
        states[:, :dim], states[:, dim + 1 :] = np.where(swap, y, z), np.where(swap, z, y)
        return beta_kernel(states, rng)

    for kernel in (beta_kernel, exchange_kernel):
        result = invariance_test(
            kernel, draw, pair_statistics(path), n=4 * N, rng=rng, vectorized=True
        )
        assert not result.rejected, result


def test_exact_draws_have_the_exact_marginal_of_beta(rng):
    """p(beta) proportional to z(beta) exp(-c(beta)), from quadrature; false alarm 1e-4 each."""
    path, bias = setting("asymmetric_bimodal")
    target = path.target
    states = path.draw_joint(rng, N, KNOTS, bias, levels=False)
    grid = np.unique(np.concatenate([np.linspace(lo, hi, 41) for lo, hi in pairwise(KNOTS)]))
    log_z = target.log_z_path(grid, path.reference.base)
    density = np.exp(log_z - np.interp(grid, KNOTS, bias))
    cdf = np.concatenate([[0], np.cumsum(0.5 * np.diff(grid) * (density[1:] + density[:-1]))])
    exact = np.interp([0.05, 0.3], grid, cdf / cdf[-1])
    share = [(states[:, target.dim] < k).mean() for k in (0.05, 0.3)]
    assert share == pytest.approx(exact, abs=4.0 * 0.5 / np.sqrt(N) + 1e-3)


def test_trips_and_base_draws_are_counted(rng):
    """One draw from the base per scan; a restart needs a visit of the base since the last one."""
    path, bias = setting("hard_edge_gaussian")
    start = path.target.start
    states = np.tile(np.concatenate([start, [1.0], start]), (2_000, 1))
    kernel = kernel_of(continuous_scans, path, KNOTS, bias)
    kernel(states, rng)
    counts = kernel.log.counts.sum(axis=0)
    assert counts.size == len(COUNTERS)
    assert counts[REFERENCE_DRAWS] == 2_000
    inside = np.isfinite(path.delta(path.reference.draw(20_000, rng))).mean()
    share = counts[SUPPORTED_DRAWS] / counts[REFERENCE_DRAWS]
    assert share == pytest.approx(inside, abs=4.5 * 0.5 / np.sqrt(2_000))
    # histories start afresh in every state, so that no position comes from the base when exchanged
    assert counts[ROUND_TRIPS] == counts[RESTARTS] == 0


@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_pair_from_a_reference_that_is_not_gaussian(wrong, rng):
    """False alarm 1e-3; draws of the reference that are always accepted are found."""
    bias = np.array([0.0, -0.3, 0.2, MAPPED.target.log_z + 0.8])
    scans = continuous_scans
    if wrong:
        scans = with_planted(continuous_scans, {try_reference: always_the_reference})
    result = invariance_test(
        kernel_of(scans, MAPPED, KNOTS, bias),
        lambda rng, n: MAPPED.draw_joint(rng, n, KNOTS, bias, levels=False),
        pair_statistics(MAPPED), n=2 * N, rng=rng, n_steps=2, vectorized=True,
    )  # fmt: skip
    assert result.rejected == wrong, result
