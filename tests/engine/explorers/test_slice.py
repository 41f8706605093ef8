"""Slice moves leave their density invariant, without gradients to go by, and wrong ones do not.

Reference of the algorithm: Neal 2003, "Slice sampling", figures 3 and 5.
"""

import ctypes

import numba
import numpy as np
import pytest
from laws import ASKEW, MAPPED, ExactPath, ExactReference, GaussianLaw, pair_statistics
from loops import ladder_kernel, pair_kernel
from planted import with_planted
from rough import JUMP_AT, Rough

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.ensembles.pair_scans import Bias, continuous_scans, simulated_scans
from pymc_tempering.engine.explorers.explore import explore
from pymc_tempering.engine.explorers.hamiltonian import MAX_STEP_SIZE, Hamiltonian
from pymc_tempering.engine.explorers.slice import (
    Slice,
    _log_density,
    _try,
    slice_move,
    update_coordinate,
)
from pymc_tempering.engine.move import ACCEPTED
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.replicas import (
    Work,
    evaluate,
    log_tempered,
    new_replicas,
    take_trial,
)
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.testing import invariance_test

N = 40_000
ROUGH = ExactPath(Rough(), GaussianLaw(ASKEW))
ROUGH_FROM_MAP = ExactPath(Rough(), ExactReference(testing.banana(log_z=0.0)))
TWO_MODES = ExactPath(testing.asymmetric_bimodal(), GaussianLaw(ASKEW))
PATHS = {"rough": ROUGH, "mapped": MAPPED, "rough from a map": ROUGH_FROM_MAP}


@numba.njit
def _each(move, path, options, beta, width, replicas, states, rng):
    for s in range(states.shape[0]):
        for i in range(states.shape[1]):
            replicas.u[0, i] = states[s, i]
        evaluate(path, replicas, 0)
        move(path, options, beta, width, replicas, 0, rng)
        for i in range(states.shape[1]):
            states[s, i] = replicas.u[0, i]


def check(path, beta, width, rng, *, move=slice_move, n=N, n_steps=2, **settings):
    """Invariance test of moves of single replicas."""
    seen = path.in_coordinates(ASKEW)
    options = Slice(**settings).packed.options

    def kernel(states, rng):
        u = np.ascontiguousarray(seen.coordinates.to_base(states))
        view = seen.view
        _each(move, view, options, beta, width, new_replicas(view, u[:1]), u, rng)
        return seen.coordinates.from_base(u)

    def draw(rng, n):
        return path.draw(rng, n, beta)

    statistics = testing.default_statistics(draw(np.random.default_rng(0), 4096))
    statistics["beyond the jump"] = lambda z: (z[:, 0] > JUMP_AT) + 0.0
    statistics["bad gradient"] = lambda z: (z[:, 1] < 0.1) + 0.0
    return invariance_test(kernel, draw, statistics, n=n, rng=rng, n_steps=n_steps, vectorized=True)


@pytest.mark.statistical
@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize(
    ("beta", "width", "settings"),
    [
        (0.0, 0.8, {}),
        (0.25, 0.3, {"max_expansions": 2}),
        (0.6, 5.0, {"max_expansions": 0}),
        (1.0, 0.9, {"n_updates": 1}),
    ],
)
def test_invariant(name, beta, width, settings, rng):
    """False alarm 1e-3 each, with intervals too short, too long, and never stepped out."""
    if beta == 0.0 and name != "mapped":
        # a replica never leaves the support, and the reference is not cut off
        beta = 0.05
    result = check(PATHS[name], beta, width, rng, **settings)
    assert not result.rejected, result


def faulty(fault):  # noqa: C901  all errors beside what is right
    """A second slice update, with one error of a kind that is easily made; 0 for none."""

    def update(path, options, at, replicas, row, counts, rng):  # noqa: C901
        beta, width, i = at
        u, position = replicas.u[row], replicas.work[Work.POSITION]
        if fault == 1:
            width *= 1.0 + abs(u[i])
        present = beta * replicas.log_target[row]
        if beta < 1.0:
            present += (1.0 - beta) * replicas.log_reference[row]
        level = np.log(1.0 - rng.random())
        left = u[i] - width * rng.random()
        if fault == 2:
            left = u[i] - 0.2 * width
        right = left + width
        n_left = int(np.floor((options[0] + 1.0) * rng.random()))
        n_right = int(options[0]) - n_left
        if fault == 3:
            n_left, n_right = int(options[0]), 0
        if fault == 4:
            position[i] = left + width * rng.random()
            proposed = _log_density(path, beta, replicas, counts)
            present = proposed if np.isfinite(proposed) else present
        if fault == 5 and beta < 1.0:
            present = beta * replicas.log_target[row] + replicas.log_reference[row]
        level += present
        position[i] = left
        while n_left > 0 and _log_density(path, beta, replicas, counts) > level:
            left -= width
            position[i] = left
            n_left -= 1
            counts[2] += 1.0
        position[i] = right
        while n_right > 0 and _log_density(path, beta, replicas, counts) > level:
            right += width
            position[i] = right
            n_right -= 1
            counts[2] += 1.0
        for _ in range(100):
            position[i] = left + (right - left) * rng.random()
            trial = _try(path, replicas, counts)
            if log_tempered(beta, trial.log_target, trial.log_reference) > level:
                take_trial(trial, replicas, row)
                return True
            counts[3] += 1.0
            if (position[i] < u[i]) != (fault == 6):
                left = position[i]
            else:
                right = position[i]
        position[i] = u[i]
        return False

    return update


FAULTS = {
    1: "width by the state",
    2: "interval not placed at random",
    3: "expansions not split at random",
    4: "level drawn below the proposal",
    5: "level by another density than that of the points",
    6: "shrunk away from the present point",
}


# most of a fault's cost is compiling; of the two that look most right one always runs
@pytest.mark.statistical
@pytest.mark.parametrize(
    "fault",
    [f if f == 3 else pytest.param(f, marks=pytest.mark.slow) for f in (0, *FAULTS)],
    ids=lambda f: FAULTS.get(f, "none"),
)
def test_planted_errors_are_found(fault, rng):
    """False alarm 1e-3 without an error; with one, p-values far beyond."""
    move = with_planted(slice_move, {update_coordinate: faulty(fault)})
    # which end shrinks matters to slices of several pieces alone
    path, width = (TWO_MODES, 4.0) if fault == 6 else (ROUGH, 0.9)
    result = check(path, 0.4, width, rng, move=move, n=2 * N, n_steps=4, max_expansions=2)
    if fault == 0:
        assert not result.rejected, result
        seen = ROUGH.in_coordinates(ASKEW).view
        options, ends = Slice().packed.options, []
        for tried in (slice_move, move):
            replicas = new_replicas(seen, np.array([[0.2, 0.1]]))
            generator = np.random.default_rng(3)
            for _ in range(20):
                tried(seen, options, 0.4, 0.9, replicas, 0, generator)
            ends.append(replicas.u.tolist())
        assert ends[0] == ends[1]
    else:
        assert result.p_value < 1e-6, result


@pytest.mark.statistical
@pytest.mark.parametrize("path", [ROUGH, MAPPED], ids=["rough", "mapped"])
def test_ladder(path, rng):
    """Scans of parallel tempering with slice moves; false alarm 1e-3 each."""
    betas = np.array([0.0, 0.2, 0.6, 1.0])
    kernel = ladder_kernel(
        path.in_coordinates(ASKEW), betas, np.array([1.0, 1.4, 1.0, 0.8]),
        settings=Slice(), n_scans=2,
    )  # fmt: skip

    def delta(z):
        return path.delta(z).clip(-20.0, 10.0)

    statistics = {
        f"{name} at {k}": lambda s, f=f, k=k: f(s[:, k])
        for k in range(4)
        for name, f in (("delta", delta), ("z0", lambda z: z[:, 0]), ("z1", lambda z: z[:, 1]))
    }
    result = invariance_test(
        kernel, lambda rng, n: path.draw_levels(rng, n, betas), statistics, n=N, rng=rng,
        vectorized=True,
    )  # fmt: skip
    assert not result.rejected, result
    # none is ever refused
    assert kernel.record.acceptance_sums.tolist() == [2 * N] * 4


@pytest.mark.statistical
@pytest.mark.parametrize("scans", [continuous_scans, simulated_scans])
@pytest.mark.parametrize("path", [ROUGH, MAPPED], ids=["rough", "mapped"])
def test_pairs(scans, path, rng):
    """Scans of continuous and of simulated tempering with slice moves; false alarm 1e-3 each."""
    levels = scans is simulated_scans
    betas = np.array([0.0, 0.15, 0.5, 1.0])
    bias = np.array([0.0, -0.3, 0.2, path.target.log_z + 0.8])
    kernel = pair_kernel(
        scans, path.in_coordinates(ASKEW), Bias(betas, bias, betas),
        np.array([1.5, 1.4, 1.0, 0.8]), settings=Slice(), level_update=0 if levels else None,
    )  # fmt: skip
    result = invariance_test(
        kernel, lambda rng, n: path.draw_joint(rng, n, betas, bias, levels=levels),
        pair_statistics(path), n=N, rng=rng, n_steps=2, vectorized=True,
    )  # fmt: skip
    assert not result.rejected, result


def test_evaluations_are_counted_and_what_was_evaluated_is_kept(rng):
    """Every call of the density counts once, and the replica holds what a call there gives."""
    calls = []
    target = testing.skewed_gamma()

    @ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_void_p, ctypes.c_void_p)
    def counting(z_address, grad_address):
        z = np.array((ctypes.c_double * 2).from_address(z_address))
        calls.append(z)
        value, gradient = target.value_and_grad(z)
        np.frombuffer((ctypes.c_double * 2).from_address(grad_address))[:] = gradient
        return value

    class Counted:
        address, dim = ctypes.cast(counting, ctypes.c_void_p).value, 2

    view = TemperedPath.from_base(Counted(), ASKEW).view
    for settings, n_moved in ((Slice(), 2), (Slice(n_updates=1), 1), (Slice(n_updates=5), 2)):
        replicas = new_replicas(view, np.array([[0.4, -0.3]]))
        for _ in range(5):
            before = replicas.u[0].copy()
            calls.clear()
            outcome = explore(view, settings.packed, 0.7, 0.8, replicas, 0, rng)
            assert outcome.n_evaluations == len(calls) > 0
            assert (outcome.status, outcome.acceptance_rate) == (ACCEPTED, 1.0)
            assert 0.0 <= outcome.signal <= 1.0
            assert outcome.n_bad_gradients == 0
            assert (replicas.u[0] != before).sum() == n_moved
            again = new_replicas(view, replicas.u)
            for kept, fresh in zip(replicas[:-1], again[:-1], strict=True):
                np.testing.assert_array_equal(kept, fresh)


def test_bad_gradients_are_counted(rng):
    view = ROUGH.in_coordinates(ASKEW).view
    replicas = new_replicas(view, ASKEW.to_base(np.array([[0.5, -1.5]])))
    outcome = explore(view, Slice(max_expansions=2).packed, 1.0, 0.1, replicas, 0, rng)
    # far below where gradients are numbers, and away from the edge
    assert outcome.n_bad_gradients == outcome.n_evaluations > 0


def test_width_is_tuned_to_half_expansions(rng):
    """The share of expansions is what tuning aims at, from widths far too short and too long."""
    target = testing.scaled_normal(dim=3, sd=0.1)
    base = GaussianBase(np.zeros(3), np.ones(3))
    widths = []
    for start in (1e-3, 1.5):
        ladder = Ladder(
            TemperedPath.from_base(target, base), np.array([0.0, 1.0]), target.mean, rng,
            settings=Slice(),
        )  # fmt: skip
        ladder.scales = np.full(2, start)
        ladder.restart_adaptation()
        ladder.run(3000, rng, adapt=True)
        ladder.stop_adaptation()
        widths.append(ladder.scales[1])
        view = ladder.path.view
        signals = [
            explore(view, Slice().packed, 1.0, widths[-1], ladder.replicas, 1, rng).signal
            for _ in range(2000)
        ]
        assert np.mean(signals) == pytest.approx(0.5, abs=0.04)
    assert widths[0] == pytest.approx(widths[1], rel=0.1)
    # a slice of a normal density is 3.1 standard deviations wide on average
    assert 0.1 < widths[0] < 0.4


def test_widths_may_exceed_what_bounds_a_rotation(rng):
    """Where the base is narrow, the best interval is longer than the longest rotation."""
    target = testing.heavy_tail()
    base = GaussianBase(target.mean, np.array([0.2, 0.6]))
    largest = {}
    for settings in (Slice(), Hamiltonian()):
        ladder = Ladder(
            TemperedPath.from_base(target, base), np.array([0.0, 1.0]), target.mean, rng,
            settings=settings,
        )  # fmt: skip
        ladder.run(2000, rng, adapt=True)
        ladder.stop_adaptation()
        largest[type(settings)] = ladder.scales[1]
        ladder.change_base(GaussianBase(target.mean, base.scale / 50.0))
        scale = ladder.scales[1]
        assert scale == pytest.approx(min(50.0 * largest[type(settings)], settings.max_scale))
    assert largest[Slice] > 1.2 * MAX_STEP_SIZE
    assert largest[Hamiltonian] <= MAX_STEP_SIZE
