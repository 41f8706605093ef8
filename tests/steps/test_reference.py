"""Which reference a chain starts from and goes on with, and the runs that follow from it."""

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
from pymc_tempering.engine.path.orbit import Orbit
from pymc_tempering.engine.path.tempered import TemperedPath
from pymc_tempering.errors import OptionError
from pymc_tempering.estimators.bar import bar_ladder
from pymc_tempering.methods import METHODS
from pymc_tempering.references.local_runs import DEEP
from pymc_tempering.references.map_of_draws import map_of_draws
from pymc_tempering.references.mixture import swap_rejection
from pymc_tempering.references.prepared import NO_SEARCH, Prepared, Search
from pymc_tempering.references.quality import COARSE, variance_of_barrier, variance_of_rejection
from pymc_tempering.results.datatree import label_dimensions, read_statistics
from pymc_tempering.steps.budget import CHAIN_ERROR, MOST_SCANS
from pymc_tempering.steps.common import Found
from pymc_tempering.steps.ladder_run import components
from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.steps.reference import ReferenceChoice
from pymc_tempering.steps.round import Round, predicted_moves
from pymc_tempering.steps.run import prepare_step
from pymc_tempering.steps.simulated import SimulatedTempering
from pymc_tempering.steps.tuning import Tuner
from tests.steps.test_parallel import by_hand

TARGET = testing.asymmetric_bimodal()
WIDE = GaussianBase.from_moments(TARGET.mean, 1.7 * TARGET.cov)
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


def choice_of(fits, shapes=(), *, uses_fits=True, fixed=False, **known):
    """Choice of a chain whose search found these."""
    found = Prepared(fits[0], tuple(fits), NO_SEARCH, shapes=tuple(shapes), **known)
    return ReferenceChoice(found, uses_fits=uses_fits, fixed=fixed)


def chain(choice, rng, target=TARGET, wide=WIDE, pooled=WIDE, n_modes=2):
    """Tuner of a chain with this choice, before its first round."""
    path = TemperedPath.from_base(target, wide).starting_from(choice.at_start)
    betas = np.linspace(0, 1, 6) ** 2 if path.mixture is None else np.linspace(0, 1, 3)
    ladder = Ladder(path, betas, target.start, rng, settings=Hamiltonian())
    return Tuner(ladder, 60, pooled, n_modes, choice, max_levels=12)


def tune(tuner, rng):
    """Number of blocks that tuning took, of 60."""
    n = 0
    while not tuner.finished:
        tuner.run(50, rng)
        n += 1
    return n


def ended(positions, n_restarts, *, target=TARGET, wide=WIDE, barrier=2.0, n_tuned=1000):
    """A round with these draws of the target, or of another density."""
    return Round(Coordinates.of(wide), positions, target.log_density(positions),
                 np.full(4, barrier / 4), n_restarts, n_tuned, target.log_z, 0.01)  # fmt: skip


# The prediction


@pytest.mark.statistical
@pytest.mark.parametrize("variance", [0.2, 1.0, 4.0, 10.0])
def test_moves_are_predicted_from_v(variance, rng):
    """Independent draws of normal log weights, N(V (beta - 1/2), V) at beta, and their BAR.

    The error of 400 estimates is known to 4 %; Bennett's ratio is a little better than predicted.
    """
    barrier = np.sqrt(variance / np.pi)
    n = max(int(np.ceil(2.0 * barrier)), 1)
    betas = np.linspace(0.0, 1.0, n + 1)
    means, found = variance * (betas - 0.5), []
    for _ in range(400):
        delta = rng.normal(means, np.sqrt(variance), (100, n + 1))
        found.append(bar_ladder(delta, betas).log_z[-1])
    measured = n * 100 * np.var(found) / CHAIN_ERROR**2
    predicted = n * variance * (n - 0.5) / n**2 / CHAIN_ERROR**2
    assert measured == pytest.approx(predicted, rel=0.25)
    if variance >= 4.0:  # with less, the fewest scans that a chain has are more
        assert predicted_moves(variance) == pytest.approx(predicted)
    # both ends of such a path say what V is
    a, b = rng.normal([-0.5 * variance, 0.5 * variance], np.sqrt(variance), (3000, 2)).T
    assert variance_of_rejection(swap_rejection(a, b)) == pytest.approx(variance, rel=0.15)


def test_predictions_grow_with_v_and_tuning():
    moves = [predicted_moves(v) for v in (1e-4, 0.1, 1.0, 4.0, 20.0)]
    assert moves == sorted(moves)
    assert moves[0] == moves[1]  # scans that any chain has
    assert predicted_moves(np.inf) == np.inf
    assert predicted_moves(4.0, n_tuned=100) > moves[3]
    assert predicted_moves(0.1, least_levels=3) == 2 * moves[1]


# Several modes


def test_the_mixture_takes_over_where_it_covers(fits, rng):
    choice = choice_of(fits)
    tuner = chain(choice, rng)
    assert tuner.ladder.mixture is None
    n = tune(tuner, rng)
    assert len(tuner.ladder.mixture.fits) == 2
    # a rough log Z of the Gaussian's own; |z| > 6, and errors of so few scans are rough, too
    log_z, se = choice.second_opinion
    assert abs(log_z - TARGET.log_z) < 6 * se + 0.1
    assert choice.counted() > 0
    assert choice.counted() == 0
    # two or three levels, and less tuning than there was room for
    assert tuner.ladder.n_levels <= 3
    assert n < 60


def test_draws_of_every_round_but_the_last_are_looked_at(fits, rng, monkeypatch):
    shown = []
    monkeypatch.setattr(ReferenceChoice, "look", lambda *args: shown.append(args[2:]))
    tuner = chain(choice_of(fits), rng)
    tune(tuner, rng)
    assert len(shown) == len(tuner.lengths) - 1
    for draws, left in shown:
        assert draws.shape[1] == TARGET.dim
        assert left == np.inf
    assert sum(len(draws) for draws, _ in shown) >= tuner.lengths[:-1].sum()


@pytest.mark.parametrize(("new", "barrier"), [(0.2, 0.1), (0.4, 0.6)])
def test_a_mixture_of_draws_has_to_be_better_by_the_same_draws(new, barrier, rng, monkeypatch):
    """V .3 of the one in use, of which swaps of a round say .03 or 1.1 by chance."""
    exchanged = Orbit(np.array([[0, 1], [1, 0]]), np.empty((0, 2)))
    target, fit = testing.scaled_normal(dim=2), GaussianBase(np.zeros(2), np.full(2, 0.5))
    choice = choice_of((fit,), orbit=exchanged)
    ladder = chain(choice, rng, target, fit, fit, 1).ladder
    monkeypatch.setattr(choice, "_on_trial", lambda path, *_: 0.3 if path is ladder.path else new)
    round_ = ended(target.draw(rng, 60), 15, target=target, wide=fit, barrier=barrier)
    found = choice._better_of_draws(ladder, round_, rng)
    assert (found is not None) is (new < 0.3)
    assert choice.n_in_use == (0 if found is None else len(found.fits))


def test_the_gaussian_stays_where_the_mixture_does_not_cover(fits, rng):
    """Two places, and both at the same one of the modes."""
    beside = GaussianBase(fits[0].mean - 2.0 * fits[0].standard_deviation, fits[0].scale)
    tuner = chain(choice_of((fits[0], beside)), rng)
    tune(tuner, rng)
    assert tuner.ladder.mixture is None


def test_arrivals_of_several_rounds_count(fits, rng):
    """Eight for two fits, of five and five; also for a chain that goes on in between."""
    choice = choice_of(fits)
    ladder = chain(choice, rng).ladder
    for n_restarts, taken in ((6, False), (5, False), (9, True)):
        choice = ReferenceChoice.restored(choice.state())
        assert choice.end_of_round(ladder, ended(TARGET.draw(rng, 200), n_restarts), rng) == taken
    assert ladder.mixture is not None


def test_the_mixture_takes_over_where_the_gaussian_lets_nothing_through(fits, rng):
    """Draws of one mode: three arrivals of some 40 say that no more will come, and seven do not."""
    positions = fits[0].draw(rng, 400)
    for n_restarts, taken in ((7, False), (3, True)):
        choice = choice_of(fits)
        ladder = chain(choice, rng).ladder
        assert choice.end_of_round(ladder, ended(positions, n_restarts), rng) == taken
        assert (ladder.mixture is not None) == taken
    # nothing that such a path says is a second opinion, of whichever modes its draws are
    choice = choice_of(fits)
    assert choice.end_of_round(chain(choice, rng).ladder, ended(TARGET.draw(rng, 400), 3), rng)
    assert np.isnan(choice.second_opinion).all()
    # where fits do not cover the draws it stays
    choice = choice_of(fits)
    beside = ended(positions + 30.0 * fits[0].standard_deviation, 3)
    assert not choice.end_of_round(chain(choice, rng).ladder, beside, rng)


def test_a_short_round_without_arrivals_is_not_blocked(rng):
    """Twenty have to be expected, of ten for a hundred scans."""
    positions = TARGET.draw(rng, 210)
    assert ended(positions, 0).is_blocked
    assert not ended(positions[:190], 0).is_blocked


@pytest.mark.parametrize(("n_there", "n_fits"), [(10, 2), (32, 3), (80, 2)])
def test_what_fits_leave_uncovered_has_a_component_from_the_start(n_there, n_fits, fits, rng):
    """A twentieth or more; where it is beyond a tenth the Gaussian stays."""
    there = fits[0].draw(rng, n_there) + 30.0 * fits[0].standard_deviation
    choice = choice_of(fits)
    draws = np.concatenate([TARGET.draw(rng, 400 - n_there), there])
    choice.end_of_round(chain(choice, rng).ladder, ended(draws, 60), rng)
    assert len(choice.first.fits) == n_fits


def test_tuning_may_end_where_fits_do_not_cover(rng):
    """Ten arrivals are enough for it, of the twenty that two fits need otherwise."""
    elsewhere = [GaussianBase.from_moments(TARGET.mean + d, 0.1 * TARGET.cov) for d in (8.0, 16.0)]
    whole = GaussianBase.from_moments(TARGET.mean, TARGET.cov)
    for n_restarts, settled in ((9, False), (10, True)):
        choice = choice_of(elsewhere)
        # of a Gaussian, which no map fits better
        last = ended(whole.draw(rng, 200), n_restarts)
        assert not choice.end_of_round(chain(choice, rng).ladder, last, rng)
        assert choice.settled == settled


def test_the_gaussian_comes_back_where_the_mixture_promised_too_much(rng):
    """One fit is where a chain starts, far too narrow here."""
    narrow = GaussianBase.from_moments(TARGET.mean + 2.0, 1e-4 * TARGET.cov)
    choice = choice_of((narrow,))
    tuner = chain(choice, rng)
    assert tuner.ladder.mixture is not None
    tune(tuner, rng)
    assert tuner.ladder.mixture is None
    assert choice.settled


@pytest.mark.parametrize(("barrier", "before", "stays"), [
    (0.45, 1.0, True), (0.75, 1.0, True), (0.75, 0.45, False), (0.85, 4.0, False),
    (0.85, np.inf, True),
])  # fmt: skip
def test_the_mixture_goes_where_the_gaussian_would_take_less(barrier, before, stays, fits, rng):
    """Or where it is beyond COARSE: several fits that are so poor are pieces of a mode.

    But not for a Gaussian to which no swap leads.
    """
    choice = choice_of(fits)
    ladder = chain(choice, rng).ladder
    choice.gaussian_variance = variance_of_barrier(before)
    ladder.change_mixture(choice.first)
    last = ended(TARGET.draw(rng, 200), 60, barrier=barrier, n_tuned=0)
    assert choice.end_of_round(ladder, last, rng) != stays
    assert (ladder.mixture is not None) == stays


@pytest.mark.parametrize(("apart", "one_holds_all", "before", "stays"), [
    (0.0, False, 4.0, True), (5.0, False, 4.0, False), (0.0, False, 0.6, False),
    (5.0, True, 4.0, True), (5.0, True, 0.6, False),
])  # fmt: skip
def test_the_fit_of_one_place_stays_though_it_is_coarse(apart, one_holds_all, before, stays, rng):
    """Or the one that holds all. It is no piece of a mode, but goes where the Gaussian is less."""
    fits = [GaussianBase.from_moments(TARGET.mean + off, TARGET.cov) for off in {0.0, apart}]
    choice = choice_of(fits, one_holds_all=one_holds_all)
    assert (choice.at_start is not None) == (apart == 0.0 or one_holds_all)
    ladder = chain(choice, rng).ladder
    choice.gaussian_variance = variance_of_barrier(before)
    ladder.change_mixture(choice.first)
    last = ended(TARGET.draw(rng, 200), 60, barrier=0.85, n_tuned=0)
    choice.end_of_round(ladder, last, rng)
    assert (ladder.mixture is not None) == stays


@pytest.mark.parametrize("fixed", [False, True])
def test_a_reference_that_was_given_stays(fixed, fits, rng):
    choice = choice_of(fits, uses_fits=fixed, fixed=fixed)
    tuner = chain(choice, rng)
    tune(tuner, rng)
    assert (tuner.ladder.mixture is not None) == fixed
    if fixed:
        assert tuner.ladder.mixture.digest != choice.at_start.digest


def test_components_that_have_no_room_are_put_together():
    """Of eighteen the last three, as counts and as what they exceed their weights by."""
    numbers = np.arange(18.0)
    record = SimpleNamespace(
        from_component=np.stack([numbers, 2 * numbers]).astype(int), component_excess=numbers
    )
    statistics = components(record)
    stored = [*range(15), 15 + 16 + 17]
    assert statistics["component_arrivals"].tolist() == stored
    assert statistics["component_scans"].tolist() == [2 * n for n in stored]
    assert statistics["component_excess"].tolist() == stored


# One mode that is no Gaussian

BANANA = testing.banana(bend=1.5)
# in the valley, where the mean is not
_DRAWS = BANANA.draw(np.random.default_rng(0), 200)
FIT = GaussianBase.from_moments(_DRAWS[BANANA.log_density(_DRAWS).argmax()], BANANA.cov, -1.0)
ROUND_IT = GaussianBase(BANANA.mean, 1.2 * FIT.scale)


@pytest.fixture(scope="module")
def shape():
    return map_of_draws(BANANA.draw(np.random.default_rng(0), 1000), 1000.0)


def banana_chain(choice, rng):
    return chain(choice, rng, BANANA, ROUND_IT, FIT, 1)


def of_banana(rng, n=400, n_restarts=40, draws=None, **options):
    z = BANANA.draw(rng, n) if draws is None else draws
    return ended(z, n_restarts, target=BANANA, wide=ROUND_IT, **options)


@pytest.mark.statistical
def test_draws_of_the_gaussian_give_a_map_and_log_z_is_right(rng):
    """|error| < 5 se, of .007 to .05 over seeds, from 40 blocks of 100 scans: once in 10,000.

    Of 30 chains 29 find one, and the others stay with the Gaussian: three in a row once in 27,000.
    """
    for _ in range(3):
        tuner = banana_chain(choice_of((FIT,), needs_levels=True), rng)
        assert tuner.ladder.mixture is None
        n = tune(tuner, rng)
        if tuner.ladder.mixture is not None:
            break
    ladder = tuner.ladder
    assert ladder.mixture.has_map
    assert ladder.n_levels <= 4
    assert n < 60
    found = [bar_ladder(ladder.run(100, rng).delta, ladder.betas).log_z[-1] for _ in range(40)]
    error = np.std(found, ddof=1) / np.sqrt(40)
    assert error < 0.1
    assert abs(np.mean(found) - BANANA.log_z) < 5.0 * error


def test_a_map_of_the_search_is_the_reference_from_the_start(shape, rng):
    choice = choice_of((FIT,), (shape,))
    tuner = banana_chain(choice, rng)
    assert tuner.ladder.mixture is choice.first
    tune(tuner, rng)
    assert tuner.ladder.mixture.fits == (shape,)
    assert tuner.ladder.n_levels <= 3


@pytest.mark.parametrize(("n", "is_new"), [(120, False), (900, True)])
def test_few_draws_leave_a_map_as_it_is(n, is_new, rng):
    choice = choice_of((FIT,), needs_levels=True)
    ladder = banana_chain(choice, rng).ladder
    assert choice.end_of_round(ladder, of_banana(rng), rng)
    before = ladder.mixture.digest
    last = of_banana(rng, n, n // 4, barrier=0.3)
    assert not choice.end_of_round(ladder, last, rng)
    assert (ladder.mixture.digest != before) == is_new


def test_one_map_takes_the_place_of_pieces_of_a_valley(rng):
    """And not of a fit that is elsewhere."""
    z = BANANA.draw(rng, 800)
    at = np.quantile(z[:, 0], [0.1, 0.5, 0.9])
    pieces = [
        GaussianBase(z[np.abs(z[:, 0] - x).argmin()], np.full(2, 0.1), -3.0 - k)
        for k, x in enumerate(at)
    ]
    choice = choice_of(pieces)
    ladder = banana_chain(choice, rng).ladder
    assert choice.end_of_round(ladder, of_banana(rng, draws=z), rng)
    assert len(ladder.mixture.fits) == 1
    assert ladder.mixture.has_map
    elsewhere = [*pieces, GaussianBase(BANANA.mean + 200.0, np.full(2, 0.1), -3.0)]
    choice = choice_of(elsewhere)
    ladder = banana_chain(choice, rng).ladder
    choice.end_of_round(ladder, of_banana(rng, draws=z), rng)
    assert ladder.mixture is None or len(ladder.mixture.fits) > 1


def test_a_chain_returns_to_the_gaussian_and_maps_again_but_not_for_ever(shape, rng):
    choice = choice_of((FIT,), (shape,))
    ladder = banana_chain(choice, rng).ladder
    for n_returns in (1, 2, 3):
        assert ladder.mixture is not None
        assert choice.end_of_round(ladder, of_banana(rng, barrier=9.0), rng)
        assert ladder.mixture is None
        assert choice.n_returns == n_returns
        if n_returns < 3:
            assert not choice.settled
            assert choice.end_of_round(ladder, of_banana(rng, barrier=3.0), rng)
    assert choice.settled
    assert choice.first is None


def test_a_map_that_needs_levels_stays_while_the_gaussian_would_need_more(shape, rng):
    """That of the Gaussian, which was never in use, is found by a trial: about 2 here."""
    for barrier, stays in ((0.7, True), (1.2, True), (9.0, False)):
        choice = choice_of((FIT,), (shape,), needs_levels=True)
        ladder = banana_chain(choice, rng).ladder
        choice.end_of_round(ladder, of_banana(rng, barrier=barrier), rng)
        assert (ladder.mixture is not None) == stays
        assert np.isfinite(choice.gaussian_variance) == (variance_of_barrier(barrier) > COARSE)


def test_a_gaussian_that_lacks_a_mode_has_no_second_opinion(fits, rng):
    for draws, has_one in ((TARGET.draw(rng, 400), True), (fits[0].draw(rng, 400), False)):
        choice = choice_of(fits)
        assert choice.end_of_round(chain(choice, rng).ladder, ended(draws, 60, barrier=4.0), rng)
        assert np.isfinite(choice.second_opinion).all() == has_one


# Whole chains


@pytest.fixture
def step(model, fits):
    """As a run makes it that knows both modes."""
    step = ParallelTempering(model=model)
    pooled = GaussianBase.from_moments(TARGET.mean, TARGET.cov)
    step._found = Found(Prepared(pooled, tuple(fits), Search((1, 1))))
    return step


def test_one_known_mode_is_begun_with_half_of_the_levels(step, model, fits, rng):
    """And with a third, where its fit is good and chains start from it."""
    levels = []
    for known, needs_levels in ((fits, False), (fits[:1], True), (fits[:1], False)):
        searched = Search((1,) * len(known))
        step._found = Found(Prepared(known[0], tuple(known), searched, needs_levels=needs_levels))
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
def test_a_chain_has_steps_of_local_sizes_where_there_are_funnels(
    model, fits, rng, funnel_depth, options, expected
):
    """Unless it was told how to move; a restored one has them too, and the next one anew."""
    step, other = (ParallelTempering(model=model, **options) for _ in range(2))
    step._found = Found(Prepared(fits[0], tuple(fits), Search((1, 1), funnel_depth=funnel_depth)))
    step.setup_chain(rng, 40, 20)
    point, _ = step.step(model.initial_point())
    other.setup_chain(rng, 40, 20)
    other.sampling_state = cloudpickle.loads(cloudpickle.dumps(step.sampling_state))
    for each in (step, other):
        assert each._run.ladder.settings == expected
        assert each._scans.most_of_move == expected.most_evaluations(step.dim)
    step._found = Found(Prepared(fits[0], tuple(fits), Search((1, 1))))
    step.setup_chain(rng, 40, 20)
    assert step._start_chain(point).ladder.settings == step._source.explorer


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


@pytest.mark.parametrize("stop", [25, 45])
def test_a_stored_state_goes_on_alike(stop, step, model, seed):
    """From the mixture, while it is tuned and after; the draws that are missing are known, too."""
    other = cloudpickle.loads(cloudpickle.dumps(step))
    whole, _ = by_hand(step, model, seed, 60, 40)
    start, point = by_hand(other, model, seed, 60, 40, until=stop)
    np.testing.assert_array_equal(start, whole[:stop])
    assert step._run.ladder.mixture is not None
    last = ParallelTempering(model=model)
    last.sampling_state = cloudpickle.loads(cloudpickle.dumps(other.sampling_state))
    rest, _ = by_hand(last, model, None, 60, 40, start=stop, point=point)
    np.testing.assert_array_equal(rest, whole[stop:])


def test_other_steps_say_what_they_take(model):
    with pytest.raises(OptionError, match="'mixture'"):
        SimulatedTempering(model=model, base="mixture")
