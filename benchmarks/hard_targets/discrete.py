"""Models with discrete variables whose evidence and modes are known exactly.

``DISCRETE`` lists them by name; each entry builds its target. ``make discrete`` runs them all.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
from scipy.special import logsumexp
from scipy.stats import multivariate_normal, norm

from hard_targets.target import HardTarget, Part
from pymc_tempering.types import FloatArray

__all__ = ["COUPLINGS", "DISCRETE", "allocations", "ising", "selection"]

COUPLINGS = (0.1, 0.3, 0.44, 0.6, 0.9)
"""Of the spins, from far above to far below the critical temperature, which is at 0.44."""

P_UP = 0.52
SIDE = 4

WEIGHTS, MEAN_SD = np.array([0.65, 0.35]), 3.0
DATA = np.array([-2.4, -1.9, -1.7, -1.2, -0.9, 1.1, 1.6, 2.0, 2.3, 3.1])

N_COLUMNS, P_IN, SLAB = 10, 0.3, 1.5


def ising(coupling: float = 0.44) -> HardTarget:
    """A torus of 4 x 4 spins in a weak field, whose 65536 states are summed.

    Below the critical temperature the spins point up together, or down.
    """
    import pymc as pm

    left, right = _bonds().T
    with pm.Model() as model:
        spin = 2.0 * pm.Bernoulli("up", P_UP, shape=SIDE**2) - 1.0
        pm.Potential("bonds", coupling * (spin[left] * spin[right]).sum())
    log_prior, bonds, n_up = _all_spins()
    log_p = log_prior + coupling * bonds
    log_z = float(logsumexp(log_p))
    most = float(np.exp(logsumexp(log_p[n_up > SIDE**2 / 2]) - log_z))

    def mostly_up(posterior: Any) -> FloatArray:
        return posterior["up"].values.sum(axis=-1) > SIDE**2 / 2

    return HardTarget(f"ising_{coupling}", "spins", model, log_z, {"up": Part(mostly_up, most)})


def _bonds() -> np.ndarray:
    sites = np.arange(SIDE**2).reshape(SIDE, SIDE)
    pairs = [np.stack([sites, np.roll(sites, -1, axis)], axis=-1) for axis in (0, 1)]
    return np.concatenate(pairs).reshape(-1, 2)


@cache
def _all_spins() -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log prior, sum over bonds, and number of spins that are up, of every state."""
    up = np.array(list(itertools.product([0, 1], repeat=SIDE**2)), dtype=np.int8)
    left, right = _bonds().T
    spins, n_up = 2 * up - 1, up.sum(axis=1, dtype=np.float64)
    log_prior = n_up * np.log(P_UP) + (SIDE**2 - n_up) * np.log1p(-P_UP)
    return log_prior, (spins[:, left] * spins[:, right]).sum(axis=1, dtype=np.float64), n_up


def allocations(*, summed: bool = False) -> HardTarget:
    """A mixture of two normal densities with a component for each datum, integrated on a grid.

    The weights differ, so that the two ways to name the components do.

    Parameters
    ----------
    summed : bool
        Whether the components are summed out of the model, which changes no answer.
    """
    import pymc as pm

    with pm.Model() as model:
        mean = pm.Normal("mean", 0.0, MEAN_SD, shape=2)
        if summed:
            pm.NormalMixture("y", WEIGHTS, mean, 1.0, observed=DATA)
        else:
            component = pm.Categorical("component", WEIGHTS, shape=DATA.size)
            pm.Normal("y", mean[component], 1.0, observed=DATA)
    grid = np.linspace(-15.0, 15.0, 1501)
    parts = np.log(WEIGHTS)[:, None, None] + norm.logpdf(DATA, grid[:, None])
    prior = norm.logpdf(grid, 0.0, MEAN_SD)
    log_p = np.logaddexp(parts[0][:, None], parts[1][None]).sum(axis=-1) + prior[:, None] + prior
    log_z = float(logsumexp(log_p) + 2.0 * np.log(grid[1] - grid[0]))
    in_order = np.exp(logsumexp(log_p[np.triu_indices(grid.size, 1)]) - logsumexp(log_p))

    def ordered(posterior: Any) -> FloatArray:
        return posterior["mean"].values[..., 0] < posterior["mean"].values[..., 1]

    name = "mixture_summed" if summed else "mixture_allocations"
    return HardTarget(name, "allocations", model, log_z, {"in order": Part(ordered, in_order)})


def selection() -> HardTarget:
    """Which of ten columns a regression needs, by indicators; 1024 evidences are summed.

    The first two columns are much alike, and one of them is needed.
    """
    import pymc as pm

    x, y = _regression()
    with pm.Model() as model:
        chosen = pm.Bernoulli("chosen", P_IN, shape=N_COLUMNS)
        slope = pm.Normal("slope", 0.0, SLAB, shape=N_COLUMNS)
        pm.Normal("y", (x * (chosen * slope)).sum(axis=1), 1.0, observed=y)
    subsets = np.array(list(itertools.product([0, 1], repeat=N_COLUMNS)))
    log_p = np.array([
        multivariate_normal.logpdf(y, cov=np.eye(y.size) + SLAB**2 * (x * subset) @ x.T)
        + subset.sum() * np.log(P_IN) + (N_COLUMNS - subset.sum()) * np.log1p(-P_IN)
        for subset in subsets
    ])  # fmt: skip
    log_z = float(logsumexp(log_p))
    shares = np.exp(log_p - log_z) @ subsets

    def holds(column: int) -> Callable[[Any], FloatArray]:
        return lambda posterior: posterior["chosen"].values[..., column] == 1

    parts = {f"column {i}": Part(holds(i), float(shares[i])) for i in range(3)}
    return HardTarget("selection", "indicators", model, log_z, parts)


def _regression() -> tuple[FloatArray, FloatArray]:
    rng = np.random.default_rng(7)
    x = rng.normal(size=(25, N_COLUMNS))
    x[:, 1] = x[:, 0] + 0.25 * rng.normal(size=25)
    return x, 1.2 * x[:, 0] - 0.9 * x[:, 2] + 0.5 * x[:, 3] + rng.normal(size=25)


DISCRETE: dict[str, Callable[[], HardTarget]] = {
    **{f"ising_{coupling}": partial(ising, coupling) for coupling in COUPLINGS},
    "mixture_allocations": allocations,
    "mixture_summed": partial(allocations, summed=True),
    "selection": selection,
}
