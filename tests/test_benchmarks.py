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


def test_coverage_is_counted_by_hand(monkeypatch):
    """Errors of 0.5, 1, 1.8 and 3 se; bounds are at 0.674, 1.645 and 1.960."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import calibration

    runs = [
        {"error": sign * t * 0.1, "se": 0.1, "df": 1e6, "warnings": [], "seconds": 1.0}
        for t, sign in ((0.5, 1), (1.0, -1), (1.8, 1), (3.0, -1))
    ]
    assert calibration.coverage(runs) == [1, 2, 3]
    failed = runs[0] | {"error": 0.5, "warnings": ["chains_disagree"]}
    unknown = runs[0] | {"se": float("nan")}
    assert [calibration.is_wrong(run) for run in (*runs, failed, unknown)] == [False] * 4 + [
        True
    ] * 2
    cells = calibration.summary([*runs, failed])
    assert (cells["runs"], cells["failing"], cells["warned of these"]) == (5, 1, 1)
    assert cells["95 %"].startswith("60.0%")
