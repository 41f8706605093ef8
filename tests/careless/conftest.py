"""What the tables of careless and hostile calls use, by name."""

import functools
import warnings

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.model import machine_code

nan, inf = float("nan"), float("inf")


def normal(observed=1.0, name="x"):
    with pm.Model() as model:
        x = pm.Normal(name, 0.0, 1.0)
        pm.Normal("y", x, 0.5, observed=observed)
    return model


def with_variables(*build):
    with pm.Model() as model:
        for make in build:
            make()
    return model


def simulate(rng, x, size):
    return rng.normal(x, 1.0, size)


def draws_of(**arrays):
    variables = {
        name: (("chain", "draw", *(f"{name}_{i}" for i in range(array.ndim - 2))), array)
        for name, array in arrays.items()
    }
    return xr.Dataset(variables)


def nuts_run():
    """What NUTS leaves: no statistics that log Z is made of."""
    rng = np.random.default_rng(1)
    return xr.DataTree.from_dict(
        {
            "/posterior": draws_of(x=rng.normal(size=(2, 50))),
            "/sample_stats": draws_of(lp=rng.normal(size=(2, 50)), tree_depth=np.ones((2, 50))),
        }
    )


@pytest.fixture(scope="session")
def world():
    """Names that the calls of the tables may use."""
    model = normal()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TemperingWarning)
        run = pm_temper.sample(
            model, draws=30, tune=40, chains=2, cores=1, scans_per_draw=8, random_seed=1,
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
    a = pm_temper.LogZEstimate(-10.0, 0.1, "pt, mbar", np.full(4, -10.0))
    b = pm_temper.LogZEstimate(-12.0, 0.1, "pt, mbar", np.full(4, -12.0))
    names = {name: getattr(pm_temper, name) for name in pm_temper.__all__}
    return names | {
        "np": np, "pd": pd, "pm": pm, "xr": xr, "nan": nan, "inf": inf,
        "model": model, "other": normal(2.0), "renamed": normal(name="z"), "run": run,
        "nuts": nuts_run(), "empty": xr.DataTree(), "estimate": a, "worse": b,
        "table": pm_temper.compare({"a": a, "b": b}),
        "base": pm_temper.GaussianBase([0.0], [1.0]),
        "base2": pm_temper.GaussianBase([0.0, 0.0], [1.0, 1.0]),
        "discrete": with_variables(lambda: pm.Poisson("k", 3.0)),
        "nothing": with_variables(lambda: pm.Normal("y", 0.0, 1.0, observed=1.0)),
        "minibatch": with_variables(
            lambda: pm.Normal(
                "y", pm.Normal("x"), observed=pm.Minibatch(np.zeros(9), batch_size=3), total_size=9
            )
        ),
        "simulator": with_variables(
            lambda: pm.Simulator("s", simulate, pm.Normal("x"), observed=np.zeros(5))
        ),
        "flat": with_variables(lambda: pm.Flat("x")),
    }  # fmt: skip


@pytest.fixture
def call(world, monkeypatch, tmp_path):
    """Evaluate a call; it may neither compile nor sample, nor leave a file."""

    @functools.wraps(pm.sample)
    def refuse(*args, **kwargs):
        pytest.fail("compiled or sampled before the arguments were checked")

    def evaluate(source, *, may_compile=False):
        if not may_compile:
            monkeypatch.setattr(machine_code, "pymc_compile", refuse)
        monkeypatch.setattr(pm, "sample", refuse)
        monkeypatch.chdir(tmp_path)
        return eval(source, dict(world))

    return evaluate
