"""Evidence of continuous tempering from statistics made of exact draws."""

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import DataError
from pymc_tempering.evidence.common import combine
from pymc_tempering.evidence.coupled import collect_gibbs_ct as collect

KNOTS = np.array([0.0, 0.05, 0.2, 0.5, 1.0])


def draw_joint(target, base, bias, rng, n):
    """Exact independent (delta, beta), by rejection.

    Proposals have beta uniform and z from the mixture of base and normalised target with weights
    1 - beta and beta, which bounds the geometric path.
    """
    top = np.max(KNOTS * target.log_z - bias)
    delta, beta = np.empty(0), np.empty(0)
    while delta.size < n:
        b = rng.random(4 * n)
        from_target = (rng.random(4 * n) < b)[:, None]
        z = np.where(from_target, target.draw(rng, 4 * n), base.draw(rng, 4 * n))
        log_base, log_target = base.log_density(z), target.log_density(z) - target.log_z
        mixture = np.logaddexp(np.log1p(-b) + log_base, np.log(b) + log_target)
        path = (1 - b) * log_base + b * log_target
        log_accept = path - mixture + b * target.log_z - np.interp(b, KNOTS, bias) - top
        kept = np.log1p(-rng.random(4 * n)) < log_accept
        delta = np.append(delta, (log_target + target.log_z - log_base)[kept])
        beta = np.append(beta, b[kept])
    return delta[:n], beta[:n]


def statistics(target, rng, n_draws=100, n_scans=20, n_chains=2):
    """Exact independent (z, beta) and y, with a bias that is not log z."""
    base = GaussianBase.from_moments(target.mean, 1.5 * target.cov)
    bias = np.array([0.0, 0.3, -0.2, 0.4, target.log_z + 0.3])
    size = n_chains * n_draws * n_scans
    delta, beta = draw_joint(target, base, bias, rng, size)
    shape = (n_chains, n_draws, n_scans)
    base_delta = target.delta(base.draw(rng, size), base).reshape(shape)
    settings = {"knots": KNOTS, "bias": bias}
    return {
        "delta": delta.reshape(shape),
        "target_delta": target.delta(target.draw(rng, size), base).reshape(shape),
        "base_delta": base_delta,
        "beta": beta.reshape(shape),
        "n_base_draws": np.full(shape[:2], n_scans),
        "n_base_support": np.isfinite(base_delta).sum(axis=2),
        "n_round_trips": np.ones(shape[:2]),
        "n_tempered_restarts": np.ones(shape[:2]),
        "exchange_rate": np.full(shape[:2], 0.5),
    } | {name: np.broadcast_to(v, (*shape[:2], v.size)) for name, v in settings.items()}


@pytest.mark.parametrize("name", ["trimodal_1d", "hard_edge_gaussian", "correlated_gaussian"])
def test_log_z_and_its_error_are_right(name, seed):
    """Over 40 sets of statistics the mean squared z is near 1; every estimate within 5 errors.

    A chi-square with 40 degrees of freedom is beyond [0.4, 1.9] times them at a rate of 1e-3.
    """
    target = testing.TARGETS[name]()
    z_scores, others = [], []
    for rng in np.random.default_rng(seed).spawn(40):
        parts = collect(statistics(target, rng, n_draws=40))
        estimate = combine(parts, "gibbs_ct")
        z_scores.append((estimate.log_z - target.log_z) / estimate.se)
        others.append(parts.per_method["continuous tempering"] - target.log_z)
        if name == "hard_edge_gaussian":
            [diagnostic] = [w for w in estimate.warnings if w.code == "no_base_overlap"]
            mass = parts.arrays["support_mass"].min()
            assert diagnostic.measured == {"outside_target": {"support_mass": mass}}
    assert np.abs(z_scores).max() < 5.0
    assert 0.4 < np.mean(np.square(z_scores)) < 1.9
    assert abs(np.mean(others)) < 0.05


def test_log_z_is_given_at_every_knot(rng):
    target = testing.trimodal_1d()
    parts = collect(statistics(target, rng, n_draws=400))
    base = GaussianBase.from_moments(target.mean, 1.5 * target.cov)
    assert parts.arrays["log_z_levels"] == pytest.approx(
        np.tile(target.log_z_path(KNOTS, base), (2, 1)), abs=0.08
    )


def test_what_speaks_against_a_run_is_said(rng):
    s = statistics(testing.trimodal_1d(), rng)
    assert combine(collect(s), "gibbs_ct").warnings == ()
    idle = combine(collect(s | {"n_tempered_restarts": np.zeros((2, 100))}), "gibbs_ct")
    [diagnostic] = idle.warnings
    assert diagnostic.code == "mode_missing"
    few = {"n_tempered_restarts": [0, 0], "chain": [0, 1]}
    assert diagnostic.measured == {"few_tempered_restarts": few}
    stuck = combine(collect(s | {"beta": np.full_like(s["beta"], 0.9)}), "gibbs_ct")
    [diagnostic] = [w for w in stuck.warnings if w.code == "levels_hardly_visited"]
    assert diagnostic.measured == {"lowest_occupancy": [0.0, 0.0], "chain": [0, 1]}


@pytest.mark.parametrize("name", ["knots", "bias"])
def test_statistics_of_tuning_are_refused(rng, name):
    s = statistics(testing.trimodal_1d(), rng, n_draws=4)
    values = np.array(s[name])
    values[1, 2, 1] += 1e-9
    with pytest.raises(DataError, match=f"`{name}` changes during chain 1, so it mixes tuning"):
        collect(s | {name: values})


def test_the_error_of_the_support_mass_is_part_of_the_error(rng):
    """With one delta for all scans only the mass is uncertain: variance (1 - b) / (b n).

    Estimated from 400 draws of 20, so within 20 % (3.5 standard deviations of an se from 400).
    """
    s = statistics(testing.hard_edge_gaussian(), rng, n_draws=400)
    inside = rng.random(s["delta"].shape) < 0.3
    same = dict.fromkeys(("delta", "target_delta"), np.full_like(s["delta"], -1.5))
    of_base = {"base_delta": np.where(inside, -1.5, -np.inf), "n_base_support": inside.sum(axis=2)}
    parts = collect(s | same | of_base)
    mass = inside.mean()
    estimate = combine(parts, "gibbs_ct")
    assert estimate.log_z == pytest.approx(-1.5 + np.log(mass), abs=2e-3)
    assert estimate.se == pytest.approx(np.sqrt((1 - mass) / (mass * 16_000)), rel=0.2)
