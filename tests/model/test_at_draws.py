"""Densities at posterior draws, against SciPy and PyMC."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

from pymc_tempering.errors import DataError
from pymc_tempering.model.at_draws import constrained_model, evaluate, log_jacobian, stack_draws
from pymc_tempering.model.graph import in_python
from tests.chains import run_of


def hierarchy():
    with pm.Model() as model:
        mu = pm.Normal("mu", 1.0, 2.0)
        tau = pm.Gamma("tau", 2.0, 3.0)
        theta = pm.Normal("theta", mu, tau, shape=3)
        share = pm.Dirichlet("share", np.array([1.0, 2.0, 3.0]))
        edge = pm.Uniform("edge", -1.0, 2.0)
        pm.Potential("extra", -0.5 * (share**2).sum())
        pm.Normal("y", theta + edge, 0.5, observed=np.array([0.3, -0.2, 1.0]))
    return model


@pytest.fixture
def draws(rng):
    return {
        "mu": rng.normal(size=8),
        "tau": rng.gamma(2.0, 1.0, 8),
        "theta": rng.normal(size=(8, 3)),
        "share": rng.dirichlet([1.0, 2.0, 3.0], 8),
        "edge": rng.uniform(-1.0, 2.0, 8),
    }


def test_prior_and_likelihood_in_constrained_space(draws):
    model = constrained_model(hierarchy())
    prior, likelihood = evaluate(model, [model.varlogp, model.datalogp], draws)
    mu, tau, theta, share, edge = draws.values()
    expected = (
        stats.norm(1.0, 2.0).logpdf(mu)
        + stats.gamma(2.0, scale=1 / 3).logpdf(tau)
        + stats.norm.logpdf(theta, mu[:, None], tau[:, None]).sum(axis=1)
        + [stats.dirichlet([1.0, 2.0, 3.0]).logpdf(s) for s in share]
        - np.log(3.0)
    )
    np.testing.assert_allclose(prior, expected, rtol=1e-6)
    data = stats.norm.logpdf([0.3, -0.2, 1.0], theta + edge[:, None], 0.5).sum(axis=1)
    np.testing.assert_allclose(likelihood, data - 0.5 * (share**2).sum(axis=1), rtol=1e-6)


def test_jacobian_makes_up_the_density_of_the_unconstrained_values(draws):
    """Against PyMC's own log density of transformed values, which is what samplers use."""
    model = hierarchy()
    constrained = constrained_model(model)
    outputs = [constrained.varlogp + constrained.datalogp, log_jacobian(model, constrained)]
    joint, jacobian = evaluate(constrained, outputs, draws)
    with in_python():
        logp = model.compile_logp(mode="FAST_COMPILE")
    for i in range(8):
        point = {}
        for rv in model.free_RVs:
            transform, value = model.rvs_to_transforms[rv], draws[rv.name][i]
            if transform is not None:
                value = transform.forward(value, *rv.owner.inputs).eval()
            point[model.rvs_to_values[rv].name] = value
        assert joint[i] + jacobian[i] == pytest.approx(float(logp(point)), rel=1e-9)


def test_more_draws_than_fit_one_call(rng):
    with pm.Model() as model:
        pm.Normal("x", 0.0, 1.0)
    model = constrained_model(model)
    x = rng.normal(size=1203)
    np.testing.assert_allclose(
        evaluate(model, [model.varlogp], {"x": x})[0], stats.norm.logpdf(x), rtol=1e-12
    )


def test_an_impossible_draw_does_not_touch_the_others():
    """A parameter check that became one check for the whole batch would make all of them -inf."""
    with pm.Model() as model:
        a = pm.Normal("a", 0.0, 1.0)
        pm.Normal("b", 0.0, a)
    model = constrained_model(model)
    a, b = np.array([1.0, -1.0, 2.0]), np.array([0.5, 0.5, 0.5])
    [joint] = evaluate(model, [model.varlogp], {"a": a, "b": b})
    assert joint[1] == -np.inf
    expected = stats.norm.logpdf(a) + stats.norm.logpdf(b, 0.0, np.abs(a))
    np.testing.assert_allclose(joint[[0, 2]], expected[[0, 2]])


def test_data_and_dims_are_frozen():
    with pm.Model(coords={"obs": [1, 2]}) as model:
        x = pm.Data("x", [1.0, 2.0], dims="obs")
        b = pm.Normal("b", 0.0, 1.0)
        pm.Normal("y", b * x, 1.0, observed=[0.0, 1.0], dims="obs")
    frozen = constrained_model(model)
    [value] = evaluate(frozen, [frozen.datalogp], {"b": np.array([0.5])})
    assert value[0] == pytest.approx(stats.norm.logpdf([0.0, 1.0], [0.5, 1.0]).sum())


def test_draws_are_stacked_chain_by_chain(rng):
    with pm.Model() as model:
        pm.Normal("x", 0.0, 1.0, shape=2)
    array = rng.normal(size=(3, 4, 2))
    tree = run_of(x=array)
    tree["posterior"] = xr.DataTree(tree["posterior"].to_dataset().transpose("x_0", "draw", ...))
    stacked = stack_draws(tree, constrained_model(model))["x"]
    np.testing.assert_array_equal(stacked, array.reshape(12, 2))


def test_other_draws_are_refused():
    with pm.Model() as model:
        pm.Normal("x", 0.0, 1.0, shape=2)
    model = constrained_model(model)
    with pytest.raises(DataError, match="no `posterior`"):
        stack_draws(xr.DataTree.from_dict({"prior": xr.Dataset()}), model)
    with pytest.raises(DataError, match=r"lacks the free variables \['x'\]"):
        stack_draws(run_of(z=np.zeros((1, 2))), model)
    with pytest.raises(DataError, match=r"'x' has shape \(3,\) in the posterior and \(2,\)"):
        stack_draws(run_of(x=np.zeros((1, 2, 3))), model)
