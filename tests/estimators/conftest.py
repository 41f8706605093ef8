"""Exact Gaussian ladders: base N(0, 1), target scale * N(m, s^2), replicas as AR(1) series."""

import math
from typing import NamedTuple

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from pymc_tempering.estimators.uncertainty import log_z_standard_error


class GaussianLadder(NamedTuple):
    m: float = 1.3
    s: float = 0.4
    log_scale: float = -7.25

    def delta(self, z):
        log_target = self.log_scale - 0.5 * ((z - self.m) / self.s) ** 2
        return log_target + 0.5 * z**2 + 0.5 * math.log(2 * math.pi)

    def moments(self, beta):
        precision = 1 - beta + beta / self.s**2
        return beta * self.m / self.s**2 / precision, 1 / np.sqrt(precision)

    def log_z(self, beta):
        mean, sd = self.moments(beta)
        # Completing the square in (1-beta) z^2 + beta ((z-m)/s)^2.
        rest = beta * (self.m / self.s) ** 2 - (mean / sd) ** 2
        return beta * (self.log_scale + 0.5 * math.log(2 * math.pi)) - 0.5 * rest + np.log(sd)

    def draw(self, rng, n_scans, betas, phi=0.0, shared=0.0):
        """Deltas of a chain: AR(1) in time, `shared` is the correlation of columns."""
        n = len(betas)
        common = rng.normal(size=(n_scans, 1))
        noise = math.sqrt(shared) * common + math.sqrt(1 - shared) * rng.normal(size=(n_scans, n))
        noise[1:] *= math.sqrt(1 - phi**2)
        u = lfilter([1.0], [1.0, -phi], noise, axis=0)
        means, sds = np.array([self.moments(b) for b in betas]).T
        return self.delta(means + sds * u)


def run_z_scores(rng, estimate, truth, draw, n_repeats, n_chains):
    """Error over reported error in repeated runs, and whether the 95 % interval held the truth."""
    z = np.empty(n_repeats)
    covered = np.empty(n_repeats, dtype=bool)
    for r in range(n_repeats):
        chains = [estimate(draw(rng)) for _ in range(n_chains)]
        log_z = np.array([np.atleast_1d(chain.log_z)[-1] for chain in chains])
        error = log_z_standard_error(log_z, [chain.influence for chain in chains])
        z[r] = (log_z.mean() - truth) / error.se
        covered[r] = abs(z[r]) < stats.t.ppf(0.975, error.df)
    return z, covered


@pytest.fixture
def ladder():
    return GaussianLadder()


@pytest.fixture
def betas():
    return np.array([0.0, 0.03, 0.12, 0.35, 1.0])


@pytest.fixture
def exact(ladder, betas):
    """Exact log z of every level."""
    return np.array([ladder.log_z(beta) for beta in betas])


@pytest.fixture
def z_scores():
    return run_z_scores
