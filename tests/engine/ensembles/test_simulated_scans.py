"""The whole scan of simulated tempering leaves (z, level, y) invariant, and wrong ones do not."""

import numpy as np
import pytest
from laws import ASKEW, MAPPED, ExactPath, GaussianLaw, pair_statistics
from loops import pair_kernel
from planted import with_planted

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.beta import exchange_probability
from pymc_tempering.engine.ensembles.pair_scans import (
    LEVEL_UPDATES,
    Bias,
    Pair,
    PairScans,
    exchange_at_levels,
    redraw_level,
    simulated_scans,
)
from pymc_tempering.engine.ensembles.swap import swap_probability
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.testing import invariance_test

N = 40_000
BETAS = np.array([0.0, 0.15, 0.5, 1.0])
STEPS = np.array([1.5, 0.8, 0.5, 0.35])


def gaussian_path(name):
    target = testing.TARGETS[name]()
    sd = 1.5 * np.sqrt(np.diag(target.cov))
    base = GaussianBase(target.mean + 0.3 * sd, sd)
    return ExactPath(target, GaussianLaw(base)), base


def check(scans, path, base, level_update, rng, n=N, n_steps=1):
    # not minus log z: an error that perfect weights would hide has to show
    bias = np.array([0.0, -0.3, 0.2, path.target.log_z + 0.8])
    kernel = pair_kernel(
        scans, path.in_coordinates(base), Bias(BETAS, bias, BETAS), STEPS,
        settings=Hamiltonian(max_steps=3), level_update=LEVEL_UPDATES.index(level_update),
    )  # fmt: skip

    def draw(rng, n):
        return path.draw_joint(rng, n, BETAS, bias, levels=True)

    return invariance_test(
        kernel, draw, pair_statistics(path), n=n, rng=rng, n_steps=n_steps, vectorized=True
    )


@pytest.mark.parametrize("level_update", LEVEL_UPDATES)
@pytest.mark.parametrize("name", ["asymmetric_bimodal", "hard_edge_gaussian"])
def test_scan_leaves_the_joint_density_invariant(name, level_update, rng):
    """False alarm 1e-3 per test; with the edge z is outside at times, at level 0 only."""
    result = check(simulated_scans, *gaussian_path(name), level_update, rng, n=4 * N, n_steps=2)
    assert not result.rejected, result


def exchange_that_tells(s, weights, log_masses, rng):
    z = s.pair.holder[0]
    exchange_at_levels(s, weights, log_masses, rng)
    # not used in simulated tempering
    s.pair.beta[0] = 1.0 if s.pair.holder[0] != z else 0.0


def redraw_after_refusal(s, weights, log_masses, rng):
    if s.pair.beta[0] == 0.0:
        redraw_level(s, weights, log_masses, rng)


def exchange_by_delta(delta, total, target_delta, target_total):
    return exchange_probability(delta, 0.0, target_delta, 0.0)


def exchange_reversed(delta, total, target_delta, target_total):
    return exchange_probability(target_delta, target_total, delta, total)


def exchange_with_levels_integrated_out(s, weights, log_masses, rng):
    wrong = Pair(s.pair.holder, s.pair.last_end, s.pair.beta, s.pair.level, 0)
    exchange_at_levels(
        PairScans(s.path, s.explorer, s.bias, wrong, s.replicas, s.adaptation, s.log), weights,
        log_masses, rng,
    )  # fmt: skip


def swap_by_the_other_power(d_beta, delta_lower, delta_upper):
    return swap_probability(1.0 - d_beta, delta_lower, delta_upper)


def redraw_with_wrong_sign(s, weights, log_masses, rng):
    redraw_level(s, -weights, log_masses, rng)


PLANTED = {
    "level drawn only if the exchange is refused": (
        "independent",
        {exchange_at_levels: exchange_that_tells, redraw_level: redraw_after_refusal},
    ),
    "exchange by delta alone": ("independent", {exchange_probability: exchange_by_delta}),
    "exchange the other way round": ("independent", {exchange_probability: exchange_reversed}),
    "exchange with the level integrated out before a neighbour step": (
        "neighbour", {exchange_at_levels: exchange_with_levels_integrated_out}
    ),
    "exchange given the level by the wrong power": (
        "neighbour", {swap_probability: swap_by_the_other_power}
    ),
    "sign of the weights": ("independent", {redraw_level: redraw_with_wrong_sign}),
}  # fmt: skip


ALWAYS = {
    "level drawn only if the exchange is refused",
    "exchange with the level integrated out before a neighbour step",
}


@pytest.mark.parametrize(
    "error", [e if e in ALWAYS else pytest.param(e, marks=pytest.mark.slow) for e in PLANTED]
)
def test_planted_errors_are_found(error, rng):
    level_update, wrong = PLANTED[error]
    scans = with_planted(simulated_scans, wrong)
    path, base = gaussian_path("asymmetric_bimodal")
    result = check(scans, path, base, level_update, rng, n_steps=2)
    assert result.p_value < 1e-6, result


@pytest.mark.statistical
@pytest.mark.parametrize("level_update", LEVEL_UPDATES)
def test_pair_from_a_reference_that_is_not_gaussian(level_update, rng):
    """Neither end is Gaussian, nor symmetric; false alarm 1e-3 each."""
    result = check(simulated_scans, MAPPED, ASKEW, level_update, rng, n=2 * N, n_steps=2)
    assert not result.rejected, result
