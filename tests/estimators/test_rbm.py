"""The estimators on a sampler that the package knows nothing of: a restricted Boltzmann machine.

Five visible and five hidden units with a hand-written block Gibbs kernel; the sum over all 1024
states is exact. Comparisons allow four and a half reported errors: false alarms below 1e-4 for
the whole module.
"""

import itertools

import numpy as np
import pytest
from scipy.special import expit, logsumexp

from pymc_tempering.estimators.annealed import annealed_forward
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.estimators.mbar import mbar, mbar_samples
from pymc_tempering.estimators.rts import rts
from pymc_tempering.estimators.stepping_stone import stepping_stone, stepping_stone_reverse
from pymc_tempering.estimators.uncertainty import chain_standard_errors

N = 5
BETAS = np.array([0.0, 0.15, 0.35, 0.6, 1.0])
N_SCANS = 4000


class Machine:
    """log f(v, h) = a v + v W h + b h; the base is uniform over all states."""

    def __init__(self):
        rng = np.random.default_rng(2016)
        self.weights = 1.2 * rng.standard_normal((N, N))
        self.visible = rng.standard_normal(N) - 0.5
        self.hidden = 0.7 * rng.standard_normal(N) + 0.3

    def log_target(self, v, h):
        return (
            v @ self.visible + h @ self.hidden + np.einsum("...i,ij,...j->...", v, self.weights, h)
        )

    def delta(self, v, h):
        return self.log_target(v, h) + 2 * N * np.log(2.0)

    def states(self):
        bits = ((np.arange(2 ** (2 * N))[:, None] >> np.arange(2 * N)) & 1).astype(float)
        return bits[:, :N], bits[:, N:]

    def log_z(self, beta=1.0):
        """log z(beta) of the path from the uniform base."""
        v, h = self.states()
        return logsumexp(beta * self.delta(v, h)) - 2 * N * np.log(2.0)

    def gibbs(self, v, h, beta, rng):
        """One block Gibbs sweep at each row's own beta."""
        beta = np.broadcast_to(beta, v.shape[:1])[:, None]
        h = (rng.random(h.shape) < expit(beta * (self.hidden + v @ self.weights))).astype(float)
        v = (rng.random(v.shape) < expit(beta * (self.visible + h @ self.weights.T))).astype(float)
        return v, h


@pytest.fixture(scope="module")
def machine():
    return Machine()


@pytest.fixture(scope="module")
def ladder(machine):
    rng = np.random.default_rng(7)
    v, h = (rng.integers(0, 2, (BETAS.size, N)).astype(float) for _ in range(2))
    delta = np.empty((N_SCANS, BETAS.size))
    for scan in range(-200, N_SCANS):
        v, h = machine.gibbs(v, h, BETAS, rng)
        if scan >= 0:
            delta[scan] = machine.delta(v, h)
    return delta


def test_exact_sum_agrees_with_summing_out_the_hidden_units(machine):
    v = machine.states()[0][: 2**N]
    marginal = v @ machine.visible + np.logaddexp(0, machine.hidden + v @ machine.weights).sum(1)
    assert np.isclose(machine.log_z(), logsumexp(marginal), rtol=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize("estimator", [mbar, bar_ladder, stepping_stone, stepping_stone_reverse])
def test_ladder_estimators(machine, ladder, estimator):
    estimate = estimator(ladder, BETAS)
    [se] = chain_standard_errors([estimate.influence])
    assert abs(estimate.log_z[-1] - machine.log_z()) < 4.5 * se
    exact = np.array([machine.log_z(b) for b in BETAS])
    assert np.abs(estimate.log_z - exact).max() < 10 * se
    # the comparison has teeth: an error of a quarter of a nat would be noticed
    assert se < 0.05


@pytest.mark.statistical
def test_simulated_tempering(machine):
    rng = np.random.default_rng(11)
    # weights off by up to half a nat, as after a short tuning
    log_weights = -np.array([machine.log_z(b) for b in BETAS]) + np.array([0, 0.3, -0.4, 0.2, 0.5])
    v, h = (rng.integers(0, 2, (1, N)).astype(float) for _ in range(2))
    level, delta, levels = 0, np.empty(6 * N_SCANS), np.empty(6 * N_SCANS, dtype=int)
    for scan in range(delta.size):
        v, h = machine.gibbs(v, h, BETAS[level], rng)
        delta[scan] = machine.delta(v, h)[0]
        log_p = BETAS * delta[scan] + log_weights
        level = int(rng.choice(BETAS.size, p=np.exp(log_p - logsumexp(log_p))))
        levels[scan] = level
    exact = machine.log_z()
    for estimate in (rts(delta, BETAS, log_weights), mbar_samples(delta, levels, BETAS)):
        [se] = chain_standard_errors([estimate.influence])
        assert abs(estimate.log_z[-1] - exact) < 4.5 * se
        assert se < 0.1


@pytest.mark.statistical
def test_annealed_importance_sampling(machine):
    rng = np.random.default_rng(13)
    n = 2000
    v, h = (rng.integers(0, 2, (n, N)).astype(float) for _ in range(2))
    betas = np.linspace(0.0, 1.0, 101)
    log_weights = np.zeros(n)
    for low, high in itertools.pairwise(betas):
        log_weights += (high - low) * machine.delta(v, h)
        v, h = machine.gibbs(v, h, high, rng)
    estimate = annealed_forward(log_weights)
    se = estimate.influence.std(ddof=1) / np.sqrt(n)
    assert abs(estimate.log_z - machine.log_z()) < 4.5 * se
    assert se < 0.05
