"""Estimates read from stored runs are those that were made."""

import numpy as np
import pytest
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.estimators.result import LogZEstimate
from pymc_tempering.evidence.reading import evidence_of, stored_estimate
from pymc_tempering.results.datatree import attach_estimate

ESTIMATE = LogZEstimate(
    -3.5, 0.25, "pt, mbar", np.array([-3.0, -4.0]),
    (Diagnostic("no_overlap", "first.", "Do this.", {"log_z": np.nan}),
     Diagnostic("chains_disagree", "second.", "Do that.", {"posterior": {"R-hat of x": 1.5}})),
    ess=150.0, df=37.0, lower=-3.75,
)  # fmt: skip


def bare_run():
    posterior = xr.Dataset({"x": (("chain", "draw"), np.zeros((2, 3)))}, {"chain": [0, 1]})
    return xr.DataTree.from_dict({"posterior": posterior})


def test_reads_what_was_attached(tmp_path):
    run = attach_estimate(bare_run(), ESTIMATE, {})
    assert stored_estimate(run) == ESTIMATE
    run.to_netcdf(tmp_path / "run.nc")
    assert stored_estimate(xr.open_datatree(tmp_path / "run.nc")) == ESTIMATE


def test_takes_estimates_and_runs_by_name():
    run = attach_estimate(bare_run(), ESTIMATE, {})
    assert evidence_of({"a": ESTIMATE, "b": run}) == {"a": ESTIMATE, "b": ESTIMATE}
    with pytest.raises(DataError, match="'c' is a float"):
        evidence_of({"a": ESTIMATE, "c": 1.0})
    with pytest.raises(DataError, match="sample_stats"):
        stored_estimate(bare_run())
