"""The documentation says what there is: checked without building it."""

import ast
import re
import sys
from pathlib import Path
from pkgutil import resolve_name

import pytest

import pymc_tempering
from pymc_tempering.results import schema

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)
ENTRY = re.compile(r"^   (pymc_tempering\.[\w.]+)$", re.MULTILINE)
CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# the text up to the first colon is the name of a warning
WARNING = re.compile(r'(?:warnings\.append\(|notes\.append\(|text = \(|doubt = \()\s*f?"([^:"]+):')


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


def warning_names():
    """Names of all warnings, from the source; a value in a name ends it."""
    names = set()
    for path in (ROOT / "pymc_tempering").rglob("*.py"):
        for name in WARNING.findall(path.read_text()):
            names.add(name.split(" {")[0])
    return names


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
    entry = schema.Entry(("knot",), "nats", "added now", ("st", "hais"))
    monkeypatch.setitem(schema.SAMPLE_STATS, "fresh", entry)
    table = markdown_table("SAMPLE_STATS").splitlines()
    assert table[0] == "| name | dimensions | unit | methods | meaning |"
    assert "| `fresh` | chain, draw, knot | nats | st, hais | added now |" in table
    assert any(row.startswith("| `base_id` | chain, draw |  | all |") for row in table)


def test_every_warning_is_explained():
    page = (DOCS / "howto" / "diagnostics.md").read_text()
    names = warning_names()
    assert len(names) > 15
    assert [name for name in sorted(names) if f"\n`{name}" not in page] == []


def test_no_warning_is_explained_that_does_not_exist():
    page = (DOCS / "howto" / "diagnostics.md").read_text()
    explained = re.findall(r"^`([^`\n]+)`\n: ", page, re.MULTILINE)
    names = tuple(warning_names())
    assert [name for name in explained if not name.startswith(names)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_cells_are_python(page):
    for cell in CELL.findall(page.read_text()):
        ast.parse(re.sub(r"^:\w.*\n", "", cell, flags=re.MULTILINE))


def test_pages_are_reachable():
    text = "\n".join(p.read_text() for p in PAGES)
    trees = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    listed = {line.strip().split("/")[-1] for tree in trees for line in tree.splitlines()}
    assert {page.stem for page in PAGES} <= listed | {"index"}
