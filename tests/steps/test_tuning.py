"""Tuning rounds and what they do to replicas."""

import exact_barrier
import numpy as np
import pytest
from densities import toy

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.steps.tuning import (
    Tuner,
    overdisperse,
    read_pilot,
    round_lengths,
)

SETTINGS = Hamiltonian(max_steps=16)


@pytest.mark.parametrize("n", [1, 2, 7, 50, 128, 1000])
def test_rounds_double_and_add_up(n):
    lengths = round_lengths(n)
    assert lengths.sum() == n
    assert (lengths > 0).all()
    if n >= 128:
        np.testing.assert_allclose(lengths[2:] / lengths[1:-1], 2.0, rtol=0.6)
        assert lengths[-1] == pytest.approx(n / 2, abs=1)


def test_no_steps_no_rounds(rng):
    _, ladder = chain("skewed_gamma", rng)
    assert round_lengths(0).size == 0
    assert new_tuner(ladder, 0).finished


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
    path = TemperedPath.from_base(target, base)
    return target, Ladder(path, np.array(betas), start, rng, settings=SETTINGS)


def new_tuner(ladder, n_steps, max_levels=12, n_modes=1, *, schedule=True, base=True):
    return Tuner(
        ladder, n_steps, ladder.base, n_modes, max_levels=max_levels, adapts_schedule=schedule,
        adapts_base=base,
    )  # fmt: skip


def tune(tuner, rng, scans=16):
    while not tuner.finished:
        tuner.run(scans, rng)


@pytest.mark.statistical
def test_tuning_equalises_rejection_and_finds_the_number_of_levels(rng):
    """Rates from 4000 scans of a barrier of about 1.5; spread far above the noise of 0.02."""
    target, ladder = chain("skewed_gamma", rng, np.linspace(0, 1, 12), scale=9.0)
    base = ladder.base
    tune(new_tuner(ladder, 200, base=False), rng)
    assert ladder.base == base
    ladder.stop_adaptation()
    record = ladder.run(4000, rng)
    barrier = exact_barrier.global_barrier(target, base)
    rejection = 1.0 - record.swap_acceptance_rate
    assert rejection.sum() == pytest.approx(barrier, rel=0.15)
    assert ladder.n_levels == pytest.approx(2 * barrier + 1.5, abs=1)
    assert np.ptp(rejection) < 0.15
    assert record.acceptance_rate[1:] == pytest.approx(0.8, abs=0.12)


@pytest.mark.parametrize(("n_modes", "early"), [(1, 4), (2, 6)])
def test_early_rounds_have_more_levels_where_modes_are_known(n_modes, early, rng):
    _, ladder = chain("skewed_gamma", rng, scale=1.0)
    tuner = new_tuner(ladder, 60, n_modes=n_modes, base=False)
    tuner.run(4, rng)
    assert ladder.n_levels >= early
    tune(tuner, rng)
    assert ladder.n_levels == 3


def test_schedule_and_base_stay_where_told(rng):
    _, ladder = chain("skewed_gamma", rng)
    base, betas = ladder.base, ladder.betas.copy()
    tune(new_tuner(ladder, 60, 3, schedule=False, base=False), rng)
    assert ladder.base == base
    np.testing.assert_array_equal(ladder.betas, betas)


@pytest.mark.statistical
def test_base_moves_to_the_target_and_not_in_the_last_round(rng):
    target = testing.skewed_gamma()
    far = GaussianBase(target.mean + 3.0, np.full(2, 4.0))
    betas = np.array([0.0, 0.02, 0.1, 0.4, 1.0])
    path = TemperedPath.from_base(target, far)
    ladder = Ladder(path, betas, target.start, rng, settings=SETTINGS)
    tuner, bases = new_tuner(ladder, 200, 10), []
    while not tuner.finished:
        tuner.run(16, rng)
        bases.append(ladder.base)
    assert bases[-1] == bases[-tuner.lengths[-1] - 1]
    assert bases[-1] != far
    assert np.abs(bases[-1].mean - target.mean).max() < 1.0
    before, after = (exact_barrier.global_barrier(target, base) for base in (far, bases[-1]))
    assert after < before


def test_a_tuner_continues_from_its_state(rng):
    """In the middle of a round, and as a pilot whose last round is over."""
    _, ladder = chain("skewed_gamma", rng)
    tuner = new_tuner(ladder, 20, 5, n_modes=2)
    for n in (9, 11):
        for _ in range(n):
            tuner.run(4, rng)
        state = tuner.state()
        again = Ladder.restored(state["ladder"], path=ladder.path, settings=SETTINGS, swap_scheme=0)
        other = Tuner.resumed(state, again)
        for name, value in other.state().items():
            np.testing.assert_equal(value, state[name])
        for mine, its in zip(read_pilot(tuner), read_pilot(other), strict=True):
            if isinstance(mine, np.ndarray):
                np.testing.assert_array_equal(mine, its)
    assert tuner.finished


@pytest.mark.statistical
def test_log_z_at_equal_barrier_is_that_of_the_path(rng):
    """BAR of 1600 scans, errors of about 0.03; interpolated between levels."""
    target, ladder = chain("skewed_gamma", rng, np.linspace(0, 1, 12), scale=9.0)
    pilot = new_tuner(ladder, 200, base=False)
    tune(pilot, rng)
    result = read_pilot(pilot)
    assert (result.betas[0], result.betas[-1]) == (0.0, 1.0)
    assert result.rejection_rates.shape == (result.betas.size - 1,)
    assert result.log_z[-1] == pytest.approx(target.log_z, abs=0.2)
    betas, log_z = result.equal_barrier(9)
    assert betas.shape == log_z.shape == (9,)
    assert log_z[-1] == pytest.approx(result.log_z[-1])
    np.testing.assert_allclose(result.step_sizes_at(result.step_betas), result.step_sizes)


def test_replicas_keep_their_places_under_another_base(rng):
    target, ladder = chain("asymmetric_bimodal", rng)
    ladder.run(20, rng)
    z = ladder.base.from_base(ladder.u[ladder.replica_at])
    other = GaussianBase(np.array([1.0, -1.0]), np.array([[3.0, 0.0], [1.0, 0.5]]))
    ladder.change_base(other)
    np.testing.assert_allclose(other.from_base(ladder.u[ladder.replica_at]), z, rtol=1e-9)
    np.testing.assert_allclose(
        ladder.replicas.delta[ladder.replica_at], target.delta(z, other), rtol=1e-9
    )


def test_new_levels_start_at_the_nearest_old_ones(rng):
    target, ladder = chain("hard_edge_gaussian", rng)
    ladder.run(20, rng)
    z = ladder.base.from_base(ladder.u[ladder.replica_at])
    ladder.change_schedule(np.array([0.0, 0.01, 0.1, 0.25, 0.7, 1.0]))
    now = ladder.base.from_base(ladder.u[ladder.replica_at])
    # never the base's own replica above it: it may sit where the target has no density
    np.testing.assert_allclose(now[[1, 2, 3, 4, 5]], z[[1, 1, 1, 2, 2]])
    assert np.isfinite(target.log_density(now[1:])).all()
    assert (ladder.scales > 0).all()
    record = ladder.run(10, rng)
    assert record.delta.shape == (10, 6)


def test_target_far_out_is_rescued_and_others_are_left(rng):
    target, ladder = chain("asymmetric_bimodal", rng)
    ladder.run(20, rng)
    before = ladder.u.copy()
    assert not ladder.rescue_target()
    np.testing.assert_array_equal(ladder.u, before)
    lost = ladder.replica_at[-1]
    ladder._put(lost, np.full(2, 60.0))
    assert ladder.rescue_target()
    others = ladder.replica_at[:-1]
    np.testing.assert_array_equal(ladder.u[others], before[others])
    # at a mode
    assert (
        ladder.target_log_density
        > target.log_density(ladder.coordinates.from_base(before)).max() - 6.0
    )
    assert ladder.target_log_density == pytest.approx(
        float(target.log_density(ladder.target_position))
    )
    assert not ladder.rescue_target()


class SpikedNormal:
    """Standard normal, and at 3 on the first axis a spike of standard deviation 0.005."""

    def __init__(self, dim, sd=0.005, weight=1e-20):
        log_height = np.log(weight) - dim * np.log(sd)

        @toy(dim)
        def density(z, grad):
            wide = (z * z).sum()
            narrow = (wide - 6.0 * z[0] + 9.0) / sd**2
            wide, narrow = -0.5 * wide, log_height - 0.5 * narrow
            top = max(wide, narrow)
            total = top + np.log(np.exp(wide - top) + np.exp(narrow - top))
            share = np.exp(narrow - total)
            for i in range(dim):
                shift = 3.0 if i == 0 else 0.0
                grad[i] = -(1.0 - share) * z[i] - share * (z[i] - shift) / sd**2
            return total

        self.dim, self.address, self._keep_alive = dim, density.address, density


def test_a_spike_of_no_mass_rescues_nobody(rng):
    """Of weight 1e-20, in 40 dimensions, 166 nats above the top of the wide mode.

    Whoever is far out climbs into the mode that lies uphill, the wide one.
    """
    dim = 40
    base = GaussianBase(np.zeros(dim), np.full(dim, 1.3))
    path = TemperedPath.from_base(SpikedNormal(dim), base)
    start = rng.normal(size=(1, dim))
    ladder = Ladder(path, np.array([0.0, 0.5, 1.0]), start, rng, settings=SETTINGS)
    spike, top = ladder.replica_at[1], ladder.replica_at[-1]
    ladder._put(spike, base.to_base(np.r_[3.0, np.zeros(dim - 1)]))
    assert ladder.replicas.log_target[spike] > ladder.replicas.log_target[top] + 2 * dim + 50
    assert not ladder.rescue_target()
    ladder._put(top, np.full(dim, -40.0))
    assert ladder.rescue_target()
    assert np.abs(ladder.target_position).max() < 1.0


@pytest.mark.parametrize("arrives", [True, False])
def test_a_replica_that_came_from_the_reference_is_no_stray(arrives, rng, monkeypatch):
    """In a funnel others may be deep inside, hundreds of nats above it and without mass."""
    _, ladder = chain("asymmetric_bimodal", rng)
    requested = []
    monkeypatch.setattr(Ladder, "rescue_target", lambda self: requested.append(self))
    tuner = Tuner(ladder, 3, None, 1, max_levels=8, adapts_schedule=False)
    record = ladder.run(5, rng, adapt=True, keep_positions=True)
    record.counts["n_tempered_restarts"] = 2 * arrives
    for _ in range(2):
        tuner.update(record, rng)
    assert bool(requested) != arrives


def test_replicas_start_where_the_density_is_finite(rng):
    """A base all of whose draws lie beyond the edge."""
    target = testing.hard_edge_gaussian()
    base = GaussianBase(np.array([-200.0, 0.0, 0.0]), np.ones(3))
    path = TemperedPath.from_base(target, base)
    ladder = Ladder(path, np.array([0.0, 0.4, 1.0]), target.start, rng, settings=SETTINGS)
    assert np.isfinite(ladder.replicas.log_target[1:]).all()
    np.testing.assert_allclose(ladder.target_position, target.start, atol=1e-10)


def test_replicas_continue_from_their_state(rng):
    _, ladder = chain("skewed_gamma", rng)
    ladder.run(7, rng, adapt=True)
    fixed = {"path": ladder.path, "settings": SETTINGS, "swap_scheme": 0}
    other = Ladder.restored(ladder.state(), **fixed)
    streams = [np.random.default_rng(5), np.random.default_rng(5)]
    for adapt in (True, False):
        first, second = (
            r.run(5, s, adapt=adapt) for r, s in zip((ladder, other), streams, strict=True)
        )
        np.testing.assert_array_equal(first.delta, second.delta)


@pytest.mark.parametrize("given", [500, 4_000, 10_000_000])
def test_rounds_fit_into_gradients(given, rng):
    """The last round changes no base, however early gradients run out."""
    _, ladder = chain("skewed_gamma", rng)
    tuner = new_tuner(ladder, 128, 6)
    left, blocks, changed_at = given, 0, 0
    base = ladder.base
    while not tuner.finished:
        record = tuner.run(16, rng, left=left)
        left -= record.counts["n_gradients"]
        blocks += 1
        if ladder.base != base:
            base, changed_at = ladder.base, blocks
    cut_short = blocks < 128
    assert cut_short == (given < 10_000)
    assert blocks == tuner.lengths.sum()
    assert blocks - changed_at >= tuner.lengths[-1]
    # but for what the last block took more than was left, and those before less than expected
    assert left > -200
    assert left < 0.5 * given or not cut_short
    assert tuner.scan_cost == pytest.approx(record.counts["n_gradients"] / 16, rel=0.7)
