"""Occupancies against quadrature; adaptation finds log z from exact draws."""

from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import quad

from pymc_tempering.schedule.weights import (
    BiasAdapter,
    bias_for_equal_pieces,
    knot_log_occupancy,
    level_log_occupancy,
    wanted_occupancy,
)

KNOTS = np.array([0.0, 0.1, 0.4, 1.0])
BIAS = np.array([0.0, -1.0, 0.5, 2.0])


@pytest.mark.parametrize("delta", [-60.0, -3.0, 0.02, 1.0, 40.0])
def test_occupancy_of_knots_is_the_integral_of_their_hats(delta):
    def density(beta):
        return np.exp(beta * delta - np.interp(beta, KNOTS, BIAS) - max(delta, 0.0))

    def integral(function):
        return sum(quad(function, lo, hi, epsabs=0, epsrel=1e-11)[0] for lo, hi in pairwise(KNOTS))

    total = integral(density)
    exact = [
        integral(lambda b, k=k: density(b) * np.interp(b, KNOTS, np.eye(4)[k])) / total
        for k in range(4)
    ]
    occupancy = np.exp(knot_log_occupancy(np.array([delta]), KNOTS, BIAS))
    assert occupancy == pytest.approx(exact, rel=1e-7, abs=1e-15)
    assert occupancy.sum() == pytest.approx(1.0, rel=1e-12)


def test_occupancies_average_over_positions():
    delta = np.array([-5.0, 2.0])
    both = np.exp(knot_log_occupancy(delta, KNOTS, BIAS))
    each = [np.exp(knot_log_occupancy(delta[i : i + 1], KNOTS, BIAS)) for i in range(2)]
    assert both == pytest.approx(np.mean(each, axis=0))
    levels = np.exp(level_log_occupancy(delta, KNOTS, BIAS))
    p = np.exp(np.multiply.outer(delta, KNOTS) - BIAS)
    assert levels == pytest.approx((p / p.sum(axis=1, keepdims=True)).mean(axis=0))
    assert np.exp(level_log_occupancy(np.array([-np.inf]), KNOTS, BIAS)).tolist() == [1, 0, 0, 0]


def test_bias_for_equal_pieces_gives_pieces_equal_time():
    """Nearly: a piecewise exponential through the wanted density at the knots, within 25 %."""
    knots = np.array([0.0, 0.01, 0.03, 0.08, 0.2, 0.45, 1.0])

    def log_z(beta):
        return -3.0 * np.log1p(40.0 * beta)

    bias = bias_for_equal_pieces(knots, log_z(knots))
    shares = np.array([
        quad(lambda b: np.exp(log_z(b) - np.interp(b, knots, bias)), lo, hi)[0]
        for lo, hi in pairwise(knots)
    ])  # fmt: skip
    assert shares / shares.mean() == pytest.approx(np.ones(6), abs=0.25)


class Gaussians:
    """delta of N(0, 1) relative to N(0, s^2), times Z: log z(beta) in closed form."""

    def __init__(self, dim, log_z, sd=4.0):
        self.dim, self.log_z_target, self.sd = dim, log_z, sd

    def log_z(self, beta):
        precision = (1 - beta) / self.sd**2 + beta
        return (
            beta * self.log_z_target
            - 0.5 * self.dim * np.log(precision)
            - (1 - beta) * self.dim * np.log(self.sd)
        )

    def draw_delta(self, beta, rng):
        z2 = rng.chisquare(self.dim, size=np.shape(beta)) / ((1 - beta) / self.sd**2 + beta)
        return self.log_z_target + 0.5 * z2 * (1 / self.sd**2 - 1) + self.dim * np.log(self.sd)


@pytest.mark.parametrize("log_z", [-900.0, 3.0, 900.0])
def test_initial_iterations_find_weights_from_nothing(log_z, rng):
    """Section 2.4 of Carlson et al.: from weights 900 nats off to every level within 1 nat."""
    target = Gaussians(5, log_z)
    betas = np.array([0.0, 0.02, 0.08, 0.25, 0.55, 1.0])
    adapter = BiasAdapter(np.zeros(6), wanted_occupancy(6, knots=False), 100, known=False)
    level = rng.integers(6)
    for _ in range(100):
        delta = np.empty(32)
        for i in range(32):
            delta[i] = target.draw_delta(betas[level], rng)
            log_p = betas * delta[i] - adapter.bias
            p = np.exp(log_p - log_p.max())
            level = rng.choice(6, p=p / p.sum())
        if adapter.update(level_log_occupancy(delta, betas, adapter.bias), 32):
            level = rng.integers(6)
    assert not adapter.iterating
    assert adapter.bias == pytest.approx(target.log_z(betas), abs=1.0)


@pytest.mark.parametrize("error", [-4.0, 4.0])
def test_vanishing_gain_removes_an_error_of_the_bias(error, rng):
    """From exact draws of beta: occupancies of all knots end within a third of those wanted."""
    target = Gaussians(5, -2.0)
    knots = np.array([0.0, 0.02, 0.08, 0.25, 0.55, 1.0])
    grid = np.linspace(0.0, 1.0, 4001)
    start = bias_for_equal_pieces(knots, target.log_z(knots)) + error * knots
    wanted = wanted_occupancy(6, knots=True)
    adapter = BiasAdapter(start, wanted, 200, known=True)
    for _ in range(200):
        density = np.exp(target.log_z(grid) - np.interp(grid, knots, adapter.bias))
        beta = rng.choice(grid, 32, p=density / density.sum())
        delta = target.draw_delta(beta, rng)
        adapter.update(knot_log_occupancy(delta, knots, adapter.bias), 32)
    fine = np.unique(np.concatenate([grid, np.linspace(0, 0.1, 4001)]))
    density = np.exp(target.log_z(fine) - np.interp(fine, knots, adapter.bias))
    hats = [np.trapezoid(density * np.interp(fine, knots, np.eye(6)[k]), fine) for k in range(6)]
    assert np.array(hats) / np.sum(hats) / wanted == pytest.approx(np.ones(6), abs=1 / 3)


def test_state_continues_exactly(rng):
    updates = [np.log(rng.dirichlet(np.ones(4))) for _ in range(20)]
    first = BiasAdapter(np.zeros(4), wanted_occupancy(4, knots=True), 20, known=False)
    for update in updates[:7]:
        first.update(update, 8)
    second = BiasAdapter.restored(first.state())
    for update in updates[7:]:
        assert first.update(update, 8) == second.update(update, 8)
    assert (first.bias == second.bias).all()
    assert first.bias[0] == 0.0
