"""Every cell of every page of the documentation runs, with few draws; numbers are not checked here.

``make docs`` runs them as they are written, and takes much longer.
"""

import ast
from dataclasses import replace

import matplotlib.pyplot as plt
import pytest
from test_docs import CELL, DOCS, OPTION, PAGES

from pymc_tempering.methods import METHODS
from pymc_tempering.references.prepared import SEARCHES
from pymc_tempering.steps.coupled import CoupledStep
from pymc_tempering.steps.hais import HAIS
from pymc_tempering.steps.parallel import ScanPlan

MOST = {
    "draws": 30, "tune": 60, "chains": 2, "n_datasets": 2, "n_particles": 20, "n_levels": 40,
    "num": 201,
}  # fmt: skip
"""Of what cells ask for by these names."""

BY_PLACE = {"sample": (0, "draws"), "linspace": (2, "num")}
"""Arguments of functions that cells give without their names."""

N_SEARCHED = 2000
"""Gradients of a search for modes."""

ERROR = 0.5
"""Of log Z in nats, that scans are planned for and ``target_se`` asks for."""

ELSEWHERE = DOCS / "tutorials" / "extend_the_engine.md"
"""The page whose numbers a test of its own looks at."""

WITH_CELLS = [page for page in PAGES if CELL.search(page.read_text()) and page != ELSEWHERE]


class Shorter(ast.NodeTransformer):
    """Cuts the numbers of `MOST` in calls."""

    def visit_Call(self, node):
        self.generic_visit(node)
        for keyword in node.keywords:
            if keyword.arg == "target_se" and isinstance(keyword.value, ast.Constant):
                keyword.value.value = ERROR
            _cut(keyword.value, keyword.arg)
        place, name = BY_PLACE.get(getattr(node.func, "attr", None), (0, None))
        for argument in node.args[place : place + 1]:
            _cut(argument, name)
        return node


def _cut(argument, name):
    if name in MOST and isinstance(argument, ast.Constant) and isinstance(argument.value, int):
        argument.value = min(argument.value, MOST[name])


def run_page(text):
    """Run the cells of a page in this process, where the next page has what they compiled."""
    names = {"__name__": "page"}
    for cell in CELL.findall(text):
        exec(compile(Shorter().visit(ast.parse(OPTION.sub("", cell))), "cell", "exec"), names)
    return names


@pytest.fixture
def less_by_default(monkeypatch):
    """Shorten what cells leave to the package."""
    short = SEARCHES["default"]._replace(n_gradients=N_SEARCHED, n_for_seldom=0.0)
    monkeypatch.setitem(SEARCHES, "default", short)
    for name, method in METHODS.items():
        monkeypatch.setitem(METHODS, name, replace(method, draws=MOST["draws"]))
    monkeypatch.setattr(f"{ScanPlan.__module__}.error_for_its_price", lambda *_: ERROR)
    for step in (CoupledStep, HAIS):
        monkeypatch.setattr(step, "default_tune_steps", MOST["tune"])


@pytest.mark.parametrize("page", WITH_CELLS, ids=lambda page: page.stem)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("less_by_default")
def test_cells_run(page, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    plt.switch_backend("Agg")
    try:
        run_page(page.read_text())
    finally:
        plt.close("all")


def test_numbers_of_a_page_are_cut():
    text = "```{code-cell} ipython3\n:tags: [hide-input]\n\n{}\n```\n```python\n1 / 0\n```\n"
    cell = "sample = lambda n, draws=500: (n, draws)\nfound = sample(7, draws=400)"
    assert run_page(text.replace("{}", cell))["found"] == (7, 30)
    with pytest.raises(ZeroDivisionError):
        run_page(text.replace("{}", "1 / 0"))
