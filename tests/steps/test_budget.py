"""Runs within a number of gradients: never more, the same everywhere, and what they say of it."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import pymc_tempering as pm_temper
from pymc_tempering import testing
from pymc_tempering.engine.explorers.gibbs import GibbsHamiltonian, GibbsSlice
from pymc_tempering.errors import DataError, OptionError
from pymc_tempering.methods import resolve_method
from pymc_tempering.steps.budget import Account, Budget
from pymc_tempering.steps.parallel import ParallelTempering
from pymc_tempering.steps.run import check_budget
from tests.black_box import Quadratic, black_box
from tests.steps.ising import ising
from tests.steps.test_parallel import by_hand

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1}
RUN = QUIET | {"chains": 2, "random_seed": 5}
LITTLE = 20_000
"""Hardly more than two chains cannot do without."""
SHORT = RUN | {"max_gradients": LITTLE, "target_se": 1e-3, "draws": 200}

pytestmark = pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")


@pytest.fixture(scope="module")
def model():
    return testing.asymmetric_bimodal().model()


@pytest.fixture(scope="module")
def short(model):
    """An estimate that had too few gradients."""
    return pm_temper.estimate_logz(model, **SHORT)


def limit(estimate):
    return [w for w in estimate.warnings if w.code == "interrupted"]


@pytest.mark.parametrize(
    "options", [pytest.param({"target_se": 1e-7}, marks=pytest.mark.slow), {"scans_per_draw": 20}]
)
def test_the_density_is_not_called_more_often(options):
    """Counted by the density itself, which compiling and checks call some 270 times.

    Of these 208 look for rounding noise at sixteen of the draws.
    """
    calls = []
    model = black_box(calls.append)
    estimate = pm_temper.estimate_logz(model, max_gradients=LITTLE, draws=600, **(RUN | options))
    (diagnostic,) = limit(estimate)
    spent = diagnostic.measured["max_gradients"]["gradients"]
    assert 0.7 * LITTLE < spent <= LITTLE
    assert spent <= len(calls) < spent + 310
    assert estimate.gradients["search"] < 0.3 * LITTLE


def test_what_was_not_reached_is_said(short):
    (diagnostic,) = limit(short)
    spent = sum(short.gradients.values())
    assert spent <= LITTLE
    assert diagnostic.measured["max_gradients"]["max_gradients"] == LITTLE
    assert diagnostic.measured["max_gradients"]["gradients"] == spent
    assert diagnostic.measured["max_gradients"]["log_marginal_likelihood_se"] == short.se
    assert diagnostic.text.startswith(
        f"{spent:,} gradients, of the 20,000 that were allowed, were "
    )
    assert "Raise `max_gradients`; about " in diagnostic.remedy
    stats = short.idata["sample_stats"]
    scans = stats["delta"].isel(level=0).notnull().sum("scan")
    assert (stats["tuned"].sel(tuned_entry="scans_requested") > scans.mean("draw")).all()
    # it stays with the run
    assert limit(pm_temper.estimate_logz(short.idata)) == [diagnostic]


def test_processes_make_no_difference(model, short):
    several = pm_temper.estimate_logz(model, **(SHORT | {"cores": 2, "mp_ctx": "fork"}))
    assert several.log_z == short.log_z
    np.testing.assert_array_equal(several.idata["posterior"]["x"], short.idata["posterior"]["x"])


def test_what_is_enough_changes_nothing(model):
    limited, free = (
        pm_temper.estimate_logz(model, max_gradients=most, search="none", **RUN)
        for most in (600_000, None)
    )
    assert limited == free
    np.testing.assert_array_equal(limited.idata["posterior"]["x"], free.idata["posterior"]["x"])
    assert limited.gradients == free.gradients


@pytest.mark.parametrize("method", ["st", "gibbs_ct"])
def test_methods_of_two_replicas_make_fewer_draws(model, method):
    most = 60_000
    estimate = pm_temper.estimate_logz(model, method=method, max_gradients=most, draws=300, **RUN)
    n_draws = estimate.idata["posterior"].sizes["draw"]
    assert 1 < n_draws < 300
    assert np.isfinite(estimate.idata["sample_stats"]["delta"]).all()
    assert most / 2 < sum(estimate.gradients.values()) <= most
    (diagnostic,) = limit(estimate)
    assert f"{n_draws} of 300 draws of each chain" in diagnostic.text
    assert list(diagnostic.measured) == ["max_gradients"]


@pytest.mark.slow
def test_chains_that_are_added_count_too(model):
    most = 60_000
    estimate = pm_temper.estimate_logz(
        model, max_gradients=most, target_se=1e-4, draws=40, scans_per_draw=8, search="none", **RUN
    )
    assert estimate.per_chain.size > 2
    assert sum(estimate.gradients.values()) <= most
    (diagnostic,) = limit(estimate)
    assert f"{estimate.per_chain.size} chains, and no more" in diagnostic.text
    assert "target_se_not_reached" not in [w.code for w in estimate.warnings]


def test_sample_takes_it_and_a_store_asks_for_the_same(model, tmp_path):
    options = {"max_gradients": LITTLE, "draws": 20, "search": "none"} | RUN
    first = pm_temper.sample(model, resume=tmp_path / "run", **options)
    spent = ("search_gradients", "tuning_gradients", "draws_gradients")
    search, tuning, draws = (first["tempering"][name].values for name in spent)
    assert search[0] + tuning.sum() + draws.sum() <= LITTLE
    assert first["posterior"].sizes["draw"] == 20
    with pytest.raises(DataError, match="max_gradients is 30000, was 20000"):
        pm_temper.sample(model, resume=tmp_path / "run", **(options | {"max_gradients": 30_000}))


@pytest.mark.parametrize("stop", [3, 12, 18])
def test_stored_states_continue_with_identical_draws(model, stop, seed):
    """In tuning, where tuning has ended early, and among draws that use the rest up."""

    def build():
        with model:
            step = ParallelTempering(n_levels=10, search="none", scans_per_draw=6)
        step.share_of_chain = 4_000
        return step

    whole, _ = by_hand(build(), model, seed, 24, 16)
    first = build()
    _, point = by_hand(first, model, seed, stop, 16)
    second = build()
    second.sampling_state = first.sampling_state
    second._current.account.share = second.share_of_chain
    rest, _ = by_hand(second, model, None, 24, 16, start=stop, point=point)
    np.testing.assert_array_equal(rest, whole[stop:])


def test_refusals(model, short):
    for options, said in (
        ({"method": "joint_ct"}, "not available for joint_ct; pt, gibbs_ct, st take it"),
        ({"method": "hais"}, "not available for hais"),
        ({"max_gradients": 0}, "`max_gradients` is 0"),
        ({"max_gradients": 1.5}, "`max_gradients` is 1.5"),
        ({"max_gradients": 1000}, r"`max_gradients` is 1,000; expected 37,\d+ at least, since"),
    ):
        with pytest.raises(OptionError, match=said):
            pm_temper.estimate_logz(model, **({"max_gradients": 50_000} | QUIET | options))
        with pytest.raises(OptionError, match=said):
            pm_temper.sample(model, **({"max_gradients": 50_000} | QUIET | options))
    with pytest.raises(OptionError, match="`max_gradients` is 9, and the first argument is a sto"):
        pm_temper.estimate_logz(short.idata, max_gradients=9)


def test_the_least_is_what_works(model):
    """The refusal names a number, and that number is not refused."""
    with pytest.raises(OptionError) as error:
        pm_temper.sample(model, max_gradients=1000, **RUN)
    least = int(str(error.value).split("expected ")[1].split(" at")[0].replace(",", ""))
    run = pm_temper.sample(model, max_gradients=least, draws=10, **RUN)
    assert run["posterior"].sizes["draw"] == 10


def with_a_count(called):
    """Model with two discrete entries and a continuous one, which says when it is evaluated."""
    with pm.Model() as model:
        up = pm.Bernoulli("up", [0.3, 0.8])
        level = pm.Normal("level", 0.5, 2.0)
        pm.Potential("p", Quadratic(called)(pt.stack([level + up[0], 3.0 * up[1]])))
    return model


@pytest.mark.parametrize("explorer", [pytest.param("slice", marks=pytest.mark.slow), "hamiltonian"])
def test_gibbs_sweeps_are_counted_too(explorer):
    calls = []
    # a draw of 20 scans may take 64 gradients in each, at every level but the first
    most = LITTLE if explorer == "slice" else 3 * LITTLE
    options = {"max_gradients": most, "draws": 600, "scans_per_draw": 20, "explorer": explorer}
    estimate = pm_temper.estimate_logz(with_a_count(calls.append), **(RUN | options))
    (diagnostic,) = limit(estimate)
    spent = diagnostic.measured["max_gradients"]["gradients"]
    assert 0.7 * most < spent <= most
    # less the draws that one chain made more than the other
    assert 0.9 * spent < sum(estimate.gradients.values()) <= spent
    assert spent <= len(calls) < spent + 100
    assert estimate.gradients["search"] == 0


def test_a_budget_that_leaves_no_draw_is_said_so():
    options = {"max_gradients": LITTLE, "draws": 600, "scans_per_draw": 400}
    with pytest.raises(OptionError, match="used up before the first draw"):
        pm_temper.sample(with_a_count(lambda _: None), explorer="hamiltonian", **(RUN | options))


def test_the_longest_sweep():
    supports = ((0, -1, 5), (2, 0, 2))
    assert GibbsSlice(supports=supports, n_updates=7).most_evaluations(5) == 5 + 3 * 12
    assert GibbsSlice(supports=supports).most_evaluations(2) == 5
    assert GibbsHamiltonian(supports=supports, max_steps=8).most_evaluations(5) == 5 + 8 + 2


def test_the_least_for_discrete_variables():
    """No part is kept back for a search, which a path from the prior does not need."""
    with pytest.raises(OptionError) as error:
        pm_temper.sample(ising(), max_gradients=10, **RUN)
    least = int(str(error.value).split("expected ")[1].split(" at")[0].replace(",", ""))
    with pytest.raises(OptionError, match=f"expected {least:,} at least"):
        pm_temper.sample(ising(), max_gradients=least - 1, **RUN)
    run = pm_temper.sample(ising(), max_gradients=least, draws=10, **RUN)
    assert run["posterior"].sizes["draw"] == 10
    limited, free = (
        pm_temper.sample(ising(), draws=10, **RUN, **options)
        for options in ({"max_gradients": 10**6}, {})
    )
    np.testing.assert_array_equal(limited["posterior"]["up"], free["posterior"]["up"])


def test_the_plan_of_sweeps_names_the_limit(capsys):
    run = {"draws": 5, "tune": 5, "chains": 1, "cores": 1, "random_seed": 1}
    pm_temper.sample(ising(), max_gradients=20_000, **run)
    assert "No more than 20,000 evaluations (`max_gradients`)." in capsys.readouterr().out
    pm_temper.sample(ising(), **run)
    assert "No more than" not in capsys.readouterr().out


def test_step_methods_of_pymc_have_no_bound():
    with pytest.raises(OptionError, match=r"not available for BinaryGibbsMetropolis \(up\)"):
        pm_temper.sample(ising(), explorer="pymc", max_gradients=50_000, **RUN)


def test_a_search_that_took_more_than_its_part():
    budget = Budget(10_000)
    budget.check(2, 3_000)
    budget.n_spent = 5_000
    with pytest.raises(OptionError, match="search for modes took 5,000; expected 11,000 at least"):
        budget.check(2, 3_000)


def test_further_chains_cost_what_those_before_did():
    budget = Budget(10_000)
    budget.check(2, 1_000)
    budget.spend(4_000, 2)
    assert budget.more_chains(2) == 2
    assert not budget.refused_chains
    assert budget.more_chains(5) == 3
    assert budget.refused_chains


def test_what_cannot_be_afforded_is_not_begun():
    account = Account(1_000)
    account.n_spent = 400
    assert account.fitting(10, 100) == 6
    assert account.fitting(10, 100, reserve=450) == 1
    account.n_spent = 2_000
    assert account.fitting(10, 100) == 0


def test_millions_may_be_written_with_an_exponent():
    budget = check_budget(resolve_method("pt"), 2e6)
    assert budget.most == 2_000_000
    for wrong in (2.5, np.inf, 0.0):
        with pytest.raises(OptionError, match="a whole number of at least 1"):
            check_budget(resolve_method("pt"), wrong)
