"""With what probability one mode more would have been found is what its frequency is."""

import ctypes
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import binom

from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references import planted
from pymc_tempering.references.planted import NEAREST_AND_FURTHEST, VALLEY, Looked, found_if_there
from pymc_tempering.references.prepared import N_SEARCHES, mass_once
from pymc_tempering.references.search import Effort, find_modes
from tests.references.conftest import LOG_2PI
from tests.references.test_search import PEAK_AT, narrow_beside_tails

DIM, SHARE, WIDTH, N_TARGETS = 3, 0.25, 0.25, 40
FEW = Effort(2500, 2500)
SDS = np.array([1.0, 0.4, 3.0])


WHERE, PLANTED_SDS = np.zeros(DIM), np.ones(DIM)
C_DENSITY = ctypes.CFUNCTYPE(ctypes.c_double, *[ctypes.POINTER(ctypes.c_double)] * 2)


STEEP = math.pi / math.sqrt(3.0)


def normal(z, mean, sds):
    u = (z - mean) / sds
    return -0.5 * (u @ u) - np.log(sds).sum() - 0.5 * DIM * LOG_2PI, -u / sds


def logistic(z):
    """A product of logistic densities, so that nothing can be divided out."""
    u = np.abs(z) / SDS * STEEP
    value = DIM * math.log(STEEP) - np.log(SDS).sum() - (u + 2.0 * np.log1p(np.exp(-u))).sum()
    return value, -np.sign(z) * np.tanh(0.5 * u) * STEEP / SDS


@C_DENSITY
def one_and_planted(z_pointer, grad_pointer):
    """A wide mode, and a quarter of the mass at WHERE, unless that is where the wide one is."""
    z = np.ctypeslib.as_array(z_pointer, (DIM,))
    grad = np.ctypeslib.as_array(grad_pointer, (DIM,))
    wide, wide_grad = logistic(z)
    if not WHERE.any():
        grad[:] = wide_grad
        return wide
    narrow, narrow_grad = normal(z, WHERE, PLANTED_SDS)
    logs = np.array([wide + math.log(1.0 - SHARE), narrow + math.log(SHARE)])
    total = np.logaddexp(*logs)
    a, b = np.exp(logs - total)
    grad[:] = a * wide_grad + b * narrow_grad
    return total


ADDRESS = ctypes.cast(one_and_planted, ctypes.c_void_p).value
TARGET = SimpleNamespace(address=ADDRESS, dim=DIM)
KNOWN = GaussianBase(np.zeros(DIM), SDS, log_zeta=0.0)
NOWHERE = Looked(np.empty((0, DIM)), np.empty(0))


@pytest.fixture
def planting():
    yield
    WHERE[:] = 0.0


def test_more_mass_and_more_width_are_found_more_often(rng):
    points = KNOWN.from_base(5.0 * rng.normal(size=(300, DIM)))
    least = np.array([logistic(z)[0] for z in points])
    found = found_if_there(TARGET, Looked(points, least), [KNOWN], np.random.default_rng(0))
    assert found.shape == (3, 3)
    # one of more mass is a mode in more places, of which some are further away
    assert (np.diff(found, axis=1) > -0.05).all()
    assert (np.diff(found[:, 2]) <= 0.0).all()
    assert 0.0 < found[2, 0] < 0.9 * found[0, 0] <= 0.9
    none = found_if_there(TARGET, NOWHERE, [KNOWN], rng)
    assert (none == 0.0).all()
    # where known modes are divided out less is seen
    seen = Looked(points, least - 12.0)
    assert (found_if_there(TARGET, seen, [KNOWN], np.random.default_rng(0)) >= found).all()


def test_what_would_be_no_mode_anywhere_is_not_missed(rng, monkeypatch):
    """No valley is before one that has no mass."""
    monkeypatch.setattr(planted, "MASSES", (1e-60,))
    monkeypatch.setattr(planted, "WIDTHS", (1.0,))
    assert found_if_there(TARGET, NOWHERE, [KNOWN], rng) == 1.0


@pytest.mark.statistical
def test_the_stated_probability_is_the_frequency(seed, planting):
    """Of modes planted in forty targets, but for a tenth of which more is not asked.

    The number found is binomial, false alarms 1e-4; 500 targets are in the benchmark.
    """
    rng = np.random.default_rng(seed)
    alone = find_modes(TARGET, np.zeros(DIM), rng, effort=FEW)
    stated = np.reshape(alone.search.planted, (3, 3))[2, 2]
    (like,) = alone.fits
    PLANTED_SDS[:] = WIDTH * like.standard_deviation
    assert 0.2 < stated < 0.9
    n_found = 0
    for _ in range(N_TARGETS):
        while True:
            at = rng.normal(size=DIM)
            distance = math.exp(rng.uniform(*np.log(NEAREST_AND_FURTHEST).tolist()))
            at = like.from_base(at[None] * (distance / np.linalg.norm(at)))[0]
            stands = normal(at, at, PLANTED_SDS)[0] + math.log(SHARE / (1 - SHARE))
            if stands > logistic(at)[0] + VALLEY * distance:
                break
        WHERE[:] = at
        found = find_modes(TARGET, np.zeros(DIM), rng, effort=FEW)
        away = (found.modes - WHERE) / PLANTED_SDS
        n_found += bool(((away**2).sum(axis=1) < DIM).any())
    low = binom.ppf(5e-5, N_TARGETS, stated - 0.1)
    high = binom.isf(5e-5, N_TARGETS, stated + 0.1)
    assert low <= n_found <= high


def test_mass_that_one_search_found_stands_for_what_none_did(rng):
    assert mass_once([], []) == 0.0
    assert mass_once([-300.0, -301.0], [1, 4]) == pytest.approx(1.0 / (1.0 + math.exp(-1.0)))
    target = SimpleNamespace(address=narrow_beside_tails.address, dim=4)
    search = find_modes(target, PEAK_AT * np.eye(1, 4)[0], rng).search
    assert search.found_by == (N_SEARCHES,) * 2
    assert search.mass_once == 0.0
