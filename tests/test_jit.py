"""Kernels on disk: a change anywhere below a function takes its machine code out of use."""

import os
import shutil
import sys
import time
from importlib import import_module
from pathlib import Path

import numba
import pytest
from in_turn import turn

import pymc_tempering
from pymc_tempering.jit import source_digest
from tests.fresh import fresh_process

PACKAGE = Path(pymc_tempering.__file__).parent


def make_package(root):
    root.mkdir()
    (root / "__init__.py").write_text("")
    (root / "sub").mkdir()
    (root / "sub" / "__init__.py").write_text("")
    (root / "floor.py").write_text("A = 1\n")
    (root / "other.py").write_text("B = 1\n")
    (root / "sub" / "middle.py").write_text("from pymc_tempering.floor import A\n")
    (root / "top.py").write_text("from pymc_tempering.sub import middle\n")


def digest(root):
    source_digest.cache_clear()
    return source_digest(str(root / "top.py"), root)


def test_digest_covers_what_is_imported_and_nothing_else(tmp_path):
    root = tmp_path / "pymc_tempering"
    make_package(root)
    before = digest(root)
    (root / "other.py").write_text("B = 2\n")
    assert digest(root) == before
    (root / "floor.py").write_text("A = 2\n")
    assert digest(root) != before
    source_digest.cache_clear()


SCRIPT = """
import numba
numba.config.CACHE_DIR = ""  # beside the source
from pymc_tempering.upper import upper
print(upper(1.0))
"""


def copy_compiler(root):
    root.mkdir()
    for name in ("__init__.py", "__init__.pyi", "jit.py"):
        shutil.copy(PACKAGE / name, root / name)
    shutil.copytree(PACKAGE / "private", root / "private")


def test_a_changed_callee_in_another_file_is_compiled_again(tmp_path):
    root = tmp_path / "pymc_tempering"
    copy_compiler(root)
    (root / "upper.py").write_text(
        "from pymc_tempering.jit import compiled\n"
        "from pymc_tempering.lower import apart, lower\n\n"
        "@compiled\ndef upper(x):\n    return lower(x) + apart(x)\n"
    )
    printed = []
    for factor in (2.0, 2.0, 12.0):  # of another length, or Python might take its own old bytecode
        (root / "lower.py").write_text(
            "from pymc_tempering.jit import compiled\n\n"
            f"@compiled\ndef lower(x):\n    return {factor} * x\n\n"
            f"@compiled(apart=True, inside=True)\ndef apart(x):\n    return -0.5 * {factor} * x\n"
        )
        # what a caller on disk refers to need not be there any more, or be of another process
        for file in root.glob("__pycache__/lower.apart*"):
            file.unlink()
        printed.append(float(fresh_process(SCRIPT, cwd=tmp_path, preloaded=("numba",))))
    assert printed == [1.0, 1.0, 6.0]
    assert list((root / "__pycache__").glob("upper.upper*.nbi"))
    assert list((root / "__pycache__").glob("lower.apart*.nbi"))


def test_a_caller_of_what_came_from_the_disk_finds_all_in_the_next_process(tmp_path):
    """The function in the middle is compiled in one process, and its caller in a second."""
    root = tmp_path / "pymc_tempering"
    copy_compiler(root)
    head = "from pymc_tempering.jit import compiled\n"
    (root / "apart.py").write_text(
        f"{head}\n@compiled(apart=True, inside=True)\ndef apart(x):\n    return 3.0 * x\n"
    )
    for name, callee in (("middle", "apart"), ("upper", "middle")):
        (root / f"{name}.py").write_text(
            f"{head}from pymc_tempering.{callee} import {callee}\n\n"
            f"@compiled\ndef {name}(x):\n    return {callee}(x) + 1.0\n"
        )
    middle_alone = SCRIPT.replace("upper", "middle")
    printed = [
        fresh_process(script, cwd=tmp_path, preloaded=("numba",))
        for script in (middle_alone, SCRIPT, SCRIPT)
    ]
    assert [float(text) for text in printed] == [4.0, 5.0, 5.0]


@pytest.mark.skipif(sys.platform == "win32", reason="in_turn.py leaves Windows alone")
def test_a_process_waits_while_another_compiles(tmp_path, monkeypatch):
    (tmp_path / "waited_for.py").write_text("def squared(x):\n    return x * x\n")
    monkeypatch.syspath_prepend(tmp_path)
    squared = import_module("waited_for").squared
    mine, theirs = (numba.njit(cache=True)(squared) for _ in range(2))
    types, (begun, begin) = (numba.types.float64,), os.pipe()
    child = os.fork()
    if not child:
        with turn(theirs):
            os.write(begin, b".")
            time.sleep(0.2)
            theirs.compile(types)
            os._exit(0)
    os.read(begun, 1)
    with turn(mine):
        mine.compile(types)
    os.waitpid(child, 0)
    assert sum(mine.stats.cache_hits.values()) == 1
