"""Short runs with data, a deterministic and a vector variable."""

import numpy as np
import pymc as pm
import pytest

import pymc_tempering as pm_temper

Y = np.array([0.4, -1.1, 2.3, 0.9])
RUN = {"draws": 60, "tune": 60, "chains": 2, "cores": 1, "progressbar": False, "quiet": True,
       "compute_convergence_checks": False}  # fmt: skip


@pytest.fixture(scope="session")
def regression():
    with pm.Model(coords={"unit": list("abcd")}) as model:
        mu = pm.Normal("mu", 0.0, 2.0)
        sd = pm.HalfNormal("sd", 1.0)
        shift = pm.Normal("shift", 0.0, 1.0, dims="unit")
        pm.Deterministic("mean", mu + shift, dims="unit")
        pm.Normal("y", mu + shift, sd + 0.5, observed=Y, dims="unit")
    return model


@pytest.fixture(scope="session")
def tempered(regression, seed):
    return pm_temper.sample(
        regression, scans_per_draw=24, random_seed=seed, discard_tuned_samples=False, **RUN
    )
