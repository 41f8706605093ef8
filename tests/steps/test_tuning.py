"""Tuning rounds and what they do to replicas."""

import numpy as np
import pytest
from pymc_tempering.steps.replicas import Replicas, replica_levels

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.steps.tuning import RoundTuner, overdisperse, round_lengths

OPTIONS = {"trajectory_length": 1.5, "max_steps": 16, "target_accept": 0.8}


@pytest.mark.parametrize("n", [1, 2, 7, 50, 128, 1000])
def test_rounds_double_and_add_up(n):
    lengths = round_lengths(n)
    assert lengths.sum() == n
    assert (lengths > 0).all()
    if n >= 128:
        np.testing.assert_allclose(lengths[2:] / lengths[1:-1], 2.0, rtol=0.6)
        assert lengths[-1] == pytest.approx(n / 2, abs=1)


def test_no_steps_no_rounds():
    assert round_lengths(0).size == 0
    tuner = RoundTuner(
        0, 4, GaussianBase(np.zeros(1), np.ones(1)), 1, adapt_schedule=True, adapt_base=True
    )
    assert tuner.finished


def test_overdispersion_widens_scales_alone():
    base = GaussianBase(np.array([1.0, 2.0]), np.array([[1.0, 0.0], [0.5, 2.0]]), log_zeta=-3.0)
    one, more = overdisperse(base, 1), overdisperse(base, 4)
    np.testing.assert_array_equal(one.mean, base.mean)
    assert one.log_zeta == base.log_zeta
    ratios = [wide.standard_deviation / base.standard_deviation for wide in (one, more)]
    assert np.ptp(ratios[0]) < 1e-12
    assert 1.0 < ratios[0][0] < ratios[1][0] < 1.5


def chain(name, rng, betas=(0.0, 0.3, 1.0), scale=2.0, start=None):
    target = testing.TARGETS[name]()
    base = GaussianBase.from_moments(target.mean, scale * target.cov)
    start = target.start if start is None else start
    return target, Replicas(target.address, base, np.array(betas), start, rng, **OPTIONS)


def tune(replicas, tuner, rng, scans=16):
    while not tuner.finished:
        record = replicas.run(scans, rng, adapt=True, keep_positions=tuner.base_may_change)
        tuner.update(replicas, record)


@pytest.mark.statistical
def test_tuning_equalises_rejection_and_finds_the_number_of_levels(rng):
    """Rates from 4000 scans of a barrier of about 1.5; spread far above the noise of 0.02."""
    target, replicas = chain("skewed_gamma", rng, np.linspace(0, 1, 12), scale=9.0)
    tuner = RoundTuner(200, 12, replicas.base, 1, adapt_schedule=True, adapt_base=False)
    base = replicas.base
    tune(replicas, tuner, rng)
    assert replicas.base == base
    replicas.stop_adaptation()
    record = replicas.run(4000, rng)
    barrier = target.global_barrier(base)
    rejection = 1.0 - record.swap_acceptance_rate
    assert rejection.sum() == pytest.approx(barrier, rel=0.15)
    assert replicas.n_levels == pytest.approx(2 * barrier + 1.5, abs=1)
    assert np.ptp(rejection) < 0.15
    assert record.acceptance_rate[1:] == pytest.approx(0.8, abs=0.12)


def test_schedule_and_base_stay_where_told(rng):
    _, replicas = chain("skewed_gamma", rng)
    base, betas = replicas.base, replicas.betas.copy()
    tuner = RoundTuner(60, 3, base, 1, adapt_schedule=False, adapt_base=False)
    tune(replicas, tuner, rng)
    assert replicas.base == base
    np.testing.assert_array_equal(replicas.betas, betas)


@pytest.mark.statistical
def test_base_moves_to_the_target_and_not_in_the_last_round(rng):
    target = testing.skewed_gamma()
    far = GaussianBase(target.mean + 3.0, np.full(2, 4.0))
    replicas = Replicas(
        target.address, far, np.array([0.0, 0.02, 0.1, 0.4, 1.0]), target.start, rng, **OPTIONS
    )
    tuner = RoundTuner(200, 10, far, 1, adapt_schedule=True, adapt_base=True)
    bases = []
    while not tuner.finished:
        changes = tuner.base_may_change
        record = replicas.run(16, rng, adapt=True, keep_positions=changes)
        tuner.update(replicas, record)
        bases.append(replicas.base)
    assert bases[-1] == bases[-tuner.lengths[-1] - 1]
    assert bases[-1] != far
    assert np.abs(bases[-1].mean - target.mean).max() < 1.0
    assert target.global_barrier(bases[-1]) < target.global_barrier(far)


def test_tuner_state_round_trip(rng):
    _, replicas = chain("skewed_gamma", rng)
    tuner = RoundTuner(20, 5, replicas.base, 2, adapt_schedule=True, adapt_base=True)
    for _ in range(9):
        tuner.update(replicas, replicas.run(4, rng, adapt=True, keep_positions=True))
    state = tuner.state()
    other = RoundTuner(0, 5, replicas.base, 1, adapt_schedule=True, adapt_base=True)
    other.set_state(state)
    assert other.n_modes == 2
    again = other.state()
    assert state.keys() == again.keys()
    for name in state:
        np.testing.assert_equal(again[name], state[name])


def test_replicas_keep_their_places_under_another_base(rng):
    target, replicas = chain("asymmetric_bimodal", rng)
    replicas.run(20, rng)
    z = replicas.base.from_base(replicas.u[replicas.replica_at])
    other = GaussianBase(np.array([1.0, -1.0]), np.array([[3.0, 0.0], [1.0, 0.5]]))
    replicas.change_base(other)
    np.testing.assert_allclose(other.from_base(replicas.u[replicas.replica_at]), z, rtol=1e-9)
    np.testing.assert_allclose(
        replicas.delta[replicas.replica_at], target.delta(z, other), rtol=1e-9
    )


def test_new_levels_start_at_the_nearest_old_ones(rng):
    target, replicas = chain("hard_edge_gaussian", rng)
    replicas.run(20, rng)
    z = replicas.base.from_base(replicas.u[replicas.replica_at])
    replicas.change_schedule(np.array([0.0, 0.01, 0.1, 0.25, 0.7, 1.0]))
    now = replicas.base.from_base(replicas.u[replicas.replica_at])
    # never the base's own replica above it: it may sit where the target has no density
    np.testing.assert_allclose(now[[1, 2, 3, 4, 5]], z[[1, 1, 1, 2, 2]])
    assert np.isfinite(target.log_density(now[1:])).all()
    assert (replicas.step_sizes > 0).all()
    record = replicas.run(10, rng)
    assert record.delta.shape == (10, 6)


def test_target_far_out_is_rescued_and_others_are_left(rng):
    target, replicas = chain("asymmetric_bimodal", rng)
    replicas.run(20, rng)
    before = replicas.u.copy()
    assert not replicas.rescue_target()
    np.testing.assert_array_equal(replicas.u, before)
    lost = replicas.replica_at[-1]
    replicas.u[lost] = 60.0
    replicas._evaluate(lost)
    best = np.argmax(replicas.log_target)
    assert replicas.rescue_target()
    np.testing.assert_array_equal(replicas.u[lost], before[best])
    assert replicas.target_log_density == pytest.approx(
        float(target.log_density(replicas.target_position))
    )


def test_replicas_start_where_the_density_is_finite(rng):
    """A base all of whose draws lie beyond the edge."""
    target = testing.hard_edge_gaussian()
    base = GaussianBase(np.array([-200.0, 0.0, 0.0]), np.ones(3))
    replicas = Replicas(
        target.address, base, np.array([0.0, 0.4, 1.0]), target.start, rng, **OPTIONS
    )
    assert np.isfinite(replicas.log_target[1:]).all()
    np.testing.assert_allclose(replicas.target_position, target.start, atol=1e-10)


def test_levels_of_replicas():
    assert replica_levels(np.array([2, 0, 1])).tolist() == [1, 2, 0]


def test_replicas_continue_from_their_state(rng):
    target, replicas = chain("skewed_gamma", rng)
    replicas.run(7, rng, adapt=True)
    other = Replicas.from_state(replicas.state(), target.address, **OPTIONS)
    streams = [np.random.default_rng(5), np.random.default_rng(5)]
    for adapt in (True, False):
        first, second = (
            r.run(5, s, adapt=adapt) for r, s in zip((replicas, other), streams, strict=True)
        )
        np.testing.assert_array_equal(first.delta, second.delta)
