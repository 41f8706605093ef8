"""Gibbs sweeps beside slices or trajectories leave their density invariant; wrong ones do not."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import whole
from loops import ladder_kernel, move_kernel
from planted import with_planted

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.explore import explore
from pymc_tempering.engine.explorers.gibbs import (
    GibbsHamiltonian,
    GibbsSlice,
    _redraw,
    gibbs_slice_move,
)
from pymc_tempering.engine.move import ACCEPTED
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.replicas import (
    Work,
    evaluate_trial,
    log_tempered,
    new_replicas,
    take_trial,
)
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.testing import invariance_test

N = 40_000
PATH = whole.path()
SETTINGS = {
    "slice": GibbsSlice(supports=whole.SUPPORTS),
    "hamiltonian": GibbsHamiltonian(supports=whole.SUPPORTS),
}


def statistics_at(beta):
    statistics = testing.default_statistics(whole.draw(np.random.default_rng(0), 4096, beta))
    for k in range(4):
        for j in range(2):
            statistics[f"cell {k}, {j}"] = lambda z, k=k, j=j: (
                ((z[:, 0] == k + whole.LOWEST) & (z[:, 2] == j)) + 0.0
            )
    return statistics


def check(settings, beta, rng, n=N):
    kernel = move_kernel(PATH, beta, 0.7, settings)
    return invariance_test(
        kernel, lambda rng, n: whole.draw(rng, n, beta), statistics_at(beta), n=n, rng=rng,
        vectorized=True,
    )  # fmt: skip


@pytest.mark.statistical
@pytest.mark.parametrize("name", SETTINGS)
@pytest.mark.parametrize("beta", [0.05, 0.4, 1.0])
def test_invariant(name, beta, rng):
    """False alarm 1e-3 each."""
    result = check(SETTINGS[name], beta, rng)
    assert not result.rejected, result


def faulty(fault):
    """A second redraw, with one error of a kind that is easily made; 0 for none."""

    def redraw(path, beta, support, replicas, row, rng):
        i, lowest, n_values = int(support[0]), support[1], int(support[2])
        position, present = replicas.work[Work.POSITION], replicas.u[row, i]
        if fault == 1:
            beta = 1.0
        if fault == 2:
            n_values -= 1
        total = log_tempered(beta, replicas.log_target[row], replicas.log_reference[row])
        at_first = total
        for k in range(n_values):
            if lowest + k == present:
                continue
            position[i] = lowest + k
            trial = evaluate_trial(path, replicas)
            log_p = log_tempered(beta, trial.log_target, trial.log_reference)
            total = np.logaddexp(total, log_p)
            if fault == 3:
                total = np.logaddexp(at_first, log_p)
            if rng.random() < np.exp(log_p - total):
                take_trial(trial, replicas, row)
        # what was evaluated last, wherever the entry is
        if fault != 4:
            position[i] = replicas.u[row, i]
        return n_values - 1, 0

    return redraw


FAULTS = {
    1: "at another beta",
    2: "without the last value",
    3: "each value against the first alone",
    4: "the next conditional at a value that was not drawn",
}


# each is compiled by itself; the two that look most right always run
@pytest.mark.statistical
@pytest.mark.parametrize(
    "fault",
    [f if f in (1, 4) else pytest.param(f, marks=pytest.mark.slow) for f in (0, *FAULTS)],
    ids=lambda f: FAULTS.get(f, "none"),
)
def test_planted_errors_are_found(fault, rng):
    """False alarm 1e-3 without an error; with one, p-values far beyond."""

    @dataclass(frozen=True)
    class Planted(GibbsSlice):
        @property
        def move(self):
            return with_planted(gibbs_slice_move, {_redraw: faulty(fault)})

    settings = Planted(supports=whole.SUPPORTS)
    result = check(settings, 0.4, rng, n=N)
    if fault == 0:
        assert not result.rejected, result
    else:
        assert result.p_value < 1e-6, result


@pytest.mark.statistical
@pytest.mark.parametrize("name", SETTINGS)
def test_log_z_of_a_ladder(name, rng):
    """Ten errors of 5000 scans, which tuning came before."""
    betas = np.array([0.0, 0.2, 0.5, 1.0])
    ladder = Ladder(PATH, betas, np.array([0.0, 0.0, 1.0]), rng, settings=SETTINGS[name])
    ladder.run(500, rng, adapt=True)
    ladder.stop_adaptation()
    record = ladder.run(5000, rng, keep_positions=True)
    assert abs(mbar(record.delta, betas).log_z[-1] - whole.LOG_Z) < 0.15
    assert set(record.target_positions[:, 0]) == {-1.0, 0.0, 1.0, 2.0}
    assert set(record.target_positions[:, 2]) == {0.0, 1.0}


def test_evaluations_are_counted_and_what_was_evaluated_is_kept(rng):
    for settings in SETTINGS.values():
        view = PATH.view
        replicas = new_replicas(view, PATH.coordinates.to_base(np.array([[2.0, 0.7, 1.0]])))
        seen = set()
        for _ in range(50):
            outcome = explore(view, settings.packed, 0.7, 0.5, replicas, 0, rng)
            assert outcome.status == ACCEPTED
            # three other values of one entry, one of the other, and what the real number takes
            assert outcome.n_evaluations > 4
            seen.add((replicas.u[0, 0], replicas.u[0, 2]))
            again = new_replicas(view, replicas.u)
            for kept, fresh in zip(replicas[:-1], again[:-1], strict=True):
                np.testing.assert_array_equal(kept, fresh)
        assert len(seen) > 4


def test_whole_numbers_alone_are_swept_by_themselves(rng):
    settings = GibbsSlice(supports=((0, -1, 4), (1, 0, 1), (2, 0, 2)))
    replicas = new_replicas(PATH.view, PATH.coordinates.to_base(np.array([[2.0, 0.3, 1.0]])))
    outcome = explore(PATH.view, settings.packed, 1.0, 0.5, replicas, 0, rng)
    assert (outcome.n_evaluations, outcome.signal) == (4, 0.5)


def test_coordinates_show_whole_numbers_as_they_are(rng):
    """In every form: scales, a matrix, and a few directions of many."""
    for dim, strength in ((3, 0.0), (6, 2.0), (60, 0.22)):
        whole_places = tuple(range(0, dim, 2))
        factor = strength * rng.normal(size=(dim, 3))
        sd = rng.uniform(0.5, 20.0, dim)
        covariance = np.outer(sd, sd) * (np.eye(dim) + factor @ factor.T)
        base = GaussianBase.from_moments(rng.normal(size=dim), covariance)
        if not strength:
            base = GaussianBase(base.mean, base.standard_deviation)
        path = replace(PATH, coordinates=Coordinates.of(base), whole=whole_places)
        path = path.moved(path.as_whole(base))
        z = rng.normal(size=(50, dim))
        z[:, whole_places] = rng.integers(-5, 500, size=(50, len(whole_places)))
        u = path.coordinates.to_base(z)
        np.testing.assert_array_equal(u[:, whole_places], z[:, whole_places])
        back = path.coordinates.from_base(u)
        np.testing.assert_array_equal(back[:, whole_places], z[:, whole_places])
        np.testing.assert_allclose(back, z)
        others = [i for i in range(dim) if i not in whole_places]
        np.testing.assert_allclose(path.base.mean[others], base.mean[others])
    assert path.coordinates.rank > 0


@pytest.mark.statistical
def test_scans_of_a_ladder(rng):
    """Prior draws, moves and swaps together; false alarm 1e-3."""
    betas = np.array([0.0, 0.3, 1.0])
    kernel = ladder_kernel(
        PATH, betas, np.array([1.0, 0.8, 0.6]), settings=SETTINGS["hamiltonian"], n_scans=2
    )

    def draw(rng, n):
        return np.stack([whole.draw(rng, n, beta) for beta in betas], axis=1)

    statistics = {
        f"{name} at {k}": lambda s, f=f, k=k: f(s[:, k])
        for k in range(3)
        for name, f in statistics_at(betas[k]).items()
    }
    result = invariance_test(kernel, draw, statistics, n=N, rng=rng, vectorized=True)
    assert not result.rejected, result
