"""Statistics of exact ensembles, and a few real runs, shared by the tests of evidence."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering.methods import METHOD_CODE, METHODS
from pymc_tempering.schedule.adapt import equal_barrier_schedule
from pymc_tempering.schedule.grid import make_schedule
from pymc_tempering.testing import asymmetric_bimodal

RUN = {
    "draws": 60,
    "tune": 60,
    "chains": 2,
    "cores": 1,
    "progressbar": False,
    "quiet": True,
    "compute_convergence_checks": False,
}
"""With 8 scans per draw: nearly 1000 scans, a second of sampling."""


def exact_statistics(
    target, base, rng, n_chains=4, n_draws=40, n_scans=8, n_levels=5, betas=None, stuck=False
):
    """Statistics as a perfect sampler would record them: independent draws at every level."""
    if betas is None:
        first = make_schedule("geometric", 12)
        delta = target.delta(target.draw_levels(rng, 500, first, base), base)
        betas = equal_barrier_schedule(first, 1 - swap_probability(delta, first).mean(0), n_levels)
    shape = (n_chains, n_draws, n_scans, len(betas))
    z = target.draw_levels(rng, n_chains * n_draws * n_scans, betas, base)
    delta = target.delta(z, base).reshape(shape)
    trips = np.full(shape[:2], 0 if stuck else 1)
    return {
        "delta": delta,
        "betas": np.broadcast_to(betas, (n_chains, n_draws, len(betas))).copy(),
        "swap_acceptance_rate": swap_probability(delta, betas).mean(axis=2),
        "n_round_trips": trips,
        "n_tempered_restarts": trips.copy(),
        "base_id": np.full(shape[:2], 7),
        METHOD_CODE: np.full(shape[:2], METHODS["pt"].code),
    }


def swap_probability(delta, betas):
    with np.errstate(invalid="ignore"):
        rates = np.exp(np.minimum(0.0, -np.diff(betas) * np.diff(delta, axis=-1)))
    return np.nan_to_num(rates)


def as_tree(statistics):
    """The DataTree that ``pm.sample`` would return with these statistics."""
    coords = {
        "chain": np.arange(len(statistics["betas"])),
        "draw": np.arange(statistics["betas"].shape[1]),
    }
    variables = {
        name: (("chain", "draw", *(f"{name}_dim_{i}" for i in range(array.ndim - 2))), array)
        for name, array in statistics.items()
    }
    draws = xr.Dataset({"x": (("chain", "draw"), np.zeros_like(statistics["base_id"], float))})
    return xr.DataTree.from_dict(
        {
            "/posterior": draws.assign_coords(coords),
            "/sample_stats": xr.Dataset(variables, coords=coords),
        }
    )


@pytest.fixture(scope="session")
def run_options():
    return RUN


@pytest.fixture(scope="session")
def make_statistics():
    return exact_statistics


@pytest.fixture(scope="session")
def make_tree():
    return as_tree


@pytest.fixture(scope="module")
def target():
    return asymmetric_bimodal()


@pytest.fixture(scope="module")
def base(target):
    """Wider than the target in both coordinates."""
    return pm_temper.GaussianBase(target.mean, 1.3 * np.sqrt(np.diag(target.cov)))


@pytest.fixture(scope="module")
def model(target):
    return target.model()


@pytest.fixture(scope="module")
def raw_run(model, base, seed):
    """What plain ``pm.sample`` returns: dimensions are numbered."""
    with model:
        step = pm_temper.ParallelTempering(base=base, scans_per_draw=8)
        return pm.sample(step=step, random_seed=seed, **RUN)


@pytest.fixture(scope="module")
def labelled_run(model, base, seed):
    return pm_temper.sample(model, base=base, scans_per_draw=8, random_seed=seed + 1, **RUN)
