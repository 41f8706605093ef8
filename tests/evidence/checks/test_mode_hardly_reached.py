"""Arrivals from the base, in all and in each group of draws; the log density among the draws."""

import numpy as np
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.evidence.checks.mode_missing import (
    arrivals_of_wide_base,
    component_arrivals,
    group_arrivals,
)


def two_groups(rng, share, n_draws=160, n_chains=4):
    """Draws of two normals far apart, of which the lower holds a share."""
    lower = rng.random((n_chains, n_draws)) < share
    return rng.normal(size=lower.shape) + np.where(lower, 0.0, 30.0), lower


def test_a_group_that_a_chain_hardly_reached_is_named(rng):
    """Chain 2 keeps its share of the lower group by staying in it, and came there three times."""
    x, lower = two_groups(rng, 0.3)
    restarts = np.ones((4, 160), dtype=np.int64)
    restarts[2, lower[2]] = 0
    restarts[2, np.flatnonzero(lower[2])[:3]] = 1
    draws = {"b": rng.normal(size=(4, 160)), "x": np.stack([np.zeros_like(x), x], axis=-1)}
    [diagnostic] = group_arrivals(draws, restarts)
    assert diagnostic.measured["group"].startswith("x[1] < ")
    counts = diagnostic.measured["arrivals"]
    assert counts[2] == 3
    assert min(counts[:2] + counts[3:]) > 20
    # the same of the other group
    [mirrored] = group_arrivals({"x": -x}, restarts)
    assert mirrored.measured["group"].startswith("x > ")
    assert mirrored.measured["arrivals"] == counts


def test_few_in_every_chain_are_named_and_fewer_in_one_are_not(rng):
    x, lower = two_groups(rng, 0.5)
    nine, six = np.where(lower, 0, 1), np.where(lower, 0, 1)
    for chain in range(4):
        below = np.flatnonzero(lower[chain])
        nine[chain, below[:9]] = 1
        six[chain, below[: 6 if chain == 1 else 30]] = 1
    [diagnostic] = group_arrivals({"x": x}, nine)
    assert diagnostic.measured["arrivals"] == [9] * 4
    assert [*group_arrivals({"x": x}, six)] == []


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.02, 0.3, 0.5])
def test_good_runs_are_left_alone(rng, share):
    """50 runs with an arrival a draw: of 0.3 x 160 = 48, fewer than 10 once in 10^11 chains.

    A group below a twentieth does not count, whoever came there.
    """
    for _ in range(50):
        x, _ = two_groups(rng, share)
        assert [*group_arrivals({"x": x}, np.ones((4, 160)))] == []
    heads = (rng.random((4, 160)) < 0.3).astype(int)
    assert [*group_arrivals({"heads": heads}, np.full((4, 160), 0.1))] == []
    one_mode = rng.normal(size=(4, 160))
    assert [*group_arrivals({"x": one_mode}, np.full((4, 160), 0.1))] == []


def test_nothing_is_said_without_counts(rng):
    x, _ = two_groups(rng, 0.3)
    assert [*group_arrivals({"x": x}, None)] == []
    # chains that hardly came at all have a warning of their own
    assert [*group_arrivals({"x": x}, np.zeros((4, 160)))] == []


def warned(statistics, make_tree, **more):
    with pytest.warns(TemperingWarning):
        estimate = pm_temper.estimate_logz(make_tree(statistics | more))
    return estimate.warnings


def test_one_round_trip_is_not_enough(target, base, rng, make_statistics, make_tree):
    statistics = make_statistics(target, base, rng)
    trips = statistics["n_round_trips"].copy()
    trips[1], trips[1, 3:12] = 0, 1
    counts = {"n_round_trips": trips, "n_tempered_restarts": trips}
    [diagnostic] = warned(statistics, make_tree, **counts)
    assert diagnostic.code == "mode_missing"
    few = {"n_tempered_restarts": [9], "chain": [1]}
    assert diagnostic.measured == {"few_tempered_restarts": few}
    # without any, that alone is said
    trips = np.where(np.arange(4)[:, None] == 1, 0, trips)
    [diagnostic] = warned(statistics, make_tree, n_round_trips=trips, n_tempered_restarts=trips)
    assert list(diagnostic.measured) == ["no_round_trips"]


def test_chains_that_differ_in_their_log_density_are_named(
    target, base, rng, make_statistics, make_tree
):
    """A chain at one height of many, in a place that no single variable tells apart."""
    statistics = make_statistics(target, base, rng)
    lp = rng.normal(-3.0, 1.0, size=(4, 40))
    good = pm_temper.estimate_logz(make_tree(statistics | {"lp": lp}))
    assert good.warnings == ()
    lp[3] += 5.0
    [diagnostic] = warned(statistics, make_tree, lp=lp)
    assert diagnostic.code == "chains_disagree"
    assert diagnostic.measured["posterior"]["R-hat of the log density"] > 1.5


def test_a_mode_that_keeps_its_replica_is_named(target, base, rng, make_statistics, make_tree):
    """A spike at the centre of a slab, which no variable tells apart, but the log density does.

    Others come from the base at every draw, and are gone at its end.
    """
    statistics = make_statistics(target, base, rng)
    in_spike = rng.random((4, 40)) < 0.5
    statistics["n_tempered_restarts"] = np.full((4, 40), 2)
    statistics["lp"] = rng.normal(size=(4, 40)) + np.where(in_spike, 20.0, 0.0)
    [diagnostic] = warned(statistics, make_tree, tempered_restart=~in_spike)
    assert diagnostic.code == "mode_hardly_reached"
    measured = diagnostic.measured["group"]
    assert measured["group"].startswith("the log density > ")
    assert measured["arrivals"] == [0, 0, 0, 0]
    good = make_tree(statistics | {"tempered_restart": np.ones((4, 40), dtype=bool)})
    assert pm_temper.estimate_logz(good).warnings == ()
    # of an earlier version, which did not record it
    assert pm_temper.estimate_logz(make_tree(statistics)).warnings == ()
    # few arrivals in all have a warning of their own, few that stay have not
    draws = {"x": statistics["lp"]}
    never = np.zeros((4, 40), dtype=bool)
    assert len([*group_arrivals(draws, statistics["n_tempered_restarts"], never)]) == 1


def test_a_component_that_holds_draws_by_few_arrivals_is_named():
    """The wide component of chains 0 and 2; chain 1 holds too little of it, chain 3 has none."""
    arrivals = np.array([[5, 300, 90], [1, 310, 90], [9, 290, 80], [400, 0, 0]])
    share = np.array([[0.2, 0.6, 0.2], [0.01, 0.7, 0.29], [0.1, 0.7, 0.2], [1.0, 0.0, 0.0]])
    [diagnostic] = component_arrivals(arrivals, share)
    assert diagnostic.measured == {"component": 0, "arrivals": [5, 9], "chain": [0, 2]}
    assert "20 %" in str(diagnostic)
    [third] = component_arrivals(arrivals[:, [1, 2, 0]], share[:, [1, 2, 0]])
    assert third.measured["component"] == 2
    # fewer than ten on average, or fewer than four in one chain
    assert [*component_arrivals(np.add(arrivals, [7, 0, 0]), share)] == []
    assert [*component_arrivals(np.array([[3, 99], [30, 99]]), np.full((2, 2), 0.5))]
    # one chain that holds a twelfth by chance, of a component with a fortieth of the mass
    light = np.array([[9, 300], [4, 300], [0, 300], [1, 300]])
    shares = np.array([0.08, 0.02, 0.0, 0.01])
    assert [*component_arrivals(light, np.column_stack([shares, 1.0 - shares]))] == []
    # or the only one of four that starts from several
    alone, shares = np.array([[9, 300], *[[300, 0]] * 3]), np.array([0.08, 1.0, 1.0, 1.0])
    assert [*component_arrivals(alone, np.column_stack([shares, 1.0 - shares]))] == []
    # a chain with few arrivals in all has a warning of its own
    assert [*component_arrivals(np.array([[2, 3]]), np.full((1, 2), 0.5))] == []


@pytest.mark.statistical
def test_good_runs_of_a_mixture_are_left_alone(rng):
    """1000 runs of 4 chains whose 400 arrivals hold 1.3 scans each, from components of 6 %."""
    for _ in range(1000):
        shares = np.array([0.06, 0.34, 0.6])
        arrivals = rng.multinomial(400, shares, size=4)
        assert [*component_arrivals(arrivals, arrivals / 400)] == []


def test_every_chain_has_to_start_anew():
    """Ten times, or it says nothing of what replicas meet."""
    restarts = np.full((2, 20), 10)
    assert arrivals_of_wide_base({"n_tempered_restarts": restarts}) == 400
    restarts[1] = 0
    restarts[1, 0] = 10
    assert arrivals_of_wide_base({"n_tempered_restarts": restarts}) == 210
    restarts[1, 0] = 9
    assert arrivals_of_wide_base({"n_tempered_restarts": restarts}) == 0
    assert arrivals_of_wide_base({}) == 0
    from_fits = np.array([[0] * 20, [2] * 20])
    assert arrivals_of_wide_base({"n_components": from_fits}) is None
