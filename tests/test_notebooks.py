"""Every notebook runs from top to bottom at small settings, as a plain Python program.

A notebook reads the environment variable ``PYMC_TEMPERING_SMOKE`` and, where it is set, uses few
draws; numbers are not checked here.
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def code_of(notebook):
    """Return the code cells as one program; magics and shell lines need Jupyter and are dropped."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    lines = [
        line
        for cell in cells
        if cell["cell_type"] == "code"
        for line in "".join(cell["source"]).splitlines()
        if not line.lstrip().startswith(("%", "!"))
    ]
    return "\n".join(lines) + "\n"


@pytest.mark.skipif(not NOTEBOOKS, reason="there are no notebooks in this checkout")
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")
def test_notebook_runs(notebook, monkeypatch):
    """In this process, which has imported and compiled what a notebook's own would have to."""
    monkeypatch.chdir(notebook.parent)
    monkeypatch.syspath_prepend(notebook.parent)
    monkeypatch.setenv("PYMC_TEMPERING_SMOKE", "1")
    plt.switch_backend("Agg")
    try:
        exec(compile(code_of(notebook), str(notebook), "exec"), {"__name__": "notebook"})
    finally:
        plt.close("all")


def test_code_of_drops_magics_and_text(tmp_path):
    cells = [
        {"cell_type": "markdown", "source": ["x = 1"]},
        {"cell_type": "code", "source": ["%matplotlib inline\n", "y = 2\n", "!ls\n"]},
        {"cell_type": "code", "source": "z = y % 2"},
    ]
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    assert code_of(path) == "y = 2\nz = y % 2\n"
