"""What is computed on every executor: chains of one model, and many data sets of another."""

import numpy as np
import pymc as pm

import pymc_tempering as pm_temper

SHORT = {"draws": 12, "tune": 12, "scans_per_draw": 4, "random_seed": 5,
         "progressbar": False, "quiet": True}  # fmt: skip


def two_modes():
    with pm.Model(coords={"item": ["a", "b"]}) as model:
        x = pm.Normal("x", [0.0, 1.0], [1.0, 2.0], dims="item")
        pm.Deterministic("total", x.sum())
        pm.Normal("y", x**2, 1.0, observed=[2.0, 3.0], dims="item")
    return model


def level():
    with pm.Model() as model:
        x = pm.Normal("x", 0.3, 1.5)
        pm.Normal("y", x, 1.0, observed=np.zeros(3))
    return model


DATA = {"y": np.random.default_rng(3).normal(size=(6, 3))}


def runs(executor, **options):
    """Draws and statistics of chains by name, log Z, and results for many data sets."""
    where = {"cores": 1} if executor is None else {"executor": executor}
    one = pm_temper.estimate_logz(two_modes(), chains=4, **where, **SHORT, **options)
    many = pm_temper.estimate_many(
        level(), DATA, random_seed=5, executor=executor, progressbar=False
    )
    found = {"log_z": one.log_z, "error": one.se}
    for tree in (one.idata["posterior"], one.idata["sample_stats"], many):
        found |= {str(name): values.to_numpy() for name, values in tree.dataset.data_vars.items()}
    del found["perf_counter_diff"]
    return found
