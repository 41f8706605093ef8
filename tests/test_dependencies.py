"""What is imported is declared: an installed package must not need what happens to be around."""

import ast
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
# files and folders of the folder itself, imported by name: conftest fixtures, benchmarks, Sphinx
# extensions
NEIGHBOURS = {"tests"} | {
    path.parent.name if path.stem == "__init__" else path.stem
    for folder in ("tests", "benchmarks", "notebooks", "docs/_ext", ".ci")
    for path in (ROOT / folder).rglob("*.py")
}
# imported by name at run time, so that no `import` statement shows them
BY_NAME = {"h5netcdf": "engine of to_netcdf", "h5py": "what h5netcdf reads and writes with"}
# where that is not their own name
IMPORTED_AS = {"scikit_learn": "sklearn"}


def imported(source):
    """Top-level names of all absolute imports, also inside functions."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names - set(sys.stdlib_module_names) - {"pymc_tempering"}


def imported_below(folder):
    paths = [p for p in (ROOT / folder).rglob("*.py") if "_build" not in p.parts]
    assert paths, folder
    return set().union(*(imported(p.read_text(encoding="utf-8")) for p in paths)) - NEIGHBOURS


def declared(*extras):
    texts = PROJECT["dependencies"] + [text for extra in extras for text in EXTRAS[extra]]
    names = {Requirement(text).name.replace("-", "_") for text in texts}
    return {IMPORTED_AS.get(name, name) for name in names}


@pytest.mark.parametrize(
    ("folder", "extras"),
    [
        ("pymc_tempering", ("zarr", "jax")),
        ("benchmarks", ("bench",)),
        ("tests", ("tests",)),
        ("docs", ("docs",)),
    ],
)
def test_what_is_imported_is_declared(folder, extras):
    assert imported_below(folder) - declared(*extras) == set()


def test_what_is_declared_is_imported():
    assert declared() - set(BY_NAME) - imported_below("pymc_tempering") == set()


def test_every_dependency_has_a_lowest_version():
    """The job at the lowest versions tests nothing for one without."""
    texts = PROJECT["dependencies"] + [text for texts in EXTRAS.values() for text in texts]
    for text in texts:
        lowest = [clause for clause in Requirement(text).specifier if clause.operator == ">="]
        assert len(lowest) == 1, text
        assert Version(lowest[0].version) > Version("0"), text


def test_imports_are_found_wherever_they_stand():
    source = "import os\nimport a.b\ndef f():\n    from c.d import e\nfrom . import g\n"
    assert imported(source) == {"a", "c"}
