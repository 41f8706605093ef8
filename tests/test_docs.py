"""The documentation says what there is: checked without building it."""

import ast
import re
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

import pymc_tempering
from pymc_tempering.estimators.doubt import CODES
from pymc_tempering.results import schema

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)
ENTRY = re.compile(r"^   (pymc_tempering\.[\w.]+)$", re.MULTILINE)
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture
def markdown_table(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    monkeypatch.delitem(sys.modules, "schema_rows", raising=False)
    from schema_rows import markdown_table

    return markdown_table


@pytest.fixture
def api_page(monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS / "_ext"))
    monkeypatch.delitem(sys.modules, "api_page", raising=False)
    import api_page

    return api_page


def entries():
    return ENTRY.findall((DOCS / "reference" / "api.rst").read_text())


def raised_codes():
    """First argument of every call of ``Doubt`` in the package; None where it is no literal."""
    trees = [ast.parse(path.read_text()) for path in (ROOT / "pymc_tempering").rglob("*.py")]
    calls = [
        node
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and getattr(node.func, "id", None) == "Doubt" and node.args
    ]
    return [getattr(call.args[0], "value", None) for call in calls]


def test_every_public_name_is_in_the_api():
    documented = entries()
    missing = [n for n in pymc_tempering.__all__ if f"pymc_tempering.{n}" not in documented]
    assert missing == []


def test_entries_of_the_api_exist_and_are_listed_once():
    documented = entries()
    assert len(documented) == len(set(documented))
    for name in documented:
        assert resolve_name(name).__doc__


def test_page_of_public_names_is_that_of_the_docstrings(api_page):
    source = (DOCS / "reference" / "api.rst").read_text()
    written = (DOCS / "reference" / "names.md").read_text()
    assert written == api_page.page(source), "run `make api`"
    assert len(re.findall(r"^`pm_temper\.", written, re.MULTILINE)) == len(entries())


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("ParallelTempering", "(vars=None, *, n_levels="),
        ("compare", "(models, prior_probs=None, *, prob=0.95"),
        ("errors.ModelError", ""),
    ],
)
def test_signatures_are_what_a_user_writes(api_page, name, start):
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


def test_generated_table_has_every_entry(markdown_table):
    rows = markdown_table("TEMPERING").splitlines()[2:]
    assert len(rows) == len(schema.TEMPERING)
    assert [row.split("`")[1] for row in rows] == sorted(schema.TEMPERING)
    assert "| `log_z_levels` | chain, level | nats | log z(beta) at every level |" in rows


def test_generated_table_follows_the_schema(markdown_table, monkeypatch):
    monkeypatch.setitem(schema.SAMPLE_STATS, "fresh", schema.Entry(("knot",), "nats", "added now"))
    assert "| `fresh` | chain, draw, knot | nats | added now |" in markdown_table("SAMPLE_STATS")


def test_codes_that_are_raised_are_those_of_the_list():
    raised = raised_codes()
    # all but the one that reads what was stored
    assert raised.count(None) == 1
    assert set(raised) - {None} == set(CODES)


def test_every_warning_is_explained_once_and_no_other():
    page = (DOCS / "howto" / "diagnostics.md").read_text()
    explained = re.findall(r"^`([^`\n]+)` \(`(\w+)`\)\n: ", page, re.MULTILINE)
    assert sorted(explained) == sorted((kind.name, code) for code, kind in CODES.items())
    names = [kind.name for kind in CODES.values()]
    assert len(names) == len(set(names))
    assert all(re.fullmatch("[a-z]+(_[a-z]+)*", code) for code in CODES)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_cells_are_python(page):
    for cell in CELL.findall(page.read_text()):
        ast.parse(re.sub(r"^:\w.*\n", "", cell, flags=re.MULTILINE))


def test_pages_are_reachable():
    text = "\n".join(p.read_text() for p in PAGES)
    trees = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    listed = {line.strip().split("/")[-1] for tree in trees for line in tree.splitlines()}
    assert {page.stem for page in PAGES} <= listed | {"index"}
