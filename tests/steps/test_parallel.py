"""ParallelTempering through pm.sample and step by step: statistics, seeds, states, refusals."""

import cloudpickle
import numpy as np
import pymc as pm
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.path.gaussian import GaussianBase, base_id
from pymc_tempering.errors import ModelError
from pymc_tempering.steps.parallel import ParallelTempering

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1}


@pytest.fixture(scope="module")
def target():
    return testing.asymmetric_bimodal()


@pytest.fixture(scope="module")
def model(target):
    return target.model()


def build(model, **options):
    with model:
        return ParallelTempering(**({"scans_per_draw": 4, "n_levels": 10} | options))


def sample(model, step, seed, draws=30, tune=20, chains=2, **options):
    with model:
        return pm.sample(
            draws, tune=tune, step=step, chains=chains, random_seed=seed, **(QUIET | options)
        )


def by_hand(step, model, seed, n, tune, start=0, point=None, until=None):
    """The loop of pm.sample, or a part of it; returns what each step gave and the last point."""
    if start == 0:
        step.setup_chain(np.random.default_rng(seed), tune, n - tune)
        point = model.initial_point()
    rows = []
    for i in range(start, until or n):
        if i == tune:
            step.stop_tuning()
        point, (statistics,) = step.step(point)
        assert statistics.pop("perf_counter_diff") > 0.0  # not the same twice
        rows.append(np.concatenate([np.ravel(v) for v in (*point.values(), *statistics.values())]))
    return np.array(rows, dtype=float), point


def test_statistics_have_the_stated_shapes_and_types(model, seed):
    idata = sample(model, build(model, n_levels=7), seed)
    stats = idata.sample_stats
    shapes = {
        "delta": (4, 7), "betas": (7,), "swap_acceptance_rate": (6,), "acceptance_rate": (7,),
        "step_size": (7,), "replica": (7,),
    }  # fmt: skip
    for name in (
        "global_barrier", "n_round_trips", "n_tempered_restarts", "n_gradients", "n_divergences",
        "diverging", "base_id", "lp",
    ):  # fmt: skip
        shapes[name] = ()
    for name, shape in shapes.items():
        assert stats[name].shape == (2, 30, *shape), name
    integers = {name for name in shapes if name.startswith("n_")} | {"base_id", "replica"}
    for name in shapes:
        kind = "b" if name == "diverging" else "i" if name in integers else "f"
        assert stats[name].dtype.kind == kind, name
    assert idata.posterior["x"].shape == (2, 30, 2)


def test_statistics_agree_with_each_other(model, target, seed):
    idata = sample(model, build(model, n_levels=12), seed, draws=50)
    stats = {name: values.values for name, values in idata.sample_stats.items()}
    levels = np.isfinite(stats["betas"])
    assert (levels == np.isfinite(stats["delta"][:, :, -1])).all()
    n_levels = levels.sum(axis=-1)
    assert (n_levels >= 3).all()
    for chain in range(2):
        betas = stats["betas"][chain, -1, : n_levels[chain, -1]]
        assert (betas[0], betas[-1]) == (0.0, 1.0)
        replica = stats["replica"][chain, -1]
        assert sorted(replica[: betas.size]) == list(range(betas.size))
        assert (replica[betas.size :] == -1).all()
    np.testing.assert_allclose(
        stats["lp"], target.log_density(idata.posterior["x"].values), rtol=1e-10
    )
    rates = np.nan_to_num(stats["swap_acceptance_rate"], nan=1.0)
    barrier = (1.0 - rates).sum(axis=-1)
    running = np.cumsum(barrier, axis=1) / np.arange(1, 51)
    np.testing.assert_allclose(stats["global_barrier"], running)


def test_seeds(model, seed):
    step = build(model)
    first = sample(model, step, seed).posterior["x"].values
    np.testing.assert_array_equal(sample(model, step, seed).posterior["x"].values, first)
    np.testing.assert_array_equal(sample(model, build(model), seed).posterior["x"].values, first)
    assert not np.isin(first[0], first[1]).any()
    assert not np.isin(sample(model, step, seed + 1).posterior["x"].values, first).any()


@pytest.fixture(scope="module")
def line():
    """One dimension, so that a dense scale and a vector of scales have the same entries."""
    return testing.trimodal_1d().model()


@pytest.fixture(scope="module", params=["plane", "line"])
def whole(request, model, line, seed):
    """A model, and all that a run of it gave that was not stored."""
    model = model if request.param == "plane" else line
    return model, by_hand(build(model), model, seed, 30, 16)[0]


@pytest.mark.parametrize("stop", [7, 13, 16, 24])
def test_stored_states_continue_with_identical_draws(whole, stop, seed):
    """Stored in the first and in the last rounds of tuning, and after it."""
    model, rows = whole
    first = build(model)
    start, point = by_hand(first, model, seed, stop, 16)
    np.testing.assert_array_equal(start, rows[:stop])
    state = cloudpickle.loads(cloudpickle.dumps(first.sampling_state))
    by_hand(first, model, seed + 1, 10, 5)  # a stored state must not follow its origin
    second = build(model)
    second.sampling_state = state
    rest, _ = by_hand(second, model, None, 30, 16, start=stop, point=point)
    np.testing.assert_array_equal(rest, rows[stop:])


def test_state_before_the_first_step(model):
    step, other = build(model), build(model)
    assert step.chain is None
    other.sampling_state = step.sampling_state
    assert other.chain is None


def test_states_of_other_steps_are_refused(model, line):
    state = build(model, n_levels=5).sampling_state
    with pytest.raises(ValueError, match=r"'sizes' .* 'level': 6,.* 'level': 5,"):
        build(model, n_levels=6).sampling_state = state
    with pytest.raises(ValueError, match="dim"):
        build(line, n_levels=5).sampling_state = state


@pytest.mark.parametrize("at", [8, 25])
def test_interrupt_keeps_the_draws_so_far(model, seed, at):
    def callback(trace, draw):
        if len(trace) == at:
            raise KeyboardInterrupt

    whole = sample(model, build(model), seed, chains=1, discard_tuned_samples=False)
    idata = sample(
        model, build(model), seed, chains=1, callback=callback, discard_tuned_samples=False
    )
    name = "warmup_posterior" if at <= 20 else "posterior"
    kept, expected = idata[name]["x"].values, whole[name]["x"].values
    n = at if at <= 20 else at - 20
    assert kept.shape[1] == n
    np.testing.assert_array_equal(kept, expected[:, :n])


def test_later_data_are_refused(seed):
    with pm.Model() as model:
        data = pm.Data("data", np.array([1.0, 2.0]))
        x = pm.Normal("x")
        pm.Normal("y", x, 1.0, observed=data)
    step = build(model)
    with model:
        pm.set_data({"data": np.array([5.0, 6.0])})
    with pytest.raises(ModelError, match=r"model changed.*the data 'data'.*Build"):
        sample(model, step, seed)
    with pytest.raises(ModelError, match="changed"):
        step.setup_chain(np.random.default_rng(seed), 5, 5)


def test_given_betas_and_base_stay(model, target, seed):
    betas = np.array([0.0, 0.05, 0.3, 1.0])
    base = GaussianBase.from_moments(target.mean, 1.4 * target.cov)
    step = build(model, betas=betas, base=base, adapt_base=False, n_levels=None)
    idata = sample(model, step, seed, discard_tuned_samples=False)
    for group in ("sample_stats", "warmup_sample_stats"):
        assert (idata[group]["betas"].values == betas).all()
        assert (idata[group]["base_id"].values == base_id(base)).all()


def test_nothing_adapts_after_tuning_and_all_does_before(model, seed):
    idata = sample(model, build(model, n_levels=12), seed, tune=60, discard_tuned_samples=False)
    names = ("betas", "step_size", "base_id")
    for name in names:
        drawn = idata["sample_stats"][name].values
        np.testing.assert_array_equal(drawn, np.broadcast_to(drawn[:, :1], drawn.shape))
        tuned = idata["warmup_sample_stats"][name].values
        assert any((tuned[0, 0] != row).any() for row in tuned[0, 1:]), name


def test_no_tuning_at_all(model, seed):
    idata = sample(model, build(model), seed, tune=0)
    stats = idata.sample_stats
    assert idata.posterior["x"].shape == (2, 30, 2)
    for name in ("betas", "step_size", "base_id"):
        values = stats[name].values
        np.testing.assert_array_equal(values, np.broadcast_to(values[:, :1], values.shape))


@pytest.mark.statistical
def test_mode_weights_and_moments(model, target, seed):
    """Within 4.5 standard errors from batches: false alarm 3e-5, four quantities."""
    # whether local fits find every mode from one starting point is another question
    base = GaussianBase.from_moments(target.mean, 2.0 * target.cov)
    step = build(model, scans_per_draw=16, base=base)
    idata = sample(model, step, seed, draws=1000, tune=100)
    z = idata.posterior["x"].values
    right = z[..., :1] > 0.0
    tails = z > target.mean + np.sqrt(np.diag(target.cov))
    exact_tails = [
        float(target.survival(i, target.mean[i] + target.cov[i, i] ** 0.5)) for i in (0, 1)
    ]
    values = np.concatenate([right, z, tails], axis=-1)
    exact = np.array([0.7, *target.mean, *exact_tails])
    batches = values.reshape(40, 50, 5).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(values.mean(axis=(0, 1)) - exact) < 4.5 * error + 1e-3).all()
    # every chain visits both modes in proportion, as a chain stuck in one cannot
    assert (np.abs(right.mean(axis=(1, 2)) - 0.7) < 0.12).all()
    assert (idata.sample_stats["n_round_trips"].sum("draw") > 50).all()
    tempered_restart = idata.sample_stats["tempered_restart"].values
    assert tempered_restart.mean() > 0.3
    assert not tempered_restart[idata.sample_stats["n_tempered_restarts"].values == 0].any()


def test_a_part_of_the_variables_is_refused():
    with pm.Model():
        x = pm.Normal("x")
        y = pm.HalfNormal("y")
        with pytest.raises(ModelError, match=r"all free variables.*'y_log__'"):
            ParallelTempering([x])
        with pytest.raises(ModelError, match="not variables of this model"):
            ParallelTempering([x, y, pm.Normal.dist()])
        assert len(ParallelTempering([y, x]).vars) == 2


def test_model_as_argument_outside_a_context(model, seed):
    step = ParallelTempering(model=model, scans_per_draw=4, n_levels=10)
    rows, _ = by_hand(step, model, seed, 6, 3)
    np.testing.assert_array_equal(rows, by_hand(build(model), model, seed, 6, 3)[0])


def test_base_from_draws_of_an_earlier_run(model, seed):
    idata = sample(model, build(model), seed, draws=200)
    again = build(model, base=idata, adapt_base=False)
    rows = sample(model, again, seed)
    expected = GaussianBase.from_draws(idata.posterior["x"].values.reshape(-1, 2))
    assert (rows.sample_stats["base_id"].values == base_id(expected)).all()
