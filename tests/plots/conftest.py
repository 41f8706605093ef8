"""Small runs of every sampler, and the same read back from a file."""

import matplotlib as mpl
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering.results.datatree import label_dimensions
from pymc_tempering.steps.gibbs_continuous import GibbsCT
from pymc_tempering.steps.simulated import SimulatedTempering

mpl.use("Agg")


@pytest.fixture(autouse=True)
def close_figures():
    yield
    mpl.pyplot.close("all")


def bimodal():
    with pm.Model() as model:
        x = pm.Normal("x", 1.0, 2.0, shape=2)
        pm.Normal("y", (x**2).sum(), 0.5, observed=3.0)
    return model


def draw(step):
    with bimodal():
        return label_dimensions(
            pm.sample(
                30, tune=60, chains=2, cores=1, step=step(), random_seed=3, progressbar=False,
                quiet=True,
            )
        )  # fmt: skip


@pytest.fixture(scope="session")
def run(seed):
    return pm_temper.sample(
        bimodal(), draws=40, tune=60, chains=3, cores=1, random_seed=seed, progressbar=False,
        quiet=True, betas=[0.0, 0.005, 0.1, 0.4, 1.0],
    )  # fmt: skip


@pytest.fixture(scope="session")
def stored(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("run") / "run.nc"
    run.to_netcdf(path)
    return xr.open_datatree(path)


@pytest.fixture(scope="session")
def simulated_run():
    return draw(SimulatedTempering)


@pytest.fixture(scope="session")
def continuous_run():
    return draw(GibbsCT)


@pytest.fixture(scope="session")
def nuts_run():
    values = np.zeros((2, 5))
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset({"x": (("chain", "draw"), values)}),
            "sample_stats": xr.Dataset({"tree_depth": (("chain", "draw"), values)}),
        }
    )


@pytest.fixture(scope="session")
def annealed_run(run):
    """A run as HAIS records it, from exact weights: log W is normal around its own mean."""
    rng = np.random.default_rng(4)
    spread, log_z = 1.5, -3.0
    shape = (2, 300, 4)
    forward = rng.normal(log_z - spread**2 / 2, spread, shape)
    forward[0, 0, 0] = -np.inf
    reverse = rng.normal(log_z + spread**2 / 2, spread, shape)
    statistics = {
        "log_weight_forward": (("chain", "draw", "scan"), forward),
        "log_weight_reverse": (("chain", "draw", "scan"), reverse),
    }
    values = {
        "log_marginal_likelihood": ((), log_z),
        "log_marginal_likelihood_se": ((), 0.05),
        "log_marginal_likelihood_df": ((), 20.0),
        "log_marginal_likelihood_ess": ((), 900.0),
        "log_marginal_likelihood_lower": ((), -3.1),
        "log_marginal_likelihood_upper": ((), -2.9),
        "log_z_chain": (("chain",), [-3.05, -2.95]),
    }
    return xr.DataTree.from_dict(
        {
            "posterior": run["posterior"].to_dataset().isel(chain=slice(0, 2)),
            "sample_stats": xr.Dataset(statistics, coords={"chain": [0, 1]}),
            "tempering": xr.Dataset(values, coords={"chain": [0, 1]}, attrs={"method": "hais"}),
        }
    )
