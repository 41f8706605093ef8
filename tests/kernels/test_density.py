"""Densities by address, in base coordinates."""

import math

import numba
import numpy as np
import pytest
from pymc_tempering.kernels.density import call_density, evaluate
from pymc_tempering.kernels.hmc import log_base

from pymc_tempering import testing
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase

SIGNATURE = "float64(CPointer(float64), CPointer(float64))"


@numba.cfunc(SIGNATURE)
def awkward(z_pointer, grad_pointer):
    """By the size of z[0]: above 3 -inf, above 2 nan, above 1 inf, above 0 a gradient of nan."""
    z, grad = numba.carray(z_pointer, 2), numba.carray(grad_pointer, 2)
    grad[0], grad[1] = 1.0, 2.0
    if z[0] > 3.0:
        return -math.inf
    if z[0] > 2.0:
        return math.nan
    if z[0] > 1.0:
        return math.inf
    if z[0] > 0.0:
        grad[1] = math.nan
    return 5.0


def at(address, base, u):
    grad = np.full(base.dim, 99.0)
    target = Coordinates.of(base).target(address)
    value = evaluate(target, np.asarray(u, dtype=float), grad, np.empty((2, base.dim)))
    return value, grad


@numba.njit
def call(address, z, grad):
    return call_density(address, z, grad)


def test_call_reaches_the_function():
    target = testing.correlated_gaussian()
    z = np.array([0.3, -1.0, 2.0])
    grad = np.empty(3)
    value = call(target.address, z, grad)
    expected_value, expected_grad = target.value_and_grad(z)
    assert value == expected_value
    np.testing.assert_array_equal(grad, expected_grad)


SCALE = np.array([[1.5, 0.0, 0.0], [-0.7, 0.4, 0.0], [0.2, 2.0, 3.0]])


@pytest.mark.parametrize("scale", [np.array([0.5, 2.0, 3.0]), SCALE], ids=["diagonal", "dense"])
def test_base_coordinates_against_numpy(scale, rng):
    target = testing.correlated_gaussian()
    base = GaussianBase(np.array([0.2, -1.0, 4.0]), scale)
    matrix = np.diag(scale) if scale.ndim == 1 else scale
    for u in rng.normal(size=(5, 3)):
        z = base.mean + matrix @ u
        value, grad = at(target.address, base, u)
        expected, grad_z = target.value_and_grad(z)
        assert value == pytest.approx(expected + np.log(np.diag(matrix)).sum(), rel=1e-12)
        np.testing.assert_allclose(grad, matrix.T @ grad_z, rtol=1e-10)
        # delta does not depend on coordinates
        assert value - log_base(u) == pytest.approx(float(target.delta(z, base)), rel=1e-10)


@pytest.mark.parametrize("scale", [np.ones(2), np.eye(2)], ids=["diagonal", "dense"])
@pytest.mark.parametrize("first", [3.5, 2.5, 1.5, 0.5])
def test_no_density_where_value_or_gradient_is_not_a_number(first, scale):
    value, grad = at(awkward.address, GaussianBase(np.zeros(2), scale), [first, 0.0])
    assert value == -math.inf
    assert grad.tolist() == [0.0, 0.0]
    value, grad = at(awkward.address, GaussianBase(np.zeros(2), scale), [-1.0, 0.0])
    assert (value, grad.tolist()) == (5.0, [1.0, 2.0])


def test_low_rank_coordinates_against_numpy(rng):
    """Standard deviations with two directions far from uncorrelated, in place of a dense factor."""
    dim, mean = 45, rng.normal(size=45)
    directions = np.linalg.qr(rng.normal(size=(dim, 2)))[0].T
    root = np.eye(dim) + (directions.T * [4.0, -0.7]) @ directions
    sd = np.exp(rng.normal(size=dim))
    rows = np.vstack([sd, directions, np.array([[4.0], [-0.7]]) * directions])
    coordinates = Coordinates.from_rows(mean, rows)
    assert coordinates.rank == 2
    matrix = sd[:, None] * root
    np.testing.assert_allclose(coordinates.base.covariance, matrix @ matrix.T, rtol=1e-8)
    target = testing.scaled_normal(dim=dim, sd=0.7)
    u = rng.normal(size=dim)
    grad = np.empty(dim)
    value = evaluate(coordinates.target(target.address), u, grad, np.empty((2, dim)))
    z = mean + matrix @ u
    np.testing.assert_allclose(coordinates.from_base(u), z, rtol=1e-10)
    np.testing.assert_allclose(coordinates.to_base(z), u, rtol=1e-8, atol=1e-10)
    expected, grad_z = target.value_and_grad(z)
    assert value == pytest.approx(expected + np.linalg.slogdet(matrix)[1], rel=1e-10)
    np.testing.assert_allclose(grad, matrix.T @ grad_z, rtol=1e-8, atol=1e-10)
