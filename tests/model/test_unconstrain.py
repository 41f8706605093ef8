"""Posterior draws of any sampler, back on the unconstrained space."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.model.at_draws import unconstrained_draws
from pymc_tempering.model.compile import compile_density
from pymc_tempering.model.graph import in_python


@pytest.fixture(scope="module")
def model():
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1.0, shape=2)
        sigma = pm.HalfNormal("sigma", 1.0)
        low = pm.Uniform("low", -1.0, 3.0)
        top = pm.Uniform("top", low, 5.0)
        pm.Normal("y", mu, sigma + top - low, observed=np.array([0.5, 1.0]))
    return model


@pytest.fixture(scope="module")
def density(model):
    """Evaluated nowhere but to verify it: nothing is compiled."""
    with in_python():
        return compile_density(model, backend="c")


def tree(**values):
    dims = {"mu": ("chain", "draw", "mu_dim_0")}
    return xr.DataTree.from_dict(
        {
            "posterior": xr.Dataset(
                {name: (dims.get(name, ("chain", "draw")), v) for name, v in values.items()}
            )
        }
    )


def draws(rng, n_chains, n):
    low = rng.uniform(-1.0, 3.0, (n_chains, n))
    return {
        "mu": rng.normal(size=(n_chains, n, 2)),
        "sigma": np.exp(rng.normal(size=(n_chains, n))),
        "low": low,
        "top": rng.uniform(low, 5.0),
    }


def test_nuts_draws_map_back_by_the_known_transforms(model, density):
    # interpreted, in short trajectories: what it takes to compile NUTS is for nothing here
    with model, in_python():
        idata = pm.sample(
            20, tune=20, chains=2, cores=1, random_seed=1, progressbar=False, quiet=True,
            compute_convergence_checks=False, nuts={"max_treedepth": 3},
            compile_kwargs={"mode": "FAST_COMPILE"},
        )  # fmt: skip
    z = unconstrained_draws(idata, density)
    posterior = {
        name: idata.posterior[name].values.reshape(40, *idata.posterior[name].shape[2:])
        for name in ("mu", "sigma", "low", "top")
    }
    low, top = posterior["low"], posterior["top"]
    expected = {
        "mu": posterior["mu"],
        "sigma_log__": np.log(posterior["sigma"]),
        "low_interval__": np.log((low + 1) / (3 - low)),
        "top_interval__": np.log((top - low) / (5 - top)),
    }
    for i in range(40):
        for name, value in density.points.unravel(z[i]).items():
            np.testing.assert_allclose(value, expected[name][i], rtol=1e-9, atol=1e-9)


def test_many_draws_are_thinned(density, rng):
    values = draws(rng, 3, 100)
    z = unconstrained_draws(tree(**values), density, max_draws=7)
    assert z.shape == (7, 5)
    first, last = (density.points.unravel(z[i])["sigma_log__"] for i in (0, -1))
    assert first == pytest.approx(np.log(values["sigma"][0, 0]))
    assert last == pytest.approx(np.log(values["sigma"][-1, -1]))


def test_draws_of_another_model_are_refused(density, rng):
    values = draws(rng, 1, 5)
    with pytest.raises(DataError, match="no `posterior`"):
        unconstrained_draws(xr.DataTree.from_dict({"prior": xr.Dataset()}), density)
    with pytest.raises(DataError, match=r"lacks the free variables \['sigma'\]"):
        unconstrained_draws(tree(**{k: v for k, v in values.items() if k != "sigma"}), density)
    with pytest.raises(DataError, match="outside the support"):
        unconstrained_draws(tree(**(values | {"sigma": -values["sigma"]})), density)
    with pytest.raises(DataError, match="shape"):
        unconstrained_draws(tree(**(values | {"mu": rng.normal(size=(1, 5, 3))})), density)
