"""Which reference a chain takes, and for how long it is tuned and sampled."""

from types import SimpleNamespace

import cloudpickle
import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.engine.ensembles.ladder import Ladder
from pymc_tempering.engine.explorers.gist import Gist
from pymc_tempering.engine.explorers.hamiltonian import Hamiltonian
from pymc_tempering.engine.explorers.slice import Slice
from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.errors import OptionError
from pymc_tempering.methods import METHODS
from pymc_tempering.references.coverage import Search
from pymc_tempering.references.funnels import DEEP
from pymc_tempering.references.prepared import GAUSSIAN_FITS, NEARLY_GAUSSIAN, Prepared
from pymc_tempering.results.datatree import label_dimensions, read_statistics
from pymc_tempering.steps.budget import Account
from pymc_tempering.steps.choice import ReferenceChoice
from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.steps.round import Round
from pymc_tempering.steps.run import prepare_step
from pymc_tempering.steps.scan_plan import ScanPlan
from pymc_tempering.steps.scans import (
    CHAIN_ERROR,
    LEAST_SCANS,
    MOST_CHAIN_ERROR,
    MOST_SCANS,
    error_for_its_price,
    scans_for_error,
)
from pymc_tempering.steps.simulated import SimulatedTempering
from pymc_tempering.steps.tuning import RoundTuner

TARGET = testing.asymmetric_bimodal()
RUN = {"chains": 2, "cores": 1, "progressbar": False, "quiet": True,
       "compute_convergence_checks": False}  # fmt: skip


@pytest.fixture(scope="module")
def model():
    return TARGET.model()


@pytest.fixture(scope="module")
def fits():
    """One for each mode, from draws on each side of the middle."""
    z = TARGET.draw(np.random.default_rng(0), 20_000)
    middle = 0.5 * (np.quantile(z[:, 0], 0.02) + np.quantile(z[:, 0], 0.98))
    sides = [z[z[:, 0] < middle], z[z[:, 0] >= middle]]
    return tuple(GaussianBase.from_draws(side, full=True) for side in sides)


def ladder_and_tuner(rule, fits, rng, n=60):
    wide = GaussianBase.from_moments(TARGET.mean, 1.7 * TARGET.cov)
    choice = ReferenceChoice(rule, fits)
    path = TemperedPath.from_base(TARGET, wide).starting_from(choice.mixture_at_start)
    ladder = Ladder(path, np.linspace(0, 1, 6) ** 2, TARGET.start, rng, settings=Hamiltonian())
    tuner = RoundTuner(n, 12, wide, len(fits), adapt_schedule=True, adapt_base=True, choice=choice)
    return ladder, tuner, choice


def tune(ladder, tuner, rng):
    n = 0
    while not tuner.finished:
        record = ladder.run(50, rng, adapt=True, keep_positions=tuner.base_may_change)
        tuner.update(ladder, record, rng)
        n += 1
    return n


def test_the_mixture_takes_over_where_it_covers(fits, rng):
    ladder, tuner, choice = ladder_and_tuner("measured", fits, rng)
    assert ladder.mixture is None
    n = tune(ladder, tuner, rng)
    assert len(ladder.mixture.fits) == 2
    assert choice.rejection < 0.45
    # a rough log Z of the Gaussian's own; |z| > 6, and errors of so few scans are rough, too
    assert abs(choice.log_z_before - TARGET.log_z) < 6 * choice.log_z_se_before + 0.1
    assert choice.counted() > 0
    assert choice.counted() == 0
    # two or three levels, and less tuning than there was room for
    assert ladder.n_levels <= 3
    assert n < 60


def test_draws_of_every_round_but_the_last_are_looked_at(fits, rng, monkeypatch):
    shown = []
    monkeypatch.setattr(ReferenceChoice, "look", lambda *args: shown.append(args[2:]))
    ladder, tuner, _ = ladder_and_tuner("measured", fits, rng)
    tune(ladder, tuner, rng)
    assert len(shown) == len(tuner.lengths) - 1
    for draws, left in shown:
        assert draws.shape[1] == TARGET.dim
        assert left == np.inf
    assert sum(len(draws) for draws, _ in shown) >= tuner.lengths[:-1].sum()


@pytest.mark.statistical
def test_the_gaussian_stays_where_the_mixture_does_not_cover(fits, seed):
    """The last round may have no draws of the other mode: of 60 seeds in eight.

    That four of five have none is a false alarm in one of 700 seeds.
    """
    # two places, and both at the same one of the modes
    beside = GaussianBase(fits[0].mean - 2.0 * fits[0].standard_deviation, fits[0].scale)
    uncovered = []
    for child in np.random.SeedSequence(seed).spawn(5):
        rng = np.random.default_rng(child)
        ladder, tuner, choice = ladder_and_tuner("measured", (fits[0], beside), rng)
        tune(ladder, tuner, rng)
        assert ladder.mixture is None
        uncovered.append(choice.uncovered > 0.1)
    assert sum(uncovered) >= 2


RATES = np.full(4, 0.5)


def some_round(positions, n_restarts):
    n = len(positions)
    wide = Coordinates.of(GaussianBase.from_moments(TARGET.mean, 1.7 * TARGET.cov))
    return Round(wide, positions, np.arange(n, dtype=float), RATES, 1.0, n_restarts, 0.0, 1.0)


def test_arrivals_of_all_rounds_count_until_the_mixture_takes_over(fits, rng):
    ladder, _, choice = ladder_and_tuner("measured", fits, rng)
    z = TARGET.draw(rng, 60)
    for n_before, n, n_restarts in ((0, 20, 3), (20, 60, 5)):
        seen = choice.together(ladder, some_round(z[n_before:n], n_restarts))
        np.testing.assert_array_equal(seen.positions, z[:n])
        assert seen.log_target.shape == (n,)
    assert seen.n_restarts == 3 + 5
    copy = ReferenceChoice("gaussian", ()).set_state(choice.state())
    again = [c.together(ladder, some_round(z[:5], 1)) for c in (choice, copy)]
    np.testing.assert_array_equal(again[0].positions, again[1].positions)
    assert again[1].n_restarts == 9
    ladder.change_mixture(choice.first)
    assert choice.together(ladder, some_round(z[:5], 1)).n_restarts == 1


def test_the_mixture_takes_over_where_the_gaussian_lets_nothing_through(fits, rng):
    """Draws of one mode: three arrivals of some 40 say that no more will come, and seven do not."""
    positions = fits[0].draw(rng, 400)
    target = TARGET.log_density(positions)
    for n_restarts, taken in ((7, False), (3, True)):
        ladder, _, choice = ladder_and_tuner("measured", fits, rng)
        ended = some_round(positions, n_restarts)._replace(log_target=target)
        assert choice.end_of_round(ladder, ended, rng) == taken
        assert (ladder.mixture is not None) == taken
    # nothing that such a path says is a second opinion, of whichever modes its draws are
    both = TARGET.draw(rng, 400)
    ended = some_round(both, 3)._replace(log_target=TARGET.log_density(both))
    ladder, _, choice = ladder_and_tuner("measured", fits, rng)
    assert choice.end_of_round(ladder, ended, rng)
    assert np.isnan(choice.log_z_before)
    # where fits do not cover the draws it stays
    ladder, _, choice = ladder_and_tuner("measured", fits, rng)
    beside = positions + 30.0 * fits[0].standard_deviation
    ended = some_round(beside, 3)._replace(log_target=target)
    assert not choice.end_of_round(ladder, ended, rng)


def test_a_short_round_without_arrivals_is_not_blocked(fits, rng):
    """Twenty have to be expected, of ten for a hundred scans."""
    positions = TARGET.draw(rng, 210)
    assert some_round(positions, 0).is_blocked
    assert not some_round(positions[:190], 0).is_blocked


def with_a_third_mode(fits, rng, n_there):
    """400 draws, some of them of a mode of which nobody knows."""
    there = fits[0].draw(rng, n_there) + 30.0 * fits[0].standard_deviation
    return np.concatenate([TARGET.draw(rng, 400 - n_there), there])


@pytest.mark.parametrize(("n_there", "n_fits"), [(10, 2), (32, 3), (80, 2)])
def test_what_fits_leave_over_has_a_component_from_the_start(n_there, n_fits, fits, rng):
    """A twentieth or more; where it is beyond a tenth the Gaussian stays."""
    ladder, _, choice = ladder_and_tuner("measured", fits, rng)
    ended = some_round(with_a_third_mode(fits, rng, n_there), 60)
    choice._candidate(ladder, ended)
    assert len(choice.first.fits) == n_fits


def test_tuning_may_end_where_fits_clearly_do_not_cover(rng):
    """Ten arrivals are enough for it, of the forty that two fits ask for otherwise."""
    elsewhere = [GaussianBase.from_moments(TARGET.mean + d, 0.1 * TARGET.cov) for d in (8.0, 16.0)]
    whole = GaussianBase.from_moments(TARGET.mean, TARGET.cov)
    for n_restarts, settled in ((9, False), (10, True)):
        ladder, _, choice = ladder_and_tuner("measured", elsewhere, rng)
        # of a Gaussian, which no bent fit covers either
        ended = choice.together(ladder, some_round(whole.draw(rng, 200), n_restarts))
        assert not choice.end_of_round(ladder, ended, rng)
        assert choice.uncovered > 0.9
        assert choice.settled == settled


def test_the_gaussian_comes_back_where_the_mixture_promised_too_much(rng):
    """One fit is where a chain starts, far too narrow here."""
    narrow = GaussianBase.from_moments(TARGET.mean + 2.0, 1e-4 * TARGET.cov)
    ladder, tuner, choice = ladder_and_tuner("measured", (narrow,), rng)
    assert ladder.mixture is not None
    tune(ladder, tuner, rng)
    assert ladder.mixture is None
    assert choice.settled


@pytest.mark.parametrize(("barrier", "stays"), [(0.45, True), (0.55, False)])
def test_a_gaussian_that_seemed_cheap_does_not_come_back_with_twice_the_barrier(
    barrier, stays, fits, rng
):
    """Its cost is low as well where it has not seen all modes."""
    ladder, _, choice = ladder_and_tuner("measured", fits, rng)
    choice.old_cost, choice.old_barrier = 1e-6, 1.0
    ladder.change_mixture(choice.first)
    positions = TARGET.draw(rng, 200)
    ended = some_round(positions, 60)._replace(
        log_target=TARGET.log_density(positions),
        rejection_rates=np.full(4, barrier / 4),
        cost=1.0,
    )
    assert choice.end_of_round(ladder, ended, rng) != stays
    assert (ladder.mixture is not None) == stays


@pytest.mark.parametrize("rule", ["gaussian", "mixture"])
def test_a_rule_is_kept_to(rule, fits, rng):
    ladder, tuner, choice = ladder_and_tuner(rule, fits, rng)
    tune(ladder, tuner, rng)
    assert (ladder.mixture is not None) == (rule == "mixture")
    if rule == "mixture":
        assert ladder.mixture.digest != choice.first.digest


def test_scans_follow_from_the_error():
    assert scans_for_error(np.nan, 100) == MOST_SCANS
    assert scans_for_error(1e-9, 160) == scans_for_error(1e-9, 1000) == LEAST_SCANS
    assert scans_for_error(1e9, 100) == MOST_SCANS
    few, many = scans_for_error(3.0, 400), scans_for_error(3.0, 100)
    assert LEAST_SCANS < few < many < MOST_SCANS
    assert many == pytest.approx(4 * few, abs=4)
    assert scans_for_error(3.0, 100, error=0.02) == MOST_SCANS


def test_a_dear_error_is_a_larger_one():
    """Where a chain's draws would take more than 10,000 gradients, up to 1.25 times as large."""
    variance, scans = 1.0, 1.3 / CHAIN_ERROR**2
    assert error_for_its_price(variance, 1e4 / scans) == pytest.approx(CHAIN_ERROR)
    assert error_for_its_price(variance, 1.2e4 / scans) == pytest.approx(1.2**0.5 * CHAIN_ERROR)
    assert error_for_its_price(variance, 1e9) == MOST_CHAIN_ERROR
    assert error_for_its_price(0.01, 5.0) == CHAIN_ERROR
    for unknown in ((np.nan, 5.0), (variance, np.nan)):
        assert error_for_its_price(*unknown) == CHAIN_ERROR


def test_an_error_that_is_asked_for_is_dear_at_no_price():
    run = SimpleNamespace(
        n_scans=0, n_scans_requested=-1, ladder=SimpleNamespace(n_levels=6),
        choice=SimpleNamespace(n_evaluations=0),
        tuner=SimpleNamespace(finished=True, scan_variance=1.0, scan_cost=100.0),
    )  # fmt: skip
    for error, n_scans in ((None, 4), (0.02, 21)):
        ScanPlan(MOST_SCANS, True, error, 160, Account(), 66).settle(run)
        assert run.n_scans == run.n_scans_requested == n_scans


@pytest.fixture
def step(model, fits):
    """As a run makes it that knows both modes."""
    step = ParallelTempering(model=model)
    pooled = GaussianBase.from_moments(TARGET.mean, TARGET.cov)
    step._fits = Prepared(pooled, tuple(fits), Search((1, 1), 0, 0, 0, 0.0))
    return step


def test_one_known_mode_is_begun_with_half_of_the_levels(step, model, fits, rng):
    """And with a third, where its fit is good and chains start from it."""
    levels = []
    for known, kind in (
        (fits, GAUSSIAN_FITS),
        (fits[:1], NEARLY_GAUSSIAN),
        (fits[:1], GAUSSIAN_FITS),
    ):
        searched = Search((1,) * len(known), 0, 0, 0, 0.0)
        step._fits = Prepared(known[0], tuple(known), searched, kind=kind)
        step.setup_chain(rng, 40, 20)
        levels.append(step._start_chain(model.initial_point()).ladder.n_levels)
    assert levels == [12, 6, 4]


@pytest.mark.parametrize(
    ("funnel_depth", "options", "expected"),
    [
        (DEEP, {}, Gist()),
        (0.99 * DEEP, {}, Hamiltonian()),
        (DEEP, {"explorer": "hamiltonian"}, Hamiltonian()),
        (DEEP, {"max_steps": 32}, Hamiltonian(max_steps=32)),
        (DEEP, {"explorer": "slice"}, Slice()),
    ],
)
def test_a_chain_has_steps_of_local_sizes_where_there_are_necks(
    model, fits, rng, funnel_depth, options, expected
):
    """Unless it was told how to move; a restored one has them too, and the next one anew."""
    step, other = (ParallelTempering(model=model, **options) for _ in range(2))
    step._fits = Prepared(
        fits[0], tuple(fits), Search((1, 1), 0, 0, 0, 0.0, funnel_depth=funnel_depth)
    )
    step.setup_chain(rng, 40, 20)
    point, _ = step.step(model.initial_point())
    other.setup_chain(rng, 40, 20)
    other.sampling_state = cloudpickle.loads(cloudpickle.dumps(step.sampling_state))
    for each in (step, other):
        assert each._run.ladder.settings == expected
        assert each._scans.most_of_move == expected.most_evaluations(step.dim)
    step._fits = Prepared(fits[0], tuple(fits), Search((1, 1), 0, 0, 0, 0.0))
    step.setup_chain(rng, 40, 20)
    assert step._start_chain(point).ladder.settings == step._settings


@pytest.mark.statistical
def test_log_z_and_masses_of_a_default_run(step, model, seed):
    """|error| < 5 se, false alarm 1e-4 with so many effective scans; masses to 0.08."""
    idata = label_dimensions(_sample(step, model, seed))
    estimate = pm_temper.estimate_logz(idata)
    assert abs(estimate.log_z - TARGET.log_z) < 5 * estimate.se
    assert estimate.se < 0.04
    statistics, recorded = idata.sample_stats, read_statistics(idata)
    assert (recorded["n_components"] == 2).all()
    run = np.isfinite(statistics["delta"].isel(level=0)).sum("scan").values
    assert (run == run[:, :1]).all()
    assert (run < MOST_SCANS).all()
    excess = recorded["component_excess"]
    assert np.isnan(excess[..., 3:]).all()
    np.testing.assert_allclose(excess[..., :3].sum(axis=-1), 0.0, atol=1e-9)
    # responsibilities vary less than the numbers of draws, of which they are the expectations
    of_numbers = np.sqrt(0.15 * 0.85 * run.mean())
    assert 0.4 * of_numbers < excess[..., 0].std() < 1.1 * of_numbers
    assert estimate.per_method["with controls"] == estimate.log_z
    x = idata.posterior["x"].values[..., 0]
    exact = TARGET.draw(np.random.default_rng(1), 100_000)[:, 0]
    middle = np.median(exact)
    assert np.mean(x < middle) == pytest.approx(0.5, abs=0.1)


def test_components_that_have_no_room_are_put_together(fits):
    """Of eighteen the last three, as counts and as what they exceed their weights by."""
    numbers = np.arange(18.0)
    record = SimpleNamespace(
        from_component=np.stack([numbers, 2 * numbers]).astype(int), component_excess=numbers
    )
    statistics = ReferenceChoice("mixture", fits).statistics(SimpleNamespace(mixture=None), record)
    stored = [*range(15), 15 + 16 + 17]
    assert statistics["component_arrivals"].tolist() == stored
    assert statistics["component_scans"].tolist() == [2 * n for n in stored]
    assert statistics["component_excess"].tolist() == stored


def _sample(step, model, seed, **options):
    return pm.sample(
        **({"draws": 160, "tune": 130, "step": step, "model": model, "random_seed": seed} | RUN
           | options)
    )  # fmt: skip


def test_an_error_that_is_asked_for_is_what_chains_aim_at(step, model, monkeypatch):
    monkeypatch.setattr("pymc_tempering.steps.run.build_step", lambda *arguments: step)
    run = {"draws": 10, "tune": 10, "chains": 4, "cores": 1, "progressbar": False}
    prepare_step(METHODS["pt"], model, {}, run)
    assert step.chain_error is None
    prepare_step(METHODS["pt"], model, {}, run | {"target_se": 0.003})
    assert step.chain_error == pytest.approx(0.006)


def by_hand(step, point, first, last, seed=None):
    """Statistics and draws of steps, 40 of them tuning, and the last point."""
    if first == 0:
        step.setup_chain(np.random.default_rng(seed), 40, 20)
    rows = []
    for i in range(first, last):
        if i == 40:
            step.stop_tuning()
        point, (statistics,) = step.step(point)
        statistics.pop("perf_counter_diff")
        values = (*point.values(), *statistics.values())
        rows.append(np.concatenate([np.ravel(v) for v in values]))
    return np.array(rows, dtype=float), point


@pytest.mark.parametrize("stop", [25, 45])
def test_a_stored_state_goes_on_alike(stop, step, model, seed):
    """From the mixture, while it is tuned and after; the draws that are missing are known, too."""
    other = cloudpickle.loads(cloudpickle.dumps(step))
    whole, _ = by_hand(step, model.initial_point(), 0, 60, seed)
    start, point = by_hand(other, model.initial_point(), 0, stop, seed)
    np.testing.assert_array_equal(start, whole[:stop])
    assert step._run.ladder.mixture is not None
    last = ParallelTempering(model=model)
    last.sampling_state = cloudpickle.loads(cloudpickle.dumps(other.sampling_state))
    rest, _ = by_hand(last, point, stop, 60)
    np.testing.assert_array_equal(rest, whole[stop:])


def test_other_steps_say_what_they_take(model):
    with pytest.raises(OptionError, match="'mixture'"):
        SimulatedTempering(model=model, base="mixture")
