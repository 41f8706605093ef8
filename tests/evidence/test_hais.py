"""The estimate from annealing weights: few particles, and particles that share a start."""

import warnings

import numpy as np
import pytest

from pymc_tempering.evidence.common import combine
from pymc_tempering.evidence.hais import collect, ensemble_estimate

MASS, OF_BASE = np.array([0.3, 0.7]), np.array([0.5, 0.5])
SPREAD = 0.5


def weights_of_modes(modes, rng, sign):
    """Log weights of particles that never leave their mode; Crooks' relation with Z = 1 holds."""
    noise = rng.normal(0.5 * sign * SPREAD**2, SPREAD, len(modes))
    return np.log(MASS / OF_BASE)[modes] + noise


def ensemble(rng, n_starts, n=120):
    forward = weights_of_modes(rng.choice(2, n, p=OF_BASE), rng, -1.0)
    labels = np.arange(n) % n_starts
    modes = rng.choice(2, n_starts, p=MASS)[labels]
    reverse = weights_of_modes(modes, rng, 1.0)
    return forward, reverse, labels


def pieces(estimate, code):
    """What measured each piece of evidence of a check; empty where it found nothing."""
    [measured] = [d.measured for d in estimate.warnings if d.code == code] or [{}]
    return measured


def hais(statistics):
    return combine(collect(statistics), "hais")


@pytest.mark.statistical
@pytest.mark.parametrize(("n_starts", "both"), [(8, True), (8, False), (40, True), (40, False)])
def test_error_of_particles_that_share_starts(n_starts, both, rng):
    """Spread of 300 estimates against their errors, about 1 +- 0.06: 1 in 10000 at the limits."""
    runs = []
    for _ in range(300):
        forward, reverse, starts = ensemble(rng, n_starts)
        kept = forward if both else np.empty(0)
        runs.append([ensemble_estimate(kept, reverse, starts=s) for s in (starts, None)])
    spread = np.std([own.log_z for own, _ in runs])
    grouped, alone = (np.sqrt(np.mean([e.se**2 for e in es])) for es in zip(*runs, strict=True))
    assert 0.7 < spread / grouped < 1.3
    if n_starts == 8 and not both:  # particles taken for independent are trusted far too much
        assert spread / alone > 1.5
    covered = [e.interval()[0] < 0.0 < e.interval()[1] for e, _ in runs]
    if n_starts == 40:
        assert np.mean(covered) > 0.9
    crossed = ["crossed" in pieces(e, "bounds_disagree") for e, _ in runs]
    assert np.mean(crossed) < 0.02
    assert all(("starts" in pieces(e, "few_particles")) == (n_starts < 20) for e, _ in runs)


def test_starts_of_one_mode_cross_the_bounds(rng):
    """Starts in the smaller mode put the upper bound at log 0.6, and a crossing says so."""
    forward, _, starts = ensemble(rng, 30, n=400)
    reverse = weights_of_modes(np.zeros(400, dtype=int), rng, 1.0)
    for labels in (starts, np.zeros(400, dtype=int), np.arange(400) % 3):
        estimate = ensemble_estimate(forward, reverse, starts=labels)
        assert "crossed" in pieces(estimate, "bounds_disagree"), estimate
    one_sided = ensemble_estimate(forward, np.empty(0))
    assert pieces(one_sided, "bounds_disagree") == pieces(one_sided, "few_particles") == {}


@pytest.mark.parametrize("n", [1, 2, 5, 24, 25])
def test_few_particles_are_named(n, rng):
    forward, reverse, _ = ensemble(rng, 1, n=n)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for pair in ((forward, reverse), (forward, np.empty(0)), (np.empty(0), reverse)):
            estimate = ensemble_estimate(*pair)
            assert ("number" in pieces(estimate, "few_particles")) == (n < 25)


def test_particles_without_weight_raise_no_runtime_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate = ensemble_estimate(np.full(30, -np.inf), np.empty(0))
    assert "weight" in pieces(estimate, "few_particles")


def hais_statistics(rng, n_draws, n_chains=2, stuck=False):
    shape = (n_chains, n_draws, 4)
    size = int(np.prod(shape))
    modes = np.zeros(size, dtype=int) if stuck else rng.choice(2, size, p=MASS)
    forward = weights_of_modes(rng.choice(2, size, p=OF_BASE), rng, -1.0)
    return {
        "log_weight_forward": forward.reshape(shape),
        "log_weight_reverse": weights_of_modes(modes, rng, 1.0).reshape(shape),
        "accepted": np.ones(shape, dtype=bool),
        "betas": np.broadcast_to([0.0, 0.5, 1.0], (n_chains, n_draws, 3)).copy(),
        "n_levels": np.full((n_chains, n_draws), 3),
        "base_id": np.full((n_chains, n_draws), 7),
    }


@pytest.mark.parametrize("n_draws", [1, 2, 6, 7])
def test_short_prefixes_of_hais(n_draws, rng):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate = hais(hais_statistics(rng, n_draws))
    assert ("number" in pieces(estimate, "few_particles")) == (4 * n_draws < 25)


def test_bounds_of_a_stuck_hais_run_cross(rng):
    assert "crossed" in pieces(hais(hais_statistics(rng, 200, stuck=True)), "bounds_disagree")
    assert "crossed" not in pieces(hais(hais_statistics(rng, 200)), "bounds_disagree")


@pytest.mark.parametrize("heavy", ["forward", "reverse"])
def test_heavy_weights_of_the_forward_direction_are_named(heavy, rng):
    """Pareto weights with k = 1.2 against nearly equal ones."""
    tail, sound = 1.2 * rng.exponential(size=2000), 0.1 * rng.normal(size=2000)
    forward, reverse = (tail, sound) if heavy == "forward" else (sound, -tail)
    estimate = ensemble_estimate(forward, reverse, 1.0, 1000)
    found = [d.measured for d in estimate.warnings if d.code == "heavy_tailed_weights"]
    assert len(found) == (heavy == "forward")
    # 1.2, with an error near 0.15
    assert all(0.7 < measured["largest pareto_k_weights"] < 1.9 for measured in found)


@pytest.mark.parametrize(("lag", "far"), [(0.1, False), (2.0, True)])
def test_bounds_far_apart_are_named(lag, far, rng):
    """Every particle lags behind, in its own direction: 0.2 nats apart or 4, and 3 is far."""
    noise = rng.normal(0.0, 0.3, (2, 400))
    estimate = ensemble_estimate(noise[0] - lag, noise[1] + lag, 1.0, 1000)
    found = pieces(estimate, "bounds_disagree").get("far_apart")
    assert (found is not None) == far
    assert not far or found["upper - lower"] == pytest.approx(4.0, abs=0.3)


def test_particles_hardly_accepted_are_named(rng):
    good = hais_statistics(rng, 200)
    assert "accepted" not in pieces(hais(good), "few_particles")
    bad = good | {"accepted": good["accepted"].copy()}
    bad["accepted"][1] = rng.uniform(size=bad["accepted"][1].shape) < 0.01
    measured = pieces(hais(bad), "few_particles")["accepted"]
    assert measured["chain"] == [1]
    assert measured["acceptance_rate_particles"] == [bad["accepted"][1].mean()]
