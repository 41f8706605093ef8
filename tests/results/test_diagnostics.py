"""Doubts are stored as arrays of strings, and come back from files as they were."""

import json

import numpy as np
import pytest
import xarray as xr

from pymc_tempering.errors import DataError
from pymc_tempering.estimators.diagnostic import Diagnostic
from pymc_tempering.evidence.reading import stored_estimate
from pymc_tempering.results.datatree import diagnostic_variables, read_diagnostics
from pymc_tempering.results.files import read_run, write_run

DOUBTS = (
    Diagnostic("chains_disagree", "1 ± 0.1\nand: “0.3”.", "Raise `tune`.",
               {"log_z": [1.25, 0.1 + 0.2]}),
    Diagnostic("no_overlap", "", "", {"log_z": -np.inf, "chain": [0, 3], "variables": ["x", "ü"]}),
    Diagnostic("no_overlap", "longer by far" * 50, "Raise `n_levels`."),
)  # fmt: skip


def tree(diagnostics):
    dataset = xr.Dataset(
        {"log_z_chain": ("chain", [1.0, 2.0]), "log_marginal_likelihood": 1.5,
         "log_marginal_likelihood_se": 0.5} | diagnostic_variables(diagnostics)
    )  # fmt: skip
    return xr.DataTree.from_dict({"/tempering": dataset})


@pytest.mark.parametrize("diagnostics", [(), DOUBTS[:1], DOUBTS], ids=len)
@pytest.mark.parametrize("name", ["run.nc", "run.zarr"])
def test_round_trip(diagnostics, name, tmp_path):
    if name.endswith("zarr"):
        pytest.importorskip("zarr")
    run = tree(diagnostics)
    for path in (tmp_path / name, tmp_path / f"again_{name}"):
        run = read_run(write_run(run, path))
        assert run["tempering"].sizes["warning"] == len(diagnostics)
        assert stored_estimate(run).warnings == diagnostics


def test_each_part_is_an_array_of_strings():
    dataset = tree(DOUBTS)["tempering"].dataset
    parts = ("code", "text", "remedy", "measured")
    names = [f"warning_{part}" for part in parts]
    assert [name for name in dataset.data_vars if "warning" in name] == names
    for name in names:
        assert dataset[name].dims == ("warning",)
        assert dataset[name].dtype.kind == "U"
        assert dataset[name].attrs["long_name"]
    assert dataset["warning_code"].values.tolist() == [d.code for d in DOUBTS]
    assert json.loads(dataset["warning_measured"].values[1])["chain"] == [0, 3]
    assert "warnings" not in dataset.attrs


def test_selecting_among_warnings_keeps_them_together():
    dataset = tree(DOUBTS)["tempering"].dataset
    assert read_diagnostics(dataset.isel(warning=[2, 0])) == (DOUBTS[2], DOUBTS[0])
    assert read_diagnostics(dataset.isel(warning=1)) == DOUBTS[1:2]


def test_numbers_of_numpy_are_stored_too():
    diagnostic = Diagnostic("mode_missing", "a.", "b.",
                            {"chain": np.array([1, 2]), "k": np.float64(0.1),
                                               "n": np.int64(3)})  # fmt: skip
    [read] = read_diagnostics(xr.Dataset(diagnostic_variables([diagnostic])))
    assert read.measured == {"chain": [1, 2], "k": 0.1, "n": 3}


def test_what_another_version_stored_is_refused_by_name():
    stored = xr.Dataset(diagnostic_variables([Diagnostic("no_round_trips", "x.", "y.")]))
    with pytest.raises(DataError, match=r"\['no_round_trips'\].*drop_nodes\('tempering'\)"):
        read_diagnostics(stored)


def test_a_run_without_warnings_has_none():
    assert read_diagnostics(xr.Dataset()) == ()
