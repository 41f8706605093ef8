"""Comparing two runs of the benchmark: what is marked, and what is not."""

import copy
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def compare_runs(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    monkeypatch.delitem(sys.modules, "compare_runs", raising=False)
    import compare_runs

    return compare_runs


@pytest.fixture
def run():
    case = {"case": "banana", "gradients": 1000, "seconds": 2.0, "rmse": 0.01, "se_ratio": 0.9}
    return {"commit": "abc", "method": "pt", "cases": [case | {"runs": [{}] * 8}]}


def changed(run, **values):
    other = copy.deepcopy(run)
    other["cases"][0].update(values)
    return other


def status(module, tmp_path, old, new):
    for name, content in (("old", old), ("new", new)):
        (tmp_path / name).write_text(json.dumps(content))
    return module.main([str(tmp_path / "old"), str(tmp_path / "new")])


@pytest.mark.parametrize(
    ("values", "marked"),
    [
        ({}, []),
        ({"gradients": 1100}, ["gradients"]),
        ({"gradients": 900, "seconds": 1.0, "rmse": 0.001}, []),
        ({"seconds": 2.2}, []),
        ({"seconds": 3.0}, ["seconds"]),
        # F(8, 8) exceeds 12.05 once in a thousand: a factor of 3.47
        ({"rmse": 0.0345}, []),
        ({"rmse": 0.0349}, ["rmse"]),
    ],
)
def test_what_grew_is_marked(compare_runs, tmp_path, capsys, run, values, marked):
    new = changed(run, **values)
    assert compare_runs.worse(run["cases"][0], new["cases"][0]) == marked
    assert status(compare_runs, tmp_path, run, new) == bool(marked)
    assert all(name in capsys.readouterr().out for name in marked)


def test_runs_that_cannot_be_compared(compare_runs, tmp_path, run):
    with pytest.raises(SystemExit, match="Methods differ"):
        status(compare_runs, tmp_path, run, run | {"method": "st"})
    with pytest.raises(SystemExit, match="no case in common"):
        status(compare_runs, tmp_path, run, changed(run, case="other"))
