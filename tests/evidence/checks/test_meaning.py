"""Models whose log Z is not what their users would take it for."""

import math
import re
from dataclasses import replace

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from pymc.distributions.transforms import ordered
from scipy.stats import multivariate_normal

import pymc_tempering as pm_temper
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.checks import CODES
from pymc_tempering.evidence.checks.meaning import above_likelihood, constants, orders, powers
from pymc_tempering.evidence.checks.priors import runaway_flat_variables
from pymc_tempering.evidence.common import with_warnings
from pymc_tempering.evidence.run import Run


def mixture(places=(0.0, 0.0, 0.0), ordered_means=True, widths=2.0):
    options = {"transform": ordered, "initval": [-1.0, 0.0, 1.0]} if ordered_means else {}
    with pm.Model() as model:
        w = pm.Dirichlet("w", np.ones(3))
        mu = pm.Normal("mu", np.array(places), 3.0, **options)
        sd = pm.HalfNormal("sd", widths, shape=3)
        pm.NormalMixture("y", w=w, mu=mu, sigma=sd, observed=[1.0, 2.0, 5.0, -3.0])
    return model


@pytest.fixture
def draws(rng):
    values = {
        "w": rng.dirichlet(np.ones(3), (2, 30)),
        "mu": np.sort(rng.normal(size=(2, 30, 3)), axis=-1),
        "sd": np.abs(rng.normal(size=(2, 30, 3))),
    }
    variables = {n: (("chain", "draw", f"{n}_dim"), v) for n, v in values.items()}
    return xr.DataTree.from_dict({"/posterior": xr.Dataset(variables)})


def test_orders_that_are_equivalent_have_an_exact_correction(draws):
    [diagnostic] = orders(mixture(), draws)
    assert diagnostic.measured == {"variables": ["mu"], "log k!": pytest.approx(math.log(6))}
    assert f"exactly log 3! = {math.log(6):.4f}" in diagnostic.text


@pytest.mark.parametrize(
    "model", [mixture(places=(0.0, 0.0, 0.5)), mixture(widths=np.array([2.0, 2.0, 1.0]))],
    ids=["means", "widths"],
)  # fmt: skip
def test_orders_that_are_not_have_none(model, draws):
    [diagnostic] = orders(model, draws)
    assert diagnostic.measured == {"variables": ["mu"]}
    assert "log 3!" not in diagnostic.text
    assert "lacks the log of the prior's mass" in diagnostic.text


def test_models_without_an_order_are_left_alone(draws):
    assert [*orders(mixture(ordered_means=False), draws)] == []
    assert [*orders(mixture(), xr.DataTree())] != []


W = np.array([[0.0, 1, 1, 0], [1, 0, 1, 0], [1, 1, 0, 1], [0, 0, 1, 0]])


def areas(law, observed=None):
    with pm.Model() as model:
        alpha = pm.Beta("alpha", 2.0, 2.0)
        given = {"mu": np.zeros(4), "alpha": alpha, "tau": 2.0} if law is pm.CAR else {}
        effect = law("effect", W=W, observed=observed, **given)
        if observed is None:
            pm.Normal("y", effect, 1.0, observed=[0.3, -0.2, 1.1, 0.4])
    return model


def test_what_is_to_be_added_to_a_car_normalises_it(rng):
    [finding] = constants(areas(pm.CAR))
    assert finding.measured == {"variables": ["effect"]}
    added = re.search(r'"constant", (.*)\)` for each', finding.remedy)[1]
    effect, precision = rng.normal(size=4), 2.0 * (np.diag(W.sum(axis=0)) - 0.3 * W)
    as_it_is = pm.logp(pm.CAR.dist(mu=np.zeros(4), W=W, alpha=0.3, tau=2.0), effect).eval()
    law = multivariate_normal(np.zeros(4), np.linalg.inv(precision))
    assert as_it_is + eval(added, {"np": np, "W": W, "len": len}) == pytest.approx(
        law.logpdf(effect)
    )


def test_laws_that_lack_a_constant_are_named_wherever_they_are():
    assert [finding.piece for finding in constants(areas(pm.ICAR))] == ["ICAR"]
    observed = areas(pm.CAR, np.zeros(4))
    assert [finding.piece for finding in constants(observed)] == ["CAR"]
    with observed:
        pm.Potential("of_alpha", observed["alpha"] ** 2)
    assert [finding.piece for finding in constants(observed)] == ["CAR"]
    with observed:
        pm.Potential("constant", pt.as_tensor(-2.1))
    assert [*constants(observed)] == [*constants(mixture())] == []


def test_log_z_may_be_above_the_likelihood_where_a_prior_lacks_a_constant(rng):
    model = areas(pm.ICAR)
    draws = {"effect": rng.normal(size=(1, 5, 4)), "alpha": np.full((1, 5), 0.5)}
    idata = az.from_dict({"posterior": draws})
    estimate = LogZEstimate(50.0, 0.1, "x", np.full(2, 50.0))
    run = Run(model=model, idata=idata, estimate=estimate, warnings=())
    assert [*above_likelihood(run)] == []


def power_model(total_size, size=5):
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Normal("y", x, 1.0, observed=np.arange(float(size)), total_size=total_size)
    return model


def test_total_size_is_a_power():
    [diagnostic] = powers(power_model(12))
    assert diagnostic.measured == {"power of y": 2.4}
    assert [*powers(power_model(5))] == [*powers(power_model(None))] == []


def test_the_estimate_says_it_and_is_that_of_the_power():
    """Z of N(0, 1) times prod N(y_i | x, 1)^2 in closed form."""
    y = np.arange(5.0)
    precision = 1.0 + 2 * 5
    exact = -5 * np.log(2 * np.pi) - (y**2).sum() + 0.5 * (2 * y.sum()) ** 2 / precision
    exact -= 0.5 * np.log(precision)
    with pytest.warns(pm_temper.errors.TemperingWarning, match="power likelihood"):
        estimate = pm_temper.estimate_logz(
            power_model(10), draws=100, tune=60, chains=2, cores=1, random_seed=3, quiet=True,
            progressbar=False, scans_per_draw=8,
        )  # fmt: skip
    assert abs(estimate.log_z - exact) < 4.5 * estimate.se
    assert "power_likelihood" in estimate.idata["tempering"]["warning_code"].values
    with pytest.warns(pm_temper.errors.TemperingWarning) as record:
        again = pm_temper.estimate_logz(estimate.idata)
    assert "power_likelihood" in [w.message.diagnostic.code for w in record]
    assert again.warnings == estimate.warnings


@pytest.mark.parametrize(("spread", "runs"), [(3e10, True), (np.inf, True), (1e5, False)])
def test_flat_variables_that_run_away(spread, runs, rng):
    with pm.Model() as model:
        x = pm.Flat("x")
        pm.Normal("y", x, 1.0, observed=0.0)
    values = rng.normal(size=(2, 50))
    values[0, 0] = spread
    run = xr.DataTree.from_dict({"/posterior": xr.Dataset({"x": (("chain", "draw"), values)})})
    found = [*runaway_flat_variables(Run(model=model, idata=run))]
    assert [list(d.measured) for d in found] == [["largest distance from the median of x"]] * runs
    assert all(d.measured["largest distance from the median of x"] > 1e10 for d in found)


# --- the largest likelihood

DATA = np.array([0.7, -0.2, 1.9])
DOUBT = Diagnostic("weights_collapse", "2.", "Raise `draws`.")
# of the draw that fits best
LARGEST = -1.5 * np.log(2.0 * np.pi) - 0.5 * float(((DATA - 0.8) ** 2).sum())


def model_of(*, potential=False, flat=False):
    with pm.Model() as model:
        x = pm.Flat("x") if flat else pm.Normal("x", 0.0, 2.0)
        pm.Normal("y", x, 1.0, observed=DATA)
        if potential:
            pm.Potential("more", 100.0 + 0.0 * x)
    return model


def look(model, estimate):
    """The check, which asks only where others have warned."""
    warned = estimate.warnings or None
    run = Run(model=model, estimate=estimate, idata=estimate.idata, warnings=warned)
    return CODES["above_likelihood"].of(run)


@pytest.fixture
def estimate():
    draws = xr.Dataset({"x": (("chain", "draw"), np.array([[0.1, 0.8], [1.3, 0.5]]))})
    idata = xr.DataTree.from_dict({"/posterior": draws})
    above = LARGEST + 0.1
    return LogZEstimate(above, 0.01, "x", np.full(2, above), warnings=(DOUBT,), idata=idata)


def test_above_the_largest_is_named(estimate):
    diagnostic = look(model_of(), estimate)
    assert diagnostic.measured["largest log likelihood"] == pytest.approx(LARGEST)
    refused = with_warnings(estimate, [diagnostic])
    assert np.isnan(refused.log_z)
    assert np.isnan(refused.se)


@pytest.mark.parametrize("change", [{"se": 0.05}, {"log_z": LARGEST - 0.1}, {"warnings": ()}])
def test_what_is_below_or_within_errors_is_not(estimate, change):
    assert look(model_of(), replace(estimate, **change)) is None


@pytest.mark.parametrize("kind", ["potential", "flat"])
def test_no_bound_where_the_prior_is_not_known(estimate, kind):
    assert look(model_of(**{kind: True}), estimate) is None
