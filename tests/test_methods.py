"""The table of methods: every row is whole, and agrees with what it names."""

import inspect

import pytest

import pymc_tempering as pm_temper
from pymc_tempering import methods
from pymc_tempering.evidence.common import MethodEstimate
from pymc_tempering.methods import METHOD_CODE, METHODS, load, method_of_code
from pymc_tempering.results.statistics import STATISTICS, statistics_of
from pymc_tempering.steps.common import TemperedStep


def test_names_and_codes_are_unique():
    assert [row.name for row in METHODS.values()] == list(METHODS)
    assert len({row.code for row in METHODS.values()}) == len(METHODS)
    assert all(method_of_code(row.code) is row for row in METHODS.values())


def test_codes_in_files_never_change():
    codes = {"pt": 1, "gibbs_ct": 2, "st": 3, "hais": 4, "joint_ct": 5}
    assert {name: METHODS[name].code for name in codes} == codes


@pytest.mark.parametrize("row", METHODS.values(), ids=METHODS)
def test_what_a_row_names_is_there(row):
    for place in (row.collect, row.collect_part or row.collect):
        returned = inspect.signature(load(place)).return_annotation
        assert returned is MethodEstimate, place
    assert len(inspect.signature(load(row.prepare)).parameters) == 4
    assert not row.read or len(inspect.signature(load(row.read)).parameters) == 1
    assert row.draws > 0


@pytest.mark.parametrize(
    "row", [row for row in METHODS.values() if row.step], ids=lambda row: row.name
)
def test_steps_and_statistics_agree_with_their_row(row):
    step = load(row.step)
    assert issubclass(step, TemperedStep)
    assert step.method == row.name
    assert getattr(pm_temper, step.__name__) is step
    recorded = statistics_of(row.name)
    names = {n for name, entry in recorded.items() for n in (entry.entries or [name])}
    assert set(row.needs) <= names


def test_every_method_records_which_it_is():
    assert set(STATISTICS[METHOD_CODE].methods) == set(METHODS)


def test_statistics_are_of_methods_of_the_table():
    for name, entry in STATISTICS.items():
        assert set(entry.methods) <= set(METHODS), name
        assert all(entry.dims[: len(dims)] == dims for dims in entry.methods.values()), name


def test_docstrings_list_all_methods():
    for function in (pm_temper.sample, pm_temper.estimate_logz):
        assert all(f'"{name}"' in function.__doc__ for name in METHODS)
    assert methods.AUTO in METHODS
