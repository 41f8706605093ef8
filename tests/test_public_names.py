"""The package's front door: cheap to import, every name there."""

import re
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pymc_tempering


def test_type_checkers_are_shown_the_names_that_there_are():
    source = Path(pymc_tempering.__file__).with_suffix(".pyi").read_text()
    shown = re.findall(r"^from \S+ import (\w+) as (\w+)$", source, re.MULTILINE)
    assert all(name == exported for name, exported in shown)
    assert sorted(name for name, _ in shown) == pymc_tempering.__all__
    assert len(shown) == source.count("import")


def test_every_public_name_resolves():
    for name in pymc_tempering.__all__:
        assert getattr(pymc_tempering, name).__module__.startswith("pymc_tempering")
        assert name in dir(pymc_tempering)


def test_version_is_that_of_the_package():
    assert pymc_tempering.__version__ == metadata.version("pymc-tempering")
    assert "__version__" in dir(pymc_tempering)
    typed = [
        path
        for path in Path(pymc_tempering.__file__).parent.rglob("*.py")
        if re.search(r"""__version__\s*=|["']\d+\.\d+\.\d+["']""", path.read_text())
    ]
    assert typed == []


def test_unknown_name_is_an_attribute_error():
    assert not hasattr(pymc_tempering, "NoSuchSampler")


def test_import_brings_in_nothing_optional_and_nothing_heavy():
    code = (
        "import sys; import pymc_tempering; "
        "heavy = {'matplotlib', 'scipy.stats', 'numba', 'pymc', 'arviz'}; "
        "found = sorted(heavy & set(sys.modules)); sys.exit(str(found) if found else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_no_function_is_hidden_by_a_module_of_its_name():
    code = (
        "import importlib, pkgutil, sys, pymc_tempering as p\n"
        "for m in pkgutil.iter_modules(p.__path__):\n"
        "    if m.name in p.__all__: sys.exit(m.name)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
