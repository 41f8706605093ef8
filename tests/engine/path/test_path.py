"""Densities by address, in base coordinates."""

import math

import numba
import numpy as np
import pytest
from densities import awkward
from laws import ExactReference

from pymc_tempering import testing
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.path import call_density, density_at, log_normal
from pymc_tempering.engine.path.replicas import evaluate, new_replicas
from pymc_tempering.engine.path.tempered import TemperedPath


def at(density, base, u):
    given = isinstance(base, Coordinates)
    path = TemperedPath(density, base) if given else TemperedPath.from_base(density, base)
    replicas = new_replicas(path.view, np.atleast_2d(np.asarray(u, dtype=float)))
    return replicas.log_target[0], replicas.grad[0], replicas.delta[0]


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


def test_many_places_in_any_order_of_memory():
    target = testing.correlated_gaussian()
    z = np.asfortranarray([[0.3, -1.0, 2.0], [0.0, 1.0, -2.0]])
    z.setflags(write=False)
    values, grads = density_at(target.address, z)
    for row, value, grad in zip(z, values, grads, strict=True):
        expected_value, expected_grad = target.value_and_grad(np.array(row))
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
        value, grad, delta = at(target, base, u)
        expected, grad_z = target.value_and_grad(z)
        assert value == pytest.approx(expected + np.log(np.diag(matrix)).sum(), rel=1e-12)
        np.testing.assert_allclose(grad, matrix.T @ grad_z, rtol=1e-10)
        # delta does not depend on coordinates
        assert delta == pytest.approx(float(target.delta(z, base)), rel=1e-10)


@pytest.mark.parametrize("scale", [np.ones(2), np.eye(2)], ids=["diagonal", "dense"])
@pytest.mark.parametrize("first", [3.5, 2.5, 1.5])
def test_no_density_where_the_value_is_not_a_number(first, scale):
    value, grad, _ = at(awkward, GaussianBase(np.zeros(2), scale), [first, 0.0])
    assert value == -math.inf
    assert grad.tolist() == [0.0, 0.0]
    value, grad, _ = at(awkward, GaussianBase(np.zeros(2), scale), [-1.0, 0.0])
    assert (value, grad.tolist()) == (5.0, [1.0, 2.0])


def test_a_bad_gradient_keeps_its_density_and_its_good_entries():
    base = GaussianBase(np.zeros(2), np.array([2.0, 3.0]))
    path = TemperedPath.from_base(awkward, base)
    replicas = new_replicas(path.view, np.array([[0.25, 0.0], [-1.0, 0.0]]))
    assert replicas.log_target.tolist() == [5.0 + np.log(6.0)] * 2
    assert replicas.grad.tolist() == [[2.0, 0.0], [2.0, 6.0]]
    assert [evaluate(path.view, replicas, row) for row in range(2)] == [True, False]
    # a trajectory that diverged is no fault of the model
    far = new_replicas(path.view, np.array([[-60.0, 0.0]]))
    assert far.grad.tolist() == [[2.0, 0.0]]
    assert not evaluate(path.view, far, 0)


def test_densities_that_are_not_finite_are_told_apart():
    """Infinite, no number, and zero: all count as zero, and the first two are counted."""
    path = TemperedPath.from_base(awkward, GaussianBase(np.zeros(2), np.ones(2)))
    first = np.array([1.5, 3.5, 2.5, 1.6, -1.0])
    replicas = new_replicas(path.view, np.column_stack([first, np.zeros(5)]))
    assert replicas.log_target.tolist() == [-math.inf] * 4 + [5.0]
    assert path.view.faults.tolist() == [2, 1]


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
    value, grad, _ = at(target, coordinates, u)
    z = mean + matrix @ u
    np.testing.assert_allclose(coordinates.from_base(u), z, rtol=1e-10)
    np.testing.assert_allclose(coordinates.to_base(z), u, rtol=1e-8, atol=1e-10)
    expected, grad_z = target.value_and_grad(z)
    assert value == pytest.approx(expected + np.linalg.slogdet(matrix)[1], rel=1e-10)
    np.testing.assert_allclose(grad, matrix.T @ grad_z, rtol=1e-8, atol=1e-10)


def test_log_normal(rng):
    u = rng.normal(size=4)
    assert log_normal(u) == pytest.approx(-0.5 * u @ u - 2.0 * math.log(2.0 * math.pi))


@pytest.mark.parametrize("scale", [np.array([0.5, 2.0]), np.array([[0.5, 0.0], [-0.7, 2.0]])],
                         ids=["diagonal", "dense"])  # fmt: skip
def test_reference_that_is_not_gaussian_against_numpy(scale, rng):
    """Value with the Jacobian, and its gradient but for the part that a rotation accounts for."""
    target, law = testing.skewed_gamma(), testing.banana(log_z=0.0)
    base = GaussianBase(np.array([0.3, -0.8]), scale)
    path = TemperedPath(target, Coordinates.of(base), ExactReference(law))
    matrix = np.diag(scale) if scale.ndim == 1 else scale
    u = rng.normal(size=(5, 2))
    replicas = new_replicas(path.view, u)
    for row in range(5):
        z = base.mean + matrix @ u[row]
        value, grad_z = law.value_and_grad(z)
        log_det = np.log(np.diag(matrix)).sum()
        assert replicas.log_reference[row] == pytest.approx(value + log_det, rel=1e-12)
        np.testing.assert_allclose(replicas.residual[row], matrix.T @ grad_z + u[row], rtol=1e-10)
        exact = float(target.log_density(z) - law.log_density(z))
        assert replicas.delta[row] == pytest.approx(exact, rel=1e-10)
    # a Gaussian one leaves nothing
    assert new_replicas(TemperedPath.from_base(target, base).view, u).residual.shape == (5, 0)


def test_no_reference_density_where_it_is_not_a_number():
    base = GaussianBase(np.zeros(2), np.ones(2))
    path = TemperedPath(testing.banana(), Coordinates.of(base), awkward)
    replicas = new_replicas(path.view, np.array([[3.5, 0.0], [2.5, 0.0], [-1.0, 2.0]]))
    assert replicas.log_reference.tolist() == [-math.inf, -math.inf, 5.0]
    assert replicas.residual.tolist() == [[0.0, 0.0], [0.0, 0.0], [0.0, 4.0]]
    assert replicas.delta[0] == math.inf


@pytest.mark.filterwarnings("error")
def test_scales_that_rounding_hides_have_coordinates(rng):
    """Of a fit in a narrow funnel: its covariance has no root, and a run ended with a BaseError."""
    root = np.eye(45)
    root[1:4, 0] = 1.0
    root[1:4, 1:4] *= 1e-10
    base = GaussianBase.from_root(np.zeros(45), root * np.exp(rng.normal(size=45))[:, None])
    coordinates = Coordinates.of(base)
    assert coordinates.rank == 4
    z = coordinates.from_base(rng.normal(size=(4, 45)))
    np.testing.assert_allclose(
        coordinates.base.standard_deviation, base.standard_deviation, rtol=1e-6
    )
    assert np.isfinite(z).all()
    assert np.isfinite(coordinates.base.log_density(z)).all()
