"""Modes on the way to another: the density rises through them, and no ascent ends there."""

import math
from types import SimpleNamespace

import numba
import numpy as np
import pytest
from scipy import integrate, stats

from pymc_tempering.engine.path.coordinates import Coordinates
from pymc_tempering.engine.path.gaussian import GaussianBase
from pymc_tempering.references.ascent_paths import masses_on_paths
from pymc_tempering.references.full_rank import fit_gaussian
from pymc_tempering.references.search import Effort, find_modes
from tests.references.conftest import LOG_2PI, SIGNATURE

N_GROUPS, N_RIDGES = 12, 8
LOG_SCALES, SPREADS = np.log([0.04, 1.2]), np.array([0.4, 0.3])
Y = 0.6 * np.array([1.9, -0.7, 1.2, -1.4, 0.3, -0.2, 1.6, -1.1, 0.8, -1.7, 0.5, -1.0])


@numba.cfunc(SIGNATURE)
def pooled(z_pointer, grad_pointer):
    """Group means with unit noise around zero; their log scale comes first, and has two modes."""
    z = numba.carray(z_pointer, N_GROUPS + 1)
    grad = numba.carray(grad_pointer, N_GROUPS + 1)
    terms = np.empty(2)
    slopes = np.empty(2)
    for k in range(2):
        u = (z[0] - LOG_SCALES[k]) / SPREADS[k]
        terms[k] = math.log(0.5) - 0.5 * (u * u + LOG_2PI) - math.log(SPREADS[k])
        slopes[k] = -u / SPREADS[k]
    top = max(terms[0], terms[1])
    total = top + math.log(math.exp(terms[0] - top) + math.exp(terms[1] - top))
    grad[0] = math.exp(terms[0] - total) * slopes[0] + math.exp(terms[1] - total) * slopes[1]
    precision = math.exp(-2.0 * z[0])
    for i in range(N_GROUPS):
        mean = z[i + 1]
        off = Y[i] - mean
        total -= 0.5 * (mean * mean * precision + off * off) + z[0] + LOG_2PI
        grad[0] += mean * mean * precision - 1.0
        grad[i + 1] = off - mean * precision
    return total


TARGET = SimpleNamespace(address=pooled.address, dim=N_GROUPS + 1)


def log_masses():
    """Of either half of the log scales, by quadrature, all else integrated out."""

    def density(log_scale):
        prior = stats.norm.pdf(log_scale, LOG_SCALES, SPREADS).mean()
        return prior * stats.norm.pdf(Y, 0.0, math.hypot(1.0, math.exp(log_scale))).prod()

    middle = LOG_SCALES.mean()
    halves = ((middle - 5.0, middle), (middle, middle + 5.0))
    return np.log([integrate.quad(density, *half, epsabs=0.0)[0] for half in halves])


def prior_draws(rng, n):
    log_scale = rng.normal(LOG_SCALES[which := rng.integers(2, size=n)], SPREADS[which])
    means = np.exp(log_scale)[:, None] * rng.normal(size=(n, N_GROUPS))
    return np.column_stack([log_scale, means])


@pytest.mark.statistical
def test_a_mode_that_every_ascent_goes_by_has_a_fit_of_its_own(rng):
    """Two in a hundred searches look at six ways in the same half: of twelve three do in 1e-3."""
    n_found = 0
    for _ in range(12):
        draws = prior_draws(rng, 128)
        found = find_modes(TARGET, np.zeros(N_GROUPS + 1), rng, prior_points=draws)
        search = found.search
        assert search.n_starts == sum(search.start_count)
        assert search.n_images == 0
        if len(found.fits) == 1:
            continue
        n_found += 1
        narrow, wide = sorted(found.fits, key=lambda fit: fit.mean[0])
        np.testing.assert_allclose([narrow.mean[0], wide.mean[0]], LOG_SCALES, atol=1.0)
        # an ELBO is below, by half of the variance that it misses
        for fit, log_mass in zip((narrow, wide), log_masses(), strict=True):
            assert log_mass - 1.5 < fit.log_zeta < log_mass + 0.1
        assert min(search.start_count[:2]) > 10
        assert search.mass_once < 0.01
    assert n_found >= 10


def fits_on_paths(target, known, starts, rng, most=np.inf):
    dim = starts.shape[1]
    coordinates = Coordinates.of(GaussianBase(np.zeros(dim), np.ones(dim)))
    return masses_on_paths(target, known, starts, coordinates, np.ones(dim), rng, most)


def test_gradients_are_those_left(rng):
    """As many ways are fitted as that is enough for; of 36 fits all stood for themselves."""
    starts = prior_draws(rng, 6)
    n_fits, spent = [], []
    for most in (5e3, 1e4, np.inf):
        passed, n_by, n_gradients = fits_on_paths(TARGET, [], starts, rng, most)
        assert n_gradients <= most
        assert len(passed) == len(n_by)
        n_fits.append(sum(n_by))
        spent.append(n_gradients)
    assert spent == sorted(spent)
    assert n_fits[0] < 4 <= n_fits[-1]
    # what is known stays as it is, and counts those that go by it
    again, n_by, _ = fits_on_paths(TARGET, passed, starts, rng)
    assert again == []
    assert len(n_by) == len(passed)
    assert sum(n_by) >= 4
    draws = prior_draws(rng, 64)
    effort = Effort(200, 3000, most=6000.0)
    found = find_modes(TARGET, np.zeros(N_GROUPS + 1), rng, prior_points=draws, effort=effort)
    assert found.search.n_gradients <= effort.most


@numba.cfunc(SIGNATURE)
def ridges(z_pointer, grad_pointer):
    """Normals of scale 10, and tenths of their squares with scales of 0.3."""
    z = numba.carray(z_pointer, 2 * N_RIDGES)
    grad = numba.carray(grad_pointer, 2 * N_RIDGES)
    total = 0.0
    for i in range(0, 2 * N_RIDGES, 2):
        off = (z[i + 1] - 0.1 * z[i] * z[i]) / 0.3
        grad[i] = off / 0.3 * 0.2 * z[i] - 0.01 * z[i]
        grad[i + 1] = -off / 0.3
        total -= 0.5 * (off * off + 0.01 * z[i] * z[i])
    return total


def test_pieces_of_ridges_are_no_modes_on_a_way(rng):
    """Each way has a piece of its own, of which there is no end."""
    target = SimpleNamespace(address=ridges.address, dim=2 * N_RIDGES)
    starts = rng.normal(size=(12, N_RIDGES, 2)) * np.array([10.0, 20.0])
    passed, n_by, n_gradients = fits_on_paths(target, [], starts.reshape(12, -1), rng)
    assert passed == n_by == []
    assert n_gradients > 1000


@numba.cfunc(SIGNATURE)
def pole(z_pointer, grad_pointer):
    numba.carray(grad_pointer, 2)[:] = -1e305
    return 0.0


def test_a_fit_at_a_pole_stays_where_it_was(rng):
    """As of data that are all the same: gradients are finite, and no product of them is."""
    start = GaussianBase(np.zeros(2), np.full(2, 1e4))
    target = SimpleNamespace(address=pole.address, dim=2)
    with np.errstate(over="ignore"):
        base, n_gradients = fit_gaussian(target, start, rng)
    assert base is start
    assert n_gradients > 0
