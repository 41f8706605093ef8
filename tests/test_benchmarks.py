"""What the studies compute from their runs, and which runs they still have to make."""

import ast
import copy
import importlib
import json
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.mark.parametrize("path", sorted(BENCHMARKS.glob("*.py")), ids=lambda path: path.stem)
def test_what_a_study_imports_is_there(path):
    """Three studies could not be started for days: what they import of others had moved."""
    for node in ast.walk(ast.parse(path.read_text())):
        if not isinstance(node, ast.ImportFrom):
            continue
        names = {alias.name for alias in node.names}
        if (other := BENCHMARKS / f"{node.module}.py").exists():
            assert names <= bound_in(other), f"{node.module} lacks {names - bound_in(other)}"
        elif node.module.startswith("pymc_tempering"):
            # as the statement itself, which imports modules of a folder as well
            exec(f"from {node.module} import {', '.join(sorted(names))}")


def bound_in(path):
    """Names of a module, which need not be installable here to be read."""
    tree = ast.parse(path.read_text())
    defined = (ast.FunctionDef, ast.ClassDef)
    bound = {node.name for node in ast.walk(tree) if isinstance(node, defined)}
    bound |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)
              and isinstance(node.ctx, ast.Store)}  # fmt: skip
    return bound | {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }


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


@pytest.fixture
def study(monkeypatch):
    """From the name of a script to its module."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    def load(name):
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return load


def rows_of(method, errors, seconds, se=None):
    """Runs of one method, of which the first is cold and takes ten times as long."""
    return [
        {
            "case": "radon", "method": method, "seed": seed, "cold": seed == 0, "error": error,
            "seconds": 10.0 * seconds if seed == 0 else seconds, "se": se, "warnings": [],
        }
        for seed, error in enumerate(errors)
    ]  # fmt: skip


class TestPeers:
    def test_figures_of_a_method(self, study):
        found = study("peer_tables").summarise(rows_of("sample_smc", [0.3, -0.1, 0.1], 2.0, se=0.1))
        assert found["rmse"] == pytest.approx(np.sqrt(0.11 / 3))
        assert found["se_ratio"] == pytest.approx(0.1 / np.sqrt(0.11 / 3))
        assert (found["cold"], found["warm"]) == (20.0, 2.0)
        assert found["measure"] == pytest.approx(2.0 * 0.11 / 3 / 0.01)

    def test_the_best_peer_is_that_of_the_smallest_measure(self, study):
        module = study("peer_tables")
        rows = rows_of("pymc_tempering", [0.1, -0.1, 0.1], 1.0)
        rows += rows_of("sample_smc", [0.2, -0.2, 0.2], 2.0)
        rows += rows_of("nutpie_bridge", [1.0, -1.0, 1.0], 0.1)
        best, ratio, low, high = module.advantage(module.by_case(rows)["radon"])
        assert (best, ratio) == ("sample_smc", pytest.approx(8.0))
        # F(3, 3) exceeds 15.44 once in forty times
        assert (low, high) == (
            pytest.approx(8.0 / 15.44, rel=1e-3),
            pytest.approx(8.0 * 15.44, 1e-3),
        )
        assert module.advantage({"sample_smc": module.summarise(rows[:3])}) is None

    def test_a_wrong_answer_reaches_no_aim(self, study):
        module = study("peer_tables")
        own = module.summarise(rows_of("pymc_tempering", [0.1, 0.1], 1.0, se=0.002))
        line = module.comparison("radon", ("sample_smc", 50.0, 5.0, 500.0), own)
        assert line[-1].startswith("no: wrong")
        line = module.comparison("radon", ("sample_smc", 50.0, 5.0, 500.0), own | {"se_ratio": 0.8})
        assert line[-1] == "yes"

    def test_only_missing_runs_are_made(self, study):
        module = study("peers")
        rows = rows_of("sample_smc", [0.0, 0.0], 1.0)
        assert module.missing_seeds(rows, "radon", "sample_smc", 4) == [-1, 2, 3]
        assert module.missing_seeds(rows, "radon", "sample_smc", 2) == []
        assert module.missing_seeds(rows, "bmr_0", "sample_smc", 2) == [0, 1]

    def test_a_start_for_flat_models_leaves_the_posterior(self, study):
        module = study("peer_models")
        given = module.problem("correlated_gaussian")
        model = module.with_prior(given)
        points = np.random.default_rng(1).normal(size=(3, 3))
        densities = [
            [float(m.compile_logp(mode="FAST_COMPILE")({"x": x})) for x in points]
            for m in (given.model, model)
        ]
        assert np.allclose(*densities)


def test_exponents_of_a_power(study):
    dims = np.array([10.0, 30.0, 100.0, 300.0])
    slope, error = study("growth").exponent(dims, 7.0 * dims**1.5)
    assert slope == pytest.approx(1.5)
    assert error == pytest.approx(0.0, abs=1e-9)
    assert np.isnan(study("growth").exponent(dims[:2], dims[:2])).all()


class TestCorpus:
    """Models of many kinds; what needs no compiling."""

    def test_names_are_unique(self, study):
        models = study("corpus_models")
        assert len(models.CORPUS) >= 60
        assert len({entry.kind for entry in models.CORPUS.values()}) >= 10
        again = sys.modules["corpus_models.entries"].entry("other")
        with pytest.raises(ValueError, match="two models are called 'horseshoe'"):
            again(models.CORPUS["horseshoe"].write)

    @pytest.mark.parametrize(
        ("name", "n_values", "second"),
        [
            # 25 readings of a regression with unknown noise, by Student's t
            ("linear_unknown_noise", 4, -34.0926),
            # a sum over 2^12 sheets of spins
            ("ising", 12, 3.5089),
            ("logistic_separated", 2, "quadrature"),
            ("improper_scale", 1, "improper"),
        ],
    )
    def test_models_build(self, study, name, n_values, second):
        model, found = study("corpus_models").CORPUS[name].build()
        assert study("corpus_runs").n_values(model) == n_values
        assert found == (second if isinstance(second, str) else pytest.approx(second, abs=1e-3))

    def test_sums_over_grids(self, study):
        covariance = np.array([[2.0, 0.9], [0.9, 1.0]])
        precision = np.linalg.inv(covariance)

        def log_density(z):
            return -0.5 * (z - [1.0, -2.0]) @ precision @ (z - [1.0, -2.0])

        exact = np.log(2.0 * np.pi) + 0.5 * np.linalg.slogdet(covariance)[1]
        log_z, error = study("corpus_second").integral(log_density, np.zeros(2))
        assert log_z == pytest.approx(exact, abs=1e-8)
        assert error < 1e-8
        grid = study("corpus_models.entries").grid
        area = grid(lambda a, b: np.log(a * np.exp(b)), (1.0, 2.0, 5), (0.0, 1.0, 801))
        assert area == pytest.approx(np.log(1.5 * (np.e - 1.0)), abs=1e-6)

    @pytest.mark.parametrize(
        ("ours", "second", "word"),
        [
            ({"log_z": 0.0, "se": 0.1, "warnings": []}, (0.29, 0.0), "agrees"),
            ({"log_z": 0.0, "se": 0.1, "warnings": []}, (-0.31, 0.0), "DISAGREES, silent"),
            ({"log_z": 0.0, "se": 0.1, "warnings": []}, (0.31, 0.1), "agrees"),
            ({"log_z": 0.0, "se": 0.1, "warnings": ["divergences"]}, (0.5, 0.0),
             "disagrees, warned"),
            ({"log_z": np.nan, "se": np.nan, "warnings": []}, (0.5, 0.0), "DISAGREES, silent"),
            ({"refused": "ModelError: no"}, (0.5, 0.0), "refused by name"),
            ({"crashed": "TypeError: no"}, (0.5, 0.0), "CRASHED"),
            ({"log_z": 0.0, "se": 0.1, "warnings": ["divergences"]}, "improper",
             "disagrees, warned"),
            ({"log_z": 0.0, "se": 0.1, "warnings": ["divergent_integral"]}, "improper",
             "named as improper"),
            ({"log_z": 0.0, "se": 0.1, "warnings": []}, "refused", "DISAGREES, silent"),
        ],
    )  # fmt: skip
    def test_what_became_of_a_model(self, study, ours, second, word):
        beside = {"how": "exact", "log_z": second[0], "se": second[1]}
        if isinstance(second, str):
            beside = {"how": second}
        assert study("corpus_tables").outcome(ours, beside) == word

    def test_bridge_sampling_is_read_from_the_row_of_its_draws(self, study):
        tables = study("corpus_tables")
        rows = [
            {"name": "logistic", "role": "ours", "log_z": -3.0, "se": 0.1, "warnings": [],
             "gradients": {"search": 100, "draws": 200}, "running": 3.0, "compiling": 9.0},
            {"name": "logistic", "role": "second", "how": "bridge"},
            {"name": "logistic", "role": "nutpie", "how": "bridge", "log_z": -3.1, "se": 0.02,
             "gradients": 150, "running": 1.0, "compiling": 5.0},
        ]  # fmt: skip
        (line,) = tables.lines_of(rows)
        assert (line["outcome"], line["gradients"], line["seconds"]) == ("agrees", 2.0, 3.0)
        assert line["all seconds"] == 2.0
        (line,) = tables.lines_of(rows[:2])
        assert line["outcome"] == "no second log Z"
        said = tables.closing(tables.lines_of(rows))
        assert said[0].endswith("models were run: agrees 1.")
        assert "median 2.00, below 3 in 100% of 1 models" in said[3]
