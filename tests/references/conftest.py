"""Analytic targets as C functions, each with its exact log normaliser."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from densities import toy

LOG_2PI = math.log(2 * math.pi)

GAUSS_MEAN = np.array([1.5, -2.0, 30.0])
GAUSS_COV = np.array([[0.5, 0.3, 0.0], [0.3, 2.0, -1.5], [0.0, -1.5, 40.0]])
GAUSS_PRECISION = np.linalg.inv(GAUSS_COV)
GAUSS_LOG_Z = 1.7
GAUSS_CONSTANT = GAUSS_LOG_Z - 1.5 * LOG_2PI - 0.5 * np.linalg.slogdet(GAUSS_COV)[1]


@toy(3)
def gaussian_density(z, grad):
    quad = 0.0
    for i in range(3):
        grad[i] = 0.0
        for j in range(3):
            grad[i] -= GAUSS_PRECISION[i, j] * (z[j] - GAUSS_MEAN[j])
        quad += grad[i] * (z[i] - GAUSS_MEAN[i])
    return GAUSS_CONSTANT + 0.5 * quad


HEAVY_WEIGHT = 0.9
MODES = np.array([[-3.0, 1.0], [4.0, -2.0]])
MODE_SDS = np.array([[0.5, 0.8], [1.0, 0.4]])
BIMODAL_LOG_Z = -2.0


def two_gaussians(log_weights, means, sds):
    """Mixture of two Gaussians with these means and standard deviations, of shape (2, D)."""
    dim = means.shape[1]
    constants = np.asarray(log_weights) - 0.5 * dim * LOG_2PI - np.log(sds).sum(axis=1)

    @toy(dim)
    def density(z, grad):
        a = constants[0]
        b = constants[1]
        for i in range(dim):
            a -= 0.5 * ((z[i] - means[0, i]) / sds[0, i]) ** 2
            b -= 0.5 * ((z[i] - means[1, i]) / sds[1, i]) ** 2
        top = max(a, b)
        total = top + math.log(math.exp(a - top) + math.exp(b - top))
        for i in range(dim):
            grad[i] = -math.exp(a - total) * (z[i] - means[0, i]) / sds[0, i] ** 2
            grad[i] -= math.exp(b - total) * (z[i] - means[1, i]) / sds[1, i] ** 2
        return total

    return density


bimodal_density = two_gaussians(
    np.log([HEAVY_WEIGHT, 1 - HEAVY_WEIGHT]) + BIMODAL_LOG_Z, MODES, MODE_SDS
)


@toy(2)
def cauchy_density(z, grad):
    a = z[0] - 5.0
    b = z[1] / 3.0
    grad[0] = -2.0 * a / (1.0 + a * a)
    grad[1] = -2.0 * b / (1.0 + b * b) / 3.0
    return -math.log1p(a * a) - math.log1p(b * b) - 2.0 * math.log(math.pi) - math.log(3.0)


@toy(2)
def edge_density(z, grad):
    """N(0, I) where z[0] > 0.5, not a number elsewhere."""
    if not z[0] > 0.5:
        grad[0] = math.nan
        grad[1] = math.nan
        return math.nan
    grad[0] = -z[0]
    grad[1] = -z[1]
    return -0.5 * (z[0] ** 2 + z[1] ** 2) - math.log(2.0 * math.pi)


@toy(3)
def far_density(z, grad):
    """Standard deviations 1, 1e-4 and 1e4, means 5000, 30000 and 100 of them from zero."""
    a = z[0] - 5000.0
    b = (z[1] + 3.0) / 1e-4
    c = (z[2] - 1e6) / 1e4
    grad[0] = -a
    grad[1] = -b / 1e-4
    grad[2] = -c / 1e4
    return -0.5 * (a * a + b * b + c * c)


@pytest.fixture(scope="session")
def gaussian():
    kl = 0.5 * (np.linalg.slogdet(GAUSS_COV)[1] + np.log(np.diag(GAUSS_PRECISION)).sum())
    return SimpleNamespace(
        address=gaussian_density.address,
        dim=3,
        mean=GAUSS_MEAN,
        cov=GAUSS_COV,
        log_z=GAUSS_LOG_Z,
        mean_field_sd=np.diag(GAUSS_PRECISION) ** -0.5,
        mean_field_elbo=GAUSS_LOG_Z - kl,
    )


@pytest.fixture(scope="session")
def bimodal():
    return SimpleNamespace(
        address=bimodal_density.address,
        dim=2,
        weight=HEAVY_WEIGHT,
        modes=MODES,
        sds=MODE_SDS,
        log_z=BIMODAL_LOG_Z,
    )


@pytest.fixture(scope="session")
def cauchy():
    return SimpleNamespace(address=cauchy_density.address, dim=2, log_z=0.0)


@pytest.fixture(scope="session")
def edge():
    log_z = math.log(0.5 * math.erfc(0.5 / math.sqrt(2.0)))
    return SimpleNamespace(
        address=edge_density.address, dim=2, log_z=log_z, start=np.array([1.0, 0.3])
    )


@pytest.fixture(scope="session")
def far():
    return SimpleNamespace(
        address=far_density.address,
        dim=3,
        mean=np.array([5000.0, -3.0, 1e6]),
        sd=np.array([1.0, 1e-4, 1e4]),
        log_z=1.5 * LOG_2PI,
    )
