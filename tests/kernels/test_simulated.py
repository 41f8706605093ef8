"""The whole scan of simulated tempering leaves (z, level, y) invariant, and wrong ones do not."""

from types import SimpleNamespace

import numba
import numpy as np
import pytest
from pymc_tempering.kernels.density import TargetInBase, evaluate
from pymc_tempering.kernels.hmc import log_base
from pymc_tempering.kernels.simulated import LEVEL_UPDATES, simulated_scans

from pymc_tempering import testing
from pymc_tempering.testing import invariance_test

N = 40_000
BETAS = np.array([0.0, 0.15, 0.5, 1.0])
STEPS = np.array([1.5, 0.8, 0.5, 0.35])


def driver(scans):
    """Apply one scan to each of many states (z, beta, y)."""

    @numba.njit
    def apply(states, address, mean, sd, weights, level_update, rng):
        n, dim = states.shape[0], mean.size
        target = TargetInBase(address, mean, sd.reshape(1, dim), np.log(sd).sum())
        u, grad, work = np.zeros((3, dim)), np.zeros((3, dim)), np.zeros((5, dim))
        log_target, delta = np.zeros(3), np.zeros(3)
        level, level_out = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        out, acceptance, sums = np.zeros((2, 1)), np.zeros(BETAS.size), np.zeros(2)
        visits, counts = np.zeros(BETAS.size, dtype=np.int64), np.zeros(8, dtype=np.int64)
        none = np.zeros((0, 4))
        for i in range(n):
            holder, last_end = np.arange(3), np.zeros(3, dtype=np.int64)
            for row in range(2):
                start = row * (dim + 1)
                u[row] = (states[i, start : start + dim] - mean) / sd
                log_target[row] = evaluate(target, u[row], grad[row], work)
                delta[row] = log_target[row] - log_base(u[row])
            level[0] = np.searchsorted(BETAS, states[i, dim])
            scans(
                target, BETAS, weights, STEPS.copy(), 1.5, 3, level_update,
                u, grad, log_target, delta, level, holder, last_end, work,
                out[0], out[1], level_out, acceptance, visits, sums, counts, none, 0.8, rng,
            )  # fmt: skip
            states[i, :dim] = mean + sd * u[holder[0]]
            states[i, dim] = BETAS[level[0]]
            states[i, dim + 1 :] = mean + sd * u[holder[1]]
        return counts

    return apply


def check(scans, name, level_update, joint, rng, n=N, n_steps=1):
    target = testing.TARGETS[name]()
    sd = 1.5 * np.sqrt(np.diag(target.cov))
    base = SimpleNamespace(mean=target.mean + 0.3 * sd, scale=sd)
    # not minus log z: an error that perfect weights would hide has to show
    weights = -np.array([0.0, -0.3, 0.2, target.log_z + 0.8])
    apply = driver(scans)
    update = LEVEL_UPDATES.index(level_update)

    def kernel(states, rng):
        apply(states, target.address, base.mean, base.scale, weights, update, rng)
        return states

    def draw(rng, n):
        return joint.draws(target, base, BETAS, -weights, rng, n, levels=True)

    return invariance_test(
        kernel, draw, joint.statistics(target, base), n=n, rng=rng, n_steps=n_steps,
        vectorized=True,
    )  # fmt: skip


@pytest.mark.parametrize("level_update", LEVEL_UPDATES)
@pytest.mark.parametrize("name", ["asymmetric_bimodal", "hard_edge_gaussian"])
def test_scan_leaves_the_joint_density_invariant(name, level_update, joint, rng):
    """False alarm 1e-3 per test; with the edge z is outside at times, at level 0 only."""
    result = check(simulated_scans, name, level_update, joint, rng, n=4 * N, n_steps=2)
    assert not result.rejected, result


EXCHANGE = "exchange_probability(delta[z], total, delta[y], target_total)"
SWAP = "swap_probability(1.0 - betas[k], delta[z], delta[y])"
DRAW = "level[0] = draw_level(log_masses, total, rng)"
LAST = """log_level_weights, log_masses)
        if level_update == _INDEPENDENT:
            level[0]"""

PLANTED = {
    "level drawn only if the exchange is refused": (
        "independent",
        [(DRAW, "level[0] = k if holder[0] != z0 else draw_level(log_masses, total, rng)"),
         ("        visits[k] += 1\n", "        visits[k] += 1\n        z0 = z\n")],
    ),
    "exchange by delta alone": (
        "independent", [(EXCHANGE, "exchange_probability(delta[z], 0.0, delta[y], 0.0)")]
    ),
    "exchange the other way round": (
        "independent", [(EXCHANGE, "exchange_probability(delta[y], target_total, delta[z], total)")]
    ),
    "exchange with the level integrated out before a neighbour step": (
        "neighbour",
        [("        if level_update == _INDEPENDENT:\n            target_total",
          "        if True:\n            target_total")],
    ),
    "exchange given the level by the wrong power": (
        "neighbour", [(SWAP, "swap_probability(betas[k], delta[z], delta[y])")]
    ),
    "sign of the weights": (
        "independent",
        [(LAST, LAST.replace("log_level_weights", "-log_level_weights"))],
    ),
}  # fmt: skip


ALWAYS = {
    "level drawn only if the exchange is refused",
    "exchange with the level integrated out before a neighbour step",
}


@pytest.mark.parametrize(
    "error", [e if e in ALWAYS else pytest.param(e, marks=pytest.mark.slow) for e in PLANTED]
)
def test_planted_errors_are_found(error, joint, planted, rng):
    level_update, replacements = PLANTED[error]
    scans = planted("kernels.simulated", *replacements).simulated_scans
    result = check(scans, "asymmetric_bimodal", level_update, joint, rng, n_steps=2)
    assert result.p_value < 1e-6, result
