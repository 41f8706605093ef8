"""The parts of the tree: joining what a cut went through, and judging on draws held out."""

import itertools

import numpy as np
import pytest

from pymc_tempering.diagnostics.clustering import tree
from pymc_tempering.diagnostics.clustering.tree import find_modes


def as_draws(x, n_chains=2):
    """Draws of a few chains as the tree keeps them, halves of each in different folds."""
    shape = (n_chains, len(x) // n_chains)
    fold = np.tile(np.arange(shape[1]) * tree._N_BLOCKS // shape[1] % 2 == 1, n_chains)
    return tree._Draws(x, fold, shape)


def blobs(rng, centres, n=2400):
    """Draws around centres in a random order in time, and the centre of each."""
    which = rng.integers(len(centres), size=n)
    return as_draws(rng.normal(size=(n, 2)) + np.asarray(centres)[which]), which


def same_groups(found, expected):
    pairs = itertools.combinations(range(len(expected)), 2)
    return all((found[i] == found[j]) == (expected[i] == expected[j]) for i, j in pairs)


def test_leaves_of_one_mode_are_joined_in_any_order(rng):
    """One mode in three slices and two others: three modes, whichever leaf comes first."""
    draws, which = blobs(rng, [[0.0, 0.0], [9.0, 0.0], [0.0, 9.0]])
    slices = np.digitize(draws.x[:, 1], [-0.5, 0.5])
    leaves = [(which == 0) & (slices == k) for k in range(3)] + [which == 1, which == 2]
    for order in ([0, 1, 2, 3, 4], [4, 2, 3, 0, 1], [3, 0, 4, 1, 2], [2, 4, 1, 3, 0]):
        found = tree._merged(draws, [leaves[k] for k in order])
        expected = [max(k - 2, 0) for k in order]
        assert same_groups(found, expected), order
        assert sorted(set(found)) == [0, 1, 2]


def test_two_leaves_stay_what_the_only_cut_made_them(rng):
    """It was found with all draws, and there is nothing else to judge it by."""
    draws, _ = blobs(rng, [[0.0, 0.0]])
    right = draws.x[:, 0] > 0.0
    assert tree._merged(draws, [~right, right]) == [0, 1]
    assert len(set(tree._merged(draws, [~right, right & draws.fold, right & ~draws.fold]))) == 1


@pytest.mark.parametrize("n_few", [40, 200])
def test_a_small_leaf_is_joined_only_where_it_belongs(rng, n_few):
    """Too small for halves of its own: the two leaves together say whether they are apart.

    Of 400 seeds none fails; two standard deviations nearer, forty draws do not tell in 1 % to 9 %.
    """
    draws, which = blobs(rng, [[0.0, 0.0], [11.0, 0.0]])
    few = np.zeros(len(draws.x), dtype=bool)
    few[np.flatnonzero(which == 0)[:n_few]] = True
    far = draws._replace(x=draws.x + few[:, None] * np.array([-8.0, -8.0]))
    leaves = [(which == 0) & ~few, which == 1, few]
    assert same_groups(tree._merged(draws, leaves), [0, 1, 0])
    assert same_groups(tree._merged(far, leaves), [0, 1, 2])


@pytest.mark.parametrize("where", ["inside", "outside", "few"])
def test_first_sight_says_nothing_without_two_sides(rng, where):
    """No fitted draws of the part, none but those, or too few held out: ask the whole search."""
    draws, which = blobs(rng, [[0.0, 0.0], [9.0, 0.0]])
    node, part = np.ones(len(which), dtype=bool), which == 1
    assert tree._parted(draws, node, part)
    if where == "few":
        node = ~draws.fold | (np.arange(len(which)) < 400)
        node &= ~draws.fold | (np.cumsum(node & draws.fold) < tree._MIN_DRAWS)
    else:
        part = draws.fold & part if where == "inside" else ~draws.fold | part
    assert not tree._parted(draws, node, part)


def test_first_sight_is_judged_on_draws_held_out(rng):
    """In many dimensions any two sides of noise are apart, along the direction fitted to them."""
    x = rng.normal(size=(400, 1000))
    draws, part = as_draws(x), rng.random(400) < 0.5
    node = np.ones(400, dtype=bool)
    fit = ~draws.fold
    fitted = tree.discriminant(x[fit], part[fit])
    assert tree.is_valley(tree.deepest_valley(x[fit] @ fitted))
    assert not tree._parted(draws, node, part)


@pytest.mark.statistical
def test_directions_fitted_to_noise_part_nothing(rng):
    """As many dimensions as half of the draws; twelve sets, none of which of 240 had modes."""
    for _ in range(12):
        assert find_modes(rng.normal(size=(2, 80, 40))).max() == 0


def test_draws_of_one_fold_are_cut_along_the_axes_alone(rng):
    """None are held out to judge a fitted direction by; with draws in both folds there are."""
    x = rng.normal(size=(1200, 2)) * [1.0, 1.0]
    upper = rng.random(1200) < 0.5
    along = as_draws(x + upper[:, None] * np.array([9.0, 0.0]))
    across = as_draws((x * [0.15, 4.0] + upper[:, None] * [3.0, 0.0]) @ [[0.8, 0.6], [-0.6, 0.8]])
    for draws, one_fold in ((along, True), (across, False)):
        assert tree._find_cut(draws, np.ones(1200, dtype=bool)) is not None
        found = tree._find_cut(draws, draws.fold)
        assert (found is not None) == one_fold


def test_chains_too_short_for_autocorrelation_count_every_draw(rng):
    draws = rng.normal(size=(150, 4, 2))
    right = rng.random((150, 4)) < 0.3
    draws[right, 0] += 8.0
    assert ((find_modes(draws) == 1) == right).all()


def test_the_number_of_leaves_is_bounded(rng, monkeypatch):
    """Beyond it nothing is cut further: every draw still has a mode, of fewer than there are."""
    corners = 9.0 * np.array(np.meshgrid(*[[0.0, 1.0]] * 3)).reshape(3, -1).T
    at = rng.integers(8, size=(4, 400))
    draws = corners[at] + rng.normal(size=(4, 400, 3))
    assert find_modes(draws).max() == 7
    monkeypatch.setattr(tree, "_MAX_MODES", 3)
    labels = find_modes(draws)
    assert 2 <= labels.max() < 6
    # no corner is split over modes
    assert all(np.bincount(labels[at == k]).max() > 0.99 * (at == k).sum() for k in range(8))
