"""No import circles, between modules or between folders, and few modules at the top."""

import ast
from collections import defaultdict
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import pymc_tempering

ROOT = Path(pymc_tempering.__file__).parent
MAX_TOP_LEVEL = 8

# (module, imported in one of its functions): why this import makes no circle
INSIDE_FUNCTIONS: dict[tuple[str, str], str] = {}


def modules(root):
    """Name of each module, and its path; a folder has the name of its ``__init__``."""
    found = {}
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def is_for_types(node):
    return isinstance(node, ast.If) and ast.unparse(node.test) in (
        "TYPE_CHECKING", "typing.TYPE_CHECKING",
    )  # fmt: skip


def imported_names(tree):
    """Dotted names that a module imports, and whether inside a function."""
    pending = [(tree, False)]
    while pending:
        node, inside = pending.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from ((f"{node.module}.{alias.name}", inside) for alias in node.names)
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        below = node.orelse if is_for_types(node) else ast.iter_child_nodes(node)
        pending += [(child, inside) for child in below]


def imports(root, allowed=INSIDE_FUNCTIONS):
    """For each module those of the same package that it imports; the package's front is left out.

    The front names all public objects and imports none of them before they are used.
    """
    known = modules(root)
    graph = {}
    for name, path in known.items():
        graph[name] = set()
        for full, inside in imported_names(ast.parse(path.read_text(encoding="utf-8"))):
            target = full if full in known else full.rpartition(".")[0]
            own = target in known and target not in (name, root.name)
            if own and not (inside and (name, target) in allowed):
                graph[name].add(target)
    del graph[root.name]
    return graph


def folders(graph, root):
    """The same graph between the folders of the package, and modules that are in none."""
    known = modules(root)

    def folder(name):
        parts = name.split(".")
        return name if len(parts) == 2 and known[name].stem != "__init__" else parts[1]

    between = defaultdict(set)
    for name, targets in graph.items():
        between[folder(name)] |= {folder(target) for target in targets} - {folder(name)}
    return between


def circle(graph):
    """One circle of a graph, as the names on the way; empty where there is none."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


def test_no_circle_between_modules():
    assert circle(imports(ROOT)) == []


def test_no_circle_between_folders():
    assert circle(folders(imports(ROOT), ROOT)) == []


def test_reasons_are_of_imports_that_exist():
    graph = imports(ROOT, allowed={})
    assert all(target in graph[name] and why for (name, target), why in INSIDE_FUNCTIONS.items())


def test_few_modules_at_the_top():
    top = {path.name for path in ROOT.glob("*.py")} - {"__init__.py"}
    assert len(top) <= MAX_TOP_LEVEL, sorted(top)


@pytest.fixture
def package(tmp_path):
    """Writes a package from a mapping of paths to texts."""

    def write(files):
        root = tmp_path / "pack"
        for name, text in ({"__init__.py": ""} | files).items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return root

    return write


@pytest.mark.parametrize(
    "text",
    [
        "from pack.a.one import x",
        "import pack.a.one",
        "from pack.a import one",
        "def f():\n    from pack.a.one import x",
        "try:\n    import pack.a.one\nexcept ImportError:\n    pass",
        "if TYPE_CHECKING:\n    pass\nelse:\n    import pack.a.one",
    ],
)
def test_circles_are_found(package, text):
    root = package({
        "a/__init__.py": "", "a/one.py": "from pack.b.two import y", "b/__init__.py": "",
        "b/two.py": text,
    })  # fmt: skip
    found = circle(imports(root))
    assert {"pack.a.one", "pack.b.two"} == set(found)
    assert {"a", "b"} == set(circle(folders(imports(root), root)))


def test_circles_of_folders_alone_are_found(package):
    root = package({
        "a/__init__.py": "", "a/one.py": "import pack.b.two", "a/other.py": "",
        "b/__init__.py": "", "b/two.py": "", "b/three.py": "import pack.a.other",
    })  # fmt: skip
    assert circle(imports(root)) == []
    assert {"a", "b"} == set(circle(folders(imports(root), root)))


def test_imports_for_types_and_with_a_reason_make_no_circle(package):
    files = {"one.py": "import pack.two", "two.py": "if TYPE_CHECKING:\n    import pack.one"}
    assert circle(imports(package(files))) == []
    files["two.py"] = "def f():\n    import pack.one"
    allowed = {("pack.two", "pack.one"): "a reason"}
    assert circle(imports(package(files), allowed)) == []
    assert circle(imports(package(files), {})) != []
