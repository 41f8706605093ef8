"""Annealing runs: unbiased weights, exact reversal, and the whole HAIS scan as one kernel."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from pymc_tempering.kernels.annealing_moves import TRANSITIONS, refresh_momentum
from pymc_tempering.kernels.density import TargetInBase
from pymc_tempering.steps.annealer import Annealer
from scipy import stats

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase


def _load_mutants():
    # tests are no package, so their helpers are found by path
    spec = importlib.util.spec_from_file_location(
        "annealing_mutants", Path(__file__).with_name("mutants.py")
    )
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


mutants = _load_mutants()

BETAS = np.array([0.0, 0.1, 0.3, 0.6, 1.0])
STEPS = np.array([9.0, 1.1, 0.8, 0.6, 0.4])
N = 60_000


def annealer(target, kind="hamiltonian", n_leapfrog=1, short_steps=False, shift=0.4, width=1.2):
    sd = np.sqrt(np.where(np.isfinite(np.diag(target.cov)), np.diag(target.cov), 9.0))
    base = GaussianBase(target.mean + shift * sd, width * sd)
    return Annealer(
        target.address, base, BETAS, STEPS, kind=TRANSITIONS.index(kind), n_leapfrog=n_leapfrog,
        short_steps=short_steps, trajectory_length=1.5, max_steps=16, target_accept=0.8,
    )  # fmt: skip


def z_score(values, truth):
    return (values.mean() - truth) / (values.std() / np.sqrt(values.size))


@pytest.mark.statistical
@pytest.mark.parametrize("kind", TRANSITIONS)
@pytest.mark.parametrize("name", sorted(testing.TARGETS))
def test_forward_weights_are_unbiased(name, kind, rng):
    """Mean W is Z: |z| > 4.5 at 7e-6 each; bounded weights up to the heavy tails of exp."""
    target = testing.TARGETS[name]()
    run = annealer(target, kind, short_steps=kind == "hamiltonian").ensemble(rng, n_particles=N)
    w = np.exp(run.log_weight_forward - target.log_z)
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
        inverse = np.exp(target.log_z - record.log_weight_reverse)
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
    forward = run.ensemble(rng, n_particles=N).log_weight_forward - target.log_z
    reverse = run.ensemble(rng, positions=target.draw(rng, N)).log_weight_reverse - target.log_z
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
    outside = np.isneginf(record.log_weight_forward)
    assert 0.05 < outside.mean() < 0.6
    # those that started inside never leave it
    assert np.isfinite(target.log_density(record.positions[~outside])).all()
    assert record.counts[3] > 0


def test_reverse_from_outside_the_support_is_marked(rng):
    target = testing.hard_edge_gaussian()
    record = annealer(target).ensemble(rng, positions=np.full((3, 3), -5.0))
    assert np.isnan(record.log_weight_reverse).all()


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
        annealer(target).ensemble(np.random.default_rng(s), n_particles=20).log_weight_forward
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

    def test(self, mutant, n, rng):
        namespace = mutants.compile_kernels(mutant)
        target, sd = self.target, np.sqrt(np.diag(self.target.cov))
        mean, scale = target.mean + self.shift * sd, self.width * sd

        def kernel(z, rng):
            u = np.ascontiguousarray((z - mean) / scale)
            seen = TargetInBase(target.address, mean, scale[None], np.log(scale).sum())
            moves = namespace["AnnealingMoves"](self.betas, self.steps, self.n_leapfrog, 0, False)
            namespace["scan_all"](u, seen, moves, self.n_scans, 0.05, rng)
            return mean + scale * u

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


@pytest.mark.statistical
@pytest.mark.parametrize("setting", [REJECTING, DRIFTING], ids=["rejecting", "drifting"])
def test_whole_step_leaves_the_target_invariant(setting, rng):
    """A million draws through whole scans; false alarm 1e-3 each."""
    result = setting.test(None, 1_000_000, rng)
    assert not result.rejected, result


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("mutant", list(mutants.MUTANTS))
def test_planted_bugs_are_rejected(mutant, rng):
    """A million draws each: p-values far beyond 1e-3, so that the power is above 0.99."""
    setting = REJECTING if "flip" in mutant or "increments" in mutant else DRIFTING
    result = setting.test(mutant, 1_000_000, rng)
    # 2.33 standard errors beyond the critical value give power 0.99
    assert result.p_value < 1e-7, result
