"""Moves with a step size drawn around the local scale are invariant, and wrong ones are not.

Loops are those of the ladder, which calls a move by its address: only moves are compiled here.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from laws import ASKEW, MAPPED, ExactPath, GaussianLaw
from loops import move_kernel
from planted import with_planted

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.explore import explore
from pymc_tempering.engine.explorers.gist import Gist, _log_density, _log_step, gist_move
from pymc_tempering.engine.move import ACCEPTED, move_address
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.replicas import new_replicas
from pymc_tempering.estimators.mbar import mbar
from pymc_tempering.testing import invariance_test

N = 40_000
BANANA = testing.banana()
WIDE = GaussianBase(BANANA.mean, 1.2 * np.sqrt(np.diag(BANANA.cov)))
CURVED = ExactPath(BANANA, GaussianLaw(WIDE))
"""Curvatures that change from place to place; the second from a reference that is no Gaussian."""
PATHS = {"curved": (CURVED, WIDE), "mapped": (MAPPED, ASKEW)}


def check(name, beta, rng, settings=None, n=N):
    path, base = PATHS[name]
    kernel = move_kernel(path.in_coordinates(base), beta, 1.2, settings or Gist(max_steps=8))
    result = invariance_test(
        kernel, lambda rng, n: path.draw(rng, n, beta), n=n, rng=rng, n_steps=3, vectorized=True
    )
    return result, kernel.record


@pytest.mark.statistical
@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_invariant(name, beta, rng):
    """False alarm 1e-3 each."""
    result, record = check(name, beta, rng)
    assert 0.1 < record.acceptance_sums[1] / (3 * N) < 0.98
    assert not result.rejected, result


@dataclass(frozen=True)
class Planted:
    """Settings of a move with an error in it."""

    wrong: tuple

    @cached_property
    def packed(self):
        move = with_planted(gist_move, dict([self.wrong]))
        return Gist(max_steps=8).packed._replace(address=move_address(move))


def forgotten(deviation):
    return 0.0


def of_another_law(deviation):
    return -0.5 * (deviation / 0.4) ** 2


def upside_down(log_scale, scale):
    """Longer steps where shorter ones are due: inefficient, and exact all the same."""
    return min(max(np.log(scale) - log_scale, -10.0), 0.4)


@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [forgotten, of_another_law])
def test_planted_errors_are_found(wrong, rng):
    """A step size that is not accounted for, or as if it had been drawn otherwise."""
    result, _ = check("curved", 1.0, rng, Planted((_log_density, wrong)), n=2 * N)
    assert result.p_value < 1e-6, result


@pytest.mark.statistical
def test_any_rule_for_the_scale_is_exact(rng):
    """What planting itself does not break; false alarm 1e-3."""
    result, _ = check("curved", 1.0, rng, Planted((_log_step, upside_down)))
    assert not result.rejected, result


def test_evaluations_are_counted_and_what_was_evaluated_is_kept(rng):
    path, base = PATHS["mapped"]
    view = path.in_coordinates(base).view
    replicas = new_replicas(view, np.array([[0.4, -0.3]]))
    explorer, n_accepted = Gist(max_steps=1).packed, 0
    for _ in range(50):
        before = replicas.u[0].copy()
        move = explore(view, explorer, 0.7, 0.3, replicas, 0, rng)
        accepted = move.status == ACCEPTED
        n_accepted += accepted
        assert (replicas.u[0] != before).all() == accepted
        # a step and a probe, and one more where the energy did not decide
        assert move.n_evaluations in ((3,) if accepted else (2, 3))
        assert move.acceptance_rate <= move.signal <= 1.0
        again = new_replicas(view, replicas.u)
        for kept, fresh in zip(replicas[:-1], again[:-1], strict=True):
            np.testing.assert_allclose(kept, fresh, rtol=1e-12)
    assert n_accepted > 10


def test_steps_follow_the_local_scale(rng):
    """Of two normal densities, one a hundred times as narrow, at the same tuned scale."""
    lengths = []
    for sd in (1.0, 0.01):
        target = testing.scaled_normal(dim=3, sd=sd)
        path = ExactPath(target, GaussianLaw(GaussianBase(np.zeros(3), np.full(3, 2.0))))
        view = path.in_coordinates(path.reference.base).view
        replicas, moved = new_replicas(view, np.zeros((1, 3))), []
        for _ in range(400):
            before = replicas.u[0].copy()
            explore(view, Gist(max_steps=1).packed, 1.0, 0.5, replicas, 0, rng)
            moved.append(np.linalg.norm(replicas.u[0] - before))
        lengths.append(np.median(moved))
    assert 60.0 < lengths[0] / lengths[1] < 200.0


@pytest.mark.statistical
def test_a_tuned_ladder_finds_log_z(rng):
    """Mean of six runs within five of its standard errors, and the energy's acceptance as aimed."""
    path = CURVED.in_coordinates(WIDE)
    betas, log_z, rates = np.array([0.0, 0.1, 0.4, 1.0]), [], []
    for _ in range(6):
        ladder = Ladder(path, betas, BANANA.mean, rng, settings=Gist())
        ladder.run(1000, rng, adapt=True)
        ladder.stop_adaptation()
        record = ladder.run(2000, rng)
        log_z.append(mbar(record.delta, betas).log_z[-1])
        rates.append(record.acceptance_rate[1:].mean())
    error = np.std(log_z, ddof=1) / np.sqrt(6)
    assert abs(np.mean(log_z) - BANANA.log_z) < 5.0 * error < 0.3
    assert 0.5 < np.mean(rates) < 0.8
