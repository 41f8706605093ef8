"""Every cell of every page of the documentation runs, with few draws; numbers are not checked here.

``make docs`` runs them as they are written, and takes much longer.
"""

import ast
from dataclasses import replace
from functools import wraps

import matplotlib.pyplot as plt
import pymc as pm
import pytest
from test_docs import CELL, DOCS, OPTION, PAGES

from pymc_tempering.methods import METHODS
from pymc_tempering.model.graph import in_python
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

DEPTH = 4
"""Of trees of PyMC's NUTS: 15 gradients for a draw."""

N_SEARCHED, N_STARTS = 2000, 32
"""Gradients of a search for modes, and places where it begins."""

ERROR = 0.5
"""Of log Z in nats, that scans are planned for and ``target_se`` asks for."""

ELSEWHERE = DOCS / "tutorials" / "extend_the_engine.md"
"""The page whose numbers a test of its own looks at."""

WITH_CELLS = [page for page in PAGES if CELL.search(page.read_text()) and page != ELSEWHERE]


class Shorter(ast.NodeTransformer):
    """Cuts the numbers of `MOST` in calls, and where a name is given its value in a mapping."""

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

    def visit_Dict(self, node):
        self.generic_visit(node)
        for key, value in zip(node.keys, node.values, strict=True):
            _cut(value, getattr(key, "value", None))
        return node

    def visit_Assign(self, node):
        self.generic_visit(node)
        for target in node.targets:
            _cut(node.value, getattr(getattr(target, "slice", None), "value", None))
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
    short = SEARCHES["default"]._replace(
        n_starts=N_STARTS, n_gradients=N_SEARCHED, n_for_seldom=0.0
    )
    monkeypatch.setitem(SEARCHES, "default", short)
    for name, method in METHODS.items():
        monkeypatch.setitem(METHODS, name, replace(method, draws=MOST["draws"]))
    monkeypatch.setattr(f"{ScanPlan.__module__}.error_for_its_price", lambda *_: ERROR)
    for step in (CoupledStep, HAIS):
        monkeypatch.setattr(step, "default_tune_steps", MOST["tune"])


@pytest.fixture
def interpreted_nuts(monkeypatch):
    """Have PyMC's own NUTS interpret densities, as few draws take less than to compile them."""
    sample, most = pm.sample, MOST["tune"]

    @wraps(sample)
    def interpreting(*draws, **options):
        by_pymc = options.get("nuts_sampler", "pymc") == "pymc"
        if not by_pymc or options.get("step") is not None:
            return sample(*draws, **options)
        options |= {"nuts_sampler": "pymc", "compile_kwargs": {"mode": "FAST_COMPILE"}}
        options["tune"] = min(options.get("tune", most), most)
        with in_python():
            return sample(*draws, **options)

    monkeypatch.setattr(pm, "sample", interpreting)
    monkeypatch.setattr(pm.NUTS.__init__, "__defaults__", (None, DEPTH, DEPTH))


@pytest.mark.parametrize("page", WITH_CELLS, ids=lambda page: page.stem)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("less_by_default", "interpreted_nuts")
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
    cell = "found = {'draws': 400, 'others': 400}; found['tune'] = 400"
    cut = {"draws": 30, "others": 400, "tune": 60}
    assert run_page(text.replace("{}", cell))["found"] == cut
    with pytest.raises(ZeroDivisionError):
        run_page(text.replace("{}", "1 / 0"))
