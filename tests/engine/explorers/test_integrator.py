"""Trajectories: reversible, volume preserving, exact where there is nothing to kick."""

import math

import numpy as np
import pytest
from laws import ExactPath, ExactReference, GaussianLaw

from pymc_tempering import testing
from pymc_tempering.engine.explorers.hamiltonian import (
    MAX_ACCEPTED_ERROR,
    MAX_ENERGY_ERROR,
    accept,
    follow,
)
from pymc_tempering.engine.move import DIVERGENT, REJECTED, ZERO_DENSITY
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.replicas import Work, new_replicas

COORDINATES = {
    "diagonal": GaussianBase(np.array([0.2, -0.4]), np.array([1.3, 0.9])),
    "dense": GaussianBase(np.array([0.2, -0.4]), np.array([[1.3, 0.0], [-0.3, 0.9]])),
}
KINDS = ["gaussian", "other"]


def path_of(kind, base):
    target = testing.banana()
    if kind == "gaussian":
        return ExactPath(target, GaussianLaw(base))
    return ExactPath(target, ExactReference(testing.heavy_tail(log_z=0.0)))


class Trajectory:
    """Trajectories of one path at one beta, from any position and momentum."""

    def __init__(self, path, base, beta):
        self.path, self.base, self.beta = path, base, beta
        self.matrix = np.diag(base.scale) if base.is_diagonal else base.scale
        self.view = path.in_coordinates(base).view

    def start(self, u):
        return new_replicas(self.view, np.atleast_2d(u))

    def __call__(self, u, p, step_size, n_steps):
        replicas, momentum = self.start(u), np.array(p)
        proposal = follow(self.view, self.beta, step_size, n_steps, replicas, 0, momentum)
        np.testing.assert_array_equal(replicas.u[0], u)
        return proposal, replicas.work[Work.POSITION].copy(), momentum

    def energy(self, u, p):
        """From the densities as NumPy has them, up to a constant."""
        z = self.base.from_base(u)
        log_reference = float(self.path.reference.log_density(z))
        log_target = float(self.path.target.log_density(z))
        return 0.5 * p @ p - (1.0 - self.beta) * log_reference - self.beta * log_target

    def slope(self, u):
        """Gradient of the log density but for that of N(0, I), with the target's C function."""
        z = self.base.from_base(u)
        force = self.beta * (self.matrix.T @ self.path.target.value_and_grad(z)[1] + u)
        if isinstance(self.path.reference, ExactReference):
            grad = self.path.reference.law.value_and_grad(z)[1]
            force = force + (1.0 - self.beta) * (self.matrix.T @ grad + u)
        return force

    def by_formula(self, u, p, step_size, n_steps):
        """Kick, rotate, kick."""
        cosine, sine = math.cos(step_size), math.sin(step_size)
        for _ in range(n_steps):
            p = p + 0.5 * step_size * self.slope(u)
            u, p = cosine * u + sine * p, cosine * p - sine * u
            p = p + 0.5 * step_size * self.slope(u)
        return u, p


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


@pytest.mark.parametrize("shape", list(COORDINATES))
@pytest.mark.parametrize("beta", [0.0, 0.6, 1.0])
def test_trajectory_is_the_split_integrator_and_its_metropolis_probability(kind, shape, beta, rng):
    base = COORDINATES[shape]
    flow = Trajectory(path_of(kind, base), base, beta)
    n_uncertain = 0
    for _ in range(100):
        u, p = 0.7 * rng.normal(size=2), rng.normal(size=2)
        proposal, end, p_end = flow(u, p, 0.2, 3)
        expected, p_expected = flow.by_formula(u, p, 0.2, 3)
        np.testing.assert_allclose(end, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(p_end, p_expected, rtol=1e-9, atol=1e-12)
        error = flow.energy(expected, p_expected) - flow.energy(u, p)
        assert proposal.status == (DIVERGENT if error > MAX_ENERGY_ERROR else REJECTED)
        exact = min(1.0, math.exp(-error)) if abs(error) < MAX_ACCEPTED_ERROR else 0.0
        assert proposal.acceptance_rate == pytest.approx(exact, rel=1e-9)
        assert proposal.n_evaluations == 3
        n_uncertain += 0.01 < exact < 0.999
    # the Metropolis step has something to correct
    assert n_uncertain >= 2 or (kind, beta) == ("gaussian", 0.0)


def test_reversible(kind, rng):
    base = COORDINATES["dense"]
    flow = Trajectory(path_of(kind, base), base, 0.7)
    for _ in range(5):
        u, p = 0.7 * rng.normal(size=2), rng.normal(size=2)
        _, end, p_end = flow(u, p, 0.1, 5)
        _, back, p_back = flow(end, -p_end, 0.1, 5)
        np.testing.assert_allclose(back, u, atol=1e-10)
        np.testing.assert_allclose(p_back, -p, atol=1e-10)
        assert np.abs(end - u).max() > 0.01


def test_keeps_volume(kind, rng):
    base = COORDINATES["dense"]
    flow = Trajectory(path_of(kind, base), base, 0.7)
    state, h = np.concatenate([0.7 * rng.normal(size=2), rng.normal(size=2)]), 1e-5

    def end(x):
        _, u, p = flow(x[:2], x[2:], 0.1, 5)
        return np.concatenate([u, p])

    jacobian = np.array([(end(state + h * e) - end(state - h * e)) / (2 * h) for e in np.eye(4)])
    assert abs(np.linalg.det(jacobian)) == pytest.approx(1.0, abs=1e-6)
    # the test would see a change of volume
    assert np.abs(jacobian - np.eye(4)).max() > 0.1


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_exact_without_kicks(beta, rng):
    """At beta = 0, and for a Gaussian target equal to the reference, at any step size."""
    target = testing.correlated_gaussian()
    base = GaussianBase(target.mean, np.linalg.cholesky(target.cov))
    if beta == 0.0:
        base = GaussianBase(np.array([9.0, 9.0, 9.0]), np.full(3, 2.0))
    flow = Trajectory(ExactPath(target, GaussianLaw(base)), base, beta)
    for step_size in (0.01, 1.3, 0.5 * math.pi):
        u, p = rng.normal(size=3), rng.normal(size=3)
        proposal, end, p_end = flow(u, p, step_size, 3)
        assert proposal.acceptance_rate == pytest.approx(1.0, abs=1e-9)
        angle = 3 * step_size
        np.testing.assert_allclose(end, math.cos(angle) * u + math.sin(angle) * p, atol=1e-9)
        np.testing.assert_allclose(p_end, math.cos(angle) * p - math.sin(angle) * u, atol=1e-9)


def test_other_reference_is_followed_exactly_only_if_it_is_gaussian_in_coordinates(rng):
    """A reference given as a density that happens to be N(0, I) leaves no residual either."""
    law = testing.correlated_gaussian(log_z=0.0)
    base = GaussianBase(law.mean, np.linalg.cholesky(law.cov))
    path = ExactPath(testing.hard_edge_gaussian(), ExactReference(law))
    flow = Trajectory(path, base, 0.0)
    u, p = base.to_base(path.target.start), 0.3 * np.array([0.1, -0.2, 0.3])
    proposal, end, _ = flow(u, p, 0.05, 2)
    assert proposal.acceptance_rate == pytest.approx(1.0, abs=1e-9)
    np.testing.assert_allclose(end, math.cos(0.1) * u + math.sin(0.1) * p, atol=1e-9)


@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_energy_error_is_of_second_order(kind, beta, rng):
    """At a fixed length, half the step is a quarter of the error: 3.4 to 4.6 of 50 averaged."""
    base = COORDINATES["dense"]
    flow = Trajectory(path_of(kind, base), base, beta)
    errors = np.zeros(3)
    for _ in range(50):
        u, p = 0.5 * rng.normal(size=2), 0.5 * rng.normal(size=2)
        start = flow.energy(u, p)
        for k, n_steps in enumerate((32, 64, 128)):
            _, end, p_end = flow(u, p, 0.8 / n_steps, n_steps)
            errors[k] += abs(flow.energy(end, p_end) - start)
    ratios = errors[:-1] / errors[1:]
    assert ((ratios > 3.4) & (ratios < 4.6)).all(), ratios
    assert errors[-1] / 50 < 0.01


def test_stops_where_the_target_has_no_density():
    target = testing.hard_edge_gaussian()
    base = GaussianBase(target.start, np.ones(3))
    flow = Trajectory(ExactPath(target, GaussianLaw(base)), base, 1.0)
    u = np.zeros(3)
    outwards = np.array([-5.0, 0.0, 0.0])
    proposal, _, _ = flow(u, outwards, 0.3, 8)
    assert (proposal.status, proposal.acceptance_rate) == (ZERO_DENSITY, 0.0)
    assert proposal.n_evaluations < 8
    assert proposal.log_target == -math.inf


def test_stops_where_the_reference_has_no_density_below_beta_one():
    target = testing.correlated_gaussian()
    law = testing.hard_edge_gaussian()
    base = GaussianBase(law.start, np.ones(3))
    path = ExactPath(target, law)
    u, outwards = np.zeros(3), np.array([-2.0, 0.0, 0.0])
    below, _, _ = Trajectory(path, base, 0.9)(u, outwards, 0.1, 8)
    assert (below.status, below.log_reference) == (ZERO_DENSITY, -math.inf)
    assert below.n_evaluations < 8
    at_target, _, _ = Trajectory(path, base, 1.0)(u, outwards, 0.1, 8)
    assert at_target.status == REJECTED
    assert at_target.n_evaluations == 8
    assert at_target.acceptance_rate > 0.1


def test_accepting_moves_everything_that_was_evaluated(kind, rng):
    base = COORDINATES["dense"]
    flow = Trajectory(path_of(kind, base), base, 0.6)
    replicas = new_replicas(flow.view, rng.normal(size=(3, 2)))
    others = [values[[0, 2]].copy() for values in replicas[:6]]
    momentum = rng.normal(size=2)
    proposal = follow(flow.view, 0.6, 0.2, 2, replicas, 1, momentum)
    end = replicas.work[Work.POSITION].copy()
    accept(flow.view, proposal, replicas, 1)
    afresh = new_replicas(flow.view, end[None])
    for found, expected in zip(replicas[:6], afresh[:6], strict=True):
        np.testing.assert_allclose(found[1], expected[0], rtol=1e-12)
    for found, before in zip(replicas[:6], others, strict=True):
        np.testing.assert_array_equal(found[[0, 2]], before)
