"""Evidence that a mode is missing: each piece by itself, and together."""

from types import SimpleNamespace

import numpy as np
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.evidence.checks.mode_missing import (
    known_mass_missing,
    legs_disagree,
    mode_without_draws,
    modes_unseen,
)
from pymc_tempering.references.search import Effort, find_modes
from pymc_tempering.results.statistics import pack_search, read_search
from tests.evidence.test_search import statistics as searched_statistics
from tests.references.test_search import waves

SE = np.array([0.02, 0.03, 0.02, 0.04])
SE_BEFORE = np.array([0.2, 0.1, 0.3, 0.15])


def test_a_lost_mode_is_seen(rng):
    """Five sixths of the mass are missing from one of them: 1.8 nats.

    Of 5000 seeds all raise it, with errors of at most 0.29.
    """
    before = -7.0 + SE_BEFORE * rng.standard_normal(4)
    now = -7.0 + np.log(1 / 6) + SE * rng.standard_normal(4)
    [diagnostic] = legs_disagree(now, SE, before, SE_BEFORE)
    assert 'base="gaussian"' in diagnostic.remedy
    assert diagnostic.measured["log_z_chain"] == now.mean()
    assert diagnostic.measured["log_z_before"] == before.mean()
    assert 0.0 < diagnostic.measured["error"] < 0.35
    # the chains that did not start from the Gaussian say nothing of it
    before[:3] = np.nan
    [diagnostic] = legs_disagree(now, SE, before, np.where(np.isnan(before), np.nan, 0.05))
    assert diagnostic.measured["log_z_before"] == before[3]


@pytest.mark.statistical
def test_a_thousand_runs_that_agree_raise_nothing(rng):
    """Beyond 5 errors and 0.1 nats: 6e-7 each, with errors that are right."""
    for _ in range(1000):
        before = 2.0 + SE_BEFORE * rng.standard_normal(4)
        now = 2.0 + SE * rng.standard_normal(4)
        assert [*legs_disagree(now, SE, before, SE_BEFORE)] == []


def test_nothing_is_said_without_another_leg():
    nothing = np.full(4, np.nan)
    now = np.array([1.0, 2.0, 3.0, 4.0])
    assert [*legs_disagree(now, SE, nothing, nothing)] == []
    assert [*legs_disagree(nothing, SE, now, SE_BEFORE)] == []


def searched(values, se=0.01):
    values = np.array(values, dtype=float)
    return {"search_log_mass": values, "search_log_mass_se": np.full(values.shape, se)}


@pytest.mark.parametrize(
    ("log_z", "se", "named"),
    [
        (-0.10, 0.01, True), (-0.08, 0.01, False), (-0.10, 0.02, False), (0.10, 0.01, False),
        (-9.0, 4.0, False), (-0.2, np.nan, False),
    ],
)  # fmt: skip
def test_by_three_errors_of_both_and_a_twentieth_of_a_nat(log_z, se, named):
    assert len([*known_mass_missing(searched([0.0]), log_z, se)]) == named


def test_the_chain_that_knows_most_counts():
    [diagnostic] = known_mass_missing(searched([-np.inf, 0.5, 2.0]), 1.0, 0.01)
    assert diagnostic.measured == {"search_log_mass": 2.0, "lacking": 1.0}
    assert "Log Z is less by 1 nats" in diagnostic.text
    assert [*known_mass_missing(searched([-np.inf]), -9.0, 0.01)] == []
    assert [*known_mass_missing({}, -9.0, 0.01)] == []


def test_a_run_below_what_its_search_knew_is_named(target, base, rng, make_statistics, make_tree):
    statistics = make_statistics(target, base, rng)
    known = {"starts": 9, "modes": 2, "left_out": 0, "mass_once": 0.0,
             "log_mass": target.log_z, "log_mass_se": 0.01, "start_counts": [5, 4]}  # fmt: skip
    statistics["search"] = np.tile(pack_search(known), (4, 40, 1))
    good = pm_temper.estimate_logz(make_tree(statistics))
    assert good.warnings == ()
    stored = good.idata["tempering"].dataset["search_log_mass"]
    assert stored.values.tolist() == [target.log_z] * 4
    assert stored.attrs["units"] == "nats"
    known["log_mass"] += 1.0
    statistics["search"] = np.tile(pack_search(known), (4, 40, 1))
    with pytest.warns(TemperingWarning, match="^a mode may be missing: "):
        low = pm_temper.estimate_logz(make_tree(statistics))
    [diagnostic] = low.warnings
    lacking = diagnostic.measured["known_mass_missing"]["lacking"]
    assert lacking == pytest.approx(1.0 + target.log_z - low.log_z)
    assert low.mass_missing
    # where draws come from none of a mode, that says as much
    statistics["log_mass_unvisited"] = np.full((4, 40, 1), target.log_z)
    with pytest.warns(TemperingWarning):
        named = pm_temper.estimate_logz(make_tree(statistics))
    [diagnostic] = named.warnings
    assert list(diagnostic.measured) == ["mode_without_draws"]


def left(share, n_modes=1):
    """Log masses of two chains that lack this share of an evidence of one."""
    unvisited = np.full((2, 8), np.nan)
    unvisited[:, 0] = np.log(share)
    return unvisited


def test_the_share_that_matters():
    [finding] = mode_without_draws(left(0.06), np.zeros(2), 400)
    assert np.isclose(finding.measured["lacking"], np.log(1.06))
    assert "log Z lacks 0.058 nats" in finding.text
    assert [*mode_without_draws(left(0.04), np.zeros(2), 400)] == []
    # it is the share of the estimate: nats of another model do not count
    assert len([*mode_without_draws(left(0.04), np.full(2, -1.0), 400)]) == 1
    # where the evidence is infinite, so may fits be
    [finding] = mode_without_draws(left(0.5), np.full(2, -1e5), 400)
    assert np.isclose(finding.measured["lacking"], 1e5)


def test_few_draws_may_miss_a_mode():
    assert [*mode_without_draws(left(0.2), np.zeros(2), 40)] == []
    assert len([*mode_without_draws(left(0.3), np.zeros(2), 40)]) == 1


def test_a_draw_in_one_chain_is_enough():
    log_masses = left(0.5)
    log_masses[1, 0] = np.nan
    log_masses[1, 1] = np.log(0.4)
    assert [*mode_without_draws(log_masses, np.zeros(2), 400)] == []
    # a third one, that both lack
    log_masses[:, 2] = np.log(0.1)
    [finding] = mode_without_draws(log_masses, np.zeros(2), 400)
    assert np.isclose(finding.measured["lacking"], np.log(1.1))


def test_modes_of_the_last_draw_count(target, base, rng, make_statistics, make_tree):
    """Of both kinds: of known mass, and of none."""
    statistics = make_statistics(target, base, rng)
    unreached = np.zeros((4, 40), dtype=int)
    unreached[0, :30] = 2  # and found by then
    log_masses = np.full((4, 40, 8), np.nan)
    log_masses[:, :39, 0] = target.log_z
    more = {"n_unreached_modes": unreached, "log_mass_unvisited": log_masses}
    assert pm_temper.estimate_logz(make_tree(statistics | more)).warnings == ()
    unreached[1, 20:] = 2
    log_masses[:, 39, 0] = target.log_z
    with pytest.warns(TemperingWarning):
        estimate = pm_temper.estimate_logz(make_tree(statistics | more))
    [diagnostic] = estimate.warnings
    assert list(diagnostic.measured) == ["mode_without_draws", "mode_out_of_reach"]
    assert diagnostic.measured["mode_out_of_reach"] == {"n_unreached_modes": 2}
    # one remedy: that of the strongest piece
    assert diagnostic.remedy.startswith("Leave `base` away, or sample with method='pt'")
    stored = estimate.idata["tempering"]["n_unreached_modes"].values
    assert stored.tolist() == [0.0, 2.0, 0.0, 0.0]


def test_modes_seen_once_are_named_where_they_hold_mass():
    [diagnostic] = modes_unseen(read_search(searched_statistics(mass_once=0.6)))
    assert diagnostic.measured["search_mass_once"] == 0.6
    assert [*modes_unseen(read_search(searched_statistics(mass_once=0.5)))] == []
    [diagnostic] = modes_unseen(
        read_search(searched_statistics(modes=9, start_counts=np.array([2, 1, -1])))
    )
    assert "At most 2 of 1000 starts" in diagnostic.text
    assert [
        *modes_unseen(read_search(searched_statistics(modes=9, start_counts=np.array([3, 1, -1]))))
    ] == []
    # none to those that are kept: these were found along lines
    [diagnostic] = modes_unseen(
        read_search(searched_statistics(modes=9, start_counts=np.array([-1, -1, -1])))
    )
    assert "At most 0 of 1000 starts" in diagnostic.text
    # a hundred replicas from a wide Gaussian have found what is not much narrower
    assert [*modes_unseen(read_search(searched_statistics(mass_once=0.6)), 100)] == []
    assert len([*modes_unseen(read_search(searched_statistics(mass_once=0.6)), 99)]) == 1
    # those from fits hardly find what these left out
    [diagnostic] = modes_unseen(read_search(searched_statistics(mass_once=0.06)), None)
    assert "Replicas come from the fits" in diagnostic.text
    assert [*modes_unseen(read_search(searched_statistics(mass_once=0.05)), None)] == []
    alone = searched_statistics(starts=1, modes=1, mass_once=1.0)
    assert [*modes_unseen(read_search(alone))] == []
    assert [*modes_unseen({})] == []


def test_a_search_that_misses_modes_says_so_and_one_that_does_not_is_quiet(rng):
    """A hundred modes and more: 40 starts leave most unseen, thousands none that matters.

    Few starts may lead to the highest modes by chance: of 480 searches 0.77 warned, so that fewer
    than four of twelve do in one of 5000 seeds. Were chains to start from the fits, all would.
    """
    target = SimpleNamespace(address=waves.address, dim=2)
    searches = [find_modes(target, np.zeros(2), rng, effort=Effort(40, 40_000)).search
                for _ in range(12)]  # fmt: skip
    diagnostics = [[*modes_unseen(read_search(as_recorded(few)))] for few in searches]
    said = [diagnostic for [diagnostic] in filter(None, diagnostics)]
    assert len(said) >= 4
    assert all([*modes_unseen(read_search(as_recorded(few)), None)] for few in searches)
    assert np.median([diagnostic.measured["search_mass_once"] for diagnostic in said]) > 0.2
    many = find_modes(target, np.zeros(2), rng).search
    assert len(many.start_count) > 2 * max(len(few.start_count) for few in searches)
    assert [*modes_unseen(read_search(as_recorded(many)))] == []


def as_recorded(search):
    return {"search": pack_search(search.statistics())[None, None]}
