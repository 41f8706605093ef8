"""Before the first scan: local fits made once for all chains, and where replicas start."""

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.methods import METHODS, load
from pymc_tempering.references.prepared import NO_SEARCH, Prepared
from pymc_tempering.steps import common
from pymc_tempering.testing import asymmetric_bimodal

RUN = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1}
STEPS = [row for row in METHODS.values() if row.step]


@pytest.fixture(scope="module")
def model():
    return asymmetric_bimodal().model()


@pytest.fixture
def fits(monkeypatch):
    """What every call of `prepare` by a step gave."""
    given, real = [], common.prepare

    def counted(*args, **kwargs):
        given.append(real(*args, **kwargs))
        return given[-1]

    monkeypatch.setattr(common, "prepare", counted)
    return given


@pytest.fixture
def used(monkeypatch):
    """Modes that every chain of any step started from."""
    seen, real = [], common.TemperedStep._known

    def noted(self, report=None):
        known = real(self, report)
        seen.append(known.modes)
        return known

    monkeypatch.setattr(common.TemperedStep, "_known", noted)
    return seen


def sample(step, model, random_seed, chains=3):
    return pm.sample(
        4, tune=2, step=step, model=model, chains=chains, random_seed=random_seed, **RUN
    )


def test_chains_and_runs_share_the_fits_of_a_seed(model, fits, used, seed):
    """All chains of a run, a second run, and a later seed, which has fits of its own."""
    step = pm_temper.ParallelTempering(model=model, scans_per_draw=2)
    first = sample(step, model, seed)
    assert len(fits) == 1
    assert len(used) == 3
    assert len(fits[0].modes) == 2
    assert all(modes is fits[0].modes for modes in used)
    second = sample(step, model, seed)
    assert len(fits) == 1
    np.testing.assert_array_equal(first.posterior["x"], second.posterior["x"])
    sample(step, model, seed + 1)
    assert len(fits) == 2
    assert not np.array_equal(fits[1].modes, fits[0].modes)
    assert all(modes is fits[1].modes for modes in used[6:])


def test_what_was_prepared_serves_chains_of_any_seed(model, fits, used, seed):
    """As the rounds of `target_se` need it, whose later chains have seeds of their own."""
    step = pm_temper.ParallelTempering(model=model, scans_per_draw=2)
    step.prepare(seed)
    sample(step, model, seed, chains=1)
    sample(step, model, seed + 1, chains=1)
    assert len(fits) == 1
    assert all(modes is fits[0].modes for modes in used)


def test_an_estimate_fits_once(model, fits, used, seed):
    pm_temper.sample(model, draws=60, tune=10, chains=3, random_seed=seed, scans_per_draw=8, **RUN)
    assert len(fits) == 1
    assert len(used) == 3
    assert all(modes is fits[0].modes for modes in used)


def test_another_step_of_the_model_finds_the_same(model, fits, seed):
    """As the step that a spawned worker has, which holds no fits."""
    for row in STEPS[:2]:
        sample(load(row.step)(model=model, scans_per_draw=2), model, seed, chains=1)
    assert len(fits) == 2
    np.testing.assert_array_equal(fits[1].modes, fits[0].modes)


def ladder_of(step):
    """Ladder of the run, or of the pilot that methods with one replica start from."""
    return (step._run if step.method == "pt" else step._pilot).ladder


GIVEN = np.array([-7.25, 4.5])
PLACES = np.array([[3.0, -0.5], [-3.0, 1.0], [1.0, 1.0], [0.5, -2.0], [-1.0, 0.25]])


def started(row, model, point, *, n_modes=2, n_tune=20):
    """A chain of a step just before its first scan, without the cost of local fits."""
    step = load(row.step)(model=model, scans_per_draw=2)
    modes, pooled = PLACES[:n_modes], pm_temper.GaussianBase(np.zeros(2), np.full(2, 4.0))
    fits = tuple(pm_temper.GaussianBase(mode, np.ones(2)) for mode in modes)
    step._found = common.Found(Prepared(pooled, fits, NO_SEARCH))
    step.setup_chain(np.random.default_rng(1), n_tune, 5)
    step._start_chain(point)
    return step, modes


@pytest.mark.parametrize("n_modes", [1, 2, 4, 5])
@pytest.mark.parametrize("row", STEPS, ids=lambda row: row.name)
def test_a_given_start_is_that_of_the_replica_at_the_target(row, n_modes, model):
    """However many modes there are; without one, a mode is."""
    step, _ = started(row, model, {"x": GIVEN}, n_modes=n_modes)
    np.testing.assert_allclose(ladder_of(step).target_position, GIVEN)
    step, modes = started(row, model, model.initial_point(), n_modes=n_modes)
    # parallel tempering takes the best, and a pilot the one that its pair does not start from
    expected = modes[0] if row.name == "pt" else modes[-1]
    np.testing.assert_allclose(ladder_of(step).target_position, expected)


@pytest.mark.parametrize("name", ["gibbs_ct", "st"])
def test_without_tuning_a_given_start_is_that_of_the_tempered_replica(name, model):
    step, modes = started(METHODS[name], model, {"x": GIVEN}, n_tune=0)
    pair = step._pair
    z, y = pair.coordinates.from_base(pair.u[pair.holder[:2]])
    np.testing.assert_allclose(z, GIVEN)
    np.testing.assert_allclose(y, modes[0])


def test_without_tuning_annealing_begins_at_a_given_start(model):
    step, _ = started(METHODS["hais"], model, {"x": GIVEN}, n_tune=0)
    np.testing.assert_allclose(step._annealer.target_position, GIVEN)


def test_a_start_of_zero_density_is_no_place(model):
    step, modes = started(METHODS["pt"], model, {"x": GIVEN})
    outside = {"x": np.array([np.inf, 0.0])}
    np.testing.assert_array_equal(step._places(modes, outside), modes)


def test_initvals_of_pm_sample_arrive(model, monkeypatch, seed):
    places, real = [], common.TemperedStep._places

    def noted(self, modes, point):
        places.append((modes, real(self, modes, point)))
        return places[-1][1]

    monkeypatch.setattr(common.TemperedStep, "_places", noted)
    step = pm_temper.ParallelTempering(model=model, scans_per_draw=2)
    other = GIVEN + 1.0
    pm.sample(
        4, tune=2, step=step, model=model, chains=3, random_seed=seed,
        initvals=[{"x": GIVEN}, None, {"x": other}], **RUN,
    )  # fmt: skip
    for (modes, found), given in zip(places, (GIVEN, None, other), strict=True):
        expected = modes if given is None else np.vstack([modes, given])
        np.testing.assert_array_equal(found, expected)
