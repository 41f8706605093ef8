"""Hamiltonian moves leave their density invariant, and their trajectories are jittered."""

import math

import numba
import numpy as np
import pytest
from densities import half_normal, narrow_between_edges, toy
from laws import ASKEW, MAPPED
from loops import move_kernel

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.explore import explore
from pymc_tempering.engine.explorers.hamiltonian import (
    LOG_SHORTEST_STEP,
    MAX_ACCEPTED_ERROR,
    MAX_ENERGY_ERROR,
    Hamiltonian,
    draw_trajectory,
)
from pymc_tempering.engine.move import ACCEPTED, DIVERGENT, REJECTED, ZERO_DENSITY
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.engine.path.tempered import TemperedPath


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

    kernel = move_kernel(TemperedPath.from_base(target, base), beta, 0.7)
    result = testing.invariance_test(
        kernel,
        lambda rng, n: target.draw_path(rng, n, beta, base),
        n=20_000,
        rng=rng,
        n_steps=2,
        vectorized=True,
    )
    assert 0.1 < kernel.record.acceptance_sums[1] / 40_000 < 0.995
    assert not result.rejected, result


@pytest.mark.statistical
@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_invariant_with_a_reference_that_is_not_gaussian(beta, rng):
    """False alarm 1e-3 each."""
    kernel = move_kernel(MAPPED.in_coordinates(ASKEW), beta, 0.5)
    result = testing.invariance_test(
        kernel, lambda rng, n: MAPPED.draw(rng, n, beta), n=50_000, rng=rng, n_steps=2,
        vectorized=True,
    )  # fmt: skip
    assert 0.1 < kernel.record.acceptance_sums[1] / 100_000 < 0.995
    assert not result.rejected, result


def test_draws_at_another_beta_are_found(rng):
    """The same test with a kernel for beta = 0.36 instead of 0.3: power above 0.99."""
    target = testing.skewed_gamma()
    base = base_of(target, "dense")

    kernel = move_kernel(TemperedPath.from_base(target, base), 0.36, 0.7)
    result = testing.invariance_test(
        kernel,
        lambda rng, n: target.draw_path(rng, n, 0.3, base),
        n=50_000,
        rng=rng,
        n_steps=3,
        vectorized=True,
    )
    assert result.rejected, result


def moves(density, base, start, beta, scale, n, rng, **options):
    """Outcomes of moves in succession, with the positions before and after each."""
    view = TemperedPath.from_base(density, base).view
    explorer = Hamiltonian(**options).packed
    replicas = new_replicas(view, np.atleast_2d(start))
    for _ in range(n):
        before = replicas.u[0].copy(), replicas.log_target[0]
        outcome = explore(view, explorer, beta, scale, replicas, 0, rng)
        yield outcome, before, (replicas.u[0].copy(), replicas.log_target[0])


def test_zero_density_rejects_and_divergence_is_told_apart(rng):
    target = testing.hard_edge_gaussian()
    base = GaussianBase(target.start, np.ones(3))
    seen = set()
    # with jitter steps of 1.08 at most: up to 1.28 they are stable in all directions, and no
    # trajectory diverges
    for outcome, before, after in moves(
        target, base, np.zeros(3), 1.0, 0.9, 200, rng, trajectory_length=6.0, max_steps=4
    ):
        seen.add(outcome.status)
        assert 1 <= outcome.n_evaluations <= 4
        assert np.isfinite(after[1])
        if outcome.status == ZERO_DENSITY:
            assert outcome.acceptance_rate == 0.0
        if outcome.status == ACCEPTED:
            assert (after[0] != before[0]).all()
        else:
            assert after[1] == before[1]
            np.testing.assert_array_equal(after[0], before[0])
        late = outcome.status == ZERO_DENSITY and outcome.n_evaluations > 1
        assert outcome.signal == outcome.acceptance_rate or (late and np.isnan(outcome.signal))
    assert {ACCEPTED, ZERO_DENSITY} <= seen <= {ACCEPTED, REJECTED, ZERO_DENSITY}
    narrow = testing.scaled_normal(dim=2, sd=1e-4)
    far = GaussianBase(np.zeros(2), np.ones(2))
    start = np.full(2, 1e-4)
    [(outcome, before, after)] = moves(narrow, far, start, 1.0, 1.0, 1, rng)
    assert (outcome.status, outcome.acceptance_rate) == (DIVERGENT, 0.0)
    assert (after[1], after[0].tolist()) == (before[1], [1e-4, 1e-4])
    assert MAX_ENERGY_ERROR == 1000.0


def cliff(height):
    """Normal density that is higher, without a slope, above 1."""

    @toy(1)
    def density(z, grad):
        grad[0] = -z[0]
        return -0.5 * z[0] ** 2 + (height if z[0] > 1.0 else 0.0)

    return density


def test_no_trajectory_gains_more_energy_than_small_errors_do(rng):
    base = GaussianBase(np.zeros(1), np.ones(1))
    for height, climbs in ((MAX_ACCEPTED_ERROR - 5.0, True), (MAX_ACCEPTED_ERROR + 5.0, False)):
        *_, (_, _, (u, _)) = moves(cliff(height), base, [0.9], 1.0, 0.5, 200, rng)
        assert (u[0] > 1.0) == climbs


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


def test_steps_that_are_too_long_are_told_from_an_edge_that_short_ones_meet_too(rng):
    """In steps of half the width it is the edge; three times as long, trajectories explode."""
    density, base = narrow_between_edges, GaussianBase(np.zeros(1), np.ones(1))
    for scale, is_unstable in ((0.05, False), (0.3, True)):
        signals = [
            outcome.signal
            for outcome, _, _ in moves(density, base, np.zeros(1), 1.0, scale, 300, rng)
            if outcome.status == ZERO_DENSITY and outcome.n_evaluations > 1
        ]
        assert np.isin(signals, [0.0]).any() == is_unstable
        assert len(signals) > 20 or not is_unstable


@pytest.mark.statistical
def test_an_edge_does_not_shorten_steps(rng):
    """A wall through a Gaussian's mean: its steps are tuned as those of the Gaussian are."""
    base = GaussianBase(np.array([0.8]), np.array([0.8]))
    path = TemperedPath.from_base(half_normal, base)
    ladder = Ladder(path, np.array([0.0, 0.5, 1.0]), np.ones(1), rng, settings=Hamiltonian())
    ladder.run(400, rng, adapt=True)
    ladder.stop_adaptation()
    assert ladder.scales[1:].min() > 0.2
    delta = ladder.run(4000, rng, keep_positions=True)
    # the mean of a half-normal, to 5 standard errors of 400 independent draws
    assert delta.target_positions.mean() == pytest.approx(np.sqrt(2 / np.pi), abs=0.15)
