"""The documentation says what there is: checked without building it."""

import ast
import os
import re
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from pkgutil import resolve_name

import pytest

import pymc_tempering
from pymc_tempering.evidence.checks import CODES
from pymc_tempering.results import schema

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)
ENTRY = re.compile(r"^   (pymc_tempering\.[\w.]+)$", re.MULTILINE)
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"^:\w.*\n\n?", re.MULTILINE)  # of a cell
TUTORIAL = (DOCS / "tutorials" / "extend_the_engine.md").read_text()


@pytest.fixture
def extension(monkeypatch):
    """Give the function that imports a script beside the pages afresh."""
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))

    def fresh(name):
        monkeypatch.delitem(sys.modules, name, raising=False)
        return import_module(name)

    return fresh


def entries():
    return ENTRY.findall((DOCS / "reference" / "api.rst").read_text())


def raised_codes():
    """First argument of every call that makes a diagnostic in the package; None if no literal."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "pymc_tempering").rglob("*.py")]
    calls = [
        node
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", None) in ("Diagnostic", "found")
        and node.args
    ]
    firsts = [call.args[0] for call in calls]
    return [first.value if isinstance(first, ast.Constant) else None for first in firsts]


def test_every_public_name_is_in_the_api():
    documented = entries()
    missing = [n for n in pymc_tempering.__all__ if f"pymc_tempering.{n}" not in documented]
    assert missing == []


def test_entries_of_the_api_exist_and_are_listed_once():
    documented = entries()
    assert len(documented) == len(set(documented))
    for name in documented:
        assert resolve_name(name).__doc__


def test_page_of_public_names_is_that_of_the_docstrings(extension):
    api_page = extension("api_page")
    source = (DOCS / "reference" / "api.rst").read_text()
    written = (DOCS / "reference" / "names.md").read_text()
    assert written == api_page.page(source), "run `make api`"
    assert len(re.findall(r"^`pm_temper\.", written, re.MULTILINE)) == len(entries())


def test_picture_of_the_folders_is_that_of_the_source(extension):
    import_order = extension("import_order")
    assert f"<dc:description>{import_order.description()}<" in import_order.PICTURE.read_text(), (
        "run `make api`"
    )


def test_order_of_folders(extension):
    import_order = extension("import_order")
    edges = {"a": {"b", "c"}, "b": {"c"}, "c": set(), "d": {"e", "c"}, "e": {"d"}}
    assert import_order.rows(edges) == [[("c",)], [("b",), ("d", "e")], [("a",)]]
    shown = import_order.arrows(edges)
    assert set(shown) == {(("a",), ("b",)), (("b",), ("c",)), (("d", "e"), ("c",))}


def test_engine_knows_nothing_of_pymc(extension):
    import_order = extension("import_order")
    assert import_order.imports()["engine"] == set()
    code = (
        "import importlib, pathlib, sys, pymc_tempering as p\n"
        "root = pathlib.Path(p.__path__[0])\n"
        "for f in sorted((root / 'engine').rglob('*.py')):\n"
        "    name = '.'.join(f.relative_to(root.parent).with_suffix('').parts)\n"
        "    importlib.import_module(name.removesuffix('.__init__'))\n"
        "found = sorted({'pymc', 'pytensor', 'arviz'} & set(sys.modules))\n"
        "sys.exit(str(found) if found else 0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("ParallelTempering", "(vars=None, *, n_levels="),
        ("compare", "(models, prior_probs=None, *, prob=0.95"),
        ("errors.ModelError", ""),
    ],
)
def test_signatures_are_what_a_user_writes(extension, name, start):
    api_page = extension("api_page")
    shown = api_page.signature(
        getattr(pymc_tempering, name, None) or pymc_tempering.errors.ModelError
    )
    assert shown.startswith(start)
    assert bool(shown) == bool(start)


@pytest.mark.parametrize("name", ["SAMPLE_STATS", "TEMPERING"])
def test_results_page_is_generated_from_the_table(name):
    page = (DOCS / "reference" / "results.md").read_text()
    assert f"```{{schema-table}} {name}\n```" in page
    # nothing of a table is typed on the page
    assert not any(f"| `{variable}` |" in page for variable in getattr(schema, name))


def test_generated_table_has_every_entry(extension):
    markdown_table = extension("schema_rows").markdown_table
    rows = markdown_table("TEMPERING").splitlines()[2:]
    assert len(rows) == len(schema.TEMPERING)
    assert [row.split("`")[1] for row in rows] == sorted(schema.TEMPERING)
    assert "| `log_z_levels` | chain, level | nats | log z(beta) at every level |" in rows


def test_generated_table_follows_the_schema(extension, monkeypatch):
    markdown_table = extension("schema_rows").markdown_table
    entry = schema.Entry(("knot",), "nats", "added now", ("st", "hais"))
    monkeypatch.setitem(schema.SAMPLE_STATS, "fresh", entry)
    table = markdown_table("SAMPLE_STATS").splitlines()
    assert table[0] == "| name | dimensions | unit | methods | meaning |"
    assert "| `fresh` | chain, draw, knot | nats | st, hais | added now |" in table
    assert any(row.startswith("| `base_id` | chain, draw |  | all |") for row in table)


def test_codes_that_are_raised_are_those_of_checks():
    raised = set(raised_codes()) - {None}
    assert raised <= set(CODES)
    # each looks itself, or is found by another function
    assert {code for code, check in CODES.items() if check.run is None} <= raised


def test_every_check_is_explained_once_and_no_other(extension):
    check_entries = extension("check_entries")
    page = (DOCS / "howto" / "diagnostics.md").read_text()
    assert page.count("```{check-entries}\n```") == 1
    written = check_entries.markdown_entries()
    explained = re.findall(r"^`([^`\n]+)` \(`(\w+)`\)\n: ", written, re.MULTILINE)
    assert explained == [(check.name, code) for code, check in sorted(CODES.items())]
    names = [check.name for check in CODES.values()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", code) for code in CODES)
    # each piece of evidence that an entry names is one of the check
    assert all(check.meaning.endswith(".") and check.remedy.endswith(".")
               for check in CODES.values())  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_cells_are_python(page):
    for cell in CELL.findall(page.read_text()):
        ast.parse(OPTION.sub("", cell))


def test_tutorial_for_contributors(tmp_path, capsys):
    """Its cells run as they stand; as files, since numba keeps machine code beside a file."""
    names = {"__name__": "tutorial"}
    for i, cell in enumerate(CELL.findall(TUTORIAL)):
        file = tmp_path / f"cell_{i}.py"
        file.write_text(OPTION.sub("", cell))
        exec(compile(file.read_text(), file, "exec"), names)
    assert not names["right"].rejected
    assert names["wrong"].rejected
    assert names["error"] < 1e-12
    assert names["test"].pvalue > 1e-4
    log_z = [float(x) for x in re.findall(r"log Z ([\d.]+), sd", capsys.readouterr().out)]
    # means of eight runs, of standard deviations 0.04 and 0.005 over thirty seeds
    assert log_z == [pytest.approx(0.8, abs=0.07), pytest.approx(0.8, abs=0.01)]


def apply_diff(text, diff):
    """Apply a diff whose hunks have no line numbers; each must fit in exactly one place."""
    for hunk in diff.split("@@\n")[1:]:
        before = "".join(line[1:] for line in hunk.splitlines(keepends=True) if line[0] != "+")
        after = "".join(line[1:] for line in hunk.splitlines(keepends=True) if line[0] != "-")
        assert text.count(before) == 1, before
        text = text.replace(before, after)
    return text


@pytest.mark.slow
def test_explorer_of_the_tutorial_is_one_file_and_its_registration(tmp_path):
    """In a copy of the package, an ensemble moves its replicas by the new explorer."""
    package = tmp_path / "pymc_tempering"
    shutil.copytree(
        pymc_tempering.__path__[0], package, ignore=shutil.ignore_patterns("__pycache__")
    )
    explorers = package / "engine" / "explorers"
    [source] = re.findall(r"^:tags: \[explorer-file\]\n\n(.*?)^```$", TUTORIAL, re.M | re.S)
    (explorers / "metropolis.py").write_text(source)
    [diff] = re.findall(r"^```diff\n(.*?)^```$", TUTORIAL, re.M | re.S)
    registry = explorers / "explore.py"
    registry.write_text(apply_diff(registry.read_text(), diff))
    [block] = re.findall(r"^```python\n(.*?)^```$", TUTORIAL, re.M | re.S)
    (tmp_path / "block.py").write_text(block)
    done = subprocess.run(
        [sys.executable, "block.py"], cwd=tmp_path, capture_output=True, text=True, check=False,
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) == pytest.approx(0.8, abs=0.15)


def test_no_page_has_a_table_of_the_terminal():
    """A benchmark prints one above the README's table; both were pasted once."""
    pages = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "benchmarks" / "README.md", *PAGES]
    framed = [str(p.relative_to(ROOT)) for p in pages if "┏" in p.read_text(encoding="utf-8")]
    assert framed == []


def test_pages_are_reachable():
    text = "\n".join(p.read_text() for p in PAGES)
    trees = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    listed = {line.strip().split("/")[-1] for tree in trees for line in tree.splitlines()}
    assert {page.stem for page in PAGES} <= listed | {"index"}
