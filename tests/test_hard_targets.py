"""The hard targets' exact answers, by ways that share nothing with how they are computed."""

import importlib.util
import sys
from pathlib import Path

import numpy as np
import pytensor
import pytest
import xarray as xr
from hard_targets import HARD, judge
from hard_targets.mixtures import phase_transition
from hard_targets.target import HardTarget, Part
from scipy import stats

from pymc_tempering.estimators.diagnostic import Diagnostic

OURS = ("ridges_10", "two_scales_10", "groups_alike_12", "effects_together_8", "flat_scale",
        "flat_scale_last")  # fmt: skip
"""Those that the shared cases do not have."""
SHARED = Path(__file__).resolve().parents[2] / "shared" / "cases" / "hard.py"
N = 40_000


def _posterior(**draws):
    """Draws of shape (n, ...) as one chain."""
    return xr.Dataset(
        {name: (("chain", "draw", *(f"{name}_{i}" for i in range(v.ndim - 1))), v[None])
         for name, v in draws.items()}
    )  # fmt: skip


def _check_masses(target, posterior, weights=None):
    """Masses within 5 standard errors (false-alarm rate 6e-7 each) of those of weighted draws."""
    for name, part in target.parts.items():
        inside = np.asarray(part.contains(posterior), dtype=float)[0]
        w = np.full(inside.size, 1.0 / inside.size) if weights is None else weights
        estimate = w @ inside
        error = np.sqrt(np.sum((w * (inside - estimate)) ** 2))
        assert abs(estimate - part.probability) < 5.0 * error + 1e-9, name


def _mean(values):
    return values.mean(), values.std() / np.sqrt(values.size)


def test_names_are_those_of_the_targets():
    others = ("two_widths_4_0.3", "far_modes_20", "needles", "circular", "steep_banana")
    for name in (*others, *OURS):
        assert HARD[name]().name == name


def test_a_spike_has_the_height_of_its_width():
    target = HARD["spike_10_centre"]()
    expected = np.log(0.5) + np.log1p(1e10) - 5.0 * np.log(2.0 * np.pi)
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        assert target.model.compile_logp()({"x": np.zeros(10)}) == pytest.approx(expected)


def test_a_prior_is_divided_out_of_its_mixture():
    plain, with_prior = HARD["two_widths_20_0.4"](), HARD["two_widths_10_0.4_prior"]()
    x = np.zeros(10)
    expected = np.logaddexp(
        np.log(0.1) + stats.norm.logpdf(x).sum(),
        np.log(0.9) + stats.norm.logpdf(x, np.r_[np.full(4, 3.0), np.zeros(6)], 0.4).sum(),
    )
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        assert with_prior.model.compile_logp()({"x": x}) == pytest.approx(expected)
    assert plain.log_z == with_prior.log_z == 0.0


def test_targets_without_data_have_the_masses_of_their_priors(rng):
    v = rng.normal(0.0, 3.0, N)
    _check_masses(HARD["funnel_30"](), _posterior(v=v))
    _check_masses(HARD["horseshoe_prior"](), _posterior(t=np.abs(rng.standard_cauchy(N))))
    _check_masses(HARD["cauchy_10"](), _posterior(x=rng.standard_cauchy((N, 10))))
    _check_masses(HARD["steep_banana"](), _posterior(a=rng.normal(0.0, 2.0, (N, 4))))
    _check_masses(HARD["sharp_beta"](), _posterior(x=rng.beta(0.01, 0.01, N)))
    v = np.where(rng.random(N) < 0.5, -5.0, 3.0) + 0.7 * rng.normal(size=N)
    _check_masses(HARD["two_scales_10"](), _posterior(v=v))


@pytest.mark.parametrize(
    ("name", "y", "sd"),
    [("eight_schools_centred", [28, 8, -3, 7, -1, 1, 18, 12], [15, 10, 16, 11, 9, 11, 10, 18]),
     ("collapsed_hierarchy", np.linspace(-0.6, 0.6, 20), np.ones(20))],
)  # fmt: skip
def test_hierarchies_by_draws_of_their_hyperparameters(name, y, sd, rng):
    target = HARD[name]()
    mu, tau = rng.normal(0.0, 5.0, 10 * N), 5.0 * np.abs(rng.standard_cauchy(10 * N))
    logs = stats.norm.logpdf(
        np.asarray(y)[:, None], mu, np.sqrt(np.asarray(sd)[:, None] ** 2 + tau**2)
    ).sum(0)
    mean, error = _mean(np.exp(logs - target.log_z))
    assert abs(mean - 1.0) < 5.0 * error < 0.2
    weights = np.exp(logs - np.logaddexp.reduce(logs))
    _check_masses(target, _posterior(tau=tau), weights)


def test_numerical_targets_by_draws_of_their_priors(rng):
    x = rng.normal(size=N)
    likelihood = stats.norm.pdf(-0.5, np.sqrt(np.maximum(x, 0.0)))
    target = HARD["nan_gradient"]()
    mean, error = _mean(likelihood)
    assert abs(mean - np.exp(target.log_z)) < 5.0 * error
    _check_masses(target, _posterior(x=x), likelihood / likelihood.sum())

    x = rng.normal(size=(N, 3))
    likelihood = np.where(x[:, 0] > 1.5, np.exp(6.0), 1.0)
    target = HARD["step_likelihood"]()
    mean, error = _mean(likelihood)
    assert abs(mean - np.exp(target.log_z)) < 5.0 * error
    _check_masses(target, _posterior(x=x), likelihood / likelihood.sum())


def test_phase_transition_in_one_dimension_by_a_sum():
    target = phase_transition(dim=1, log_ratio=np.log(3.0))
    x = np.linspace(-5.0, 5.0, 400_001)
    density = (np.exp(-0.5 * x**2) + 3.0 * np.exp(-50.0 * x**2)) / np.sqrt(2.0 * np.pi)
    assert target.log_z == pytest.approx(np.log(density.mean()), abs=1e-4)


def test_sensors_by_draws_of_their_priors():
    # many draws: a sensor's posterior is a hundredth of its prior
    rng = np.random.default_rng(7)
    target = HARD["sensors_4"]()
    data = np.random.default_rng(0)
    where, anchors = 1.5 * data.normal(size=(4, 2)), 2.0 * data.normal(size=(4, 2, 2))
    d = np.sqrt(((where[:, None] - anchors) ** 2).sum(-1)) + 0.1 * data.normal(size=(4, 2))
    x = rng.normal([0.4, 0.2], 2.0, (200_000, 2))
    log_z, variance = 0.0, 0.0
    for k in range(4):
        gap = np.sqrt(((x[:, None] - anchors[k]) ** 2).sum(-1))
        mean, error = _mean(np.exp(stats.norm.logpdf(d[k], gap, 0.1).sum(-1)))
        log_z, variance = log_z + np.log(mean), variance + (error / mean) ** 2
    assert abs(log_z - target.log_z) < 5.0 * np.sqrt(variance) < 1.0


def test_sparse_effects_by_draws_of_their_priors(rng):
    target = HARD["spike_and_slab_20"]()
    data = np.random.default_rng(2)
    effects = np.where(data.random(20) < 0.3, data.normal(0.0, 2.0, 20), 0.0)
    y = effects + 0.5 * data.normal(size=20)
    spike = rng.random(N) < 0.7
    b = np.where(spike, 0.05, 2.0) * rng.normal(size=N)
    likelihood = stats.norm.pdf(y[:, None], b, 0.5)
    means = likelihood.mean(1)
    variance = np.sum((likelihood.std(1) / means) ** 2) / N
    assert abs(np.log(means).sum() - target.log_z) < 5.0 * np.sqrt(variance)
    weights = likelihood / likelihood.sum(1, keepdims=True)
    k = int(np.argmin(np.abs(weights @ spike - 0.5)))
    _check_masses(target, _posterior(b=np.tile(b[:, None], 20)), weights[k])


def test_ridges_by_draws_of_their_sum(rng):
    """The sum has the prior N(10, 1e5), and is 50 or -50 but for a hundredth."""
    target = HARD["ridges_10"]()
    side = np.where(rng.random(N) < 0.5, 1.0, -1.0)
    total = side * rng.normal(50.0, 0.01, N)
    prior = stats.norm.pdf(total, 10.0, np.sqrt(1e5))
    mean, error = _mean(2.0 * prior)
    assert abs(np.log(mean) - target.log_z) < 5.0 * error / mean + 1e-9
    each = np.repeat(total[:, None] / 10.0, 10, axis=1)
    _check_masses(target, _posterior(x=each), prior / prior.sum())


def test_groups_by_draws_of_their_mean_and_scale(rng):
    target = HARD["groups_alike_12"]()
    offsets = np.random.default_rng(4).normal(size=12)
    y = 2.0 + 1.45 * (offsets - offsets.mean()) / offsets.std()
    n = 10 * N
    which = rng.random(n) < 0.5
    log_scale = np.where(which, np.log(0.05), np.log(3.0)) + np.where(which, 0.4, 0.5) * rng.normal(
        size=n
    )
    logs = stats.norm.logpdf(
        y[:, None], rng.normal(0.0, 5.0, n), np.hypot(1.0, np.exp(log_scale))
    ).sum(0)
    mean, error = _mean(np.exp(logs - target.log_z))
    assert abs(mean - 1.0) < 5.0 * error < 0.2
    _check_masses(target, _posterior(log_scale=log_scale), np.exp(logs - np.logaddexp.reduce(logs)))


def test_effects_together_by_draws_of_their_priors():
    # many draws: eight effects at once are met by few
    rng = np.random.default_rng(7)
    target = HARD["effects_together_8"]()
    y = np.array([0.9, -0.5, 1.4, -1.0, 0.4, 0.7, -1.2, 0.2])
    others, n = np.array([-1.0, 0.0, 1.0]), 40 * N
    effect = np.where(rng.random(n) < 0.5, 0.05, 1.0)[:, None] * rng.normal(size=(n, 8))
    logs = stats.norm.logpdf(y, effect, 0.7).sum(1)
    logs += stats.norm.logpdf(others, rng.normal(size=(n, 3)), 1.0).sum(1)
    mean, error = _mean(np.exp(logs - target.log_z))
    assert abs(mean - 1.0) < 5.0 * error < 0.2
    weights = np.exp(logs - np.logaddexp.reduce(logs))
    _check_masses(target, _posterior(effect=effect), weights)


class _Estimate:
    def __init__(self, log_z, se, warnings=()):
        self.log_z, self.se, self.warnings = log_z, se, warnings


def test_verdicts(rng):
    half = Part(lambda posterior: posterior["x"].values > 0.0, 0.5)
    target = HardTarget("t", "k", None, 1.0, {"right": half})
    run = xr.DataTree.from_dict(
        {"posterior": _posterior(x=rng.normal(size=N)).isel(chain=[0, 0, 0, 0])}
    )
    one_side = xr.DataTree.from_dict({"posterior": np.abs(run["posterior"].to_dataset())})
    good = judge(target, _Estimate(1.03, 0.01), run)
    assert (good.wrong, good.warned, good.silent) == ((), False, False)
    off = judge(target, _Estimate(1.05, 0.01), run)
    assert (off.wrong, off.silent) == (("log Z",), True)
    lost = judge(target, _Estimate(1.0, 0.01, (Diagnostic,)), one_side)
    assert (lost.wrong, lost.warned, lost.silent) == (("right",), True, False)
    # a number that is not one is wrong whatever its error is
    assert judge(target, _Estimate(np.nan, np.inf), run).wrong == ("log Z",)
    endless = HardTarget("t", "k", None, np.inf)
    assert judge(endless, _Estimate(3.0, 0.1), run).silent


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in HARD if name not in OURS])
def test_the_shared_targets_say_the_same(name, rng):
    if not SHARED.exists():
        pytest.skip("shared reference cases absent: no ../shared/cases/hard.py")
    spec = importlib.util.spec_from_file_location("pymc_tempering_shared_hard", SHARED)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    ours, theirs = HARD[name](), module.HARD[name]()
    assert ours.log_z == pytest.approx(theirs.log_z, abs=1e-3)
    assert ours.kind == theirs.kind
    point = ours.model.initial_point()
    point = {k: v + 0.3 * rng.normal(size=np.shape(v)) for k, v in point.items()}
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        assert ours.model.compile_logp()(point) == pytest.approx(
            float(theirs.model.compile_logp()(point)), rel=1e-9
        )
    known = sorted(min(p, 1 - p) for _, p in theirs.masses.values())
    assert sorted(min(p.probability, 1 - p.probability) for p in ours.parts.values()) == (
        pytest.approx(known, abs=1e-6)
    )
