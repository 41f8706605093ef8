"""Models without a gradient on part of their space: right all the same, and said."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.integrate import quad

import pymc_tempering as pm_temper
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.evidence.checks.density import density_findings
from pymc_tempering.model.compile import compile_density
from pymc_tempering.results.datatree import read_statistics

OPTIONS = {"draws": 200, "tune": 100, "chains": 2, "cores": 1, "progressbar": False, "quiet": True,
           "compute_convergence_checks": False}  # fmt: skip


def half_sloped():
    """Without a slope at negative x, where the derivative of the square root is 0 / 0."""
    with pm.Model() as model:
        x = pm.Normal("x", 0.3, 1.0)
        pm.Potential("wall", -2.0 * pt.sqrt(pt.maximum(x, 0.0)))
    return model


def density(x):
    return np.exp(-0.5 * (x - 0.3) ** 2 - 2.0 * max(x, 0.0) ** 0.5) / np.sqrt(2.0 * np.pi)


def halves():
    return quad(density, -np.inf, 0.0)[0], quad(density, 0.0, np.inf)[0]


def of(estimate):
    return [warning for warning in estimate.warnings if warning.code == "density_not_finite"]


def test_the_model_has_no_gradient_there():
    compiled = compile_density(half_sloped())
    value, gradient = compiled.value_and_grad(np.array([-0.7]))
    assert value == pytest.approx(np.log(density(-0.7)))
    assert np.isnan(gradient).all()


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["pt", "st", "gibbs_ct", "hais"])
def test_log_z_is_right_and_the_missing_gradient_named(method, seed):
    """Against quadrature, the mass of the half without a slope too. False alarms: 1e-5 each."""
    below, above = halves()
    with pytest.warns(TemperingWarning) as record:
        estimate = pm_temper.estimate_logz(
            half_sloped(), method=method, random_seed=seed, **OPTIONS
        )
    # 0.05 is the most that a chain of parallel tempering aims at, and there are two
    assert estimate.se < 0.04
    assert abs(estimate.log_z - np.log(below + above)) < 4.5 * estimate.se
    x = estimate.idata["posterior"]["x"].values
    share = below / (below + above)
    # draws of one dimension, a quarter of them independent at least
    error = np.sqrt(share * (1.0 - share) / (x.size / 4))
    assert abs((x < 0.0).mean() - share) < 4.5 * error
    [diagnostic] = of(estimate)
    warned = [w.message for w in record if w.category is TemperingWarning]
    assert diagnostic in [message.diagnostic for message in warned]
    stats = read_statistics(estimate.idata)
    n_bad, n = (int(stats[name].sum()) for name in ("n_bad_gradients", "n_gradients"))
    assert diagnostic.measured["gradient"] == {
        "n_bad_gradients / n_gradients": n_bad / n, "n_bad_gradients": n_bad, "n_gradients": n,
    }  # fmt: skip
    # trajectories spend about as much on that side as the draws: 0.73 of these
    assert 0.6 < n_bad / n < 0.9


@pytest.mark.statistical
@pytest.mark.parametrize("method", ["pt", "gibbs_ct"])
def test_moves_without_a_gradient_miss_none(method, seed):
    """False alarms: 1e-5 each."""
    estimate = pm_temper.estimate_logz(
        half_sloped(), method=method, explorer="slice", random_seed=seed, **OPTIONS
    )
    assert abs(estimate.log_z - np.log(sum(halves()))) < 4.5 * estimate.se
    assert of(estimate) == []
    assert not read_statistics(estimate.idata)["n_bad_gradients"].any()


def test_the_remedy_gives_the_model_its_gradient():
    with pm.Model() as model:
        x = pm.Normal("x", 0.3, 1.0)
        pm.Potential("wall", -2.0 * pt.switch(x > 0, pt.sqrt(x), 0))
    compiled = compile_density(model)
    for z in (-0.7, 0.7):
        value, gradient = compiled.value_and_grad(np.array([z]))
        assert value == pytest.approx(np.log(density(z)))
        slope = 0.3 - z - (z > 0) / abs(z) ** 0.5
        assert gradient == pytest.approx([slope])


@pytest.mark.parametrize(("n_bad", "named"), [(0, False), (10, False), (11, True), (1000, True)])
def test_a_small_share_is_not_worth_a_warning(n_bad, named):
    counts = {"n_gradients": np.array([[500], [500]]), "n_bad_gradients": np.array([[n_bad], [0]])}
    diagnostics = [*density_findings(counts)]
    assert [d.measured["n_bad_gradients / n_gradients"] for d in diagnostics] == [
        n_bad / 1000
    ] * named
    assert [*density_findings({})] == []


@pytest.mark.parametrize(("n_gradients", "named"), [(100, True), (1000, False)])
def test_infinite_densities_by_their_share(n_gradients, named):
    counts = {"n_gradients": np.full((2, 3), n_gradients), "n_infinite_density": np.eye(2, 3)}
    found = [finding.measured for finding in density_findings(counts)]
    assert found == [{"n_infinite_density": 2, "n_gradients": 600}] * named
