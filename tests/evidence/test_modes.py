"""A light mode far from the base: found in every chain, or warned of."""

import numpy as np
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.testing import asymmetric_bimodal

N_SEEDS = 20


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_light_mode_is_found_from_a_base_on_the_heavy_one(seed):
    """Weight 0.1, six base sds away, default run: no failure in 20 seeds.

    A chain of 160 draws that mixes has 16 +- 5 of them in the light mode; below 3 it has not.
    """
    target = asymmetric_bimodal(weights=(0.1, 0.9))
    heavy = pm_temper.GaussianBase(
        np.array([3.0, -0.5]), np.linalg.cholesky(np.array([[1.0, -0.4], [-0.4, 0.6]]))
    )
    model = target.model()
    for run_seed in range(N_SEEDS):
        estimate = pm_temper.estimate_logz(
            model, base=heavy, chains=4, cores=1, random_seed=N_SEEDS * seed + run_seed,
            progressbar=False, quiet=True, compute_convergence_checks=False,
        )  # fmt: skip
        light = (estimate.idata["posterior"]["x"][..., 0] < 0).mean("draw").values
        assert estimate.warnings or (light > 0.02).all(), run_seed
