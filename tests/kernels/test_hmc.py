"""One Hamiltonian transition: exact, reversible, volume preserving."""

import math

import numba
import numpy as np
import pytest
from pymc_tempering.kernels.density import evaluate
from pymc_tempering.kernels.hmc import (
    LOG_SHORTEST_STEP,
    MAX_ENERGY_ERROR,
    draw_trajectory,
    hmc_transition,
    log_base,
)

from pymc_tempering import testing
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase


@numba.njit
def move_each(target, beta, step_size, n_steps, states, rng):
    """One transition of each state `u`; with n_steps = 0 drawn as in a sampler."""
    dim = states.shape[1]
    grad, work = np.empty(dim), np.empty((5, dim))
    rate = 0.0
    for u in states:
        value = evaluate(target, u, grad, work)
        step, n = step_size, n_steps
        if n_steps == 0:
            step, n = draw_trajectory(step_size, 1.5, 64, rng)
        _, p, _, _ = hmc_transition(target, beta, step, n, u, grad, value, work, rng)
        rate += p
    return rate / states.shape[0]


def seen_from(base, target):
    return Coordinates.of(base).target(target.address)


def base_of(target, kind):
    sd = np.sqrt(np.diag(target.cov))
    factor = np.diag(1.5 * sd)
    factor[-1, 0] = 0.5 * sd[-1]
    return GaussianBase(target.mean + 0.3 * sd, 1.5 * sd if kind == "diagonal" else factor)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["diagonal", "dense"])
@pytest.mark.parametrize("beta", [0.3, 1.0])
@pytest.mark.parametrize("name", ["hard_edge_gaussian", "skewed_gamma", "banana"])
def test_invariant(name, beta, kind, rng):
    """False alarm 1e-3 each."""
    target = testing.TARGETS[name]()
    base = base_of(target, kind)

    def kernel(states, rng):
        u = np.ascontiguousarray(base.to_base(states))
        rate = move_each(seen_from(base, target), beta, 0.7, 0, u, rng)
        assert 0.1 < rate < 0.995
        return base.from_base(u)

    result = testing.invariance_test(
        kernel,
        lambda rng, n: target.draw_path(rng, n, beta, base),
        n=20_000,
        rng=rng,
        n_steps=2,
        vectorized=True,
    )
    assert not result.rejected, result


def test_draws_at_another_beta_are_found(rng):
    """The same test with a kernel for beta = 0.36 instead of 0.3: power above 0.99."""
    target = testing.skewed_gamma()
    base = base_of(target, "dense")

    def kernel(states, rng):
        u = np.ascontiguousarray(base.to_base(states))
        move_each(seen_from(base, target), 0.36, 0.7, 0, u, rng)
        return base.from_base(u)

    result = testing.invariance_test(
        kernel,
        lambda rng, n: target.draw_path(rng, n, 0.3, base),
        n=50_000,
        rng=rng,
        n_steps=3,
        vectorized=True,
    )
    assert result.rejected, result


class FixedMomentum:
    """Compiled transitions draw momentum first, then one uniform; replay both by the seed."""

    def __init__(self, seed, dim):
        rng = np.random.default_rng(seed)
        self.momentum = rng.standard_normal(dim)
        self.uniform = rng.random()


def split_steps(target, base, beta, step_size, n_steps, u, p):
    """The integrator by its formula: kick, rotate, kick."""
    matrix = np.diag(base.scale) if base.is_diagonal else base.scale

    def slope(u):
        return matrix.T @ target.value_and_grad(base.from_base(u))[1] + u

    for _ in range(n_steps):
        p = p + 0.5 * step_size * beta * slope(u)
        u, p = (
            math.cos(step_size) * u + math.sin(step_size) * p,
            math.cos(step_size) * p - math.sin(step_size) * u,
        )
        p = p + 0.5 * step_size * beta * slope(u)
    return u, p


def energy(target, base, beta, u, p):
    delta = float(target.delta(base.from_base(u), base))
    return 0.5 * (p @ p + u @ u) - beta * delta


@pytest.mark.parametrize("kind", ["diagonal", "dense"])
def test_transition_is_the_split_integrator_and_its_metropolis_step(kind, seed):
    target = testing.banana()
    base = base_of(target, kind)
    beta, step_size, n_steps = 0.6, 0.2, 3
    n_accepted = 0
    for trial in range(20):
        u = np.random.default_rng([seed, 1, trial]).normal(size=2)
        momentum = FixedMomentum([seed, trial], 2)
        grad, work = np.empty(2), np.empty((5, 2))
        value = evaluate(seen_from(base, target), u, grad, work)
        moved = u.copy()
        new, rate, diverging, n_gradients = hmc_transition(
            seen_from(base, target), beta, step_size, n_steps, moved, grad, value, work,
            np.random.default_rng([seed, trial]),
        )  # fmt: skip
        end, p_end = split_steps(target, base, beta, step_size, n_steps, u, momentum.momentum)
        error = energy(target, base, beta, end, p_end) - energy(
            target, base, beta, u, momentum.momentum
        )
        assert diverging == (error > MAX_ENERGY_ERROR)
        if diverging:
            assert (rate, moved.tolist()) == (0.0, u.tolist())
            continue
        assert rate == pytest.approx(min(1.0, math.exp(-error)), rel=1e-9)
        assert n_gradients == n_steps
        accepted = momentum.uniform < rate
        n_accepted += accepted
        np.testing.assert_allclose(moved, end if accepted else u, rtol=1e-9)
        expected, grad_z = evaluate_at(target, base, moved)
        assert new == pytest.approx(expected)
        np.testing.assert_allclose(grad, grad_z, rtol=1e-8)
    assert n_accepted > 5


def evaluate_at(target, base, u):
    grad = np.empty(u.size)
    value = evaluate(seen_from(base, target), u, grad, np.empty((2, u.size)))
    return value, grad


def test_integrator_is_reversible_and_keeps_volume(rng):
    """On the formula that the compiled transition was just shown to follow."""
    target = testing.banana()
    base = base_of(target, "dense")
    u, p = rng.normal(size=2), rng.normal(size=2)
    end = split_steps(target, base, 0.7, 0.1, 5, u, p)
    back = split_steps(target, base, 0.7, 0.1, 5, end[0], -end[1])
    np.testing.assert_allclose(back[0], u, atol=1e-10)
    np.testing.assert_allclose(back[1], -p, atol=1e-10)
    state, h = np.concatenate([u, p]), 1e-5

    def flow(x):
        return np.concatenate(split_steps(target, base, 0.7, 0.1, 5, x[:2], x[2:]))

    jacobian = np.array([(flow(state + h * e) - flow(state - h * e)) / (2 * h) for e in np.eye(4)])
    assert abs(np.linalg.det(jacobian)) == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_every_step_is_exact_without_kicks(beta, rng):
    """At beta = 0, and for a base that equals the target, any step size is accepted."""
    target = testing.correlated_gaussian()
    base = GaussianBase(target.mean, np.linalg.cholesky(target.cov))
    if beta == 0.0:
        base = GaussianBase(np.array([9.0, 9.0, 9.0]), np.full(3, 2.0))
    states = rng.normal(size=(50, 3))
    before = states.copy()
    rate = move_each(seen_from(base, target), beta, 1.3, 3, states, rng)
    assert rate == pytest.approx(1.0, abs=1e-9)
    assert (states != before).all()


def test_zero_density_rejects_and_divergence_is_told_apart(rng):
    target = testing.hard_edge_gaussian()
    base = GaussianBase(target.start, np.ones(3))
    u, grad, work = np.zeros(3), np.empty(3), np.empty((5, 3))
    value = evaluate(seen_from(base, target), u, grad, work)
    results = []
    for _ in range(200):
        before = u.copy()
        new, rate, diverging, n_gradients = hmc_transition(
            seen_from(base, target), 1.0, 1.5, 4, u, grad, value, work, rng
        )
        assert not diverging
        if n_gradients < 4:
            assert (rate, new) == (0.0, value)
            np.testing.assert_array_equal(u, before)
        results.append(n_gradients)
        value = new
    assert min(results) < 4
    narrow = testing.scaled_normal(dim=2, sd=1e-4)
    far = GaussianBase(np.zeros(2), np.ones(2))
    u, grad, work = np.full(2, 1e-4), np.empty(2), np.empty((5, 2))
    value = evaluate(seen_from(far, narrow), u, grad, work)
    new, rate, diverging, _ = hmc_transition(
        seen_from(far, narrow), 1.0, 1.0, 3, u, grad, value, work, rng
    )
    assert diverging
    assert (new, rate, u.tolist()) == (value, 0.0, [1e-4, 1e-4])
    assert MAX_ENERGY_ERROR == 1000.0


def test_log_base(rng):
    u = rng.normal(size=4)
    assert log_base(u) == pytest.approx(-0.5 * u @ u - 2.0 * math.log(2.0 * math.pi))


@numba.njit
def trajectories(step_size, length, max_steps, n, rng):
    steps, numbers = np.empty(n), np.empty(n, np.int64)
    for i in range(n):
        steps[i], numbers[i] = draw_trajectory(step_size, length, max_steps, rng)
    return steps, numbers


@pytest.mark.statistical
def test_trajectories_are_jittered_and_one_in_five_is_short(rng):
    """Frequencies within five standard errors."""
    n = 100_000
    steps, numbers = trajectories(0.3, 1.5, 64, n, rng)
    short = steps < 0.8 * 0.3
    assert steps.max() <= 1.2 * 0.3
    assert steps.min() >= 0.8 * 0.3 * math.exp(-LOG_SHORTEST_STEP)
    # jitter alone is never below 0.8 of the step; a short step stays above it only when barely cut
    assert 0.15 < short.mean() < 0.2 + 5 * math.sqrt(0.16 / n)
    counts = np.bincount(numbers[~short], minlength=11)
    assert counts[0] == 0
    assert numbers.max() == 10
    assert (counts[1:6] > 0.14 * (~short).sum()).all()
    # a number of steps that depended on the jittered step would not be reversible
    plain = ~short
    assert abs(np.corrcoef(steps[plain], numbers[plain])[0, 1]) < 0.05
    assert trajectories(1e-3, 1.5, 8, 1000, rng)[1].max() == 8
    assert trajectories(1.5, 1.0, 8, 1000, rng)[1].max() <= 2
