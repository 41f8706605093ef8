"""A target that gradients say little of: an edge, a jump, and gradients that are not numbers."""

import math

import numpy as np
from densities import toy
from scipy import stats

EDGE, JUMP_AT, JUMP, BAD_BELOW = -1.2, 0.6, 1.5, 0.1
LOG_Z = 0.7
MEAN, SD, SLOPE = np.array([0.3, -0.4]), np.array([0.9, 0.7]), 0.5
MASSES = np.array(
    [
        stats.norm.cdf(JUMP_AT, MEAN[0], SD[0]) - stats.norm.cdf(EDGE, MEAN[0], SD[0]),
        stats.norm.sf(JUMP_AT, MEAN[0], SD[0]) * math.exp(JUMP),
    ]
)
CONSTANT = LOG_Z - math.log(2.0 * math.pi * SD[0] * SD[1] * MASSES.sum())
M0, M1, S0, S1 = map(float, (*MEAN, *SD))


@toy(2)
def density(z, grad):
    a = (z[0] - M0) / S0
    b = (z[1] - M1 - SLOPE * z[0]) / S1
    grad[0], grad[1] = -a / S0 + SLOPE * b / S1, -b / S1
    if z[1] < BAD_BELOW:
        grad[0] = math.nan
        if z[0] > 0.0:
            grad[1] = math.inf
    if not z[0] > EDGE:
        return -math.inf
    return CONSTANT - 0.5 * (a * a + b * b) + (JUMP if z[0] > JUMP_AT else 0.0)


class Rough:
    """``z0`` normal, cut off at an edge, e^1.5 times as likely beyond a jump, and ``z1`` normal.

    The first entry of the gradient is nan where ``z1 < 0.1``, about half of the draws, and the
    second infinite in a part of it.
    """

    address = property(lambda self: density.address)
    dim = 2
    log_z = LOG_Z
    start = np.array([0.3, 0.5])

    def log_density(self, z):
        z0, z1 = z[..., 0], z[..., 1]
        a, b = (z0 - M0) / S0, (z1 - M1 - SLOPE * z0) / S1
        value = CONSTANT - 0.5 * (a**2 + b**2) + np.where(z0 > JUMP_AT, JUMP, 0.0)
        return np.where(z0 > EDGE, value, -np.inf)

    def draw(self, rng, n):
        cdf = stats.norm(M0, S0).cdf
        edges = np.array([cdf(EDGE), cdf(JUMP_AT), 1.0])
        piece = (rng.random(n) < MASSES[1] / MASSES.sum()).astype(int)
        uniform = edges[piece] + (edges[piece + 1] - edges[piece]) * rng.random(n)
        z0 = stats.norm.ppf(uniform, M0, S0)
        return np.column_stack([z0, M1 + SLOPE * z0 + S1 * rng.standard_normal(n)])

    def bad(self, z):
        """Where the density is finite and the gradient is not."""
        return (z[..., 1] < BAD_BELOW) & (z[..., 0] > EDGE)
