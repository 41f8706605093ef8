"""Every variable that a run stores is in the schema, with its dimensions named."""

import re

import pytest

import pymc_tempering as pm_temper
from pymc_tempering.results.schema import SAMPLE_STATS, TEMPERING
from pymc_tempering.results.statistics import STEP_METHODS
from pymc_tempering.testing import asymmetric_bimodal

PYMC_OWN = {"warning"}


@pytest.fixture(scope="module")
def model():
    return asymmetric_bimodal().model()


@pytest.fixture(scope="module", params=sorted(STEP_METHODS))
def run(request, model, seed):
    options = {} if request.param == "hais" else {"scans_per_draw": 8}
    return pm_temper.sample(
        model, method=request.param, draws=30, tune=40, chains=2, cores=1, random_seed=seed,
        progressbar=False, quiet=True, compute_convergence_checks=False, **options,
    )  # fmt: skip


@pytest.mark.filterwarnings("ignore::pymc_tempering.errors.TemperingWarning")
def test_no_variable_is_unlabelled(run):
    for group, schema in (("sample_stats", SAMPLE_STATS), ("tempering", TEMPERING)):
        dataset = run[group].dataset
        assert set(dataset.data_vars) - PYMC_OWN <= set(schema)
        assert not [dim for dim in dataset.dims if re.search(r"_dim_\d", str(dim))]
        for name, variable in dataset.data_vars.items():
            assert variable.attrs["long_name"] == schema[name].meaning
            assert variable.attrs.get("units", "") == schema[name].unit
            leading = ("chain", "draw") if group == "sample_stats" else ()
            if name != "log_marginal_likelihood":
                assert variable.dims == (leading + schema[name].dims)[: variable.ndim]


def test_entries_are_complete():
    for schema in (SAMPLE_STATS, TEMPERING):
        for name, entry in schema.items():
            assert entry.meaning, name
            assert all(dim.isidentifier() for dim in entry.dims), name
            assert not entry.meaning.endswith("."), name
