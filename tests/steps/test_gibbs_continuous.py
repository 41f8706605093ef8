"""GibbsCT as a PyMC step: posterior draws, log Z, seeds, states, refusals."""

import copy
import pickle

import cloudpickle
import numpy as np
import pymc as pm
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.evidence.common import combine
from pymc_tempering.evidence.gibbs_ct import collect
from pymc_tempering.results.statistics import unpacked
from pymc_tempering.steps.gibbs_continuous import GibbsCT

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1}


def sample(target, seed, draws=400, tune=100, chains=2, **options):
    # whether local fits find every mode from one starting point is another test
    options.setdefault("base", GaussianBase.from_moments(target.mean, 1.5 * target.cov))
    with target.model():
        step = GibbsCT(**options)
        return pm.sample(draws, tune=tune, step=step, chains=chains, random_seed=seed, **QUIET)


def statistics_of(idata):
    return unpacked({name: values.values for name, values in idata.sample_stats.items()})


@pytest.mark.parametrize("name", ["asymmetric_bimodal", "hard_edge_gaussian"])
def test_draws_and_log_z_are_right(name, seed):
    """Within 4.5 reported errors (false alarm 1e-5 each); modes by their exact weights."""
    target = testing.TARGETS[name]()
    idata = sample(target, seed)
    parts = collect(statistics_of(idata))
    estimate = combine(parts, "gibbs_ct")
    assert estimate.se < 0.05
    assert abs(estimate.log_z - target.log_z) < 4.5 * estimate.se
    z = idata.posterior["x"].values
    ess = z.shape[0] * z.shape[1] / 4
    for threshold in (0.0, float(target.mean[0])):
        exact = float(target.survival(0, threshold))
        error = np.sqrt(max(exact * (1 - exact), 1e-3) / ess)
        assert (z[..., 0] > threshold).mean() == pytest.approx(exact, abs=4.5 * error)
    assert (parts.arrays["n_tempered_restarts"] > 100).all()
    tempered_restart = idata.sample_stats["tempered_restart"].values
    assert tempered_restart.mean() > 0.3
    assert not tempered_restart[idata.sample_stats["n_tempered_restarts"].values == 0].any()
    if name == "hard_edge_gaussian":
        assert "target_zero_on_base" in [w.code for w in parts.warnings]
        assert (parts.arrays["support_mass"] < 0.99).all()


def test_knots_share_the_time_after_tuning(seed):
    """No piece has less than a third or more than three times its share."""
    idata = sample(testing.asymmetric_bimodal(), seed, draws=600, tune=200)
    s = statistics_of(idata)
    for chain in range(2):
        counts, _ = np.histogram(s["beta"][chain], s["knots"][chain, 0])
        share = counts / counts.mean()
        assert share.min() > 1 / 3
        assert share.max() < 3.0
        assert np.ptp(s["bias"][chain], axis=0).max() == 0.0
        assert np.ptp(s["step_size"][chain], axis=0).max() == 0.0


def test_published_method_has_one_slope(seed):
    """n_knots = 1 and a number: the bias is beta log_zeta, and log Z is still right."""
    target = testing.asymmetric_bimodal()
    base = GaussianBase.from_moments(target.mean, 1.5 * target.cov)
    idata = sample(target, seed, log_zeta=target.log_z, n_knots=1, base=base, adapt_base=False)
    s = statistics_of(idata)
    assert s["knots"][0, 0].tolist() == [0.0, 1.0]
    assert s["bias"][0, 0].tolist() == [0.0, target.log_z]
    estimate = combine(collect(s), "gibbs_ct")
    assert abs(estimate.log_z - target.log_z) < 4.5 * estimate.se
    assert estimate.se < 0.1


def test_a_wrong_slope_is_warned_of(seed):
    """With log zeta far too low all the time is spent near beta = 1."""
    target = testing.asymmetric_bimodal()
    base = GaussianBase.from_moments(target.mean, 1.5 * target.cov)
    idata = sample(target, seed, draws=50, log_zeta=target.log_z - 200.0, base=base)
    warnings = collect(statistics_of(idata)).warnings
    assert "beta_hardly_visits" in [w.code for w in warnings]


def test_same_seed_same_draws(seed):
    target = testing.trimodal_1d()
    first, second, other = (
        sample(target, s, draws=10, tune=20, scans_per_draw=4) for s in (seed, seed, seed + 1)
    )
    assert (first.posterior["x"].values == second.posterior["x"].values).all()
    assert (first.sample_stats["delta"].values == second.sample_stats["delta"].values).all()
    assert not np.array_equal(first.posterior["x"].values, other.posterior["x"].values)


def fresh_step(target, seed, n_tune, **options):
    with target.model() as model:
        step = GibbsCT(scans_per_draw=4, **options)
        point = model.initial_point()
    step.setup_chain(np.random.default_rng(seed), tune=n_tune, draws=100)
    return step, point


@pytest.mark.parametrize("stop_at", [0, 5, 12, 25])
def test_a_stored_state_continues_exactly(stop_at, seed):
    """Stopped before the first step, in the pilot run, while the bias adapts, and after tuning."""
    target = testing.trimodal_1d()
    n_tune = 20

    def advance(step, point, begin, end):
        for i in range(begin, end):
            if i == n_tune:
                step.stop_tuning()
            point, (statistics,) = step.step(point)
            assert statistics.pop("perf_counter_diff") > 0.0  # not the same twice
        return point, statistics

    step, point = fresh_step(target, seed, n_tune)
    if stop_at:
        point, _ = advance(step, point, 0, stop_at)
    stored = pickle.loads(pickle.dumps((step.sampling_state, step.rng, point)))
    expected, expected_statistics = advance(step, copy.deepcopy(point), stop_at, 30)
    resumed, _ = fresh_step(target, seed + 5, n_tune)
    resumed.sampling_state = stored[0]
    resumed.rng = stored[1]
    found, found_statistics = advance(resumed, stored[2], stop_at, 30)
    assert (found["x"] == expected["x"]).all()
    for name, value in expected_statistics.items():
        np.testing.assert_array_equal(found_statistics[name], value)


def test_step_survives_pickling(seed):
    step, point = fresh_step(testing.trimodal_1d(), seed, 10)
    other = cloudpickle.loads(cloudpickle.dumps(step))
    other.setup_chain(np.random.default_rng(seed), tune=10, draws=10)
    for _ in range(12):
        a, b = step.step(point)[0], other.step(point)[0]
        assert (a["x"] == b["x"]).all()


def test_statistics_are_as_announced(seed):
    """Dtype and shape of every statistic, in the pilot run and after it, are those of the table."""
    step, point = fresh_step(testing.trimodal_1d(), seed, 10)
    for _ in range(10):
        _, (statistics,) = step.step(point)
        assert set(statistics) == set(step.stats_dtypes_shapes)
        for name, (dtype, shape) in step.stats_dtypes_shapes.items():
            assert np.shape(statistics[name]) == tuple(shape), name
            assert np.can_cast(np.asarray(statistics[name]).dtype, np.dtype(dtype).base), name


def test_without_tuning_nothing_adapts_and_draws_are_made(seed):
    idata = sample(testing.trimodal_1d(), seed, draws=5, tune=0, scans_per_draw=4)
    assert np.isfinite(idata.sample_stats["delta"].values).all()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"log_zeta": "elbow"}, "log_zeta"),
        ({"log_zeta": np.nan}, "finite"),
        ({"log_zeta": True}, "finite"),
        ({"log_zeta": 1.0, "n_knots": 4}, "one slope"),
        ({"n_knots": 0}, "n_knots"),
        ({"scans_per_draw": 0}, "scans_per_draw"),
        ({"target_accept": 1.0}, "target_accept"),
        ({"trajectory_length": -1.0}, "trajectory_length"),
        ({"max_steps": 1.5}, "max_steps"),
        ({"temperature": 1.0}, "temperature"),
        ({"base": "prior belief"}, "base"),
    ],
)
def test_wrong_options_are_refused(options, said):
    with testing.trimodal_1d().model(), pytest.raises(OptionError, match=said):
        GibbsCT(**options)


def test_draws_of_tuning_are_refused_by_the_estimate(seed):
    s = statistics_of(sample(testing.trimodal_1d(), seed, draws=5, tune=20, scans_per_draw=4))
    s["bias"] = s["bias"].copy()
    s["bias"][0, 1] += 0.1
    with pytest.raises(DataError, match="mixes tuning"):
        collect(s)
