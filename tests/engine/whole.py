"""A target with two whole numbers around one real one, whose path has exact draws at every beta."""

import math
from functools import cache

import numba
import numpy as np
from densities import toy
from scipy import stats

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath

LOWEST = -1
K, J = np.array([0.1, 0.4, 0.2, 0.3]), np.array([0.35, 0.65])
MEAN, SD = np.array([-2.0, 0.5, 1.0, 3.0]), np.array([0.6, 1.3])
"""Of the real number, by each of the whole ones."""
DATA, NOISE = np.array([1.5, -1.0]), 0.8
BONUS = np.array([[0.0, 2.0], [1.2, -0.5], [0.3, 0.0], [-1.0, 0.7]])
"""Log likelihood: the bonus, and that of a datum by the second whole number."""
SUPPORTS = ((0, LOWEST, 4), (2, 0, 2))
LOG_K, LOG_J, LOG_SD = np.log(K), np.log(J), np.log(SD)


@numba.njit
def _log_prior(k, x, j):
    t = (x - MEAN[k]) / SD[j]
    return LOG_K[k] + LOG_J[j] - LOG_SD[j] - 0.5 * math.log(2 * math.pi) - 0.5 * t * t


@numba.njit
def _log_density(z, grad, has_likelihood):
    k, x, j = int(z[0]) - LOWEST, z[1], int(z[2])
    grad[0], grad[1], grad[2] = 0.0, -(x - MEAN[k]) / SD[j] ** 2, 0.0
    value = _log_prior(k, x, j)
    if has_likelihood:
        t = (x - DATA[j]) / NOISE
        grad[1] -= t / NOISE
        value += BONUS[k, j] - 0.5 * t * t
    return value


@cache
def _density(has_likelihood):
    return toy(3)(lambda z, grad: _log_density(z, grad, has_likelihood))


def log_weights(beta):
    """Log probability of both whole numbers at beta, up to a constant; shape (4, 2)."""
    variance = SD**2 + (NOISE**2 / beta if beta > 0 else np.inf)
    shrunk = -0.5 * np.log1p(beta * SD**2 / NOISE**2)
    gap = -0.5 * (MEAN[:, None] - DATA) ** 2 / variance
    return LOG_K[:, None] + LOG_J + beta * BONUS + shrunk + gap


LOG_Z = float(np.logaddexp.reduce(log_weights(1.0), axis=None))


def draw(rng, n, beta):
    """Independent draws at beta, shape (n, 3)."""
    weights = log_weights(beta).ravel()
    cells = rng.choice(weights.size, size=n, p=np.exp(weights - np.logaddexp.reduce(weights)))
    k, j = np.divmod(cells, 2)
    precision = 1.0 / SD[j] ** 2 + beta / NOISE**2
    mean = (MEAN[k] / SD[j] ** 2 + beta * DATA[j] / NOISE**2) / precision
    return np.column_stack([k + LOWEST, stats.norm.rvs(mean, precision**-0.5, random_state=rng), j])


class Density:
    """Of the prior, or with the likelihood."""

    dim = 3
    address = property(lambda self: _density(self.has_likelihood).address)

    def __init__(self, has_likelihood):
        self.has_likelihood = has_likelihood

    def draw(self, n, rng):
        return draw(rng, n, 0.0)


def path():
    coordinates = Coordinates.of(GaussianBase([0.0, 0.3, 0.0], [1.0, 1.4, 1.0]))
    return TemperedPath(Density(True), coordinates, Density(False), (0, 2))
