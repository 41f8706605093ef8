"""Barrier and swap rates of exact targets, each against another way to get it."""

from types import SimpleNamespace

import exact_barrier
import numpy as np
import pytest
from scipy import special

from pymc_tempering import testing
from pymc_tempering.errors import OptionError
from pymc_tempering.testing import TARGETS

BETAS = np.array([0.0, 0.1, 0.35, 0.8, 1.0])


def wide_base(target):
    sd = np.sqrt(np.where(np.isfinite(np.diag(target.cov)), np.diag(target.cov), 4.0))
    return SimpleNamespace(mean=target.mean + 0.4 * sd, scale=1.6 * sd)


def test_scaled_normal_barrier_closed_form_and_by_draws_of_chi_squares(rng):
    """Mean absolute difference of chi-squares by simulation, 5 standard errors: 6e-7."""
    dim, base_sd, sd, beta = 4, 3.0, 0.5, 0.3
    target = testing.scaled_normal(dim=dim, sd=sd)
    base = SimpleNamespace(mean=np.zeros(dim), scale=np.full(dim, base_sd))
    p0, p1 = base_sd**-2, sd**-2
    h = 1e-4
    lower, upper = exact_barrier.cumulative_barrier(target, [beta - h, beta + h], base)
    precision = (1 - beta) * p0 + beta * p1
    x, y = rng.chisquare(dim, size=(2, 400_000))
    difference = 0.25 * abs(p1 - p0) / precision * np.abs(x - y)
    se = difference.std() / np.sqrt(len(x))
    assert abs((upper - lower) / (2 * h) - difference.mean()) < 5.0 * se
    barrier = exact_barrier.global_barrier(target, base)
    assert barrier == pytest.approx(np.log(p1 / p0) / special.beta(2, 0.5))


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_generic_barrier_reproduces_the_closed_form(dim, monkeypatch):
    target = testing.scaled_normal(dim=dim, sd=0.5)
    base = SimpleNamespace(mean=np.zeros(dim), scale=np.full(dim, 2.0))
    exact = exact_barrier.cumulative_barrier(target, BETAS, base)
    monkeypatch.setattr(exact_barrier, "_scaled_barrier", lambda *_: None)
    generic = exact_barrier.cumulative_barrier(target, BETAS, base)
    np.testing.assert_allclose(generic, exact, atol=1e-9, rtol=1e-3 if dim <= 2 else 5e-3)


def test_barrier_is_the_sum_of_rejections_on_a_fine_schedule():
    """Syed et al. 2022: the sum of swap rejection rates tends to the barrier."""
    target = testing.asymmetric_bimodal()
    base = SimpleNamespace(mean=np.array([0.5, 0.0]), scale=np.array([4.0, 1.5]))
    betas = np.linspace(0.0, 1.0, 26) ** 2
    rejections = 1.0 - exact_barrier.swap_acceptance_rates(target, betas, base)
    np.testing.assert_allclose(
        np.cumsum(rejections), exact_barrier.cumulative_barrier(target, betas[1:], base), rtol=0.01
    )
    assert exact_barrier.global_barrier(target, base) == pytest.approx(rejections.sum(), rel=0.01)


@pytest.mark.parametrize("name", ["trimodal_1d", "hard_edge_gaussian", "heavy_tail"])
def test_swap_rates_against_simulated_swaps(name, rng):
    """Mean of min(1, ratio) over exact pairs; 3 rates, 5 errors of both: false alarm 2e-6."""
    target = TARGETS[name]()
    base = wide_base(target)
    betas = np.array([0.0, 0.05, 0.4, 1.0])
    rates = exact_barrier.swap_acceptance_rates(target, betas, base)
    n = 100_000
    deltas = [target.delta(target.draw_path(rng, n, b, base), base) for b in betas]
    for i in range(3):
        with np.errstate(over="ignore"):
            ratio = np.exp((betas[i + 1] - betas[i]) * (deltas[i] - deltas[i + 1]))
        accept = np.minimum(1.0, ratio)
        # the reference may itself come from 1e5 draws: its error counts
        assert abs(accept.mean() - rates[i]) < 5.0 * np.hypot(accept.std(), 0.5) / np.sqrt(n)


def test_edge_has_no_barrier():
    target = testing.hard_edge_gaussian()
    with pytest.raises(OptionError, match="edge"):
        exact_barrier.cumulative_barrier(target, [1.0], wide_base(target))
