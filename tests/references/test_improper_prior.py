"""Priors that cannot serve as a reference are refused before any sampling, with the remedy."""

import pymc as pm
import pytest

import pymc_tempering as pm_temper
from pymc_tempering.errors import BaseError


def test_flat_variables_are_named():
    with pm.Model() as model:
        location, scale = pm.Flat("location"), pm.HalfNormal("scale", 2.0)
        pm.Normal("y", location, scale, observed=[0.3, 1.7])
    with pytest.raises(BaseError, match=r"\['location'\] are flat.*Give them proper priors"):
        pm_temper.ParallelTempering(model=model, base="prior")


@pytest.mark.filterwarnings("ignore:Numba will use object mode:UserWarning")
def test_laws_without_draws():
    with pm.Model() as model:
        location = pm.CustomDist("location", logp=lambda value: -0.5 * (value - 1.0) ** 2)
        pm.Normal("y", location, 1.0, observed=[0.3, 1.7])
    with pytest.raises(BaseError, match=r"run random on the CustomDist[^\n]*Leave `base` away"):
        pm_temper.ParallelTempering(model=model, base="prior")
