"""Necks that draws of tuning rounds are in, and what replicas do then."""

from types import SimpleNamespace

import cloudpickle
import numpy as np
import pymc as pm
import pytest

from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.gist import Gist
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.references.coverage import Search
from pymc_tempering.references.necks import DEEP, N_EVALUATIONS, N_PLACES
from pymc_tempering.references.prepared import (
    BENT,
    CURVED,
    NEARLY_STRAIGHT,
    STRAIGHT,
    Prepared,
)
from pymc_tempering.steps.explorer import suited_to_necks
from pymc_tempering.steps.necks import NeckWatch
from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.steps.tuning import RoundTuner
from tests.references.test_necks import FUNNELS, draws_of_funnel

FUNNEL = SimpleNamespace(address=FUNNELS[0].address, dim=6)
BASE = GaussianBase(np.zeros(6), np.array([1.0] * 5 + [3.0]), -3.0)


def suited(depth):
    return suited_to_necks(Hamiltonian(), depth, asked=False)


def found(kind, necks=0.0):
    return Prepared(BASE, (BASE,), Search((1,), 0, 0, 0, 0.0, necks=necks), kind=kind)


def ladder_of(target, rng, base=BASE):
    path = TemperedPath.from_base(target, base)
    ladder = Ladder(path, np.array([0.0, 1.0]), base.mean[None], rng, settings=Hamiltonian())
    ladder.n_beside = 0
    return ladder


@pytest.mark.parametrize("kind", [NEARLY_STRAIGHT, CURVED])
def test_moves_change_where_a_round_finds_necks(kind, rng):
    watch, ladder = NeckWatch(suited), ladder_of(FUNNEL, rng)
    watch.start(found(kind))
    draws = draws_of_funnel(rng, 400)
    watch.look(ladder, draws[: N_PLACES - 1], rng)
    assert (watch.depth, ladder.n_beside) == (0.0, 0)
    watch.look(ladder, draws, rng)
    assert watch.depth >= DEEP
    assert watch.settings == ladder.settings == Gist()
    assert ladder.n_beside == N_EVALUATIONS
    # known by now
    watch.look(ladder, draws, rng)
    assert ladder.n_beside == N_EVALUATIONS


@pytest.mark.parametrize("kind", [STRAIGHT, BENT, None])
def test_no_gradients_go_where_there_is_nothing_to_find(kind, rng):
    """Or where the user said how replicas move."""
    draws = draws_of_funnel(rng, 400)
    prepared = None if kind is None else found(kind)
    for watch, start in (
        (NeckWatch(suited), prepared),
        (NeckWatch(lambda depth: Hamiltonian()), found(CURVED)),
    ):
        ladder = ladder_of(FUNNEL, rng)
        watch.start(start)
        watch.look(ladder, draws, rng)
        assert (watch.depth, ladder.n_beside, ladder.settings) == (0.0, 0, Hamiltonian())


def test_a_target_without_necks_keeps_its_moves(rng):
    target = testing.correlated_gaussian()
    base = GaussianBase.from_draws(target.draw(rng, 400), full=True, n_effective=400)
    watch, ladder = NeckWatch(suited), ladder_of(target, rng, base)
    watch.start(found(CURVED))
    for _ in range(2):
        watch.look(ladder, target.draw(rng, 400), rng)
    assert 0.0 < watch.depth < DEEP
    assert (ladder.n_beside, ladder.settings) == (2 * N_EVALUATIONS, Hamiltonian())


def test_what_short_runs_found_is_the_start_and_a_chain_goes_on_with_what_it_knows():
    watch, other = NeckWatch(suited), NeckWatch(suited)
    watch.start(found(CURVED, necks=1.5))
    assert watch.settings == Gist()
    other.set_state(cloudpickle.loads(cloudpickle.dumps(watch.state())))
    assert (other.depth, other.settings) == (1.5, Gist())
    watch.start(None)
    assert (watch.depth, watch.settings) == (0.0, Hamiltonian())


def test_rounds_show_their_draws(rng):
    """Those of each but the last; a chain that goes on moves as it did."""
    shown = []
    watch = SimpleNamespace(look=lambda ladder, positions, rng: shown.append(len(positions)))
    ladder = ladder_of(FUNNEL, rng)
    tuner = RoundTuner(8, 6, BASE, 1, adapt_schedule=True, adapt_base=True, necks=watch)
    lengths = tuner.lengths.tolist()
    while not tuner.finished:
        record = ladder.run(10, rng, adapt=True, keep_positions=True)
        tuner.update(ladder, record, rng)
    assert shown == [10 * n for n in lengths[:-1]]


def test_a_chain_that_met_necks_while_it_was_tuned_is_restored_with_its_moves(funnel_model, rng):
    step, other = (ParallelTempering(model=funnel_model) for _ in range(2))
    step._fits = other._fits = Prepared(BASE, (BASE,), Search((1,), 0, 0, 0, 0.0), kind=CURVED)
    step.setup_chain(rng, 40, 20)
    step.step(funnel_model.initial_point())
    assert step._run.ladder.settings == Hamiltonian()
    # in the model the log variance comes first
    step._necks.look(step._run.ladder, np.roll(draws_of_funnel(rng, 400), 1, axis=1), rng)
    other.setup_chain(rng, 40, 20)
    other.sampling_state = cloudpickle.loads(cloudpickle.dumps(step.sampling_state))
    for each in (step, other):
        assert each._run.ladder.settings == Gist()
        assert each._scans.most_of_move == Gist().most_evaluations(6)


def test_every_draw_records_the_necks_known_by_then(funnel_model, rng, monkeypatch):
    monkeypatch.setattr("pymc_tempering.steps.necks.depth_of_necks", lambda *args: 1.5)
    step = ParallelTempering(model=funnel_model)
    search = Search((1,), 0, 0, 0, 0.0, necks=0.3)
    step._fits = Prepared(BASE, (BASE,), search, kind=CURVED)
    # each chain of a process starts from what short runs found
    for _ in range(2):
        step.setup_chain(rng, 60, 20)
        point, depths = funnel_model.initial_point(), []
        for _ in range(60):
            point, [statistics] = step.step(point)
            depths.append(statistics["search_necks"])
        assert (depths[0], depths[-1]) == (0.3, 1.5)


@pytest.fixture
def funnel_model():
    with pm.Model() as model:
        v = pm.Normal("v", 0.0, 3.0)
        pm.Normal("x", 0.0, pm.math.exp(0.5 * v), shape=5)
    return model
