"""Evidence of simulated tempering from statistics made of exact draws."""

import numpy as np
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import DataError
from pymc_tempering.evidence.common import combine
from pymc_tempering.evidence.coupled import collect_st as collect

BETAS = np.array([0.0, 0.1, 0.35, 0.65, 1.0])


def statistics(target, rng, n_draws=40, n_scans=20, n_chains=2):
    """Exact independent positions and levels; the last column of the schedule is not in use."""
    base = GaussianBase.from_moments(target.mean, 1.5 * target.cov)
    log_z = target.log_z_path(BETAS, base)
    weights = -log_z + np.array([0.0, 0.3, -0.2, 0.4, 0.1])
    p = np.exp(log_z + weights)
    size = n_chains * n_draws * n_scans
    level = rng.choice(BETAS.size, size, p=p / p.sum())
    delta = np.empty(size)
    for k, beta in enumerate(BETAS):
        here = level == k
        delta[here] = target.delta(target.draw_path(rng, int(here.sum()), float(beta), base), base)
    shape = (n_chains, n_draws, n_scans)
    at_base = level.reshape(shape) == 0
    finite = np.isfinite(delta).reshape(shape)
    settings = {"betas": np.append(BETAS, np.nan), "log_level_weights": np.append(weights, np.nan)}
    return {
        "delta": delta.reshape(shape),
        "n_base_draws": at_base.sum(axis=2),
        "n_base_support": (at_base & finite).sum(axis=2),
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
    z_scores = []
    for rng in np.random.default_rng(seed).spawn(40):
        parts = collect(statistics(target, rng))
        estimate = combine(parts, "st")
        z_scores.append((estimate.log_z - target.log_z) / estimate.se)
        edge = name == "hard_edge_gaussian"
        found = [w.measured for w in estimate.warnings if w.code == "no_base_overlap"]
        mass = parts.arrays["support_mass"].min()
        assert found == [{"outside_target": {"support_mass": mass}}] * edge
        assert ("ti-rb" in parts.per_method) != edge
    assert np.abs(z_scores).max() < 5.0
    assert 0.4 < np.mean(np.square(z_scores)) < 1.9


def test_a_mean_that_does_not_exist_is_not_reported(rng):
    """From heavy tails, as those of a mixture, it was 1e8 nats."""
    s = statistics(testing.trimodal_1d(), rng)
    assert "ti-rb" in collect(s).per_method
    # the square of what is as far out as a Cauchy
    s["delta"] = s["delta"] - rng.standard_cauchy(s["delta"].shape) ** 2
    assert "ti-rb" not in collect(s).per_method


def test_every_level_has_estimate_bias_and_variance(rng):
    target = testing.trimodal_1d()
    arrays = collect(statistics(target, rng, n_draws=400)).arrays
    base = GaussianBase.from_moments(target.mean, 1.5 * target.cov)
    exact = target.log_z_path(BETAS, base)
    assert np.isnan(arrays["log_z_levels"][:, -1]).all()
    error = arrays["log_z_levels"][:, 1:-1] - exact[1:]
    assert np.abs(error / np.sqrt(arrays["log_z_variance"][:, 1:-1])).max() < 5.0
    assert np.abs(arrays["log_z_bias"][:, :-1]).max() < 1e-3
    assert np.nansum(arrays["level_probability"], axis=1) == pytest.approx(1.0)


def test_what_speaks_against_a_run_is_said(rng):
    s = statistics(testing.trimodal_1d(), rng)
    assert combine(collect(s), "st").warnings == ()
    idle = combine(collect(s | {"n_tempered_restarts": np.zeros((2, 40))}), "st")
    [diagnostic] = idle.warnings
    assert diagnostic.code == "mode_missing"
    few = {"n_tempered_restarts": [0, 0], "chain": [0, 1]}
    assert diagnostic.measured == {"few_tempered_restarts": few}
    weights = np.array(s["log_level_weights"])
    weights[..., 2] -= 8.0
    warned = combine(collect(s | {"log_level_weights": weights}), "st").warnings
    [diagnostic] = [w for w in warned if w.code == "levels_hardly_visited"]
    assert diagnostic.measured["chain"] == [0, 1]
    assert max(diagnostic.measured["lowest_occupancy"]) < 0.05


@pytest.mark.parametrize("name", ["betas", "log_level_weights"])
def test_statistics_of_tuning_are_refused(rng, name):
    s = statistics(testing.trimodal_1d(), rng, n_draws=4)
    values = np.array(s[name])
    values[1, 2, 1] += 1e-9
    with pytest.raises(DataError, match=f"`{name}` changes during chain 1, so it mixes tuning"):
        collect(s | {name: values})
