"""Annealing runs: unbiased weights, exact reversal, and the whole HAIS scan as one kernel."""

from types import SimpleNamespace

import numpy as np
import pytest
from laws import ASKEW, MAPPED
from loops import annealing_kernel
from planted import with_planted
from scipy import stats
from scipy.special import expit

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.annealer import Annealer, AnnealingSettings
from pymc_tempering.engine.ensembles.annealing_runs import (
    TRANSITIONS,
    anneal_ensemble,
    anneal_forward,
    anneal_reverse,
    annealing_scans,
    annealing_transition,
    persistent_move,
    refresh_momentum,
)
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.move import ACCEPTED
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.replicas import Work, draw_from_reference
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.estimators.bar import bar

BETAS = np.array([0.0, 0.1, 0.3, 0.6, 1.0])
STEPS = np.array([9.0, 1.1, 0.8, 0.6, 0.4])
N = 60_000
MANY = 1_000_000


def annealer(target, kind="hamiltonian", n_leapfrog=1, short_steps=False, shift=0.4, width=1.2):
    sd = np.sqrt(np.where(np.isfinite(np.diag(target.cov)), np.diag(target.cov), 9.0))
    base = GaussianBase(target.mean + shift * sd, width * sd)
    return Annealer(
        TemperedPath.from_base(target, base),
        BETAS,
        STEPS,
        settings_of(kind, n_leapfrog, short_steps),
    )


def settings_of(kind, n_leapfrog, short_steps):
    return AnnealingSettings(
        TRANSITIONS.index(kind), n_leapfrog, short_steps, 0.8, Hamiltonian(max_steps=16)
    )


def z_score(values, truth):
    return (values.mean() - truth) / (values.std() / np.sqrt(values.size))


@pytest.mark.statistical
@pytest.mark.parametrize("kind", TRANSITIONS)
@pytest.mark.parametrize("name", sorted(testing.TARGETS))
def test_forward_weights_are_unbiased(name, kind, rng):
    """Mean W is Z: |z| > 4.5 at 7e-6 each; bounded weights up to the heavy tails of exp."""
    target = testing.TARGETS[name]()
    run = annealer(target, kind, short_steps=kind == "hamiltonian").ensemble(rng, n_particles=N)
    w = np.exp(run.log_weights - target.log_z)
    assert abs(z_score(w, 1.0)) < 4.5
    # Pinned against drift of the estimate itself, not only its error.
    assert w.mean() == pytest.approx(1.0, abs=0.1)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", TRANSITIONS)
@pytest.mark.parametrize("n_leapfrog", [1, 3])
def test_reverse_weights_are_unbiased_for_the_reciprocal(kind, n_leapfrog, rng):
    """Mean 1 / W is b / Z; narrow bases keep 1 / W light-tailed. |z| > 4.5 at 7e-6 each."""
    for name in ("hard_edge_gaussian", "scaled_normal"):
        target = testing.TARGETS[name]()
        run = annealer(target, kind, n_leapfrog, shift=0.2, width=0.7)
        record = run.ensemble(rng, positions=target.draw(rng, N))
        inverse = np.exp(target.log_z - record.log_weights)
        mass = 1.0
        if name == "hard_edge_gaussian":
            edge = target.parts.edge
            mass = stats.norm.sf(edge, run.base.mean[0], run.base.scale[0])
            assert mass < 0.99
        assert abs(z_score(inverse, mass)) < 4.5, name


@pytest.mark.statistical
@pytest.mark.parametrize("kind", TRANSITIONS)
@pytest.mark.parametrize("name", sorted(testing.TARGETS))
def test_both_directions_obey_crooks_relation(name, kind, rng):
    """E_forward[w g(w)] = E_reverse[g(w)] for bounded w g and g: no tails. |z| > 4.5 at 7e-6."""
    target = testing.TARGETS[name]()
    run = annealer(target, kind, n_leapfrog=2)
    forward = run.ensemble(rng, n_particles=N).log_weights - target.log_z
    reverse = run.ensemble(rng, positions=target.draw(rng, N)).log_weights - target.log_z
    for shift in (-1.0, 0.0, 1.0):
        # g(w) = 1 / (a + w), so that w g(w) is bounded too
        a = np.exp(shift)
        left = 1.0 / (1.0 + a * np.exp(-forward))
        right = 1.0 / (a + np.exp(reverse))
        se = np.sqrt(left.var() / N + right.var() / N)
        assert abs(left.mean() - right.mean()) < 4.5 * se


def test_particle_outside_the_support_has_no_weight(rng):
    target = testing.hard_edge_gaussian()
    record = annealer(target).ensemble(rng, n_particles=2000)
    outside = np.isneginf(record.log_weights)
    assert 0.05 < outside.mean() < 0.6
    # those that started inside never leave it
    assert np.isfinite(target.log_density(record.positions[~outside])).all()
    assert record.counts["n_zero_density"] > 0


def test_reverse_from_outside_the_support_is_marked(rng):
    target = testing.hard_edge_gaussian()
    record = annealer(target).ensemble(rng, positions=np.full((3, 3), -5.0))
    assert np.isnan(record.log_weights).all()


def test_refreshment_keeps_the_power_and_the_stated_part(rng):
    """Correlation sqrt(1 - gamma), variance 1; 5 standard errors of 1e5 numbers."""
    p = rng.standard_normal(100_000)
    old = p.copy()
    refresh_momentum(p, 0.36, rng)
    assert p.var() == pytest.approx(1.0, abs=5 * np.sqrt(2 / p.size))
    assert np.corrcoef(p, old)[0, 1] == pytest.approx(0.8, abs=5 * 0.36 / np.sqrt(p.size))


def test_runs_depend_on_the_generator_alone(seed):
    target = testing.banana()
    first, second, other = (
        annealer(target).ensemble(np.random.default_rng(s), n_particles=20).log_weights
        for s in (seed, seed, seed + 1)
    )
    assert np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_continued_draws_stay_exact(rng):
    """A chain from exact draws is stationary: false alarm 1e-3."""
    target = testing.skewed_gamma()
    run = annealer(target)

    def kernel(z, rng):
        return run.continue_draws(z, 2 * len(z), 3, rng)[len(z) :]

    assert not testing.invariance_test(kernel, target.draw, n=N, rng=rng, vectorized=True).rejected


class Setting(SimpleNamespace):
    """A target, a base that misses it, five coarse temperatures and uneven step sizes."""

    def test(self, n, rng, **kernels):
        target, sd = self.target, np.sqrt(np.diag(self.target.cov))
        base = GaussianBase(target.mean + self.shift * sd, self.width * sd)
        kernel = annealing_kernel(
            TemperedPath.from_base(target, base), self.betas, self.steps,
            n_leapfrog=self.n_leapfrog, settings=Hamiltonian(trajectory_length=0.05, max_steps=1),
            target_scale=0.05, n_scans=self.n_scans, **kernels,
        )  # fmt: skip
        return testing.invariance_test(
            kernel, target.draw, self.statistics, n=n, rng=rng, vectorized=True
        )


# many rejections: their momentum matters
REJECTING = Setting(
    target=testing.trimodal_1d(), shift=0.5, width=1.5, betas=BETAS,
    steps=np.array([9.0, 1.2, 1.0, 0.7, 0.5]), n_leapfrog=1, n_scans=3, statistics=None,
)  # fmt: skip

# a long way with few rejections and step sizes that vary: the order of refreshment matters
DRIFTING = Setting(
    target=testing.scaled_normal(), shift=1.67, width=0.8, betas=np.linspace(0.0, 1.0, 5),
    steps=np.array([9.0, 0.22, 0.11, 0.36, 0.36]), n_leapfrog=5, n_scans=1,
    statistics={
        "along": lambda z: z.sum(axis=1),
        "along squared": lambda z: z.sum(axis=1) ** 2,
        "distance": lambda z: (z**2).sum(axis=1),
    },
)  # fmt: skip


# at night, as what it is told from; the last test here is of whole steps, too
@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("setting", [REJECTING, DRIFTING], ids=["rejecting", "drifting"])
def test_whole_step_leaves_the_target_invariant(setting, rng):
    """Whole scans, with as many draws as find the planted bugs; false alarm 1e-3."""
    result = setting.test(MANY, rng)
    assert not result.rejected, result


def gamma_for_its_root(momentum, gamma, rng):
    keep = np.sqrt(1.0 - gamma)
    for i in range(momentum.shape[0]):
        momentum[i] = keep * momentum[i] + gamma * rng.standard_normal()


def no_flip(path, beta, step_size, n_leapfrog, replicas, row, rng):
    move = persistent_move(path, beta, step_size, n_leapfrog, replicas, row, rng)
    if move.status != ACCEPTED:
        kept = replicas.work[Work.KEPT_MOMENTUM]
        for i in range(kept.shape[0]):
            kept[i] = -kept[i]
    return move


def last_left_out(reverse, level, a, row, rng):
    if not (reverse and level == a.moves.betas.shape[0] - 1):
        annealing_transition(reverse, level, a, row, rng)


def always_forward(reverse, level, a, row, rng):
    annealing_transition(False, level, a, row, rng)


def increments_before_the_moves(a, row, rng):
    refresh_momentum(a.replicas.work[Work.KEPT_MOMENTUM], 1.0, rng)
    betas, log_weight = a.moves.betas, 0.0
    for level in range(betas.shape[0] - 1, 0, -1):
        log_weight += (betas[level] - betas[level - 1]) * a.replicas.delta[row]
        annealing_transition(True, level, a, row, rng)
    return log_weight


def increments_after_the_moves(a, row, draw, rng):
    draw_from_reference(a.path, a.replicas, row, draw, rng)
    if a.replicas.log_target[row] == -np.inf:
        return -np.inf
    refresh_momentum(a.replicas.work[Work.KEPT_MOMENTUM], 1.0, rng)
    betas, log_weight = a.moves.betas, 0.0
    for level in range(1, betas.shape[0]):
        annealing_transition(False, level, a, row, rng)
        log_weight += (betas[level] - betas[level - 1]) * a.replicas.delta[row]
    return log_weight


PLANTED = {
    "gamma for sqrt(gamma)": (DRIFTING, {refresh_momentum: gamma_for_its_root}),
    "no flip on rejection": (REJECTING, {persistent_move: no_flip}),
    "last transition not reversed": (DRIFTING, {annealing_transition: last_left_out}),
    "leapfrog before refreshment in reverse": (DRIFTING, {annealing_transition: always_forward}),
    "reverse increments before the moves": (
        REJECTING, {anneal_reverse: increments_before_the_moves}
    ),
    "forward increments after the moves": (
        REJECTING, {anneal_forward: increments_after_the_moves}
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("error", list(PLANTED))
def test_planted_bugs_are_rejected(error, rng):
    """P-values far beyond 1e-3, so that the power is above 0.99."""
    setting, wrong = PLANTED[error]
    result = setting.test(
        MANY, rng, scans=with_planted(annealing_scans, wrong),
        ensemble=with_planted(anneal_ensemble, wrong),
    )  # fmt: skip
    # 2.33 standard errors beyond the critical value give power 0.99
    assert result.p_value < 1e-7, result


MAP_STEPS = np.array([9.0, 0.25, 0.25, 0.3, 0.3])


@pytest.mark.statistical
@pytest.mark.parametrize("kind", TRANSITIONS)
def test_weights_from_a_reference_that_is_not_gaussian(kind, rng):
    """Log Z by BAR of both directions, and Crooks' relation: |z| > 4.5 at 7e-6 each, four."""
    run = Annealer(MAPPED.in_coordinates(ASKEW), BETAS, MAP_STEPS, settings_of(kind, 2, False))
    target = MAPPED.target
    forward = run.ensemble(rng, n_particles=N).log_weights
    record = run.ensemble(rng, positions=target.draw(rng, N))
    reverse = record.log_weights
    assert (record.acceptance_rate[1:] > 0.3).all()
    estimate = bar(forward, -reverse)
    influence = estimate.forward_influence, estimate.reverse_influence
    error = np.sqrt(sum(values.var() / N for values in influence))
    assert abs(estimate.log_ratio - target.log_z) < 4.5 * error
    assert error < 0.02
    for shift in (-1.0, 0.0, 1.0):
        # as above, in another form: E_forward[w g(w)] = E_reverse[g(w)]
        left = expit(forward - target.log_z - shift)
        right = expit(shift + target.log_z - reverse) / np.exp(shift)
        se = np.sqrt(left.var() / N + right.var() / N)
        assert abs(left.mean() - right.mean()) < 4.5 * se


@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_whole_step_from_a_reference_that_is_not_gaussian(wrong, rng):
    """False alarm 1e-3; weights that grow before the moves of a reverse run are found."""
    kernels = {}
    if wrong:
        planted = {anneal_reverse: increments_before_the_moves}
        kernels = {"scans": with_planted(annealing_scans, planted),
                   "ensemble": with_planted(anneal_ensemble, planted)}  # fmt: skip
    kernel = annealing_kernel(
        MAPPED.in_coordinates(ASKEW), BETAS, MAP_STEPS, n_leapfrog=1,
        settings=Hamiltonian(max_steps=16), target_scale=0.05, n_scans=3, **kernels,
    )  # fmt: skip
    target = MAPPED.target
    statistics = {
        "delta": lambda z: MAPPED.delta(z).clip(-30.0, 10.0),
        "left": lambda z: z[:, 0],
        "right": lambda z: z[:, 1],
        "left tail": lambda z: (z[:, 0] < -2.0) + 0.0,
    }
    result = testing.invariance_test(
        kernel, target.draw, statistics, n=100_000, rng=rng, vectorized=True
    )
    assert result.rejected == wrong, result
