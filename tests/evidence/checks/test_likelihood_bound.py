"""The evidence beside the largest likelihood."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
import xarray as xr

from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.checks import CODES
from pymc_tempering.evidence.common import with_warnings
from pymc_tempering.evidence.run import Run

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
