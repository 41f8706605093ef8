"""Priors that the evidence depends on more than on the data."""

import warnings

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import pymc_tempering as pm_temper
from pymc_tempering.errors import TemperingWarning
from pymc_tempering.evidence.checks import CODES, priors
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.evidence.run import Run
from pymc_tempering.model.identity import recipe

QUICK = {"draws": 50, "tune": 60, "chains": 2, "cores": 1, "progressbar": False, "quiet": True,
         "compute_convergence_checks": False, "scans_per_draw": 8, "random_seed": 4}  # fmt: skip


def draws(rng, **sds):
    variables = {
        name: (("chain", "draw"), sd * rng.normal(size=(2, 200))) for name, sd in sds.items()
    }
    return xr.DataTree.from_dict({"/posterior": xr.Dataset(variables)})


def prior_diagnostics(model, idata):
    """Both checks of priors."""
    checks = (CODES[code] for code in ("improper_priors", "extremely_wide_priors"))
    found = [check.of(Run(model=model, idata=idata)) for check in checks]
    return [diagnostic for diagnostic in found if diagnostic is not None]


def normal_model(prior_sd):
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, prior_sd)
        pm.Normal("y", mu, 1.0, observed=[0.3, -0.2, 1.1])
    return model


def assert_wide(diagnostics, name):
    """One diagnostic, which is about the prior of this variable alone."""
    [diagnostic] = diagnostics
    assert diagnostic.code == "extremely_wide_priors"
    assert list(diagnostic.measured) == [f"prior width / posterior width of {name}"]
    assert diagnostic.text.startswith(f"{name} (")
    return diagnostic


@pytest.mark.parametrize("prior", [pm.Flat, pm.HalfFlat])
def test_improper_priors_by_name(prior, rng):
    with pm.Model() as model:
        mu = prior("mu")
        sd = pm.HalfNormal("sd")
        pm.Normal("y", mu, sd, observed=[0.3, -0.2, 1.1])
    (diagnostic,) = prior_diagnostics(model, draws(rng, mu=0.5, sd=0.3))
    assert (diagnostic.code, diagnostic.measured) == ("improper_priors", {"variables": ["mu"]})
    assert "Give it a proper prior" in diagnostic.remedy


def test_a_density_written_as_a_potential_is_no_improper_prior(model, labelled_run):
    assert [rv.name for rv in model.free_RVs] == ["x"]
    assert prior_diagnostics(model, labelled_run) == []


def test_extremely_wide_priors_by_name(rng):
    diagnostic = assert_wide(prior_diagnostics(normal_model(1e5), draws(rng, mu=0.5)), "mu")
    # 1e5 / 0.5, interquartile ranges of 500 and 400 draws
    assert next(iter(diagnostic.measured.values())) == pytest.approx(2e5, rel=0.5)
    assert "`prior_sensitivity`" in diagnostic.remedy


def test_the_limit_is_a_factor_of_a_thousand(rng):
    # interquartile ranges of 500 and 400 draws are 10 % uncertain together: 5 sd off the limit
    assert prior_diagnostics(normal_model(500.0), draws(rng, mu=1.0)) == []
    assert len(prior_diagnostics(normal_model(2000.0), draws(rng, mu=1.0))) == 1


def test_wide_entries_of_a_vector_are_found(rng):
    with pm.Model() as model:
        pm.Normal("b", 0.0, [1.0, 1e6], shape=2)
    run = xr.DataTree.from_dict(
        {"/posterior": xr.Dataset({"b": (("chain", "draw", "i"), rng.normal(size=(2, 200, 2)))})}
    )
    assert len(prior_diagnostics(model, run)) == 1


def test_50_good_priors_raise_nothing(rng):
    """Widths of 1 to 100 times the posterior's, a tenth of the limit: no chance to exceed it."""
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 0.1)
        pm.Normal("b", 0.0, scale * np.geomspace(1.0, 100.0, 50))
    assert prior_diagnostics(model, hierarchical_run(rng, "scale", "b", 50)) == []


def hierarchical_run(rng, parent, child, n):
    """Posterior draws of a positive parent near 1 and of n children of sd 1."""
    posterior = xr.Dataset(
        {
            parent: (("chain", "draw"), np.exp(0.05 * rng.normal(size=(2, 200)))),
            child: (("chain", "draw", "i"), rng.normal(size=(2, 200, n))),
        }
    )
    return xr.DataTree.from_dict({"/posterior": posterior})


def test_hyperparameters_that_the_data_exclude_do_not_widen_a_prior(rng):
    """A gamma prior of small shape for a rate has most of its mass near zero; the data have not."""
    with pm.Model() as model:
        rate = pm.Gamma("rate", 0.1, 1.0)
        pm.Gamma("failures", 1.0, rate, shape=10)
    assert prior_diagnostics(model, hierarchical_run(rng, "rate", "failures", 10)) == []


def test_a_wide_prior_of_children_is_found_at_good_hyperparameters(rng):
    with pm.Model() as model:
        scale = pm.HalfNormal("scale", 1.0)
        pm.Normal("effect", 0.0, 1e5 * scale, shape=10)
    assert_wide(prior_diagnostics(model, hierarchical_run(rng, "scale", "effect", 10)), "effect")


def test_a_prior_that_cannot_be_drawn_is_passed_over(rng):
    with pm.Model() as model:
        pm.CustomDist("odd", logp=lambda value: -(value**2))
        pm.Normal("mu", 0.0, 1e6)
    assert_wide(prior_diagnostics(model, draws(rng, odd=1.0, mu=1.0)), "mu")


@pytest.fixture(scope="module")
def flat_prior():
    with pm.Model() as model:
        mu = pm.Flat("mu")
        pm.Normal("y", mu, 1.0, observed=[0.3, -0.2, 1.1])
    return model


@pytest.mark.parametrize("call", [pm_temper.estimate_logz, pm_temper.sample])
def test_warned_of_through_warnings_and_in_the_result(call, flat_prior):
    with pytest.warns(TemperingWarning) as record:
        result = call(flat_prior, **QUICK)
    run = result if isinstance(result, xr.DataTree) else result.idata
    diagnostics = stored_estimate(run).warnings
    assert list(diagnostics) == [
        w.message.diagnostic for w in record if w.category is TemperingWarning
    ]
    assert "improper_priors" in [diagnostic.code for diagnostic in diagnostics]
    if not isinstance(result, xr.DataTree):
        assert result.warnings == diagnostics
        # log Z is still the integral of the model's density
        y = np.array([0.3, -0.2, 1.1])
        exact = -np.log(2 * np.pi) - 0.5 * np.log(3) - 0.5 * ((y - y.mean()) ** 2).sum()
        assert abs(result.log_z - exact) < 4.5 * result.se


def test_a_stored_run_remembers_its_priors(flat_prior):
    with pytest.warns(TemperingWarning):
        run = pm_temper.sample(flat_prior, **QUICK)
    with pytest.warns(TemperingWarning):
        again = pm_temper.estimate_logz(run.isel(draw=slice(40)))
    assert "improper_priors" in [diagnostic.code for diagnostic in again.warnings]


def test_a_variable_without_entries_is_no_obstacle(rng):
    """As a vector over coordinates of which this data set has none."""
    with pm.Model() as model:
        pm.Normal("none", shape=0)
        pm.Normal("mu", 0.0, 1e5)
        pm.Normal("y", model["mu"], 1.0, observed=0.3)
    tree = draws(rng, mu=0.5)
    tree["posterior"] = xr.DataTree(
        tree["posterior"].to_dataset().assign(none=(("chain", "draw", "k"), np.empty((2, 200, 0))))
    )
    assert_wide(prior_diagnostics(model, tree), "mu")


def test_a_prior_whose_own_function_fails_leaves_the_others(rng):
    """Sampling is done by then: whatever user code raises must not lose the run."""

    def fail(*args, rng=None, size=None):
        raise TypeError("cannot draw")

    with pm.Model() as model:
        own = pm.CustomDist("own", logp=lambda value: -0.5 * value**2, random=fail)
        pm.Normal("mu", 0.0, 1e5)
        pm.Normal("y", model["mu"] + own, 1.0, observed=0.3)
    assert_wide(prior_diagnostics(model, draws(rng, mu=0.5, own=0.5)), "mu")


def test_one_draw_has_no_width(rng):
    tree = draws(rng, mu=0.5).isel(chain=[0], draw=[0])
    assert prior_diagnostics(normal_model(1.0), tree) == []


def test_compiled_once_and_never_of_data_that_were(rng):
    with pm.Model() as model:
        width = pm.Data("width", 1e5)
        mu = pm.Normal("mu", 0.0, width)
        pm.Normal("y", mu, 1.0, observed=[0.3, -0.2, 1.1])
    idata = draws(rng, mu=0.5)
    first = assert_wide(prior_diagnostics(model, idata), "mu")
    content = [*recipe(model), mu, None, mu]
    function = priors._drawn_with.get(model, content, pytest.fail)
    # drawn with the same seed again
    assert prior_diagnostics(model, idata) == [first]
    model.set_data("width", 2.0)
    assert prior_diagnostics(model, idata) == []
    content = [*recipe(model), mu, None, mu]
    assert priors._drawn_with.get(model, content, pytest.fail) is not function


def test_wide_priors_are_said_where_models_are_compared_and_differ(rng):
    def estimate(prior_sd):
        idata = draws(rng, mu=0.5)
        diagnostics = tuple(prior_diagnostics(normal_model(prior_sd), idata))
        return pm_temper.LogZEstimate(-np.log(prior_sd), 0.1, "pt, mbar", np.zeros(4), diagnostics)

    narrow, wide, as_wide = map(estimate, (1.0, 1e5, 1e5))
    assert wide.warnings == ()
    assert "wide" not in repr(wide)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not pm_temper.compare({"wide": wide, "as wide": as_wide})["warning"].any()
    with pytest.warns(TemperingWarning, match="extremely wide priors: of 'wide', mu") as record:
        table = pm_temper.compare({"narrow": narrow, "wide": wide})
    assert len(record) == 1
    assert table["warning_codes"].to_dict() == {"narrow": "", "wide": "extremely_wide_priors"}
