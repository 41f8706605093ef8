"""Modes that are several, with too few draws to be parted: they say so, and others do not."""

from itertools import permutations

import numpy as np
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.evidence.checks.modes import WIDE, exchangeable, widest_gap
from tests.chains import run_of

PERIODS, SDS = np.array([1.31, 3.57, 4.55]), np.array([0.003, 0.01, 0.02])
ORDERS = np.array(list(permutations(range(3))))


def test_aliases_with_few_draws_say_that_they_are_two(rng):
    """Of 600 draws 25 have one alias and 14 the other, too few to be told from chance."""
    which = rng.permutation(np.repeat([0, 1, 2], [561, 25, 14])).reshape(4, 150)
    period = rng.normal(PERIODS[which], SDS[which])
    with pytest.warns(TemperingWarning, match=r"25 have P up to 3\.\d+, 14 from 4\.\d+ on"):
        found = pm_temper.modes(run_of(P=period, phase=rng.uniform(size=(4, 150))))
    assert len(found) == 2
    assert [diagnostic.code for diagnostic in found.warnings] == ["modes_not_parted"]
    assert found.warnings[0].measured["mode_2_in_pieces"]["variable"] == "P"


@pytest.mark.parametrize("kind", ["standard_normal", "standard_exponential", "standard_cauchy"])
@pytest.mark.parametrize("n", [16, 40, 600])
def test_one_piece_is_one(rng, kind, n):
    """None of a thousand sets; the widest of ten thousand has 2.9."""
    widest = [widest_gap(np.sort(getattr(rng, kind)(n)))[0] for _ in range(1000)]
    assert max(widest) < WIDE


def exchanged(rng, means, sd, n=500):
    order = ORDERS[rng.integers(6, size=(4, n))]
    return np.array(means)[order] + sd * rng.standard_normal((4, n, 3))


def test_exchangeable_components_have_six_modes_or_say_that_they_overlap(rng):
    found = pm_temper.modes(run_of(mu=exchanged(rng, (-2.0, 0.5, 4.0), 0.3)))
    assert len(found) == 6
    assert found.warnings == ()
    # two of three components overlap: some modes are two orders
    overlapping = run_of(mu=exchanged(rng, (-3.0, 2.6, 4.0), 0.7))
    with pytest.warns(TemperingWarning, match="3 entries of mu look exchangeable.* 6 modes"):
        found = pm_temper.modes(overlapping)
    assert 1 < len(found) < 6


def test_entries_that_are_alike_and_independent_are_not_exchangeable(rng):
    signs = rng.choice([-2.0, 2.0], size=(4, 500, 3))
    assert not list(exchangeable({"x": signs + rng.standard_normal(signs.shape)}, 8))


def test_components_that_keep_their_labels_are_not_exchangeable(rng):
    kept = np.array([-3.0, 2.6, 4.0]) + rng.standard_normal((4, 500, 3))
    assert not list(exchangeable({"mu": kept}, 2))
